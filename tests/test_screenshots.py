"""Chromium draws the dashboards and the page at `/` beside a live fleet, and all can be read.

`make screenshots` installs what this needs of npm, and `.ci/debian-packages` the browser.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fleet import running_fleet
from picturing import DASHBOARDS, ROOT, page, pictured

pytestmark = [pytest.mark.needs_prometheus, pytest.mark.needs_chromium]

Panel = dict[str, Any]
Page = dict[str, Any]

NODES = ("well", "rejected", "hung")
"""Those whose page is looked at."""

LEAST_CONTRAST = 4.5
"""Of text, by the Web Content Accessibility Guidelines (level AA)."""

LEAST_LETTERS = 12
"""In pixels."""


def has_something(panel: Panel) -> bool:
    """Tell whether something is to be seen on a panel besides its title."""
    match panel["type"]:
        case "stat" | "bargauge":
            text: str = panel["text"].removeprefix(panel["title"])
            return any(character.isalnum() for character in text)
        case "state-timeline" | "heatmap":
            return bool(panel["marks"] > 0)
        case "table":
            return bool(panel["rows"] > 1)
        case "timeseries":
            return bool(panel["colourfulPixels"] > 0)
    raise AssertionError(f"what is to be seen of a {panel['type']}?")


def faults_of_panel(panel: Panel) -> Iterator[str]:
    """Say what is wrong with a picture of a panel."""
    if error := panel.get("error"):
        yield error
    if panel["isEmpty"] or "no data" in panel["text"].lower():
        yield "no data"
    if not has_something(panel):
        yield "nothing is to be seen"


def faults_of_page(its: Page) -> Iterator[str]:
    """Say what is wrong with a picture of the page."""
    if its["contentWidth"] > its["viewportWidth"]:
        yield f"it is {its['contentWidth']} wide in a window of {its['viewportWidth']}"
    if its["smallestLetters"] < LEAST_LETTERS:
        yield f"letters of {its['smallestLetters']} pixels"
    if its["weakestContrast"] < LEAST_CONTRAST:
        yield f"text with a contrast of {its['weakestContrast']}"
    if (its["backgroundLuminance"] > 0.5) is (its["scheme"] == "dark"):
        yield "it is not as light or as dark as it should be"
    yield from its["messages"]


def titles(file: str) -> list[str]:
    """Return the titles of all panels of a dashboard."""
    dashboard = json.loads((ROOT / "dashboards" / file).read_text(encoding="utf-8"))
    return [panel["title"] for panel in dashboard["panels"] if panel["type"] != "row"]


def test_the_lock_of_the_npm_packages_names_no_registry() -> None:
    """Whoever installs them asks the registry that is their own."""
    lock = json.loads((ROOT / "tests/screenshots/package-lock.json").read_text(encoding="utf-8"))
    packages = [package for path, package in lock["packages"].items() if path]
    assert all("integrity" in package for package in packages)
    assert not [package for package in packages if "resolved" in package]


@pytest.mark.timeout(180)
async def test_each_panel_shows_something_and_each_page_can_be_read(tmp_path: Path) -> None:
    """On a phone, 390 pixels wide, as on a desk; in the light as in the dark; without a script."""
    async with running_fleet() as fleet:
        pages = [
            page(fleet, node, device, scheme)
            for node in NODES
            for device in ("desk", "phone")
            for scheme in ("light", "dark")
        ]
        report = await pictured(fleet, str(tmp_path), seconds=30, pages=pages)
    shown = {
        dashboard["name"]: [panel["title"] for panel in dashboard["panels"]]
        for dashboard in report["dashboards"]
    }
    assert shown == {name: titles(file) for name, (file, _) in DASHBOARDS.items()}
    faults = [
        (dashboard["name"], panel["title"], fault)
        for dashboard in report["dashboards"]
        for panel in dashboard["panels"]
        for fault in faults_of_panel(panel)
    ]
    assert faults == []
    assert [(its["name"], fault) for its in report["pages"] for fault in faults_of_page(its)] == []
    assert len(report["pages"]) == len([*tmp_path.glob("page-*.webp")]) == len(pages)
    phones = [its for its in report["pages"] if "-phone-" in its["name"]]
    assert {its["viewportWidth"] for its in phones} == {390}
