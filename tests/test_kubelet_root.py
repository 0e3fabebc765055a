"""kubelet's root against the registration folder, in mount tables as distributions have them."""

from dataclasses import dataclass

import pytest

from registrar.kubelet_root import (
    Finding,
    FolderReport,
    Verdict,
    examine_folder,
    is_deleted,
    report_on,
    shown,
)

POD = "pods/7d9b6c1e-0b7f-4a56-9a0f-3e1d2c4b5a69"
OVERLAY = (
    "1590 1277 0:412 / / ro,relatime master:412 - overlay overlay "
    "rw,lowerdir=/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/88/fs"
)
AROUND = """\
1591 1590 0:416 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw
1592 1590 0:417 / /dev rw,nosuid - tmpfs tmpfs rw,size=65536k,mode=755
1593 1592 0:418 / /dev/pts rw,nosuid,noexec,relatime - devpts devpts rw,gid=5,mode=620
1600 1590 0:410 / /var/run/secrets/kubernetes.io/serviceaccount ro - tmpfs tmpfs rw,size=1k"""


def line(number: int, device: str, root: str, point: str, parent: int = 1590) -> str:
    kind = "tmpfs tmpfs" if device.startswith("0:") else "ext4 /dev/vda1"
    return f"{number} {parent} {device} {root} {point} rw,relatime - {kind} rw"


def etc_hosts(device: str, root: str) -> str:
    return line(1610, device, f"{root}/{POD}/etc-hosts", "/etc/hosts")


def termination_log(device: str, root: str) -> str:
    source = f"{root}/{POD}/containers/node-driver-registrar/3c5e88a1"
    return line(1611, device, source, "/dev/termination-log", 1592)


def registration(device: str, root: str) -> str:
    return line(1612, device, root, "/registration")


def report(*lines: str) -> FolderReport:
    return report_on("/registration", "\n".join((OVERLAY, AROUND, *lines, "")))


DEFAULT = "/var/lib/kubelet"
K0S = "/var/lib/k0s/kubelet"
MICROK8S = "/var/snap/microk8s/common/var/lib/kubelet"
DOCKER_VOLUME = "/var/lib/docker/volumes/0f3a/_data/lib/kubelet"


@dataclass(frozen=True)
class Case:
    """The mounts of one container, and what follows from them."""

    name: str
    lines: tuple[str, ...]
    finding: Finding
    root: str | None
    """kubelet's, as device and path."""


CASES = [
    Case(
        "containerd, the default root",
        (
            etc_hosts("253:1", DEFAULT),
            termination_log("253:1", DEFAULT),
            registration("253:1", f"{DEFAULT}/plugins_registry"),
        ),
        Finding.REGISTRY,
        f"253:1 {DEFAULT}",
    ),
    Case(
        "docker keeps its own file on /etc/hosts, and /dev/termination-log tells",
        (
            line(1610, "253:1", "/var/lib/docker/containers/ab12/hosts", "/etc/hosts"),
            termination_log("253:1", DEFAULT),
            registration("253:1", f"{DEFAULT}/plugins_registry"),
        ),
        Finding.REGISTRY,
        f"253:1 {DEFAULT}",
    ),
    Case(
        "k0s, and a chart for the default root",
        (
            etc_hosts("8:1", K0S),
            termination_log("8:1", K0S),
            registration("8:1", f"{DEFAULT}/plugins_registry"),
        ),
        Finding.OTHER_FOLDER,
        f"8:1 {K0S}",
    ),
    Case(
        "microk8s, and a chart for the default root",
        (etc_hosts("8:1", MICROK8S), registration("8:1", f"{DEFAULT}/plugins_registry")),
        Finding.OTHER_FOLDER,
        f"8:1 {MICROK8S}",
    ),
    Case(
        "k0s, and a chart that knows it",
        (etc_hosts("8:1", K0S), registration("8:1", f"{K0S}/plugins_registry")),
        Finding.REGISTRY,
        f"8:1 {K0S}",
    ),
    Case(
        "a node in a container (kind), whose /var is a volume",
        (
            etc_hosts("259:2", DOCKER_VOLUME),
            registration("259:2", f"{DOCKER_VOLUME}/plugins_registry"),
        ),
        Finding.REGISTRY,
        f"259:2 {DOCKER_VOLUME}",
    ),
    Case(
        "a root that is a file system of its own",
        (etc_hosts("254:16", ""), registration("254:16", "/plugins_registry")),
        Finding.REGISTRY,
        "254:16 /",
    ),
    Case(
        "that root itself in place of its folder",
        (etc_hosts("254:16", ""), registration("254:16", "/")),
        Finding.OTHER_FOLDER,
        "254:16 /",
    ),
    Case(
        "a root that is a file system of its own, and the folder on the host's disk",
        (etc_hosts("254:16", ""), registration("8:1", f"{DEFAULT}/plugins_registry")),
        Finding.OTHER_FOLDER,
        "254:16 /",
    ),
    Case(
        "a symbolic link to the root: the kernel has followed it for both",
        (etc_hosts("8:17", "/kubelet"), registration("8:17", "/kubelet/plugins_registry")),
        Finding.REGISTRY,
        "8:17 /kubelet",
    ),
    Case(
        "the same path on another device",
        (etc_hosts("8:17", DEFAULT), registration("8:1", f"{DEFAULT}/plugins_registry")),
        Finding.OTHER_FOLDER,
        f"8:17 {DEFAULT}",
    ),
    Case(
        "a folder whose name only begins like the right one",
        (etc_hosts("8:1", DEFAULT), registration("8:1", f"{DEFAULT}/plugins_registry2")),
        Finding.OTHER_FOLDER,
        f"8:1 {DEFAULT}",
    ),
    Case(
        "a folder below, which kubelet watches too",
        (etc_hosts("8:1", DEFAULT), registration("8:1", f"{DEFAULT}/plugins_registry/x")),
        Finding.REGISTRY,
        f"8:1 {DEFAULT}",
    ),
    Case(
        "the whole root mounted one level above",
        (etc_hosts("8:1", DEFAULT), line(1612, "8:1", DEFAULT, "/registration")),
        Finding.OTHER_FOLDER,
        f"8:1 {DEFAULT}",
    ),
    Case(
        "plugins in place of plugins_registry",
        (etc_hosts("8:1", DEFAULT), registration("8:1", f"{DEFAULT}/plugins")),
        Finding.PLUGINS,
        f"8:1 {DEFAULT}",
    ),
    Case(
        "plugins, though kubelet's root is not known",
        (registration("8:1", f"{DEFAULT}/plugins"),),
        Finding.PLUGINS,
        None,
    ),
    Case(
        "an emptyDir on the disk",
        (
            etc_hosts("8:1", DEFAULT),
            registration("8:1", f"{DEFAULT}/{POD}/volumes/kubernetes.io~empty-dir/reg"),
        ),
        Finding.POD_VOLUME,
        f"8:1 {DEFAULT}",
    ),
    Case(
        "an emptyDir in memory, or something mounted over the folder",
        (etc_hosts("8:1", DEFAULT), registration("0:77", "/")),
        Finding.OWN_FILE_SYSTEM,
        f"8:1 {DEFAULT}",
    ),
    Case("no volume", (etc_hosts("8:1", DEFAULT),), Finding.NO_VOLUME, f"8:1 {DEFAULT}"),
    Case(
        "neither line tells",
        (registration("8:1", f"{DEFAULT}/plugins_registry"),),
        Finding.UNKNOWN,
        None,
    ),
    Case(
        "the two lines contradict each other",
        (
            etc_hosts("8:1", DEFAULT),
            termination_log("8:1", K0S),
            registration("8:1", f"{DEFAULT}/plugins_registry"),
        ),
        Finding.UNKNOWN,
        None,
    ),
    Case(
        "the folder was removed on the host",
        (etc_hosts("8:1", DEFAULT), registration("8:1", f"{DEFAULT}/plugins_registry//deleted")),
        Finding.DELETED,
        f"8:1 {DEFAULT}",
    ),
    Case(
        "the pod's file was removed, and still tells the root",
        (
            line(1610, "8:1", f"{DEFAULT}/{POD}/etc-hosts//deleted", "/etc/hosts"),
            registration("8:1", f"{DEFAULT}/plugins_registry"),
        ),
        Finding.REGISTRY,
        f"8:1 {DEFAULT}",
    ),
    Case(
        "the youngest mount on the folder counts",
        (
            etc_hosts("8:1", DEFAULT),
            registration("8:1", f"{DEFAULT}/plugins_registry"),
            line(1613, "0:78", "/", "/registration", 1612),
        ),
        Finding.OWN_FILE_SYSTEM,
        f"8:1 {DEFAULT}",
    ),
    Case(
        "a root with a space in its name",
        (
            etc_hosts("8:1", r"/my\040kubelet"),
            registration("8:1", r"/my\040kubelet/plugins_registry"),
        ),
        Finding.REGISTRY,
        "8:1 /my kubelet",
    ),
    Case(
        "a root below a folder that is called pods",
        (
            etc_hosts("8:1", "/pods/a/kubelet"),
            registration("8:1", "/pods/a/kubelet/plugins_registry"),
        ),
        Finding.REGISTRY,
        "8:1 /pods/a/kubelet",
    ),
    Case("nothing of kubelet's at all", (), Finding.UNKNOWN, None),
]

VERDICTS = {
    Finding.REGISTRY: Verdict.RIGHT,
    Finding.UNKNOWN: Verdict.UNKNOWN,
    Finding.OWN_FILE_SYSTEM: Verdict.UNKNOWN,
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_folder_is_compared_with_the_root_that_kubelets_own_mounts_tell(case: Case) -> None:
    found = report(*case.lines)
    assert found.finding is case.finding
    assert (str(found.kubelet_root.place) if found.kubelet_root else None) == case.root
    assert found.verdict is VERDICTS.get(case.finding, Verdict.WRONG)


def test_the_evidence_is_kept_for_the_operator() -> None:
    root = report(etc_hosts("8:1", K0S), registration("8:1", "/x")).kubelet_root
    assert root is not None
    assert root.evidence == "/etc/hosts"
    assert root.evidence_source == f"{K0S}/{POD}/etc-hosts"
    assert str(root.registry) == f"8:1 {K0S}/plugins_registry"


def test_a_volume_of_the_pod_is_named() -> None:
    volumes = f"{DEFAULT}/{POD}/volumes"
    empty = report(registration("8:1", f"{volumes}/kubernetes.io~empty-dir/reg/below"))
    other = report(registration("8:1", f"{volumes}/kubernetes.io~configmap/conf"))
    assert empty.pod_volume == "emptyDir volume 'reg'"
    assert other.pod_volume == "kubernetes.io~configmap volume 'conf'"


def test_a_volume_above_the_folder_counts_for_it() -> None:
    mounted = line(1612, "8:1", DEFAULT, "/var/lib/kubelet")
    text = "\n".join((OVERLAY, mounted, etc_hosts("8:1", DEFAULT), ""))
    found = report_on("/var/lib/kubelet/plugins_registry", text)
    assert found.finding is Finding.REGISTRY
    assert str(found.place) == f"8:1 {DEFAULT}/plugins_registry"


def test_a_table_that_could_not_be_read_whole_gives_no_root(folder: str) -> None:
    """What was cut off may have covered what is there."""
    mounts = (OVERLAY, etc_hosts("8:1", DEFAULT), registration("8:1", "/elsewhere"))
    with open(f"{folder}/mountinfo", "w", encoding="ascii") as file:
        file.write("\n".join(mounts) + "\n")
        file.write(line(1700, "8:1", "/" + "x" * 1000, "/volume") * 1100)
    found = examine_folder(folder, f"{folder}/mountinfo")
    assert found.finding is Finding.UNKNOWN
    assert found.kubelet_root is None


def test_without_a_table_nothing_is_claimed(folder: str) -> None:
    found = examine_folder(folder, f"{folder}/none")
    assert (found.finding, found.place) == (Finding.UNKNOWN, None)


def test_a_folder_that_does_not_exist_is_not_called_deleted(folder: str) -> None:
    assert not is_deleted(folder)
    assert not is_deleted(f"{folder}/none")
    assert examine_folder(f"{folder}/none").finding is not Finding.DELETED


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/var/lib/my kubelet", "/var/lib/my kubelet"),
        ("a\nb", r"'a\nb'"),
        ("\udcff", r"'\udcff'"),
        ("x" * 300, "x" * 200 + "…"),
    ],
)
def test_what_is_shown_is_printable_and_of_bounded_length(text: str, expected: str) -> None:
    assert shown(text) == expected
