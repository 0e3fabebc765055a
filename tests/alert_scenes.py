"""Scenes for the alerts: what Prometheus scrapes minute by minute, as promtool's input.

The series are those that the program exposes; a scene says only where their values differ from
those of a sidecar whose driver is well and has been registered for an hour.
"""

import json
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from measuring import (
    DRIVER_NAME,
    PROBE,
    MeasuringObserver,
    called,
    identified,
    notify_all,
    short_name,
)

from metrics.families import BuildInfo
from registrar.observer import State

RULES = Path(__file__).parent.parent / "deploy/prometheus/csi-node-driver-registrar.rules.yaml"

Value = float | Callable[[int], float]
"""Of a series: always the same, or by minute."""

Values = Mapping[str, Value]
"""By series as exposed, without our prefix and the driver's name."""

Scene = Mapping[str, str]
"""promtool's `input_series`: by name and labels, the values in its own notation."""

STARTED = "process_start_time_seconds"
AN_HOUR_AGO = -3600
"""Minute 0 is the Unix time 0."""

_PROBES = f'csi_call_duration_seconds_%s{{method_name="{PROBE}"%s}}'
_BUCKETS = (_PROBES % ("bucket", ',le="0.5"'), _PROBES % ("bucket", ',le="+Inf"'))


def in_state(state: State | Callable[[int], State]) -> Values:
    """Give the registration's state, and what follows from it."""
    at = state if callable(state) else lambda _minute: state

    def is_in(this: State) -> Value:
        return lambda minute: at(minute) is this

    states = {f'registration_state{{state="{each}"}}': is_in(each) for each in State}
    return {"registered": is_in(State.REGISTERED), **states}


def verdicts(outcome: str, count: Value) -> Values:
    """Give how many verdicts kubelet has given, by outcome."""
    return {f'registrations_total{{outcome="{outcome}"}}': count}


def probed(*, slow_share: float) -> Values:
    """Give six probes a minute, a share of which took longer than half a second."""
    shares = {_BUCKETS[0]: 1 - slow_share, _BUCKETS[1]: 1, _PROBES % ("count", ""): 1}
    return {name: growing(6 * share) for name, share in shares.items()}


def growing(per_minute: float) -> Value:
    """Give a counter that grows evenly."""
    return lambda minute: per_minute * minute


def sidecar(
    node: str,
    minutes: range,
    values: Values | None = None,
    /,
    *,
    up: Value = 1,
    driver: str | None = DRIVER_NAME,
    version: str = "1.0.0",
    **scrape: str,
) -> Scene:
    """Return what the scrapes of one sidecar give.

    Args:
        node: its name; pod and instance follow from it.
        minutes: during which the pod is a target; a scrape a step.
        values: what differs from a driver that is registered and well.
        up: whether the scrape succeeds.
        driver: its name; None if it has not told it yet.
        version: of the driver.
        scrape: further labels that the scrape gives, or others than usual; "" for none.
    """
    labels = _scrape_labels(node) | scrape
    usual = _usual(has_driver=driver is not None)
    unknown = (values or {}).keys() - usual.keys()
    assert not unknown, f"the program exposes no such series: {unknown}"
    is_up = _by_minute(up)
    scene = {
        _with_labels(name, labels): _notation((values or {}).get(short, value), minutes, is_up)
        for short, (name, value) in usual.items()
    }
    scene[_with_labels("up", labels)] = _notation(up, minutes, lambda _minute: True)
    named = {_renamed(name, driver, version): value for name, value in scene.items()}
    assert len(named) == len(scene)
    return named


def target(name: str, minutes: range, value: Value, /, **labels: str) -> Scene:
    """Return one series of something else that is scraped."""
    return {_with_labels(name, labels): _notation(value, minutes, lambda _minute: True)}


def together(*scenes: Scene) -> Scene:
    """Put scenes side by side; no series may be in two of them."""
    whole = {name: values for scene in scenes for name, values in scene.items()}
    assert len(whole) == sum(map(len, scenes)), "a series is there twice"
    return whole


def play(
    folder: Path, scene: Scene, expectations: Sequence[Mapping[str, Any]], *, step: int = 1
) -> None:
    """Let promtool play a scene by the rules.

    Each expectation is one `promql_expr_test` of promtool's; `step` is that of the scene's ranges.

    Raises:
        AssertionError: if something else comes of it, with promtool's words.
    """
    group = {
        "interval": f"{step}m",
        "input_series": [{"series": name, "values": values} for name, values in scene.items()],
        "promql_expr_test": list(expectations),
    }
    tests = {
        "rule_files": [str(RULES)],
        "evaluation_interval": f"{step}m",
        # Without it promtool takes them in any order, another one in each run.
        "group_eval_order": [group["name"] for group in groups()],
        "tests": [group],
    }
    path = folder / "scene.json"
    path.write_text(json.dumps(tests), encoding="utf-8")  # YAML knows JSON
    assert promtool("test", "rules", str(path)) == f"Unit Testing:  {path}\n  SUCCESS\n\n"


def promtool(*arguments: str) -> str:
    """Return all that promtool says.

    Raises:
        AssertionError: if it fails or is not installed, with its words.
    """
    program = shutil.which("promtool")
    assert program is not None, "promtool is not installed: run .ci/debian-packages"
    ended = subprocess.run((program, *arguments), capture_output=True, text=True, check=False)
    said = ended.stdout + ended.stderr
    assert ended.returncode == 0, said
    return said


@cache
def groups() -> list[dict[str, Any]]:
    """Return the groups of rules, in the file's order."""
    found: list[dict[str, Any]] = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return found


def rules() -> list[dict[str, Any]]:
    """Return all rules, in the file's order."""
    return [rule for group in groups() for rule in group["rules"]]


def alerts() -> list[dict[str, Any]]:
    """Return the rules that are alerts."""
    return [rule for rule in rules() if "alert" in rule]


@cache
def exposed(*, has_driver: bool) -> dict[str, float]:
    """Return all series of a sidecar, and when its process started."""
    measured = MeasuringObserver()
    measured.registry.register(BuildInfo(version="0.1.0", revision="", python_version="3.11.7"))
    if has_driver:
        failed = called(PROBE, code="DeadlineExceeded", seconds=1)
        notify_all(measured, [*identified(), failed])
    series = {name: float(value) for name, value in measured.series().items()}
    return {**series, STARTED: AN_HOUR_AGO}


@cache
def _usual(*, has_driver: bool) -> dict[str, tuple[str, Value]]:
    """Return the series that matter to the rules, by short name: full name and usual value."""
    usual: dict[str, Value] = {**in_state(State.REGISTERED), **verdicts("success", 1)}
    usual |= {**probed(slow_share=0), "registration_socket_present": 1}
    return {
        short_name(name): (name, usual.get(short_name(name), value))
        for name, value in exposed(has_driver=has_driver).items()
        if _matters(name)
    }


def _matters(name: str) -> bool:
    """Leave out what no alert reads, for promtool takes its time over each series."""
    is_other_bucket = "_bucket{" in name and short_name(name) not in _BUCKETS
    return name.partition("{")[0] in RULES.read_text(encoding="utf-8") and not is_other_bucket


def _scrape_labels(node: str) -> dict[str, str]:
    return {
        "job": "storage/csi",
        "namespace": "storage",
        "node": node,
        "pod": f"csi-{node}",
        "instance": f"{node}:9809",
    }


def _with_labels(name: str, labels: Mapping[str, str]) -> str:
    metric, _, exposed = name.rstrip("}").partition("{")
    given = (f'{label}="{value}"' for label, value in labels.items() if value)
    return f"{metric}{{{','.join([*filter(None, [exposed.rstrip(',')]), *given])}}}"


def _renamed(name: str, driver: str | None, version: str) -> str:
    if driver is not None:
        name = name.replace(f'driver_name="{DRIVER_NAME}"', f'driver_name="{driver}"')
    return name.replace('driver_version="1.0.0"', f'driver_version="{version}"')


def _by_minute(value: Value) -> Callable[[int], float]:
    return value if callable(value) else lambda _minute: value


def _notation(value: Value, minutes: range, is_up: Callable[[int], float]) -> str:
    """Write a series' values; whatever is not scraped any more is stale, as in Prometheus."""
    at = _by_minute(value)
    scraped = [f"{float(at(minute)):g}" if is_up(minute) else "stale" for minute in minutes]
    return " ".join(["_"] * (minutes.start // minutes.step) + scraped + ["stale"])
