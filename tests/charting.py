"""Renders the Helm chart of `deploy/helm`, with Helm 3 and with Helm 4, which `.ci/helm` installs.

Each rendering is made with both, and they have to agree.
"""

import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rendering import ROOT, Object, objects

NAME = "csi-node-driver-registrar"
CHART = ROOT / "deploy" / "helm" / NAME
HELMS = (ROOT / ".tools" / "helm-3", ROOT / ".tools" / "helm-4")
OPERATOR_APIS = (
    "monitoring.coreos.com/v1/PodMonitor",
    "monitoring.coreos.com/v1/PrometheusRule",
)
"""What a cluster with the Prometheus operator has."""

DRIVER_NAME = "x.csi.example.com"
DRIVER = {
    "name": DRIVER_NAME,
    "container": {
        "image": "registry.example.com/x-csi:v1.0.0",
        "args": ["--endpoint=unix:///csi/csi.sock"],
        "resources": {
            "requests": {"cpu": "10m", "memory": "32Mi"},
            "limits": {"memory": "256Mi"},
        },
    },
}
OTHER_DRIVER = {
    "name": "y.csi.example.com",
    "container": {"image": "registry.example.com/y-csi:v1.0.0"},
}

Values = Mapping[str, Any]


class Refused(Exception):  # noqa: N818 - what the user of the chart sees, and no failure of ours
    """Helm refuses the values or the chart; the text is what it says on stderr."""


def render(values: Values, *, chart: Path = CHART, apis: tuple[str, ...] = ()) -> list[Object]:
    """Return the chart's objects for the values, which are added to those of one driver.

    Raises:
        Refused: by the newer Helm, if it fails.
        AssertionError: if Helm 3 and Helm 4 differ.
    """
    given = values if chart != CHART else {"drivers": [DRIVER], **values}
    options = [word for api in apis for word in ("--api-versions", api)]
    command = ["template", "release", str(chart), "--namespace", "storage", *options]
    newer, older = (helm(program, *command, values=given) for program in reversed(HELMS))
    assert older == newer, "Helm 3 and Helm 4 differ"
    return objects(newer)


def helm(program: Path, *arguments: str, values: Values | None = None) -> str:
    """Run Helm and return what it writes.

    Raises:
        Refused: if it fails.
    """
    reading = [] if values is None else ["--values", "-"]
    done = subprocess.run(
        [str(program), *arguments, *reading],
        input=json.dumps(values),
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    if done.returncode != 0:
        raise Refused(done.stderr + done.stdout)
    return done.stdout


def nested(path: str, value: object) -> dict[str, Any]:
    """Return the values that set one, which is named as in `--set`."""
    for key in reversed(path.split(".")):
        value = {key: value}
    assert isinstance(value, dict)
    return value


def leaves(schema: Object, definitions: Object, prefix: str = "") -> Iterator[str]:
    """Yield the names of all values that a schema knows, as in `--set`."""
    for name, stated in schema["properties"].items():
        reference = stated.get("$ref", "").removeprefix("#/definitions/")
        inner = definitions[reference] if reference else stated
        if "properties" in inner:
            yield from leaves(inner, definitions, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"
