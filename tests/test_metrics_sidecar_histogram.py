"""The histogram that all CSI sidecars share: byte for byte as the Go ones expose it."""

import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measuring import DRIVER_NAME, GET_PLUGIN_INFO, PROBE, openmetrics_families
from prometheus_client.samples import Sample

from metrics.go_numbers import go_float, openmetrics_float
from metrics.sidecar_histogram import BUCKETS, MAX_PAIRS, NAME, SidecarHistogram
from metrics.text_formats import openmetrics_format, prometheus_format

GOLDEN = Path(__file__).with_name("data") / "metrics-sidecar-histogram.txt"

CALLS = (
    (PROBE, "OK", 0.0015),
    (PROBE, "OK", 0.1),
    (PROBE, "OK", 0.2),
    (PROBE, "DeadlineExceeded", 1.0),
    (GET_PLUGIN_INFO, "OK", 20.0),
    (GET_PLUGIN_INFO, "Unavailable", 0.00001),
    (GET_PLUGIN_INFO, "Canceled", 1_234_567.0),
)


@pytest.fixture
def histogram() -> SidecarHistogram:
    """Give a histogram that has seen no call."""
    return SidecarHistogram()


def observe_all(histogram: SidecarHistogram, driver_name: str = DRIVER_NAME) -> None:
    for method, code, seconds in CALLS:
        histogram.observe(driver_name, method=method, code=code, seconds=seconds)


def counts(histogram: SidecarHistogram) -> dict[tuple[str, str, str], float]:
    """Return how many calls were counted, by driver, code and method."""
    return {
        (
            sample.labels["driver_name"],
            sample.labels["grpc_status_code"],
            sample.labels["method_name"],
        ): sample.value
        for sample in histogram.family().samples
        if sample.name == f"{NAME}_count"
    }


def test_the_exposition_is_that_of_the_go_sidecars(histogram: SidecarHistogram) -> None:
    """Series sorted by label values, labels by name with `le` last, numbers as Go writes them.

    The golden file follows what csi-lib-utils' own tests expect of the same calls.
    """
    observe_all(histogram)
    assert prometheus_format().write(histogram.family()) == GOLDEN.read_text()


def test_nothing_but_help_and_type_is_exposed_before_the_first_call(
    histogram: SidecarHistogram,
) -> None:
    assert histogram.family().samples == []


def test_the_form_in_openmetrics_is_valid_and_says_the_same(histogram: SidecarHistogram) -> None:
    observe_all(histogram)
    observe_all(histogram, "another.csi.example.com")
    text = openmetrics_format("1.0.0").write(histogram.family()) + "# EOF\n"
    (family,) = openmetrics_families(text)
    assert (family.name, family.type) == (NAME, "histogram")
    assert family.samples == histogram.family().samples
    assert set(re.findall(r'le="(.+?)"', text)) == set(BUCKETS.labels), "as in the older format"


@pytest.mark.parametrize("bound", BUCKETS.bounds)
def test_a_call_as_long_as_a_bucket_is_counted_in_it(
    histogram: SidecarHistogram, bound: float
) -> None:
    histogram.observe(DRIVER_NAME, method=PROBE, code="OK", seconds=bound)
    histogram.observe(DRIVER_NAME, method=PROBE, code="OK", seconds=math.nextafter(bound, 1000))
    buckets = {float(s.labels["le"]): s.value for s in histogram.family().samples[:-2]}
    larger = [other for other in buckets if other > bound]
    assert buckets[bound] == 1
    assert {buckets[other] for other in larger} == {2}


def test_sums_are_added_up_as_floats(histogram: SidecarHistogram) -> None:
    for seconds in (0.1, 0.2):
        histogram.observe(DRIVER_NAME, method=PROBE, code="OK", seconds=seconds)
    labels = {"driver_name": DRIVER_NAME, "grpc_status_code": "OK", "method_name": PROBE}
    assert histogram.family().samples[-2] == Sample(f"{NAME}_sum", labels, 0.30000000000000004)


def test_the_pair_not_seen_for_longest_goes_when_there_are_too_many(
    histogram: SidecarHistogram,
) -> None:
    codes = [f"Code{number}" for number in range(MAX_PAIRS)]
    for code in (*codes, codes[0], "OneMore"):
        histogram.observe(DRIVER_NAME, method=PROBE, code=code, seconds=0.1)
    assert {code for _, code, _ in counts(histogram)} == {*codes, "OneMore"} - {codes[1]}
    assert counts(histogram)[DRIVER_NAME, codes[0], PROBE] == 2
    histogram.observe(DRIVER_NAME, method=PROBE, code=codes[1], seconds=0.1)
    assert counts(histogram)[DRIVER_NAME, codes[1], PROBE] == 1


def test_the_limit_of_one_driver_takes_nothing_from_another(histogram: SidecarHistogram) -> None:
    histogram.observe("another.csi.example.com", method=PROBE, code="OK", seconds=0.1)
    for number in range(2 * MAX_PAIRS):
        histogram.observe(DRIVER_NAME, method=PROBE, code=f"Code{number}", seconds=0.1)
    assert counts(histogram)["another.csi.example.com", "OK", PROBE] == 1
    assert len(counts(histogram)) == MAX_PAIRS + 1


def test_a_driver_that_is_forgotten_leaves_the_others(histogram: SidecarHistogram) -> None:
    observe_all(histogram)
    observe_all(histogram, "another.csi.example.com")
    histogram.forget(DRIVER_NAME)
    histogram.forget("never.seen.example.com")
    assert {driver for driver, _, _ in counts(histogram)} == {"another.csi.example.com"}


NUMBERS = [
    (0, "0", "0.0"),
    (1, "1", "1.0"),
    (1.0, "1", "1.0"),
    (-1.0, "-1", "-1.0"),
    (0.25, "0.25", "0.25"),
    (0.0001, "0.0001", "0.0001"),
    (0.00001, "1e-05", "1e-05"),
    (0.0000123, "1.23e-05", "1.23e-05"),
    (1e-10, "1e-10", "1e-10"),
    (100_000.0, "100000", "100000.0"),
    (999_999.5, "999999.5", "999999.5"),
    (1_000_000, "1e+06", "1e+06"),
    (1_234_567.25, "1.23456725e+06", "1.23456725e+06"),
    (-20_000_000.0, "-2e+07", "-2e+07"),
    (1_601_528_860.0, "1.60152886e+09", "1.60152886e+09"),
    (1e15, "1e+15", "1e+15"),
    (1e16, "1e+16", "1e+16"),
    (1e21, "1e+21", "1e+21"),
    (1.7976931348623157e308, "1.7976931348623157e+308", "1.7976931348623157e+308"),
    (5e-324, "5e-324", "5e-324"),
    (math.inf, "+Inf", "+Inf"),
    (-math.inf, "-Inf", "-Inf"),
    (math.nan, "NaN", "NaN"),
]


@pytest.mark.parametrize(("number", "text", "_"), NUMBERS)
def test_a_number_is_written_as_go_writes_it(number: float, text: str, _: str) -> None:
    assert go_float(number) == text


@pytest.mark.parametrize(("number", "_", "text"), NUMBERS)
def test_a_number_in_openmetrics_is_visibly_a_float(number: float, _: str, text: str) -> None:
    assert openmetrics_float(number) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_keeps_its_value_and_has_an_exponent_where_go_gives_it_one(number: float) -> None:
    text = go_float(number)
    assert float(text) == number
    assert ("e" in text) == (number != 0 and not 1e-4 <= abs(number) < 1e6)
    assert not text.endswith(".0")
