"""Takes pictures of the dashboards and of the page at `/`, with a real browser beside a live fleet.

`PYTHONPATH=tests python tests/picturing.py FOLDER` writes those that the documentation shows. What
draws them is `screenshots/`; it needs node, npm's packages and Chromium (`make screenshots`).
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fleet import BLOCK, Fleet, running_fleet

ROOT = Path(__file__).parents[1]
DASHBOARDS = {
    "fleet": ("csi-node-registrar-fleet.json", {}),
    "node": ("csi-node-registrar-node.json", {"node": "updated"}),
}
"""By the name of the picture: the file, and the values of variables."""

_RENDERER = Path(__file__).parent / "screenshots" / "render.mjs"
_LIMIT_SECONDS = 120.0
_PAUSE_SECONDS = 15.0

Report = dict[str, Any]


def page(fleet: Fleet, node: str, device: str, scheme: str) -> dict[str, str]:
    """Ask for a picture of the page of one node."""
    url = fleet.sidecars[node].url
    return {
        "name": f"page-{node}-{device}-{scheme}",
        "url": url,
        "device": device,
        "scheme": scheme,
    }


async def pictured(
    fleet: Fleet, folder: str, *, seconds: float, pages: Sequence[dict[str, str]]
) -> Report:
    """Take all pictures, the dashboards of the last seconds; return what is to be seen on them."""
    now = time.time()
    job = {
        "folder": folder,
        "prometheus": fleet.prometheus.url,
        "from": now - seconds,
        "to": now,
        "dashboards": [
            {"name": name, "path": str(ROOT / "dashboards" / file), "variables": variables}
            for name, (file, variables) in DASHBOARDS.items()
        ],
        "pages": pages,
    }
    process = await asyncio.create_subprocess_exec(
        "node", str(_RENDERER), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(_LIMIT_SECONDS):
            output, _ = await process.communicate(json.dumps(job).encode())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, "the renderer fails; its words are above"
    report: Report = json.loads(output)
    return report


async def let_things_happen(fleet: Fleet) -> None:
    """Give the pictures something to show: faults that come, and faults that go."""
    nodes = fleet.nodes
    nodes["well"].kubelet.refuse_next(2, "the API server refuses the CSINode object")
    await nodes["well"].kubelet.restart()
    await asyncio.sleep(_PAUSE_SECONDS)
    await nodes["crashed"].driver.start()
    await asyncio.sleep(_PAUSE_SECONDS)
    os.unlink(f"{nodes['hung'].registration_folder}/{BLOCK}-reg.sock")
    await asyncio.sleep(_PAUSE_SECONDS)
    await nodes["updated"].kubelet.restart()
    nodes["updated"].driver.delay_seconds["Probe"] = 0.2
    await asyncio.sleep(_PAUSE_SECONDS)
    del nodes["updated"].driver.delay_seconds["Probe"]
    nodes["unready"].driver.is_ready = True
    await asyncio.sleep(_PAUSE_SECONDS)


async def _main(folder: str) -> None:
    os.makedirs(folder, exist_ok=True)
    async with running_fleet() as fleet:
        await let_things_happen(fleet)
        pages = (page(fleet, "hung", "desk", "light"), page(fleet, "rejected", "phone", "dark"))
        await pictured(fleet, folder, seconds=80, pages=pages)
    for picture in sorted(Path(folder).glob("*.webp")):
        sys.stdout.write(f"{picture} {picture.stat().st_size // 1024} KB\n")


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1]))
