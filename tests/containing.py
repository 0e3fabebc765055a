"""Runs the commands of a built image in containers, as a node would, with an OCI runtime.

The image comes from `.ci/image-test`: unpacked, with its description beside it.
"""

import asyncio
import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from commanding import RunningCommand, running

_NAMESPACES = ("pid", "mount", "ipc", "uts")  # no network of its own: tests call over loopback
_CAPABILITY_SETS = ("bounding", "effective", "inheritable", "permitted", "ambient")
_OWN_FOLDERS = {"/proc": "proc", "/dev": "tmpfs"}


@dataclass(frozen=True)
class Image:
    """An image that has been unpacked."""

    root: Path
    """What its containers see as `/`."""
    base: Path
    """The same of the image that it was made on."""
    settings: dict[str, object]
    """What it says of itself: entry point, environment, labels."""

    @property
    def environment(self) -> list[str]:
        """The variables that its containers get, as `NAME=value`."""
        variables = self.settings["Env"]
        assert isinstance(variables, list)
        return [str(each) for each in variables]


def given_image() -> Image:
    """Return the image that this run is about."""
    description = json.loads(Path(os.environ["IMAGE_DESCRIPTION"]).read_text(encoding="utf-8"))
    return Image(
        root=Path(os.environ["IMAGE_ROOT"]),
        base=Path(os.environ["IMAGE_BASE"]),
        settings=description["OCIv1"]["config"],
    )


@dataclass(frozen=True)
class Container:
    """A container that runs."""

    name: str
    state_folder: str
    command: RunningCommand

    async def pid(self) -> int:
        """Return its first process as this machine sees it."""
        _, answer, _ = await _call("runc", "--root", self.state_folder, "state", self.name)
        return int(json.loads(answer)["pid"])

    async def execute(self, *arguments: str) -> tuple[int, str]:
        """Run one more process in it, as an exec probe does; return its status and its stderr."""
        status, _, errors = await _call(
            "runc", "--root", self.state_folder, "exec", self.name, *arguments
        )
        return status, errors


@asynccontextmanager
async def container(
    image: Image, *arguments: str, mounts: dict[str, str], user: int = 0
) -> AsyncIterator[Container]:
    """Run a container while the block runs: read-only, and without any capability.

    Mounts are folders or files of this machine by their place in the container.
    """
    bundle = tempfile.mkdtemp(prefix="c", dir="/tmp")
    name = os.path.basename(bundle)
    description = _description(image, arguments, mounts, user)
    Path(bundle, "config.json").write_text(json.dumps(description), encoding="utf-8")
    runtime = ("runc", "--root", f"{bundle}/state")
    try:
        async with running(*runtime, "run", "--bundle", bundle, name) as command:
            try:
                yield Container(name=name, state_folder=f"{bundle}/state", command=command)
            finally:
                await _call(*runtime, "delete", "--force", name)
    finally:
        shutil.rmtree(bundle)


def _description(
    image: Image, arguments: tuple[str, ...], mounts: dict[str, str], user: int
) -> dict[str, object]:
    own = [{"destination": at, "type": kind, "source": kind} for at, kind in _OWN_FOLDERS.items()]
    bound = [
        {"destination": at, "type": "bind", "source": source, "options": ["rbind"]}
        for at, source in mounts.items()
    ]
    return {
        "ociVersion": "1.0.2",
        "root": {"path": str(image.root), "readonly": True},
        "process": {
            "args": arguments,
            "cwd": "/",
            "env": image.environment,
            "user": {"uid": user, "gid": user},
            "capabilities": {each: [] for each in _CAPABILITY_SETS},
            "noNewPrivileges": True,
        },
        "mounts": own + bound,
        "linux": {"namespaces": [{"type": each} for each in _NAMESPACES]},
    }


async def _call(*command: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    output, errors = await asyncio.wait_for(process.communicate(), 20)
    assert process.returncode is not None
    return process.returncode, output.decode(), errors.decode()
