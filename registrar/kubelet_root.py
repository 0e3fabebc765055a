"""Whether the registration folder is the one that kubelet watches, proved from the mounts.

kubelet itself mounts `<root>/pods/<uid>/etc-hosts` on `/etc/hosts` and
`<root>/pods/<uid>/containers/<name>/<id>` on `/dev/termination-log`. Their lines in our own mount
table tell its root, whatever `--root-dir` it was given and whatever the manifest believes.
"""

import os
import re
from collections.abc import Iterator
from enum import Enum, StrEnum, auto
from typing import NamedTuple

from registrar.mount_table import (
    MOUNTINFO_PATH,
    Mount,
    MountTable,
    is_within,
    parse_mount_table,
    read_mount_table,
)

REGISTRY = "plugins_registry"
"""The folder in kubelet's root that it watches."""

_FILES_OF_KUBELET = {
    "/etc/hosts": re.compile(r"(.*)/pods/[^/]+/etc-hosts", re.DOTALL),
    "/dev/termination-log": re.compile(r"(.*)/pods/[^/]+/containers/[^/]+/[^/]+", re.DOTALL),
}
_POD_VOLUME = re.compile(r".*/pods/[^/]+/volumes/([^/]+)/([^/]+)(/.*)?", re.DOTALL)
_EMPTY_DIR = "kubernetes.io~empty-dir"


class Verdict(StrEnum):
    """Whether kubelet would see a socket in the folder."""

    RIGHT = "right"
    WRONG = "wrong"
    UNKNOWN = "unknown"


class Finding(Enum):
    """What the registration folder turned out to be."""

    REGISTRY = auto()
    """`plugins_registry` in kubelet's root, or a folder below it."""
    OTHER_FOLDER = auto()
    """A folder of the host, but not kubelet's."""
    PLUGINS = auto()
    """The folder `plugins`, beside `plugins_registry`."""
    POD_VOLUME = auto()
    """A volume that belongs to this pod alone, such as an emptyDir."""
    NO_VOLUME = auto()
    """The container's own file system: nothing is mounted."""
    DELETED = auto()
    """A folder that has been removed on the host."""
    OWN_FILE_SYSTEM = auto()
    """The top of another file system than kubelet's root lies on."""
    UNKNOWN = auto()
    """kubelet's root cannot be told, so nothing can be compared."""


_VERDICTS = {
    Finding.REGISTRY: Verdict.RIGHT,
    Finding.OWN_FILE_SYSTEM: Verdict.UNKNOWN,
    Finding.UNKNOWN: Verdict.UNKNOWN,
}


class Place(NamedTuple):
    """A folder as its file system knows it, which is what two mount namespaces have in common."""

    device: str
    path: str
    """From the top of the file system: without the host's mount point."""
    file_system: str

    def __str__(self) -> str:
        return f"{self.device} {shown(self.path)}"


class KubeletRoot(NamedTuple):
    """Where kubelet keeps its root, with the evidence."""

    place: Place
    evidence: str
    """Our path of the file that kubelet mounted."""
    evidence_source: str
    """That file as its file system knows it."""

    @property
    def registry(self) -> Place:
        """The folder that kubelet watches."""
        path = f"{self.place.path.rstrip('/')}/{REGISTRY}"
        return Place(self.place.device, path, self.place.file_system)


class FolderReport(NamedTuple):
    """What is known of the registration folder."""

    folder: str
    """As this process sees it."""
    finding: Finding
    place: Place | None
    """None if it cannot be told."""
    is_of_root_mount: bool
    """Whether nothing is mounted at the folder or above it, but the root file system."""
    kubelet_root: KubeletRoot | None
    pod_volume: str = ""
    """What volume of the pod it is, in words."""

    @property
    def verdict(self) -> Verdict:
        """Whether kubelet would see a socket in the folder."""
        return _VERDICTS.get(self.finding, Verdict.WRONG)


def examine_folder(folder: str, mountinfo_path: str = MOUNTINFO_PATH) -> FolderReport:
    """Compare the registration folder with kubelet's root; never raises."""
    real_folder = os.path.realpath(folder)
    files = {path: os.path.realpath(path) for path in _FILES_OF_KUBELET}
    try:
        table = read_mount_table([real_folder, *files.values()], mountinfo_path)
        is_gone = os.stat(folder).st_nlink == 0
    except OSError:
        table, is_gone = MountTable(()), False
    return _report(folder, real_folder, files, table, is_gone=is_gone)


def report_on(folder: str, mountinfo: str) -> FolderReport:
    """Compare the registration folder with kubelet's root, given the whole table of mounts."""
    files = {path: path for path in _FILES_OF_KUBELET}
    table = parse_mount_table(os.fsencode(mountinfo), [folder, *files])
    return _report(folder, folder, files, table, is_gone=False)


def is_deleted(folder: str) -> bool:
    """Return whether a folder has been removed, though it is still mounted here."""
    try:
        return os.stat(folder).st_nlink == 0
    except OSError:
        return False


def shown(text: str, limit: int = 200) -> str:
    """Return a path or name fit for a sentence: printable, and not too long."""
    printable = text if text.isprintable() else ascii(text)
    return printable if len(printable) <= limit else printable[:limit] + "…"


def _report(
    folder: str, real_folder: str, files: dict[str, str], table: MountTable, *, is_gone: bool
) -> FolderReport:
    mount = table.holding(real_folder)
    root = _kubelet_root(table, files)
    place = _place(mount, real_folder) if mount is not None else None
    is_gone = is_gone or (mount is not None and mount.is_deleted)
    volume = _POD_VOLUME.fullmatch(place.path) if place is not None else None
    return FolderReport(
        folder=folder,
        finding=Finding.DELETED if is_gone else _finding(mount, place, root),
        place=place,
        is_of_root_mount=mount is not None and mount.point == "/",
        kubelet_root=root,
        pod_volume=_volume_words(volume) if volume else "",
    )


def _kubelet_root(table: MountTable, files: dict[str, str]) -> KubeletRoot | None:
    """Return the root that kubelet's own mounts tell; None if they do not, or not the same."""
    if not table.is_whole:
        return None
    roots = list(_roots(table, files))
    if not roots or any(root.place != roots[0].place for root in roots):
        return None
    return roots[0]


def _roots(table: MountTable, files: dict[str, str]) -> Iterator[KubeletRoot]:
    for path, form in _FILES_OF_KUBELET.items():
        mount = table.holding(files[path])
        if mount is not None and (match := form.fullmatch(mount.root)):
            place = Place(mount.device, match[1] or "/", mount.file_system)
            yield KubeletRoot(place, path, mount.root)


def _place(mount: Mount, path: str) -> Place:
    below = path[len(mount.point.rstrip("/")) :]
    return Place(mount.device, (mount.root.rstrip("/") + below) or "/", mount.file_system)


def _finding(mount: Mount | None, place: Place | None, root: KubeletRoot | None) -> Finding:
    if mount is None or place is None:
        return Finding.UNKNOWN
    if _POD_VOLUME.fullmatch(place.path):
        return Finding.POD_VOLUME
    if root is None:
        is_plugins = mount.point != "/" and os.path.basename(place.path) == "plugins"
        return Finding.PLUGINS if is_plugins else Finding.UNKNOWN
    return _compared(mount, place, root)


def _compared(mount: Mount, place: Place, root: KubeletRoot) -> Finding:
    is_same_device = place.device == root.place.device
    if is_same_device and is_within(place.path, root.registry.path):
        return Finding.REGISTRY
    if mount.point == "/":
        return Finding.NO_VOLUME
    if is_same_device and place.path == f"{root.place.path.rstrip('/')}/plugins":
        return Finding.PLUGINS
    if not is_same_device and mount.root == "/":
        return Finding.OWN_FILE_SYSTEM
    return Finding.OTHER_FOLDER


def _volume_words(volume: re.Match[str]) -> str:
    kind, name = volume[1], volume[2]
    words = "emptyDir" if kind == _EMPTY_DIR else shown(kind, 60)
    return f"{words} volume {shown(name, 80)!r}"
