"""What the command loads, and that what it leaves out is there for whoever needs it after all.

Each in a process of its own, since what a process has loaded it does not forget.
"""

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


def last_words(*lines: str) -> str:
    """Run a script that has prepared its imports as the command does; return its last line."""
    script = "\n".join(
        (
            "import sys",
            "from csi_node_driver_registrar.lean_imports import importing_leanly",
            "with importing_leanly():",
            *(f"    {line}" for line in lines),
        )
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False
    )
    assert not done.stderr
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize("role", ["registrar_run", "livenessprobe_run"])
def test_both_roles_load_nothing_that_they_do_not_use(role: str) -> None:
    loaded = last_words(
        f"import csi_node_driver_registrar.{role}, csi_node_driver_registrar.process",
        f"print([name for name in {UNUSED} if sys.modules.get(name)])",
    )
    assert loaded == "[]"


def test_without_the_preparation_all_of_it_is_loaded() -> None:
    """Or else the list above names what no library loads any more."""
    script = (
        "import sys, csi_node_driver_registrar.registrar_run, aiohttp, prometheus_client\n"
        f"print([name for name in {UNUSED} if name not in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "['aiohttp.web']"


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
    script = (
        "import gc\n"
        "from csi_node_driver_registrar.lean_imports import importing_leanly\n"
        "try:\n"
        "    with importing_leanly():\n"
        "        import nonexistent\n"
        "except ImportError:\n"
        "    print(gc.isenabled())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "True"


def test_what_is_loaded_already_stays_as_it_is() -> None:
    script = (
        "import aiohttp, ssl, sys\n"
        "from csi_node_driver_registrar.lean_imports import importing_leanly\n"
        "with importing_leanly():\n"
        "    import aiohttp as again\n"
        "print(again is aiohttp and sys.modules['ssl'] is ssl and bool(again.ClientSession))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "True"
