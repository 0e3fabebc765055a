"""Writes the dashboards as JSON files beside this one, or checks that they are up to date.

Usage: python dashboards/generate.py [--check]
"""

import argparse
import json
import sys
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from dashboards import fleet_view, node_view

FOLDER = Path(__file__).parent


def texts() -> dict[Path, str]:
    """Return what each file has to hold."""
    dashboards = [fleet_view.build(), node_view.build()]
    return {
        FOLDER / f"csi-node-registrar-{name}.json": json.dumps(
            dashboard, cls=JSONEncoder, indent=2, sort_keys=True
        )
        + "\n"
        for name, dashboard in zip(("fleet", "node"), dashboards, strict=True)
    }


def differing() -> list[Path]:
    """Return the files that do not hold what they have to."""
    return [
        path
        for path, text in texts().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]


def main() -> None:
    """Write or check, as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; fail on a difference")
    if parser.parse_args().check:
        if paths := differing():
            sys.exit(
                "\n".join(f"{path} is not what dashboards/generate.py writes" for path in paths)
            )
        return
    for path, text in texts().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
