"""Why kubelet may not have called, as far as it can be seen from inside the container.

What is looked at is gathered first (`look_around`) and put into one text afterwards (`explain`):
the most likely cause, the evidence, what to do. Nothing is claimed that was not seen.
"""

import os
from dataclasses import dataclass

from registrar.cpu_throttling import Throttling, read_throttling
from registrar.inotify_quota import InotifyProblem, inotify_problem, shares_quota_with_owner
from registrar.kubelet_root import (
    Finding,
    FolderReport,
    KubeletRoot,
    Verdict,
    examine_folder,
    is_deleted,
    shown,
)
from registrar.observer import SilenceCause

USUAL_KUBELET_ROOTS = (
    "/var/lib/kubelet",
    "/var/lib/k0s/kubelet",
    "/var/snap/microk8s/common/var/lib/kubelet",
    "/opt/rke/var/lib/kubelet",
    "/var/lib/rancher/k3s/agent/kubelet",
    "/var/data/kubelet",
    "/var/vcap/data/kubelet",
)
"""Where distributions put kubelet's root; the first is kubelet's own default (R07)."""

MAX_DIAGNOSIS_CHARACTERS = 2000

BACK_OFF_LIMIT_SECONDS = 122.0
"""kubelet's longest pause after failures on one socket path, which no new socket ends (R10)."""

_SLOW_SHARE = 0.25
"""Of the time since the announcement: who stands still for so much of it misses kubelet's calls,
though it repeats them."""

_LATELY_SECONDS = 60.0
"""Within it a kubelet that lives has probed: the default period is 10 s."""

_MAX_LISTED_NAMES = 8
_MAX_NAME_CHARACTERS = 80


@dataclass(frozen=True, slots=True)
class KubeletProbe:
    """kubelet's last HTTP probe of this process: the proof that it lived then."""

    version: str
    """As kubelet gives it, such as `1.36`."""
    seconds_ago: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """What the registration itself knows of a kubelet that owes a call."""

    socket_path: str
    kubelet_registration_path: str
    silent_seconds: float
    """Since the socket was announced, or since kubelet's last GetInfo if that came later."""
    unanswered_seconds: float
    """Since the first of the announcements that kubelet has not followed."""
    seconds_since_get_info: float | None = None
    """Since kubelet last asked, ever; None if it never did."""
    has_get_info: bool = False
    """Whether kubelet has asked since the last announcement."""
    is_get_info_missed: bool = False
    """Whether our answer to that came after kubelet's second was over."""
    standstill_seconds: float = 0.0
    """For how long, in all, this process did not run when it should, since the announcement."""
    dead_socket_seconds_ago: float | None = None
    """When this process found a dead socket at the path as it started; None if it did not."""
    kubelet_probe: KubeletProbe | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What can be seen around the registration folder."""

    report: FolderReport
    neighbours: str
    """What else lies in the folder, in words."""
    inotify_problem: InotifyProblem | None = None
    is_kubelets_inotify: bool = False
    """Whether kubelet runs as the same user, so that its quota is ours."""
    throttling: Throttling | None = None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why kubelet is silent."""

    cause: SilenceCause
    text: str
    """For a person at night: the cause, the evidence, what to do."""


def diagnose(silence: Silence) -> Diagnosis:
    """Return why kubelet does not call, as far as it can be told; takes a few milliseconds."""
    return explain(silence, look_around(silence.socket_path))


def look_around(socket_path: str) -> Surroundings:
    """Gather what can be seen from inside; never raises, and changes nothing."""
    folder, own_name = os.path.split(socket_path)
    report = examine_folder(folder)
    root = report.kubelet_root
    return Surroundings(
        report=report,
        neighbours=_neighbours(folder, own_name),
        inotify_problem=inotify_problem(folder),
        is_kubelets_inotify=root is not None and shares_quota_with_owner(root.evidence),
        throttling=read_throttling(),
    )


def explain(silence: Silence, surroundings: Surroundings) -> Diagnosis:
    """Put what is known into one text, the most likely cause first."""
    diagnosis = _explain(silence, surroundings)
    return Diagnosis(diagnosis.cause, shown(diagnosis.text, MAX_DIAGNOSIS_CHARACTERS))


def describe_deleted_folder(folder: str) -> str | None:
    """Return what to do if a folder has been removed on the host; None if it has not."""
    if not is_deleted(folder):
        return None
    return (
        f"the host folder mounted at {shown(folder)} has been deleted on the host (its link count "
        "is 0), and what was made there since cannot be seen from this container: only a new pod "
        "helps, so delete this pod"
    )


def _explain(silence: Silence, around: Surroundings) -> Diagnosis:
    report = around.report
    if report.finding is Finding.DELETED:
        text = describe_deleted_folder(report.folder) or _deleted_by_mark(report)
        return Diagnosis(SilenceCause.FOLDER_DELETED, f"kubelet cannot see the socket: {text}.")
    if silence.has_get_info:
        return _no_verdict(silence, around)
    if silence.seconds_since_get_info is not None:
        return _called_before(silence, around)
    if report.verdict is Verdict.WRONG:
        return _wrong_folder(silence, report)
    return _never_called(silence, around)


def _never_called(silence: Silence, around: Surroundings) -> Diagnosis:
    if around.report.finding is Finding.OWN_FILE_SYSTEM:
        return _own_file_system(around.report, silence)
    is_right = around.report.verdict is Verdict.RIGHT
    if found := _known_obstacle(silence, around, has_back_off=is_right):
        return found
    return _right_folder(silence, around) if is_right else _unknown_folder(silence, around)


def _known_obstacle(
    silence: Silence, around: Surroundings, *, has_back_off: bool
) -> Diagnosis | None:
    """Return what stands between kubelet and us, though the folder may be right."""
    if around.inotify_problem is not None and around.is_kubelets_inotify:
        return _inotify_used_up(around.inotify_problem, around)
    if _is_slow(silence):
        return _own_slowness(silence, around)
    if has_back_off and _may_back_off(silence):
        return _back_off(silence, around)
    return None


def _is_slow(silence: Silence) -> bool:
    return silence.standstill_seconds >= max(1.0, _SLOW_SHARE * silence.silent_seconds)


def _may_back_off(silence: Silence) -> bool:
    ago = silence.dead_socket_seconds_ago
    return ago is not None and ago <= BACK_OFF_LIMIT_SECONDS


def _deleted_by_mark(report: FolderReport) -> str:
    return (
        f"the host folder mounted at {shown(report.folder)} has been deleted on the host "
        f"(mountinfo: {report.place}//deleted), and what was made there since cannot be seen from "
        "this container: only a new pod helps, so delete this pod"
    )


def _no_verdict(silence: Silence, around: Surroundings) -> Diagnosis:
    if silence.is_get_info_missed:
        return _own_slowness(silence, around)
    ago = silence.seconds_since_get_info or 0.0
    text = (
        f"kubelet called GetInfo {ago:.0f} s ago, was answered, and has given no verdict since. "
        "Next it asks the driver NodeGetInfo, for up to 120 s, so most likely the driver hangs in "
        "NodeGetInfo (often while it asks a metadata service or the API server): look into the "
        "driver's log. Otherwise kubelet cannot write Node or CSINode to the API server, or was "
        "stopped in between: kubelet's log tells."
    )
    return Diagnosis(SilenceCause.NO_VERDICT, text)


def _called_before(silence: Silence, around: Surroundings) -> Diagnosis:
    if found := _known_obstacle(silence, around, has_back_off=True):
        return found
    text = (
        f"kubelet called on this socket {silence.seconds_since_get_info or 0.0:.0f} s ago, so the "
        f"folder {_folder(around.report)} was right, and it has not called since the announcement "
        f"{silence.silent_seconds:.0f} s ago. {_alive_words(silence)} Look whether kubelet runs on "
        "this node and what its log says (plugin_watcher); restarting kubelet cures a watch that "
        f"broke, pods go on running. {_facts(silence, around)}"
    )
    cause = SilenceCause.BROKEN_WATCH if _is_alive(silence) else SilenceCause.KUBELET_GONE
    return Diagnosis(cause, text)


def _wrong_folder(silence: Silence, report: FolderReport) -> Diagnosis:
    cause, words = {
        Finding.PLUGINS: (SilenceCause.PLUGINS_FOLDER, _plugins_words),
        Finding.POD_VOLUME: (SilenceCause.POD_VOLUME, _pod_volume_words),
        Finding.NO_VOLUME: (SilenceCause.NO_VOLUME, _no_volume_words),
    }.get(report.finding, (SilenceCause.OTHER_FOLDER, _other_folder_words))
    text = (
        f"kubelet will never see this socket: {words(report)}. {_what_to_mount(silence, report)} "
        f"{_evidence(report)}"
    )
    return Diagnosis(cause, text)


def _plugins_words(report: FolderReport) -> str:
    return (
        f"{shown(report.folder)} is kubelet's folder plugins ({report.place}), and kubelet "
        "watches plugins_registry beside it"
    )


def _pod_volume_words(report: FolderReport) -> str:
    return (
        f"{shown(report.folder)} is the {report.pod_volume} of this pod ({report.place}) and no "
        "folder that kubelet watches"
    )


def _no_volume_words(report: FolderReport) -> str:
    return (
        f"no volume is mounted at {shown(report.folder)}, so it is a folder inside the container's "
        "own file system"
    )


def _other_folder_words(report: FolderReport) -> str:
    root = report.kubelet_root
    watched = f" kubelet watches {root.registry}" if root else ""
    return f"{shown(report.folder)} is {report.place}, and{watched}"


def _what_to_mount(silence: Silence, report: FolderReport) -> str:
    if report.kubelet_root is None:
        return (
            f"Mount the host folder ROOT/plugins_registry at {shown(report.folder)} (a hostPath "
            f"volume), with the root that kubelet runs with (--root-dir): {_usual_roots()}."
        )
    root = _host_path(report.kubelet_root)
    wanted = f"{root}/plugins_registry"
    words = f"Mount the host folder {wanted} at {shown(report.folder)} (a hostPath volume)"
    stated = silence.kubelet_registration_path
    if not stated.startswith(f"{root}/"):
        words += f", and begin --kubelet-registration-path, now {shown(stated)}, with {root}/ too"
    return f"{words}."


def _host_path(root: KubeletRoot) -> str:
    """Return kubelet's root as the host most likely names it.

    A file system knows itself from its top only: `/k0s/kubelet` is `/var/lib/k0s/kubelet` where
    `/var/lib` is a file system of its own.
    """
    path = shown(root.place.path).rstrip("/")
    usual = [each for each in USUAL_KUBELET_ROOTS if path and each.endswith(path)]
    if path in usual:
        return path
    return usual[0] if len(usual) == 1 else path or "ROOT"


def _evidence(report: FolderReport) -> str:
    root = report.kubelet_root
    if root is None:
        return "Evidence: /proc/self/mountinfo."
    return (
        f"Evidence (/proc/self/mountinfo, device and path from the top of that file system): "
        f"{shown(report.folder)} is {report.place}; kubelet itself mounted {root.evidence} from "
        f"{root.place.device} {shown(root.evidence_source)}, so its root is {root.place}. Only if "
        "the folder pods in that root is a symbolic link may this be wrong."
    )


def _own_file_system(report: FolderReport, silence: Silence) -> Diagnosis:
    place, root = report.place, report.kubelet_root
    file_system = place.file_system if place else "?"
    text = (
        f"the registration folder {shown(report.folder)} is the top of a file system of its own "
        f"({file_system}, {place}), while kubelet's root is {root.place if root else '?'}. "
        "Either something was mounted over plugins_registry on the host, and kubelet watches the "
        "folder underneath: unmount it and delete this pod, or restart kubelet if it is meant to "
        "be there (pods go on running). Or the volume is not that host folder at all (an emptyDir "
        f"in memory, another disk): mount the host folder {_registry(report)} there. "
        f"{_alive_words(silence)}"
    )
    return Diagnosis(SilenceCause.MOUNTED_OVER, text)


def _inotify_used_up(problem: InotifyProblem, around: Surroundings) -> Diagnosis:
    text = (
        f"inotify is used up: {problem}, and kubelet runs as the same user (it owns "
        f"{_evidence_path(around)}), so a kubelet that was started meanwhile cannot watch "
        f"{_folder(around.report)}. Raise {problem.limit_name} on the host (sysctl), then restart "
        "kubelet (pods go on running); find who holds so many: "
        "find /proc/*/fd -lname anon_inode:inotify."
    )
    return Diagnosis(SilenceCause.INOTIFY_USED_UP, text)


def _own_slowness(silence: Silence, around: Surroundings) -> Diagnosis:
    seen = (
        "kubelet called GetInfo and this process answered after the second that kubelet waits"
        if silence.is_get_info_missed
        else f"this process stood still for {silence.standstill_seconds:.1f} s of the last "
        f"{silence.silent_seconds:.0f} s, and kubelet waits only one second for GetInfo"
    )
    throttling = (
        f"{around.throttling} (cpu.stat)"
        if around.throttling
        else "no throttling by a CPU limit can be seen (cpu.stat)"
    )
    text = (
        f"this sidecar is too slow for kubelet: {seen}. {throttling[0].upper()}{throttling[1:]}. "
        "Raise this container's CPU limit, or remove it; look for a node that is overloaded."
    )
    return Diagnosis(SilenceCause.OWN_SLOWNESS, text)


def _back_off(silence: Silence, around: Surroundings) -> Diagnosis:
    ago = silence.dead_socket_seconds_ago or 0.0
    text = (
        f"kubelet most likely still avoids the path: at its start {ago:.0f} s ago this process "
        f"found a dead socket of a predecessor at {shown(silence.socket_path)}. After failed calls "
        "on one path kubelet pauses for up to 2 minutes, and a new socket does not end the pause: "
        f"wait until then. The folder {_folder(around.report)} is the one that kubelet should "
        f"watch. {_alive_words(silence)}"
    )
    return Diagnosis(SilenceCause.BACK_OFF, text)


def _right_folder(silence: Silence, around: Surroundings) -> Diagnosis:
    right = (
        f"{_folder(around.report)} is the folder that kubelet should watch (it mounted "
        f"{_evidence_path(around)} from the same root)"
    )
    if _is_alive(silence):
        cause = SilenceCause.BROKEN_WATCH
        text = (
            f"kubelet lives and never called, though {right}. So most likely its watch on the "
            f"folder is broken, and only restarting kubelet cures that (pods go on running). "
            f"{_alive_words(silence)} A watch breaks when the folder is deleted and made again or "
            "something is mounted over it while kubelet runs, or when inotify was used up as "
            "kubelet started."
        )
    else:
        cause = SilenceCause.UNKNOWN
        text = (
            f"kubelet never called, though {right}. Either kubelet is down or hangs, or its watch "
            f"on the folder is broken, which only restarting kubelet cures (pods go on running). "
            f"{_alive_words(silence)} Look at kubelet on this node (systemctl status kubelet, "
            "and plugin_watcher in its log)."
        )
    return Diagnosis(cause, f"{text} {_facts(silence, around)}")


def _unknown_folder(silence: Silence, around: Surroundings) -> Diagnosis:
    report = around.report
    text = (
        f"kubelet never called, and the cause cannot be told from here. {_alive_words(silence)} "
        f"{_place_words(report)} kubelet's own root cannot be seen (nothing that kubelet mounts is "
        f"on /etc/hosts or /dev/termination-log), so compare: the host folder mounted at "
        f"{shown(report.folder)} must be ROOT/plugins_registry of the root that kubelet runs with "
        f"(--root-dir). Usual roots: {_usual_roots()}. {_facts(silence, around)}"
    )
    return Diagnosis(SilenceCause.UNKNOWN, text)


def _place_words(report: FolderReport) -> str:
    folder = shown(report.folder)
    if report.place is None:
        return f"What is mounted at {folder} cannot be told."
    if report.is_of_root_mount:
        return (
            f"Nothing is mounted at {folder}: if this is a container, the folder is inside of it, "
            "and kubelet cannot see it."
        )
    if os.path.basename(report.place.path) != "plugins_registry":
        return f"{folder} is {report.place}, which does not end in plugins_registry."
    return f"{folder} is {report.place} (device, and path from the top of its file system)."


def _facts(silence: Silence, around: Surroundings) -> str:
    """Return what was seen and proves nothing."""
    facts = [around.neighbours]
    if around.inotify_problem is not None:
        facts.append(
            f"Also: {around.inotify_problem}; kubelet's quota may be another one, check it."
        )
    if silence.standstill_seconds >= 1.0:
        facts.append(
            f"Also: this process stood still for {silence.standstill_seconds:.1f} s in all, and a "
            "GetInfo that fell into that was lost."
        )
    if around.report.verdict is Verdict.UNKNOWN and _may_back_off(silence):
        facts.append(
            "Also: a dead socket was found here at the start, and kubelet may avoid the path for "
            "up to 2 minutes."
        )
    return " ".join(facts)


def _is_alive(silence: Silence) -> bool:
    """Return whether kubelet has shown itself of late, while it did not follow an announcement."""
    probe = silence.kubelet_probe
    limit = min(silence.unanswered_seconds, _LATELY_SECONDS)
    return probe is not None and probe.seconds_ago <= limit


def _alive_words(silence: Silence) -> str:
    probe = silence.kubelet_probe
    if probe is None:
        return "Whether kubelet lives is not known: it has not probed this process over HTTP."
    probed = f"it probed this process {probe.seconds_ago:.0f} s ago (kube-probe/{probe.version})"
    if _is_alive(silence):
        return f"kubelet is not down: {probed}."
    return f"Whether kubelet lives is not known: {probed}, and not since."


def _folder(report: FolderReport) -> str:
    return f"{shown(report.folder)} ({report.place})" if report.place else shown(report.folder)


def _registry(report: FolderReport) -> str:
    root = report.kubelet_root
    return f"{_host_path(root) if root else 'ROOT'}/plugins_registry"


def _evidence_path(around: Surroundings) -> str:
    root = around.report.kubelet_root
    return root.evidence if root else "/etc/hosts"


def _usual_roots() -> str:
    return ", ".join(USUAL_KUBELET_ROOTS)


def _neighbours(folder: str, own_name: str) -> str:
    try:
        others = sorted(
            name for name in os.listdir(folder) if name != own_name and not name.startswith(".")
        )
    except OSError as error:
        return f"The folder cannot be listed: {error.strerror}."
    if not others:
        return "Nothing else lies in the folder, though kubelet's often holds other drivers."
    listed = ", ".join(shown(name, _MAX_NAME_CHARACTERS) for name in others[:_MAX_LISTED_NAMES])
    more = len(others) - _MAX_LISTED_NAMES
    return f"Beside the socket: {listed}{f' and {more} more' if more > 0 else ''}."
