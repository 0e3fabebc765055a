"""Which registration sockets there are, seen as kubelet's pluginwatcher sees them.

What is done about a socket is not here (`reconciler`).
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol

from csi_registration_simulator import inotify


class SocketSink(Protocol):
    """Whoever is told of sockets."""

    def add_socket(self, socket_path: str) -> None:
        """Take note of a socket that appeared."""

    def remove_socket(self, socket_path: str) -> None:
        """Take note of a deleted name, whether or not it was a socket."""


class FolderWatch:
    """A watch on a folder and all folders below it.

    Events are Create and Remove only. A name that was renamed away is neither in fsnotify, which
    kubelet uses, and an overwritten one sends nothing at all, so kubelet overlooks both.
    """

    def __init__(self, watcher: inotify.Inotify, sink: SocketSink) -> None:
        self._watcher = watcher
        self._sink = sink

    def walk(self, folder: Path) -> None:
        """Tell of the sockets that are there, and watch for further ones.

        Raises:
            OSError: The folder is missing, is none, or cannot be watched.
        """
        # The watch comes before the look, so that nothing falls between the two.
        self._watcher.watch(str(folder))
        for path in sorted(folder.iterdir()):
            with contextlib.suppress(OSError):
                self._visit(path)

    def pause(self) -> None:
        """Leave events where they are, in the kernel."""
        asyncio.get_running_loop().remove_reader(self._watcher.fileno())

    def resume(self) -> None:
        """Handle events, those that are there already first."""
        asyncio.get_running_loop().add_reader(self._watcher.fileno(), self._handle_events)

    def _handle_events(self) -> None:
        for event in self._watcher.read():
            if event.mask & (inotify.CREATE | inotify.MOVED_TO):
                self._handle_create(Path(event.path))
            elif event.mask & inotify.DELETE:
                self._sink.remove_socket(event.path)

    def _handle_create(self, path: Path) -> None:
        if path.name.startswith("."):
            return
        with contextlib.suppress(OSError):  # gone again: kubelet logs that and goes on
            if path.is_dir():
                self.walk(path)
            else:
                self._add_if_socket(path)

    def _visit(self, path: Path) -> None:
        # Go's filepath.Walk enters hidden folders too, but no symbolic links.
        if path.is_dir() and not path.is_symlink():
            self.walk(path)
        else:
            self._add_if_socket(path)

    def _add_if_socket(self, path: Path) -> None:
        if path.is_socket() and not path.name.startswith("."):
            self._sink.add_socket(str(path))


@contextlib.asynccontextmanager
async def watching(folder: str, sink: SocketSink) -> AsyncIterator[FolderWatch]:
    """Find the sockets in a folder, and watch it while the block runs.

    Raises:
        OSError: The folder is missing, is none, or cannot be watched.
    """
    with contextlib.closing(inotify.Inotify()) as watcher:
        watch = FolderWatch(watcher, sink)
        watch.walk(Path(folder))
        watch.resume()
        try:
            yield watch
        finally:
            watch.pause()
