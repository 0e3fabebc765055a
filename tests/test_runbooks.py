"""The runbooks: one for each alert, and nothing in them that the program does not say or have.

What stands in double quotes there is what the program says; … stands for what varies.
"""

import ast
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from alert_scenes import alerts, exposed, rules

from csi_node_driver_registrar import flag_sets
from health.checks import CheckName
from health.observer import Handler
from registrar.kubelet_refusals import _KINDS
from registrar.observer import SilenceCause

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "deploy/runbooks"
PAGES = sorted(FOLDER.glob("*.md"))
RUNBOOKS = [page for page in PAGES if page.name != "README.md"]
SECTIONS = ["Symptom", "Meaning", "Telling the causes apart", "What to do"]

_OTHERS_FLAGS = {"root-dir", "hostname-override", "endpoint", "previous", "containers"}
"""kubelet's, drivers' and kubectl's."""

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INLINE_CODE = re.compile(r"`[^`]*`")

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
each_runbook = pytest.mark.parametrize("page", RUNBOOKS, ids=lambda page: page.stem)


def text_of(page: Path) -> str:
    """Return a page as it stands."""
    return page.read_text(encoding="utf-8")


def blocks(page: Path, language: str) -> list[str]:
    """Return a page's blocks of code in one language."""
    return [code for tongue, code in _BLOCK.findall(text_of(page)) if tongue == language]


def quotations(page: Path) -> list[str]:
    """Return what a page says that the program says."""
    prose = _INLINE_CODE.sub("", _BLOCK.sub("", text_of(page)))
    return [" ".join(quote.split()) for quote in re.findall(r'"([^"]*)"', prose)]


@cache
def sentences() -> tuple[str, ...]:
    """Return all texts in the program's code, with … for what is filled in."""
    folders = (ROOT / name for name in ("registrar", "health", "cmd"))
    sources = (path.read_text(encoding="utf-8") for each in folders for path in each.rglob("*.py"))
    return tuple(text for source in sources for text in _texts(ast.parse(source)))


def _texts(tree: ast.AST) -> Iterator[str]:
    nodes = list(ast.walk(tree))
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        match node:
            case ast.Constant() if id(node) in docstrings:
                continue
            case ast.JoinedStr(values=parts):
                yield "".join(
                    str(part.value) if isinstance(part, ast.Constant) else "…" for part in parts
                )
            case ast.Constant(value=str(text)):
                yield re.sub(r"\{\d}", "…", text)


def test_each_alert_has_a_runbook_and_each_runbook_an_alert() -> None:
    assert {page.stem for page in RUNBOOKS} == {rule["alert"] for rule in alerts()}


def test_the_index_lists_each_with_its_severity() -> None:
    row = re.compile(r"^\| \[(\w+)\]\((\w+)\.md\) \| (\w+) \|", re.MULTILINE)
    rows = row.findall(text_of(FOLDER / "README.md"))
    assert rows == [(name, name, severity) for name, _, severity in rows]
    assert {(name, severity) for name, _, severity in rows} == {
        (rule["alert"], rule["labels"]["severity"]) for rule in alerts()
    }


@each_runbook
def test_a_runbook_has_all_sections(page: Path) -> None:
    text = text_of(page)
    assert text.startswith(f"# {page.stem}\n")
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == SECTIONS
    assert all(part.strip() for part in re.split(r"^## .*$", text, flags=re.MULTILINE)[1:])


@pytest.mark.parametrize(
    ("page", "quotation"),
    [(page, quote) for page in PAGES for quote in quotations(page) if quote != "double quotes"],
    ids=lambda value: value.stem if isinstance(value, Path) else value,
)
def test_the_program_says_what_is_quoted(page: Path, quotation: str) -> None:
    assert any(quotation in sentence for sentence in sentences())


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)", text_of(page)):
        assert (page.parent / link).exists(), link


@each_page
def test_commands_are_sound_shell(page: Path) -> None:
    shell = shutil.which("bash")
    assert shell is not None
    for code in blocks(page, "sh"):
        done = subprocess.run(
            (shell, "-n"), input=code, text=True, capture_output=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")


@each_page
def test_commands_ask_for_paths_that_are_answered(page: Path) -> None:
    handlers = {"", *Handler} - {Handler.ROOT, Handler.OTHER}
    for path in re.findall(r"localhost:9809/([^\s'`]*)", text_of(page)):
        handler, _, check = path.partition("?")[0].partition("/")
        assert handler in handlers
        assert check in {"", *CheckName}


@each_page
def test_metrics_are_those_of_the_program(page: Path) -> None:
    known = {series.partition("{")[0] for series in exposed(has_driver=True)}
    known |= {rule["record"] for rule in rules() if "record" in rule}
    named = re.findall(r"[a-z_]*:?csi_node_registrar_[a-z_]+(?::\w+)?", text_of(page))
    assert set(named) <= known


@each_page
def test_flags_are_those_of_the_program(page: Path) -> None:
    ours = flag_sets.by_name(flag_sets.REGISTRAR).keys()
    prose = _BLOCK.sub("", text_of(page))
    named = set(re.findall(r"--([a-z][a-z-]+)", prose))
    assert named - _OTHERS_FLAGS <= ours
    asked = re.findall(r"/csi-node-driver-registrar ((?:--\S+ ?)+)", text_of(page))
    assert {flag for flags in asked for flag in re.findall(r"--([a-z-]+)", flags)} <= ours


def test_each_cause_of_silence_is_explained() -> None:
    text = text_of(FOLDER / "CSIDriverNotRegistered.md")
    assert [cause for cause in SilenceCause if f"`{cause}`" not in text] == []


def test_each_kind_of_refusal_is_explained() -> None:
    quoted = quotations(FOLDER / "RegistrationFailing.md")
    known = [re.sub(r"\{\d}", "…", kind.sentence) for kind in _KINDS]
    assert [each for each in known if not any(quote in each for quote in quoted)] == []
