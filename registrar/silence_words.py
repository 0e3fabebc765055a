"""What an operator reads about a silent kubelet: the cause, the evidence, what to do.

Which of the texts fits is decided elsewhere (`kubelet_silence`).
"""

import os

from registrar.kubelet_root import Finding, FolderReport, KubeletRoot, Verdict, is_deleted, shown
from registrar.silence_evidence import Silence, Surroundings

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


def deleted_folder(folder: str) -> str:
    """Say what follows if the host folder that is mounted here has been removed."""
    return (
        f"the host folder mounted at {shown(folder)} has been deleted on the host, and what was "
        "made there since cannot be seen from this container: only a new pod helps, so delete "
        "this pod"
    )


def describe_deleted_folder(folder: str) -> str | None:
    """Return what follows if a folder has been removed on the host; None if it has not."""
    return deleted_folder(folder) if is_deleted(folder) else None


def no_verdict(silence: Silence) -> str:
    """Say why kubelet may not come back after GetInfo."""
    ago = silence.seconds_since_get_info or 0.0
    return (
        f"kubelet called GetInfo {ago:.0f} s ago, was answered, and has given no verdict since. "
        "Next it asks the driver NodeGetInfo, for up to 120 s, so most likely the driver hangs in "
        "NodeGetInfo (often in a call to a metadata service or the API server): look into the "
        "driver's log. Otherwise kubelet cannot write Node or CSINode to the API server, or was "
        "stopped in between: look into kubelet's log."
    )


def own_slowness(silence: Silence, around: Surroundings) -> str:
    """Say that kubelet did not get its answer within its second."""
    seen = (
        "kubelet called GetInfo, and the answer came after the second that kubelet waits"
        if silence.is_get_info_missed
        else f"it stood still for {silence.standstill_seconds:.1f} s of the last "
        f"{silence.silent_seconds:.0f} s, and kubelet waits only one second for GetInfo"
    )
    throttling = str(around.throttling or "no throttling by a CPU limit can be seen")
    return (
        f"this sidecar is too slow for kubelet: {seen}. Evidence (cpu.stat): {throttling}. Raise "
        "or remove this container's CPU limit, and look whether the node is overloaded."
    )


def called_before(silence: Silence, around: Surroundings) -> str:
    """Say what is left if kubelet has called on this socket and does not any more."""
    return (
        f"kubelet called on this socket {silence.seconds_since_get_info or 0.0:.0f} s ago, so "
        f"{_folder(around.report)} was the right folder, but it has not followed the announcement "
        f"{silence.unanswered_seconds:.0f} s ago. {_life_of_kubelet(silence)} Look whether kubelet "
        "runs on this node and what its log says (plugin_watcher); if its watch on the folder "
        f"broke, only restarting kubelet cures that (pods go on running). {_facts(silence, around)}"
    )


def wrong_folder(silence: Silence, report: FolderReport) -> str:
    """Say that kubelet looks elsewhere, what proves it, and what must be mounted."""
    words = {
        Finding.PLUGINS: _plugins,
        Finding.POD_VOLUME: _pod_volume,
        Finding.NO_VOLUME: _no_volume,
    }.get(report.finding, _other_folder)
    return (
        f"kubelet will never see this socket: {words(report)}. {_what_to_mount(silence, report)} "
        f"{_evidence(report)}"
    )


def own_file_system(silence: Silence, report: FolderReport) -> str:
    """Say what it means that the folder is the top of another file system."""
    place, root = report.place, report.kubelet_root
    stated = shown(silence.kubelet_registration_path)
    return (
        f"the registration folder {shown(report.folder)} is the top of a file system of its own "
        f"({place.file_system if place else '?'}, {place}), while kubelet's root is "
        f"{root.place if root else '?'}. Either something was mounted over plugins_registry on the "
        "host, and kubelet watches the folder underneath: unmount it and delete this pod, or "
        "restart kubelet if it is meant to be there (pods go on running). Or the volume is not "
        "that host folder at all (an emptyDir in memory, another disk): mount the host folder "
        f"{_host_path(root, stated) if root else 'ROOT'}/plugins_registry there. "
        f"{_life_of_kubelet(silence)}"
    )


def inotify_used_up(around: Surroundings) -> str:
    """Say that kubelet gets no watch from the kernel."""
    problem = around.inotify_problem
    limit = problem.limit_name if problem else "fs.inotify"
    return (
        f"inotify is used up: {problem}, and kubelet runs as the same user (it owns "
        f"{_evidence_path(around)}), so a kubelet that was started meanwhile cannot watch "
        f"{_folder(around.report)}. Raise {limit} on the host (sysctl -w), then restart kubelet "
        "(pods go on running). Who holds so many: find /proc/*/fd -lname anon_inode:inotify."
    )


def back_off(silence: Silence, around: Surroundings) -> str:
    """Say that kubelet may still avoid the path."""
    ago = silence.dead_socket_seconds_ago or 0.0
    return (
        f"most likely kubelet still avoids the path: as this process started, {ago:.0f} s ago, a "
        f"dead socket of a predecessor lay at {shown(silence.socket_path)}. After failed calls on "
        "a path kubelet pauses for up to 2 minutes, and a new socket does not end the pause: wait. "
        f"{_folder(around.report)} is the folder that kubelet should watch. "
        f"{_life_of_kubelet(silence)}"
    )


def right_folder(silence: Silence, around: Surroundings) -> str:
    """Say what is left if the folder is the right one: kubelet itself."""
    right = (
        f"{_folder(around.report)} is the folder that it should watch (it mounted "
        f"{_evidence_path(around)} from the same root)"
    )
    life, facts = _life_of_kubelet(silence), _facts(silence, around)
    if silence.is_kubelet_alive:
        return (
            f"kubelet lives and never called, though {right}. So most likely its watch on the "
            "folder is broken, and only restarting kubelet cures that (pods go on running). "
            f"{life} "
            "A watch breaks when the folder is deleted and made again, or something is mounted "
            "over it, while kubelet runs; or when inotify was used up as kubelet started. "
            f"{facts}"
        )
    return (
        f"kubelet never called, though {right}. Either kubelet is down or hangs, or its watch on "
        f"the folder is broken, which only restarting kubelet cures (pods go on running). {life} "
        "Look at kubelet on this node (systemctl status kubelet; plugin_watcher in its log). "
        f"{facts}"
    )


def unknown_folder(silence: Silence, around: Surroundings) -> str:
    """Say what can be compared by hand if kubelet's root cannot be told."""
    report = around.report
    return (
        f"kubelet never called, and the cause cannot be told from here. {_what_it_is(report)} "
        f"It must be ROOT/plugins_registry of the root that kubelet runs with (--root-dir), which "
        f"no mount here tells; usual roots: {_usual_roots()}. {_life_of_kubelet(silence)} "
        f"{_facts(silence, around)}"
    )


def _plugins(report: FolderReport) -> str:
    return (
        f"{shown(report.folder)} is kubelet's folder plugins ({report.place}), and kubelet "
        "watches plugins_registry beside it"
    )


def _pod_volume(report: FolderReport) -> str:
    return (
        f"{shown(report.folder)} is the {report.pod_volume} of this pod ({report.place}) and no "
        "folder that kubelet watches"
    )


def _no_volume(report: FolderReport) -> str:
    return (
        f"no volume is mounted at {shown(report.folder)}, so it is a folder inside the container's "
        "own file system"
    )


def _other_folder(report: FolderReport) -> str:
    root = report.kubelet_root
    watched = root.registry if root else "another"
    return f"{shown(report.folder)} is {report.place}, and kubelet watches {watched}"


def _what_to_mount(silence: Silence, report: FolderReport) -> str:
    if report.kubelet_root is None:
        return (
            f"Mount the host folder ROOT/plugins_registry at {shown(report.folder)} (a hostPath "
            f"volume), with the root that kubelet runs with (--root-dir): {_usual_roots()}."
        )
    stated = shown(silence.kubelet_registration_path)
    root = _host_path(report.kubelet_root, stated)
    words = f"Mount the host folder {root}/plugins_registry there (a hostPath volume)"
    if not stated.startswith(f"{root}/"):
        words += f", and begin --kubelet-registration-path, now {stated}, with {root}/ too"
    return f"{words}.{_where_from(root, report.kubelet_root)}"


def _host_path(root: KubeletRoot, stated: str) -> str:
    """Return kubelet's root as the host most likely names it.

    A file system knows itself from its top only: `/k0s/kubelet` is `/var/lib/k0s/kubelet` where
    `/var/lib` is a file system of its own. `stated` is what the manifest says of the driver.
    """
    path = shown(root.place.path).rstrip("/")
    if not path:
        return "ROOT"
    before, inside, _ = stated.partition(f"{path}/plugins/")
    if inside:
        return f"{before}{path}"
    usual = [each for each in USUAL_KUBELET_ROOTS if each.endswith(path)]
    return usual[0] if len(usual) == 1 or path in usual[:1] else path


def _where_from(host_path: str, root: KubeletRoot) -> str:
    if host_path in USUAL_KUBELET_ROOTS:
        return ""
    if host_path == "ROOT":
        return f" ROOT is where the file system {root.place.device} is mounted on the host."
    return (
        f" If the file system {root.place.device} is not the host's root, its mount point comes "
        "before that."
    )


def _evidence(report: FolderReport) -> str:
    root = report.kubelet_root
    if root is None:
        return "Evidence: /proc/self/mountinfo."
    text = (
        "Evidence (/proc/self/mountinfo: device, and path from the top of its file system): "
        f"kubelet itself mounted {root.evidence} from {root.place.device} "
        f"{shown(root.evidence_source)}"
    )
    if report.finding is Finding.OTHER_FOLDER:
        text += ". It can only be wrong if ROOT/pods is a symbolic link or a mount of its own"
    return f"{text}."


def _what_it_is(report: FolderReport) -> str:
    folder = shown(report.folder)
    if report.place is None:
        return f"What is mounted at {folder} cannot be told."
    if report.is_of_root_mount:
        return (
            f"Nothing is mounted at {folder}: if this is a container, the folder lies inside it, "
            "and kubelet cannot see it."
        )
    if os.path.basename(report.place.path) != "plugins_registry":
        return f"{folder} is {report.place}, which does not end in plugins_registry."
    return f"{folder} is {report.place} (device, and path from the top of its file system)."


def _life_of_kubelet(silence: Silence) -> str:
    probe = silence.kubelet_probe
    if probe is None:
        return "Whether kubelet lives is not known (it has not probed this process over HTTP)."
    probed = f"it probed this process {probe.seconds_ago:.0f} s ago (kube-probe/{probe.version})"
    if silence.is_kubelet_alive:
        return f"kubelet is not down: {probed}."
    return f"Whether kubelet lives is not known: {probed}, and not since."


def _facts(silence: Silence, around: Surroundings) -> str:
    """Return what was seen and proves nothing."""
    facts = []
    if around.inotify_problem is not None:
        facts.append(
            f"Also: {around.inotify_problem}; kubelet's quota may be another one, check it."
        )
    if silence.has_stood_still:
        facts.append(
            f"Also: this process stood still for {silence.standstill_seconds:.1f} s in all, and "
            "missed any GetInfo in that time."
        )
    if around.report.verdict is Verdict.UNKNOWN and silence.is_path_avoided:
        facts.append(
            "Also: a dead socket lay here at the start, and kubelet may avoid the path for 2 "
            "minutes."
        )
    return " ".join([*facts, around.neighbours])


def _folder(report: FolderReport) -> str:
    return f"{shown(report.folder)} ({report.place})" if report.place else shown(report.folder)


def _evidence_path(around: Surroundings) -> str:
    root = around.report.kubelet_root
    return root.evidence if root else "/etc/hosts"


def _usual_roots() -> str:
    return ", ".join(USUAL_KUBELET_ROOTS)
