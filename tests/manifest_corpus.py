"""How public charts and operators start the two Go sidecars: `data/manifests.jsonl`, filled in.

One container spec a line, one line for each distinct argument list. What a chart leaves open gets
a fixed value that fits the flag, as kubelet or the chart's own templates would fill it in.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_CORPUS = Path(__file__).parent / "data" / "manifests.jsonl"
_PROGRAM = re.compile(r"(csi-node-driver-registrar|livenessprobe)(\.exe)?")
_VARIABLE = re.compile(r"\$\((\w+)\)")
_CHART_VALUES = {
    "<KUBELET_CONFIG_DIR>": "/var/lib/kubelet",
    "${CSI_DRIVER_NAME}": "csi.example.com",
    "${E2E_DRIVER_NAME}": "csi.example.com",
}
# The one variable that a chart takes from elsewhere, a ConfigMap; its value there.
_CONFIG_MAP = {"CSI_ADDRESS": "/csi/csi-vpc-file.sock"}

REFUSED = {
    "docs-reg-01": "--kubelet-registration-path is required",
    "kubernetes-csi-tencentcloud-reg-03": "--kubelet-registration-path is required",
    "csi-packet-reg-02": "--kubelet-registration-path is required",
    "azurefile-csi-driver-live-win-06": "--health-port=localhost:29613 is no port",
}
"""The specs that cannot run, by id, and what is said about them. The Go programs refuse the same:
the registrars at once, the livenessprobe when it tries to listen on 0.0.0.0:localhost:29613."""


@dataclass(frozen=True, kw_only=True)
class Spec:
    """One argument list, as the container's process gets it."""

    id: str
    component: str
    """`registrar` or `livenessprobe`."""
    os: str
    """`linux` or `windows`."""
    is_current: bool
    """Whether it stands in its project's newest state, or in an older release."""
    argv: tuple[str, ...]
    """Without the program's name."""


def specs(component: str, *, os: str | None = None) -> list[Spec]:
    """Return the specs of a component, in the corpus's order."""
    rows = map(json.loads, _CORPUS.read_text(encoding="utf-8").splitlines())
    found = [_spec(row) for row in rows if row["component"] == component]
    return [spec for spec in found if os in {None, spec.os}]


def accepted_registrar_specs() -> Iterator[tuple[str, list[str]]]:
    """Yield id and arguments of each Linux registrar that runs with some release of the Go one."""
    for spec in specs("registrar", os="linux"):
        if spec.id not in REFUSED:
            yield spec.id, list(spec.argv)


def replaced(argv: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """Return the arguments with other values for the flags named, in the place and form they had.

    A flag that is not there is not added.
    """
    words = list(argv)
    for index, word in enumerate(words):
        name, equals, _ = word.lstrip("-").partition("=")
        if not word.startswith("-") or name not in values:
            continue
        if equals:
            words[index] = word[: word.index("=") + 1] + values[name]
        else:
            words[index + 1] = values[name]
    return words


def _spec(row: dict[str, Any]) -> Spec:
    words = [*row["command"], *row["args"]]
    if words and _PROGRAM.fullmatch(words[0]):
        words = words[1:]
    return Spec(
        id=row["id"],
        component=row["component"],
        os=row["os"],
        is_current=row["current"],
        argv=tuple(_filled_in(word, row["env"]) for word in words),
    )


def _filled_in(word: str, environment: dict[str, str]) -> str:
    for placeholder, value in _CHART_VALUES.items():
        word = word.replace(placeholder, value)
    return _VARIABLE.sub(lambda match: (_CONFIG_MAP | environment)[match[1]], word)
