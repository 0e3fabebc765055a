"""Why a kubelet is silent, in scenes that are really staged: mounts, deletions, quotas.

The installed command runs in a mount namespace of its own, on whose `/etc/hosts` lies a file of a
kubelet's root, as kubelet itself mounts it. No kubelet ever calls.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

import pytest
from commanding import REGISTRAR, RunningCommand, running

from csi_registration_simulator.driver import SimulatedDriver

pytestmark = pytest.mark.needs_root  # mount namespaces, and the quota of another user

POD = "pods/2f0c-11ee"
UNUSED_USER = 54321
SILENCE_ARGUMENT = "--kubelet-silence-timeout=300ms"


@dataclass(frozen=True)
class Scene:
    """How the mounts are laid, as shell lines, and what must be said of it."""

    name: str
    script: str
    """Runs in `$D`; `$REG` is where the registration folder belongs."""
    cause: str
    says: tuple[str, ...]
    never_says: tuple[str, ...] = ()


def kubelet(root: str, evidence: str = "etc-hosts") -> str:
    """Lay out a kubelet's root and mount one of its files as it would."""
    return (
        f'K="{root}"; mkdir -p "$K/{POD}" "$K/plugins_registry" "$K/plugins"; '
        f'touch "$K/{POD}/{evidence}"; mount --bind "$K/{POD}/{evidence}" /etc/hosts; '
    )


def volume(source: str) -> str:
    """Mount a folder of the host as the registration folder."""
    return f'mkdir -p "{source}"; mount --bind "{source}" $REG; '


RIGHT = kubelet("$D/var/lib/kubelet") + volume("$K/plugins_registry")

# A container's /dev of its own, for the file that lies there only in containers.
DEV = (
    f"mkdir -p $D/dev $K/{POD}/containers/reg; touch $K/{POD}/containers/reg/0a1b; "
    "mount -t tmpfs dev $D/dev; touch $D/dev/null $D/dev/urandom $D/dev/termination-log; "
    "for f in null urandom; do mount --bind /dev/$f $D/dev/$f; done; "
    f"mount --bind $K/{POD}/containers/reg/0a1b $D/dev/termination-log; "
    "mount --rbind $D/dev /dev; umount /etc/hosts; "
)

CLAIMS = (
    "will never see",
    "is broken, and only restarting",
    "is used up",
    "too slow",
    "deleted on",
)

SCENES = [
    Scene(
        "the right root",
        RIGHT,
        "unknown",
        ("is the folder that it should watch", "Whether kubelet lives is not known"),
        CLAIMS,
    ),
    Scene(
        "the right root, told by /dev/termination-log alone",
        RIGHT + DEV,
        "unknown",
        ("is the folder that it should watch", "it mounted /dev/termination-log"),
        CLAIMS,
    ),
    Scene(
        "a folder below the right one",
        kubelet("$D/var/lib/kubelet") + volume("$K/plugins_registry/sub"),
        "unknown",
        ("is the folder that it should watch",),
        CLAIMS,
    ),
    Scene(
        "k0s",
        kubelet("$D/var/lib/k0s/kubelet") + volume("$D/var/lib/kubelet/plugins_registry"),
        "other_folder",
        (
            "kubelet will never see this socket",
            "{folder}/var/lib/kubelet/plugins_registry, and kubelet watches",
            "{folder}/var/lib/k0s/kubelet/plugins_registry there (a hostPath volume)",
            "--kubelet-registration-path, now /var/lib/kubelet/plugins/x/csi.sock",
        ),
    ),
    Scene(
        "microk8s",
        kubelet("$D/var/snap/microk8s/common/var/lib/kubelet")
        + volume("$D/var/lib/kubelet/plugins_registry"),
        "other_folder",
        ("{folder}/var/snap/microk8s/common/var/lib/kubelet/plugins_registry there",),
    ),
    Scene(
        "plugins instead of plugins_registry",
        kubelet("$D/var/lib/kubelet") + volume("$K/plugins"),
        "plugins_folder",
        ("kubelet's folder plugins", "kubelet watches plugins_registry beside it"),
    ),
    Scene(
        "a root on its own file system, and the right folder in it",
        "mkdir -p $D/k; mount -t tmpfs k $D/k; " + kubelet("$D/k") + volume("$K/plugins_registry"),
        "unknown",
        ("is the folder that it should watch",),
        CLAIMS,
    ),
    Scene(
        "a root on its own file system, and a folder outside of it",
        "mkdir -p $D/k; mount -t tmpfs k $D/k; "
        + kubelet("$D/k/kubelet")
        + volume("$D/var/lib/kubelet/plugins_registry"),
        "other_folder",
        ("will never see", "kubelet/plugins_registry there"),
    ),
    Scene(
        "a symlinked root",
        "mkdir -p $D/data $D/var/lib; ln -s $D/data $D/var/lib/kubelet; "
        + kubelet("$D/var/lib/kubelet")
        + volume("$D/var/lib/kubelet/plugins_registry"),
        "unknown",
        ("is the folder that it should watch", "{folder}/data/plugins_registry"),
        CLAIMS,
    ),
    Scene(
        "a root with a space in its name",
        kubelet("$D/my kubelet") + volume("$K/plugins_registry"),
        "unknown",
        ("is the folder that it should watch", "{folder}/my kubelet/plugins_registry"),
        CLAIMS,
    ),
    Scene(
        "a tmpfs mounted over the folder",
        kubelet("$D/var/lib/kubelet")
        + 'mount -t tmpfs over "$K/plugins_registry"; '
        + volume("$K/plugins_registry"),
        "mounted_over",
        (
            "file system of its own (tmpfs",
            "unmount it and delete this pod",
            "emptyDir in memory",
        ),
        ("will never see",),
    ),
    Scene(
        "no volume",
        kubelet("$D/var/lib/kubelet"),
        "no_volume",
        ("no volume is mounted at {folder}/reg", "will never see"),
    ),
    Scene(
        "an emptyDir",
        kubelet("$D/var/lib/kubelet")
        + volume(f"$K/{POD}/volumes/kubernetes.io~empty-dir/registration"),
        "pod_volume",
        ("the emptyDir volume 'registration' of this pod", "will never see"),
    ),
    Scene(
        "outside of a container",
        "",
        "unknown",
        ("which no mount here tells", "Nothing is mounted at", "/var/lib/k0s/kubelet"),
        CLAIMS,
    ),
    Scene(
        "a volume, and nothing that tells kubelet's root",
        volume("$D/var/lib/kubelet/plugins_registry"),
        "unknown",
        ("cannot be told from here", "{folder}/var/lib/kubelet/plugins_registry"),
        CLAIMS,
    ),
]


@pytest.fixture
async def silent_driver(folder: str) -> AsyncIterator[SimulatedDriver]:
    """Run a driver; its folder has the place where the registration folder is mounted."""
    os.mkdir(f"{folder}/reg")
    os.chmod(folder, 0o755)  # noqa: S103 - other users run the command in some scenes
    async with SimulatedDriver(f"{folder}/csi.sock", name="x.io") as driver:
        yield driver


@asynccontextmanager
async def staged(
    folder: str, script: str, *more: str, before_command: str = ""
) -> AsyncIterator[RunningCommand]:
    """Run the command in a mount namespace that a script has laid out."""
    command = (
        f"set -e; D={folder}; REG=$D/reg; {script} "
        f'exec {before_command} {REGISTRAR} "$@" --csi-address=$D/csi.sock '
        f"--plugin-registration-path=$REG"
    )
    arguments = ("--kubelet-registration-path=/var/lib/kubelet/plugins/x/csi.sock", *more)
    async with running("unshare", "-m", "sh", "-c", command, "sh", *arguments) as command_run:
        yield command_run


async def diagnosis_of(command: RunningCommand) -> tuple[str, str]:
    """Return the cause and the text of the first warning about the silence."""
    await command.wait_for_log('"kubelet is silent"')
    line = next(line for line in command.lines if '"kubelet is silent"' in line)
    text, _, cause = line.partition('diagnosis="')[2].rpartition('" cause="')
    return cause.rstrip('"\n'), text.replace('\\"', '"')


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
async def test_the_cause_is_named_where_it_can_be_proved_and_nowhere_else(
    folder: str, silent_driver: SimulatedDriver, scene: Scene
) -> None:
    """R06, R07, R25."""
    async with staged(folder, scene.script, SILENCE_ARGUMENT) as command:
        cause, text = await diagnosis_of(command)
    assert cause == scene.cause, text
    for words in scene.says:
        assert words.format(folder=folder) in text
    for words in scene.never_says:
        assert words not in text
    assert not text.endswith("…")


async def test_a_folder_deleted_on_the_host_is_called_so_and_only_a_new_pod_helps(
    folder: str, silent_driver: SimulatedDriver
) -> None:
    async with staged(folder, RIGHT) as command:
        await command.wait_for_log("Registration socket published")
        for name in os.listdir(f"{folder}/var/lib/kubelet/plugins_registry"):
            os.unlink(f"{folder}/var/lib/kubelet/plugins_registry/{name}")
        os.rmdir(f"{folder}/var/lib/kubelet/plugins_registry")
        os.mkdir(f"{folder}/var/lib/kubelet/plugins_registry")
        await command.wait_for_log("only a new pod helps")
        assert "cannot be published" in command.log
        assert '"kubelet is silent"' not in command.log


async def answer(folder: str, path: str, user_agent: str) -> str:
    """Ask the command over its unix socket, as kubelet or somebody else."""
    reader, writer = await asyncio.open_unix_connection(f"{folder}/http.sock")
    request = f"GET {path} HTTP/1.1\r\nHost: x\r\nUser-Agent: {user_agent}\r\nConnection: close\r\n"
    writer.write(f"{request}\r\n".encode())
    text = (await reader.read()).decode()
    writer.close()
    await writer.wait_closed()
    return text


@pytest.mark.parametrize(
    ("user_agent", "cause"), [("kube-probe/1.36", "broken_watch"), ("curl/8.1", "unknown")]
)
async def test_a_kubelet_that_probes_and_never_calls_has_a_broken_watch(
    folder: str, silent_driver: SimulatedDriver, user_agent: str, cause: str
) -> None:
    """R25: the probe proves that kubelet lives, and the mounts that it is the right folder."""
    endpoint = f"--http-endpoint=unix://{folder}/http.sock"
    async with staged(folder, RIGHT, "--kubelet-silence-timeout=2s", endpoint) as command:
        await command.wait_for_log("Registration socket published")
        assert "announced" in await answer(folder, "/readyz?verbose", user_agent)
        found, text = await diagnosis_of(command)
        assert found == cause
        assert ("(kube-probe/1.36)" in text) == (cause == "broken_watch")
        assert ("only restarting kubelet cures that" in text) == (cause == "broken_watch")
        report = await answer(folder, "/readyz?verbose", "curl/8.1")
        assert text in report
        await command.wait_for_log('"kubelet is still silent"')
        assert command.log.count("diagnosis=") == 1


async def test_a_dead_socket_from_before_the_start_makes_kubelet_pause(
    folder: str, silent_driver: SimulatedDriver
) -> None:
    """R10."""
    python = "import socket; socket.socket(socket.AF_UNIX).bind('$REG/x.io-reg.sock')"
    bind = f'{sys.executable} -c "{python}"; '
    async with staged(folder, RIGHT + bind, SILENCE_ARGUMENT) as command:
        cause, text = await diagnosis_of(command)
    assert cause == "back_off"
    assert "up to 2 minutes" in text
    assert "dead socket of a predecessor" in text


async def test_a_process_that_does_not_run_when_it_should_blames_itself(
    folder: str, silent_driver: SimulatedDriver
) -> None:
    """R23: so it looks to kubelet when a CPU limit takes the CPU away for seconds."""
    async with staged(folder, RIGHT, SILENCE_ARGUMENT) as command:
        await command.wait_for_log("Registration socket published")
        command.process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(3)
        command.process.send_signal(signal.SIGCONT)
        cause, text = await diagnosis_of(command)
    assert cause == "own_slowness"
    assert "this sidecar is too slow for kubelet: it stood still for" in text


HOLD_INSTANCES = """
import ctypes, os, sys
os.setuid(int(sys.argv[1]))
libc = ctypes.CDLL(None, use_errno=True)
while libc.inotify_init1(0) >= 0:
    pass
print(ctypes.get_errno(), flush=True)
sys.stdin.read()
"""


@contextmanager
def inotify_used_up_for(user: int) -> Iterator[None]:
    """Hold all inotify instances that a user may have."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD_INSTANCES, str(user)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"24\n"  # EMFILE
        try:
            yield
        finally:
            holder.communicate()


@pytest.mark.parametrize(
    ("owner", "cause"), [(UNUSED_USER, "inotify_used_up"), (0, "unknown")], ids=["same", "other"]
)
async def test_inotify_used_up_is_the_cause_only_if_kubelet_runs_as_the_same_user(
    folder: str, silent_driver: SimulatedDriver, owner: int, cause: str
) -> None:
    """R24: the kernel counts per user; whose kubelet is, its file on /etc/hosts tells."""
    os.chmod(f"{folder}/csi.sock", 0o666)  # noqa: S103 - another user runs the command
    owned = f"chown {owner} $K/{POD}/etc-hosts; chown {UNUSED_USER} $K/plugins_registry; "
    user = f"setpriv --reuid={UNUSED_USER} --clear-groups"
    with inotify_used_up_for(UNUSED_USER):
        async with staged(folder, RIGHT + owned, SILENCE_ARGUMENT, before_command=user) as command:
            found, text = await diagnosis_of(command)
    assert found == cause
    assert f"inotify_init1 fails with EMFILE for user {UNUSED_USER}" in text
    assert "fs.inotify.max_user_instances" in text
    assert ("inotify is used up" in text) == (cause == "inotify_used_up")
    assert ("kubelet's quota may be another one" in text) == (cause == "unknown")


PROBE_INOTIFY = (
    "from registrar.inotify_quota import inotify_problem; print(inotify_problem('/tmp'))"
)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("true", "None"),
        (
            "echo 0 > /proc/sys/user/max_inotify_watches",
            "inotify_add_watch fails with ENOSPC for user 0 (fs.inotify.max_user_watches",
        ),
        (
            "echo 0 > /proc/sys/user/max_inotify_instances",
            "inotify_init1 fails with EMFILE for user 0 (fs.inotify.max_user_instances",
        ),
    ],
)
def test_each_limit_of_inotify_is_told_from_the_other(script: str, words: str) -> None:
    """In a user namespace, whose limits are its own."""
    command = f'{script}; exec {sys.executable} -c "$0"'
    found = subprocess.run(
        ["unshare", "--user", "--map-root-user", "sh", "-c", command, PROBE_INOTIFY],
        check=True,
        capture_output=True,
        text=True,
    )
    assert found.stdout.startswith(words)


def test_a_process_without_descriptors_blames_no_inotify() -> None:
    exhaust = (
        "import ctypes, os, resource; resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))\n"
        "from contextlib import suppress\n"
        "from registrar.inotify_quota import inotify_problem\n"
        "ctypes.CDLL(None)\n"
        "with suppress(OSError):\n"
        "    while True: os.dup(0)\n"
        "print(inotify_problem('/tmp'))"
    )
    found = subprocess.run(
        [sys.executable, "-c", exhaust], check=True, capture_output=True, text=True
    )
    assert found.stdout == "None\n"
