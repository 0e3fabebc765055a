"""Numbers as Go writes them, so that a scrape reads as one of a Go program does."""

import math

_EXPONENT_FROM = 1e6
"""Go's bound for the shortest form; Python's `repr` goes on without an exponent up to 1e16."""


def go_float(value: float) -> str:
    """Write a number as `strconv.FormatFloat(value, 'g', -1, 64)` does."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{value:+}".title()
    text = repr(float(value)).removesuffix(".0")
    if abs(value) < _EXPONENT_FROM or "e" in text:
        return text
    sign = "-" if value < 0 else ""
    whole, _, fraction = text.removeprefix("-").partition(".")
    mantissa = f"{whole[0]}.{whole[1:]}{fraction}".rstrip("0").removesuffix(".")
    return f"{sign}{mantissa}e+{len(whole) - 1:02}"


def openmetrics_float(value: float) -> str:
    """Write a number as Go does, but visibly as a float (OpenMetrics, "Canonical Numbers")."""
    text = go_float(value)
    return f"{text}.0" if text.removeprefix("-").isdecimal() else text
