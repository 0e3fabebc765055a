#!/usr/bin/env python3
"""Derives what kustomize and Helm need in folders of their own from the rules and the dashboards.

Run without arguments it writes; with `--check` it names what is out of date and ends with 1.
"""

import argparse
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

RULES = Path("deploy/prometheus/csi-node-driver-registrar.rules.yaml")
DASHBOARDS = Path("dashboards")

CHART_FILES = Path("deploy/helm/csi-node-driver-registrar/files")
COMPONENTS = Path("deploy/kustomize/components")
PROMETHEUS_RULE = COMPONENTS / "prometheus-operator/prometheusrule.yaml"
DASHBOARD_COPIES = (COMPONENTS / "grafana", CHART_FILES / "dashboards")
"""Every `*.json` in these folders is a copy; one without an original is removed."""

NOTE = f"# Made by deploy/generate.py from {RULES}. Do not edit.\n"

PROMETHEUS_RULE_HEAD = """\
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: csi-node-driver-registrar
spec:
"""


def derived(root: Path) -> dict[Path, str]:
    """Return the text of each derived file, by its path below `root`."""
    groups = without_preamble((root / RULES).read_text(encoding="utf-8"))
    texts = {
        CHART_FILES / "rules.yaml": NOTE + groups,
        PROMETHEUS_RULE: NOTE + PROMETHEUS_RULE_HEAD + textwrap.indent(groups, "  "),
    }
    for dashboard in sorted((root / DASHBOARDS).glob("*.json")):
        text = dashboard.read_text(encoding="utf-8")
        texts |= {folder / dashboard.name: text for folder in DASHBOARD_COPIES}
    return texts


def without_preamble(rules: str) -> str:
    """Return a rules file from its groups on: what stands before is for readers of the source."""
    return rules[rules.index("groups:\n") :]


def outdated(root: Path, texts: dict[Path, str]) -> list[Path]:
    """Return which derived files are missing or differ."""
    return [path for path, text in texts.items() if _content(root / path) != text.encode()]


def orphaned(root: Path, texts: dict[Path, str]) -> list[Path]:
    """Return the copies of dashboards that are there no more."""
    copies = (copy for folder in DASHBOARD_COPIES for copy in (root / folder).glob("*.json"))
    return sorted(path for copy in copies if (path := copy.relative_to(root)) not in texts)


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Write or check; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="change nothing, fail on a difference")
    is_check = parser.parse_args(arguments).check
    texts = derived(root)
    changes = [(path, texts[path]) for path in outdated(root, texts)]
    orphans = orphaned(root, texts)
    if is_check:
        for path in [*(path for path, _ in changes), *orphans]:
            sys.stderr.write(f"{path} is out of date: run deploy/generate.py\n")
        return 1 if changes or orphans else 0
    for path, text in changes:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    for path in orphans:
        (root / path).unlink()
    return 0


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


if __name__ == "__main__":
    sys.exit(main())
