"""What the command loads, and that what it leaves out is there for whoever needs it after all.

Each in a process of its own, since what a process has loaded it does not forget.
"""

import os
import subprocess
import sys

import pytest

UNUSED = [
    "_hashlib",
    "aiohttp.client",
    "aiohttp.connector",
    "aiohttp.web",
    "google.protobuf.text_format",
    "http.server",
    "idna.idnadata",
    "prometheus_client.exposition",
    "ssl",
]


def said(*lines: str) -> str:
    """Run a script, without coverage's own imports; return its last line."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "\n".join(lines)],
        env={name: value for name, value in os.environ.items() if "COVERAGE" not in name},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.stderr
    return done.stdout.splitlines()[-1]


def last_words(*lines: str) -> str:
    """Run a script whose imports are made as the command makes its own; return its last line."""
    return said(
        "import sys",
        "from csi_node_driver_registrar.lean_imports import importing_leanly",
        "with importing_leanly():",
        *(f"    {line}" for line in lines),
    )


@pytest.mark.parametrize("role", ["registrar_run", "livenessprobe_run"])
def test_both_roles_load_nothing_that_they_do_not_use(role: str) -> None:
    loaded = last_words(
        f"import csi_node_driver_registrar.{role}, csi_node_driver_registrar.process",
        f"print([name for name in {UNUSED} if sys.modules.get(name)])",
    )
    assert loaded == "[]"


def test_without_the_preparation_all_of_it_is_loaded() -> None:
    """Or else the list above names what no library loads any more."""
    missing = said(
        "import sys, csi_node_driver_registrar.registrar_run, aiohttp, prometheus_client",
        f"print([name for name in {UNUSED} if name not in sys.modules])",
    )
    assert missing == "['aiohttp.web']"


@pytest.mark.parametrize(
    ("use", "result"),
    [
        ("import aiohttp; print(aiohttp.ClientSession.__name__)", "ClientSession"),
        ("from aiohttp import ClientSession; print(ClientSession.__name__)", "ClientSession"),
        ("from aiohttp import web; print(web.__name__)", "aiohttp.web"),
        ("import aiohttp; print(hasattr(aiohttp, 'nonsense'))", "False"),
        ("import aiohttp; aiohttp.ClientSession; print(bool(aiohttp.__version__))", "True"),
        ("import prometheus_client; print(prometheus_client.Counter.__name__)", "Counter"),
        ("import yarl; print(yarl.URL('http://b\u00fccher.de').raw_host)", "xn--bcher-kva.de"),
        ("import typing_extensions; print(typing_extensions.override.__name__)", "override"),
        ("import hashlib; print(hashlib.sha256(b'').hexdigest()[:8])", "e3b0c442"),
        (
            (
                "from google.protobuf.internal import python_message as it; print(it.__name__ and "
                "callable(it.GeneratedProtocolMessageType))"
            ),
            "True",
        ),
    ],
)
def test_whoever_needs_what_is_left_out_gets_it(use: str, result: str) -> None:
    assert last_words(use) == result


def test_garbage_is_collected_again_after_the_imports() -> None:
    assert last_words("import gc; print(gc.isenabled())") == "False"
    afterwards = said(
        "import gc",
        "from csi_node_driver_registrar.lean_imports import importing_leanly",
        "try:",
        "    with importing_leanly():",
        "        import nonexistent",
        "except ImportError:",
        "    print(gc.isenabled())",
    )
    assert afterwards == "True"


def test_what_is_loaded_already_stays_as_it_is() -> None:
    stays = said(
        "import aiohttp, ssl, sys",
        "from csi_node_driver_registrar.lean_imports import importing_leanly",
        "with importing_leanly():",
        "    import aiohttp as again",
        "print(again is aiohttp and sys.modules['ssl'] is ssl and bool(again.ClientSession))",
    )
    assert stays == "True"
