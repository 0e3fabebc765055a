"""The page at `/` as HTML: what a browser, a phone and a hostile text make of it."""

import base64
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measuring import CSI_ADDRESS, DRIVER_NAME, GET_PLUGIN_INFO, PROBE, called

from csi_node_driver_registrar.recent_events import RecentEvents
from health.checks import CheckName, Latest
from health.sparkline import Bar, sparkline
from health.status_page import MAX_BARS, Calls, DriverStatus, Tone, status_page
from health.status_style import STYLE, STYLE_SHA256
from health.times import ago, duration, utc
from registrar.observer import (
    Announced,
    AnnouncementReason,
    DriverForgotten,
    GetInfoReceived,
    VerdictReceived,
)

VOID = {"meta"}
"""The elements in the page that have no end tag."""

TITLE = "csi-node-driver-registrar 0.1.0"


@dataclass
class Page(HTMLParser):
    """The page as a parser sees it."""

    tags: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    """Each element with the names of its attributes."""
    links: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    classes: dict[str, str] = field(default_factory=dict)
    """The class that a text stands in."""
    open_tags: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """See `HTMLParser`."""
        self.tags.append((tag, tuple(name for name, _ in attrs)))
        self.links += [value or "" for name, value in attrs if name in {"href", "src"}]
        self._class = dict(attrs).get("class") or ""
        if tag not in VOID:
            self.open_tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """See `HTMLParser`."""
        assert self.open_tags.pop() == tag, "an element ends that is not the last one to begin"

    def handle_data(self, data: str) -> None:
        """See `HTMLParser`."""
        self.texts.append(data)
        self.classes[data] = self._class

    def names(self) -> list[str]:
        """Return the elements in their order."""
        return [tag for tag, _ in self.tags]


def parsed(html: str) -> Page:
    """Parse the page to its end."""
    page = Page()
    page.feed(html)
    page.close()
    assert page.open_tags == [], "an element does not end"
    return page


def latest(
    name: CheckName = CheckName.CSI_PROBE,
    *,
    reason: str | None = None,
    seconds_ago: float | None = 0.0,
    is_under_way: bool = False,
) -> Latest:
    """Return what a check came to, by default that all is well at this moment."""
    return Latest(
        name=name,
        driver=DRIVER_NAME,
        reason=reason,
        seconds_ago=seconds_ago,
        is_under_way=is_under_way,
    )


def driver(text: str = "text", name: str = DRIVER_NAME) -> DriverStatus:
    """Return a status that has a line of every kind, with a text in all places for one."""
    return DriverStatus(
        name=name,
        state=text,
        tone=Tone.BAD,
        since=text,
        problems={text: text},
        checks=[latest(), latest(CheckName.CSI_DRIVER, reason=text)],
        calls=[Calls(method=text, words=text, bars=[Bar(0.001), Bar(1.0, has_failed=True)])],
        details={text: text},
    )


def page(*drivers: DriverStatus, title: str = TITLE) -> Page:
    """Write a page and parse it."""
    return parsed(status_page(title, links=["/healthz?verbose", "/metrics"], drivers=drivers))


def test_a_page_has_one_heading_and_a_section_for_each_driver() -> None:
    its = page(driver(name="a.example.com"), driver(name="b.example.com"))
    assert its.names().count("h1") == 1
    assert its.names().count("section") == its.names().count("h2") == 2
    assert its.names().count("svg") == 2
    assert its.names().count("dt") == its.names().count("dd")
    assert {"a.example.com", "b.example.com", TITLE} <= set(its.texts)


def test_a_page_needs_nothing_but_itself() -> None:
    """No script, no picture, no style or font from elsewhere; each link stays on this server."""
    its = page(driver())
    assert not {"script", "img", "iframe", "object", "embed", "base", "form"} & {*its.names()}
    assert its.names().count("link") == 0
    assert all(link.startswith("/") and not link.startswith("//") for link in its.links)
    assert "url(" not in STYLE
    assert "@import" not in STYLE


def test_the_style_is_the_one_that_the_policy_lets_in() -> None:
    """No element brings a style of its own, because the policy would not let it in."""
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    assert digest == STYLE_SHA256
    assert f"<style>{STYLE}</style>" in status_page(TITLE, links=[], drivers=[])
    assert all("style" not in names for _, names in page(driver()).tags)


def test_a_phone_shows_the_page_in_its_own_width() -> None:
    html = status_page(TITLE, links=[], drivers=[])
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in html
    assert "prefers-color-scheme:dark" in STYLE


@given(
    text=st.text(st.characters(), min_size=1)
    | st.sampled_from(
        ["</style><script>alert(1)</script>", "'\" onload=alert(1) x='", "<!--", "&lt;b&gt;", "]]>"]
    )
)
def test_no_text_changes_what_the_page_is_made_of(text: str) -> None:
    """Whatever a driver, kubelet or a flag says stays text: same elements, same attributes."""
    its = page(driver(text, name=f"x{text}"), title=f"x{text}")
    assert its.tags == page(driver("harmless")).tags
    assert all(link.startswith(("/readyz/", "/healthz", "/metrics", "/?")) for link in its.links)


@given(text=st.text(st.characters(), max_size=200))
def test_a_page_can_be_sent_and_holds_no_control_characters(text: str) -> None:
    """A path may hold bytes that are no UTF-8, and a text may turn the direction of writing."""
    html = status_page(text, links=[text], drivers=[driver(text, name=text)])
    html.encode("utf-8")
    assert all(character.isprintable() or character == "\n" for character in html)


@given(text=st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=200))
def test_a_printable_text_is_shown_as_it_is(text: str) -> None:
    assert f"failed: {text}" in page(driver(text)).texts


def test_a_text_without_end_is_cut() -> None:
    its = page(driver("x" * 1_000_000))
    longest = max((text.strip() for text in its.texts if text != STYLE), key=len)
    assert len(longest) == 1024 + len("…")
    assert longest.endswith("x…")


def test_a_check_links_to_itself_for_this_driver() -> None:
    address = "/csi/a b&c.sock"
    its = page(DriverStatus(name=address, state="", tone=Tone.OPEN, since="", checks=[latest()]))
    assert "/readyz/csi-probe?driver=%2Fcsi%2Fa%20b%26c.sock" in its.links


CHECKS = [
    (latest(), "ok", Tone.GOOD),
    (latest(reason="it hangs"), "failed: it hangs", Tone.BAD),
    (latest(seconds_ago=None), "not known yet", Tone.OPEN),
    (latest(seconds_ago=63.2), "ok (1 min 3 s ago)", Tone.GOOD),
    (
        latest(seconds_ago=63.2, is_under_way=True),
        "ok (1 min 3 s ago, asked, no answer yet)",
        Tone.OPEN,
    ),
    (
        latest(seconds_ago=None, is_under_way=True),
        "not known yet (asked, no answer yet)",
        Tone.OPEN,
    ),
    (
        latest(reason="late", is_under_way=True),
        "failed: late (asked, no answer yet)",
        Tone.BAD,
    ),
]


@pytest.mark.parametrize(("check", "words", "tone"), CHECKS)
def test_a_check_says_what_it_came_to_and_how_old_that_is(
    check: Latest, words: str, tone: Tone
) -> None:
    shown = page(DriverStatus(name="x", state="s", tone=Tone.OPEN, since="", checks=[check]))
    begin = shown.texts.index("csi-probe") + 1
    assert "".join(shown.texts[begin:]).startswith(f"{words}Calls")
    assert shown.classes[shown.texts[begin]] == tone


DURATIONS = [
    (-1.0, "0 s"),
    (0.9, "0 s"),
    (59.9, "59 s"),
    (60, "1 min 0 s"),
    (3_599, "59 min 59 s"),
    (7_500, "2 h 5 min"),
    (90_061, "1 d 1 h"),
]


@pytest.mark.parametrize(("seconds", "words"), DURATIONS)
def test_a_duration_has_no_more_than_two_units(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_what_happened_less_than_a_second_ago_happened_just_now() -> None:
    assert [ago(0.99), ago(1.0), ago(-1.0)] == ["just now", "1 s ago", "just now"]


def test_a_time_is_that_of_the_node_in_utc() -> None:
    assert utc(1_700_000_000.9) == "2023-11-14 22:13:20 UTC"


def bars_of(svg: str) -> Iterator[tuple[str, float, float]]:
    """Return class, place from the left and height of each bar of a picture."""
    for piece in svg.split("<path ")[1:]:
        its_class, lines = piece.split('"')[1:4:2]
        for line in lines.split("M")[1:]:
            left, _, height = line.replace("v-", " ").split()
            yield its_class, float(left), float(height)


def test_the_newest_call_stands_at_the_right_and_the_slowest_is_the_highest() -> None:
    picture = sparkline([Bar(0.5), Bar(0.001), Bar(1.0, has_failed=True)], places=5)
    assert 'viewBox="0 0 20 32"' in picture
    assert sorted(bars_of(picture), key=lambda bar: bar[1]) == [
        ("good", 10, 16.0),
        ("good", 14, 2.0),  # as low as can still be seen
        ("bad", 18, 32.0),
    ]


def test_a_picture_has_no_more_bars_than_places() -> None:
    bars = [Bar(float(seconds)) for seconds in range(1, 10)]
    assert [height for _, _, height in bars_of(sparkline(bars, places=3))] == [24.9, 28.4, 32.0]
    assert not [*bars_of(sparkline([], places=3))]
    assert [height for _, _, height in bars_of(sparkline([Bar(0.0)], places=3))] == [2.0]


def test_the_recent_past_of_a_driver_is_bounded() -> None:
    recent = RecentEvents(clock=lambda: 5.0)
    for number in range(1_000):
        recent.notify(called(PROBE, seconds=float(number)))
    recent.notify(called(GET_PLUGIN_INFO))
    calls = recent.of(CSI_ADDRESS).calls
    assert [call.seconds for call in calls[PROBE]] == [*range(1_000 - MAX_BARS, 1_000)]
    assert [(call.at, call.code) for call in calls[GET_PLUGIN_INFO]] == [(5.0, "OK")]


def test_what_kubelet_said_is_kept_with_its_time_until_the_driver_takes_another_name() -> None:
    """A refusal stays to be read after kubelet has accepted."""
    times = iter(range(100))
    recent = RecentEvents(clock=lambda: next(times))
    its = {"csi_address": CSI_ADDRESS, "driver_name": DRIVER_NAME}
    events = [
        Announced(**its, reason=AnnouncementReason.SILENCE, registration_socket_path="/r"),
        GetInfoReceived(**its),
        VerdictReceived(**its, is_accepted=False, error="no", seconds_since_announcement=1),
        VerdictReceived(**its, is_accepted=True, error="", seconds_since_announcement=1),
    ]
    for event in events:
        recent.notify(event)
    history = recent.of(CSI_ADDRESS)
    assert (history.announced_at, history.announcement_reason) == (0, AnnouncementReason.SILENCE)
    assert (history.get_info_at, history.refused_at, history.accepted_at) == (1, 2, 3)
    assert history.refusal == "no"
    recent.notify(DriverForgotten(**its))
    assert recent.of(CSI_ADDRESS).refused_at is None
