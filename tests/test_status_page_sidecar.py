"""The page at `/` of the real command, beside its real peers."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp
from commanding import registrar_arguments, running
from multidict import CIMultiDictProxy

from csi_registration_simulator.driver import SimulatedDriver
from csi_registration_simulator.kubelet import SimulatedKubelet
from csi_registration_simulator.kubelet_records import Notified
from registrar.settings import DriverSettings

Ask = Callable[[str], Awaitable[tuple[str, CIMultiDictProxy[str]]]]


@asynccontextmanager
async def asking(settings: DriverSettings, *flags: str) -> AsyncIterator[Ask]:
    """Run the registrar, and give what asks it for a path: body and headers."""
    arguments = registrar_arguments(settings, "--http-endpoint=127.0.0.1:0", *flags)
    async with running(*arguments) as command, aiohttp.ClientSession(await command.url()) as client:

        async def ask(path: str) -> tuple[str, CIMultiDictProxy[str]]:
            async with client.get(path) as answer:
                return await answer.text(), answer.headers

        yield ask


OK = '<span class="good">ok</span>'


async def shows(ask: Ask, *texts: str, fits: Callable[[str], bool] = bool) -> str:
    """Ask for the page until it has all of the texts and fits.

    Raises:
        TimeoutError: if it never does, with the page.
    """
    page = ""
    try:
        async with asyncio.timeout(10):
            while not (all(text in page for text in texts) and fits(page)):
                page, _ = await ask("/")
                await asyncio.sleep(0.05)
    except TimeoutError as error:
        raise TimeoutError(f"{texts} are not all in {page}") from error
    return page


def is_all_well(page: str) -> bool:
    """Tell whether the four checks of one driver have just passed."""
    return page.count(OK) == 4


async def test_the_page_follows_a_registration(
    driver: SimulatedDriver, settings: DriverSettings
) -> None:
    """From the missing driver over kubelet's silence and its refusal to its consent."""
    os.mkdir(settings.registration_folder)
    async with asking(settings) as ask:
        page = await shows(ask, '<strong class="open">waiting</strong>', settings.csi_address)
        assert "there is no driver socket at" in page
        await driver.start()
        page = await shows(ask, '<strong class="open">announced</strong>', "<h2>x.csi.example.com<")
        assert "<dt>kubelet asked</dt>" not in page
        async with SimulatedKubelet(settings.registration_folder) as kubelet:
            kubelet.refuse_next(1, "no <such> node")
            refused = await shows(ask, '<strong class="bad">rejected</strong>')
            assert "no &lt;such&gt; node" in refused
            assert "<dt>kubelet&#x27;s refusal</dt>" in refused
            page = await shows(ask, '<strong class="good">registered</strong>', fits=is_all_well)
            assert "<dt>kubelet&#x27;s refusal</dt>" not in page
            assert "no &lt;such&gt; node" in page.partition("<dt>kubelet refused</dt>")[2]
            for told in ("kubelet asked", "kubelet accepted", "kubelet refused", "announced"):
                assert f"<dt>{told}</dt><dd>20" in page
            assert page.count("<svg ") == 2


async def test_the_page_answers_at_once_beside_a_driver_that_hangs(
    driver: SimulatedDriver, kubelet: SimulatedKubelet, settings: DriverSettings
) -> None:
    """It shows what is known, waits for nobody, and ten who look are one call to the driver."""
    await driver.start()
    async with asking(settings, "--probe-timeout=2s", "--monitor-interval=10m") as ask:
        await kubelet.wait_for_record(Notified)
        await shows(ask, fits=is_all_well)
        driver.delay_seconds["Probe"] = driver.delay_seconds["GetPluginInfo"] = 60
        before = len(driver.calls("Probe"))
        begun = time.monotonic()
        pages = [page for page, _ in await asyncio.gather(*(ask("/") for _ in range(10)))]
        assert time.monotonic() - begun < 1.0
        assert all('<span class="open">ok</span> (' in page for page in pages)
        assert all("asked, no answer yet" in page for page in pages)
        assert len(driver.calls("Probe")) == before + 1
        page = await shows(ask, "failed: the driver behind", "did not answer Probe within 2 s")
        assert ", 1 failed: DeadlineExceeded" in page
        assert '<path class="bad" d="M' in page
        assert '<strong class="good">registered</strong>' in page


async def test_the_page_looks_again_by_itself_unless_it_is_held(
    driver: SimulatedDriver, kubelet: SimulatedKubelet, settings: DriverSettings
) -> None:
    """Whoever copies a text out of it wants it to stay."""
    async with asking(settings) as ask:
        page, headers = await ask("/")
        assert headers["Refresh"] == "15"
        assert 'href="/?hold"' in page
        page, headers = await ask("/?hold")
        assert "Refresh" not in headers
        assert 'href="/"' in page


async def test_the_page_is_sent_with_a_policy_that_lets_nothing_in(
    driver: SimulatedDriver, kubelet: SimulatedKubelet, settings: DriverSettings
) -> None:
    async with asking(settings) as ask:
        _, headers = await ask("/")
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert headers["Cache-Control"] == "no-store"
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy


async def test_the_page_shows_each_driver_with_its_own_checks(
    driver: SimulatedDriver, kubelet: SimulatedKubelet, settings: DriverSettings, folder: str
) -> None:
    other = f"{folder}/other.sock"
    flags = (f"--csi-address={other}", f"--kubelet-registration-path={other}")
    await driver.start()

    def has_both(page: str) -> bool:
        first, second = page.split("<section>")[1:]
        is_missing = second.count('<span class="bad">failed: ') == 4
        return is_all_well(first) and is_missing

    async with asking(settings, *flags) as ask:
        page = await shows(ask, f"<h2>{other}</h2>", fits=has_both)
    assert [section.count("/readyz/") for section in page.split("<section>")[1:]] == [4, 4]


async def test_a_path_that_is_no_utf_8_does_not_break_the_page(
    driver: SimulatedDriver, kubelet: SimulatedKubelet, settings: DriverSettings
) -> None:
    flags = ("--csi-address=/tmp/\udcff.sock", "--kubelet-registration-path=/tmp/x.sock")
    async with asking(settings, *flags) as ask:
        await shows(ask, "<h2>/tmp/\N{REPLACEMENT CHARACTER}.sock</h2>")
