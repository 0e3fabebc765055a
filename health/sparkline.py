"""A row of bars that shows how long the latest calls took, as SVG to stand inside a page."""

from collections.abc import Sequence
from typing import NamedTuple

_HEIGHT = 32
_STEP = 4
_LEAST_HEIGHT = 2.0
"""So that the quickest call can be seen beside the slowest."""


class Bar(NamedTuple):
    """One call."""

    seconds: float
    has_failed: bool = False


def sparkline(bars: Sequence[Bar], *, places: int) -> str:
    """Draw the bars, the newest at the right end of so many places, the slowest at full height.

    It is hidden from those who cannot see it: the page says the same in words. The colours are
    those of the classes `good` and `bad`.
    """
    shown = bars[-places:]
    slowest = max((bar.seconds for bar in shown), default=0.0) or 1.0
    begin = places - len(shown)
    lines: dict[bool, str] = {False: "", True: ""}
    for place, bar in enumerate(shown, begin):
        height = max(_LEAST_HEIGHT, _HEIGHT * bar.seconds / slowest)
        lines[bar.has_failed] += f"M{_STEP * place + _STEP // 2} {_HEIGHT}v-{height:.1f}"
    return (
        f'<svg viewBox="0 0 {_STEP * places} {_HEIGHT}" preserveAspectRatio="none" '
        f'aria-hidden="true"><path class="good" d="{lines[False]}"/>'
        f'<path class="bad" d="{lines[True]}"/></svg>'
    )
