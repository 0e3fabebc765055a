"""What kustomize and Helm have is what `deploy/generate.py` makes of the rules and dashboards."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
GENERATE = "deploy/generate.py"
RULES = "deploy/prometheus/csi-node-driver-registrar.rules.yaml"
COPIES = (
    "deploy/kustomize/components/grafana/fleet.json",
    "deploy/helm/csi-node-driver-registrar/files/dashboards/fleet.json",
)
OBJECT = "deploy/kustomize/components/prometheus-operator/prometheusrule.yaml"
CHARTS = "deploy/helm/csi-node-driver-registrar/files/rules.yaml"


def generate(root: Path, *arguments: str) -> tuple[int, list[str]]:
    """Run the command of a checkout; return its status and what it names as out of date."""
    done = subprocess.run(
        (sys.executable, str(root / GENERATE), *arguments),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == ""
    return done.returncode, [line.split()[0] for line in done.stderr.splitlines()]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout in which nothing is derived yet."""
    for name in (GENERATE, RULES):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "dashboards").mkdir()
    (tmp_path / "dashboards/fleet.json").write_text('{"title": "Fleet"}\n')
    return tmp_path


def test_nothing_is_out_of_date_here() -> None:
    assert generate(ROOT, "--check") == (0, [])


def test_check_names_what_is_missing_and_writes_nothing(checkout: Path) -> None:
    before = sorted(checkout.rglob("*"))
    status, named = generate(checkout, "--check")
    assert (status, sorted(named)) == (1, sorted([CHARTS, OBJECT, *COPIES]))
    assert sorted(checkout.rglob("*")) == before


def test_what_it_writes_passes_its_own_check(checkout: Path) -> None:
    assert generate(checkout) == (0, [])
    assert generate(checkout, "--check") == (0, [])


def test_a_change_of_the_source_is_noticed_and_followed(checkout: Path) -> None:
    generate(checkout)
    rules = (checkout / RULES).read_text().replace("severity: info", "severity: none")
    (checkout / RULES).write_text(rules)
    status, named = generate(checkout, "--check")
    assert (status, sorted(named)) == (1, sorted([CHARTS, OBJECT]))
    generate(checkout)
    assert "severity: none" in (checkout / OBJECT).read_text()


def test_a_dashboard_that_is_gone_leaves_no_copy(checkout: Path) -> None:
    generate(checkout)
    (checkout / "dashboards/fleet.json").unlink()
    status, named = generate(checkout, "--check")
    assert (status, sorted(named)) == (1, sorted(COPIES))
    assert generate(checkout) == (0, [])
    assert not any((checkout / copy).exists() for copy in COPIES)


def test_all_forms_hold_the_same_rules(checkout: Path) -> None:
    generate(checkout)
    source, charts, wrapped = (
        yaml.safe_load((checkout / name).read_text()) for name in (RULES, CHARTS, OBJECT)
    )
    assert charts == source
    assert wrapped["kind"] == "PrometheusRule"
    assert wrapped["spec"] == source


def test_the_token_for_the_runbooks_stands_in_their_addresses_alone(checkout: Path) -> None:
    """So that replacing it, as the chart does in the whole text, changes nothing else."""
    generate(checkout)
    for name in (CHARTS, OBJECT):
        text = (checkout / name).read_text()
        assert text.count("RUNBOOK_BASE") == text.count("runbook_url: RUNBOOK_BASE/")
