"""Fixtures that every ring of the tests uses."""

import shutil
import tempfile
from collections.abc import Iterator

import pytest


@pytest.fixture
def folder() -> Iterator[str]:
    """Make a folder whose path is short enough for sockets of drivers with long names."""
    path = tempfile.mkdtemp(prefix="r", dir="/tmp")
    yield path
    shutil.rmtree(path, ignore_errors=True)
