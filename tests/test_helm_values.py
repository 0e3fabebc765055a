"""What Helm says of wrong values, and after an installation."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from charting import CHART, DRIVER, HELMS, Refused, Values, helm, nested, render
from rendering import ROOT, objects, of_kind, validate

from csi_node_driver_registrar.version import __version__

REFUSED: dict[str, tuple[Any, str]] = {
    "kubeletRoot": ("var/lib/kubelet", "does not match pattern"),
    "drivers": ([{"name": "a_b"}], "'a_b' does not match pattern"),
    "registrar.prot": (9809, "'prot' not allowed"),
    "registrar.port": (99999, "maximum: got 99,999, want 65,535"),
    "registrar.timeout": (60, "got number, want string"),
    "registrar.onRegistrationFailure": ("restart", "must be one of '', 'retry', 'exit'"),
    "registrar.livenessProbe.httpGet": ({"path": "/"}, "'httpGet' not allowed"),
    "registrar.image.digest": ("latest", "does not match pattern"),
    "podMonitor.create": (True, "must be one of 'auto', 'always', 'never'"),
    "podLabels": ({"example.com/a": 1}, "got number, want string"),
    "networkpolicy": ({"enabled": True}, "'networkpolicy' not allowed"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_value_is_refused_by_its_name(name: str) -> None:
    value, words = REFUSED[name]
    with pytest.raises(Refused) as refused:
        render(nested(name, value))
    assert words in str(refused.value)


@pytest.mark.parametrize("name", REFUSED)
def test_the_older_helm_refuses_it_too(name: str) -> None:
    with pytest.raises(Refused, match=name.rpartition(".")[2]):
        helm(HELMS[0], "template", "r", str(CHART), values=nested(name, REFUSED[name][0]))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"drivers": []}, "no driver is given: set drivers[0].name"),
        ({"drivers": [{"name": "a.example.com"}]}, "set it to the image of a.example.com"),
        ({"registrar": {"localhostOnly": True}}, "registrar.localhostOnly needs hostNetwork"),
    ],
)
def test_what_cannot_work_together_is_refused_with_what_to_do(values: Values, words: str) -> None:
    with pytest.raises(Refused) as refused:
        render(values)
    assert words in str(refused.value)


@pytest.mark.parametrize("program", HELMS, ids=lambda program: program.name)
@pytest.mark.parametrize("values", [{}, {"drivers": [DRIVER]}], ids=["defaults", "driver"])
def test_the_chart_has_nothing_that_lint_minds(program: Path, values: Values) -> None:
    said = helm(program, "lint", "--strict", str(CHART), values=values)
    assert "0 chart(s) failed" in said


@pytest.mark.parametrize("program", HELMS, ids=lambda program: program.name)
def test_the_guides_command_installs_a_driver(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    guide = (ROOT / "deploy" / "README.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^    helm install ((?:.*\\\n)+.*)", guide, re.MULTILINE)
    rendered = objects(helm(program, "template", *shlex.split(command.replace("\\\n", ""))))
    validate(rendered)
    assert of_kind("DaemonSet", rendered)


def test_the_guide_includes_the_templates_as_the_tested_chart_does() -> None:
    guide = (ROOT / "deploy" / "README.md").read_text(encoding="utf-8")
    tested = ROOT / "tests" / "data" / "including-chart" / "templates" / "daemonset.yaml"
    lines = {line.strip() for line in tested.read_text(encoding="utf-8").splitlines()}
    advised = {
        line.strip()
        for line in guide.splitlines()
        if "index .Values" in line or 'include "' in line
    }
    assert len(advised) == 5
    assert advised <= lines


def test_the_chart_is_of_the_programs_version_and_runs_it() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    tag = values["registrar"]["image"]["tag"]
    assert (chart["version"], chart["appVersion"], tag) == (__version__, __version__, __version__)


def test_every_value_is_described() -> None:
    """In the schema, which editors show; `values.yaml` says more of most."""
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    assert list(undescribed(schema["properties"], schema["definitions"])) == []


def undescribed(properties: dict[str, Any], definitions: dict[str, Any]) -> list[str]:
    found = []
    for name, stated in properties.items():
        inner = definitions.get(stated.get("$ref", "").removeprefix("#/definitions/"), stated)
        if "description" not in inner:
            found.append(name)
        found += undescribed(inner.get("properties", {}), definitions)
    return found


def test_the_notes_say_what_to_ask_and_what_is_monitored() -> None:
    notes = notes_of({"drivers": [DRIVER]})
    assert "/namespaces/storage/pods/POD:9809/proxy/readyz?verbose" in notes
    assert "kubectl get csinodes" in notes
    assert "podMonitor.create=auto; the cluster lacks the API" in notes


def test_the_notes_fit_the_values() -> None:
    local = {"hostNetwork": True, "registrar": {"localhostOnly": True, "port": 19809}}
    notes = notes_of({"drivers": [DRIVER], **local})
    assert "http://127.0.0.1:19809/readyz?verbose" in notes
    assert "no PodMonitor, because 127.0.0.1" in notes
    forced = {"podMonitor": {"create": "always"}, "prometheusRule": {"create": "always"}}
    notes = notes_of({"drivers": [DRIVER], **forced})
    assert "scraped by a PodMonitor" in notes
    assert "set prometheusRule.runbookBaseUrl" in notes


def notes_of(values: Values) -> str:
    """Return them as Helm 4 shows them; Helm 3 shows none without a cluster."""
    arguments = ("install", "release", str(CHART), "--namespace", "storage", "--dry-run=client")
    return helm(HELMS[1], *arguments, values=values).partition("\nNOTES:\n")[2]
