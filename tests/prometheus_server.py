"""Runs a real Prometheus that scrapes registrars, and asks it.

Here a missing Prometheus is a failure; `.ci/debian-packages` installs it.
"""

import asyncio
import json
import shutil
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
from commanding import RunningCommand, running

Config = Mapping[str, object]
"""A part of a configuration, as Prometheus and Alertmanager read it."""


class Prometheus:
    """A server to ask."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.url = url
        self._session = session

    async def query(self, promql: str) -> dict[str, float]:
        """Return what an instant query gives now, by the label `node`."""
        parameters = {"query": promql}
        async with self._session.get(f"{self.url}/api/v1/query", params=parameters) as answer:
            assert answer.status == 200, await answer.text()
            results = (await answer.json())["data"]["result"]
        assert len({result["metric"].get("node", "") for result in results}) == len(results)
        return {r["metric"].get("node", ""): float(r["value"][1]) for r in results}

    async def metadata(self, family: str) -> str:
        """Return the type of a family."""
        parameters = {"metric": family}
        async with self._session.get(f"{self.url}/api/v1/metadata", params=parameters) as answer:
            return str((await answer.json())["data"][family][0]["type"])

    async def wait_for(self, promql: str, expected: float) -> None:
        """Ask again and again until the single value is this one.

        Raises:
            TimeoutError: if it never is.
        """
        async with asyncio.timeout(20):
            # A process of its own cannot set an event of ours.
            while list((await self.query(promql)).values()) != [expected]:  # noqa: ASYNC110
                await asyncio.sleep(0.2)

    async def has_seen_everything_until_now(self, nodes: int) -> None:
        """Wait until each node was scraped once more, from now on."""
        now = time.time()
        await self.wait_for(f"count(timestamp(up) > {now})", nodes)


@asynccontextmanager
async def prometheus_scraping(
    urls: Mapping[str, str], folder: str, **more: object
) -> AsyncIterator[Prometheus]:
    """Run a server on a free port of the loopback that scrapes each node's URL every second.

    Args:
        urls: Where each node's registrar serves HTTP.
        folder: For the configuration and the data.
        more: Further sections of the configuration, such as `rule_files`.
    """
    targets = [
        {"targets": [urlsplit(url).netloc], "labels": {"node": node}} for node, url in urls.items()
    ]
    config = {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
        "scrape_configs": [{"job_name": "csi", "static_configs": targets}],
        **more,
    }
    async with (
        prometheus_running(config, folder) as url,
        aiohttp.ClientSession() as session,
    ):
        yield Prometheus(url, session)


@asynccontextmanager
async def prometheus_running(config: Config, folder: str) -> AsyncIterator[str]:
    """Run a server on a free port of the loopback, and give its URL once it is ready."""
    arguments = (f"--storage.tsdb.path={folder}/data", "--web.listen-address=127.0.0.1:0")
    async with serving("prometheus", config, folder, *arguments) as server:
        await server.wait_for_log('"msg":"Server is ready to receive web requests."')
        yield await url_of(server)


@asynccontextmanager
async def serving(
    program: str, config: Config, folder: str, *arguments: str
) -> AsyncIterator[RunningCommand]:
    """Run a server of the Prometheus family with a configuration of its own."""
    path = shutil.which(program)
    assert path is not None, f"{program} is not installed: run .ci/debian-packages"
    config_path = Path(folder) / f"{program}.yml"
    config_path.write_text(json.dumps(config))  # YAML knows JSON
    command = (path, f"--config.file={config_path}", "--log.format=json", *arguments)
    async with running(*command) as server:
        yield server


async def url_of(server: RunningCommand) -> str:
    """Return where a server of the Prometheus family listens."""
    await server.wait_for_log('"msg":"Listening on"')
    entries = [json.loads(line) for line in server.lines]
    (address,) = (entry["address"] for entry in entries if entry.get("msg") == "Listening on")
    return f"http://{address}"
