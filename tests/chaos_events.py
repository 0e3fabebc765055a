"""What can happen in a chaos world: each event with its name, its weight and when it is possible.

Clock jumps are not among them: the registrar's intervals run on the monotonic clock, which nobody
can set, and the wall clock, on which the age of a left-over hidden socket is judged, is the
machine's and not ours to set.
"""

import os
import socket
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from chaos_world import INJECTED, INSTANCES, NAMES, SLOW_SECONDS, Blocker, World

METHODS = ("GetPluginInfo", "Probe", "NodeGetInfo")
TOO_SLOW_SECONDS = 1.5


@dataclass(frozen=True)
class Event:
    """Something that can happen."""

    name: str
    weight: float
    is_possible: Callable[[World], bool]
    happen: Callable[[World], Awaitable[None]]


async def _start_driver(world: World) -> None:
    await world.driver.start()
    world.is_driver_running = True


async def _stop_driver(world: World) -> None:
    world.is_driver_running = False
    await world.driver.stop()


async def _crash_driver(world: World) -> None:
    world.is_driver_running = False
    await world.driver.crash()


async def _restart_driver(world: World) -> None:
    await _stop_driver(world)
    await _start_driver(world)


async def _upgrade_driver(world: World) -> None:
    major, _, _ = world.driver.vendor_version.partition(".")
    world.driver.vendor_version = f"{int(major) + 1}.0.0"
    world.driver.manifest["release"] = f"r{major}"
    await _restart_driver(world)


async def _rename_driver(world: World) -> None:
    await _stop_driver(world)
    world.driver.name = NAMES[1 - NAMES.index(world.driver.name)]
    world.disturbed()
    await _start_driver(world)


async def _hang_driver(world: World) -> None:
    world.driver.is_black_hole = True


async def _unhang_driver(world: World) -> None:
    world.driver.is_black_hole = False
    world.unnoticed()


def _delay_driver(seconds: float) -> Callable[[World], Awaitable[None]]:
    async def happen(world: World) -> None:
        world.driver.delay_seconds = dict.fromkeys(METHODS, seconds)
        world.unnoticed()

    return happen


async def _start_kubelet(world: World) -> None:
    if not world.has_folder:
        world.make_folder()
    await world.kubelet.start()
    world.is_kubelet_running = world.is_kubelet_watching = True
    world.is_kubelet_hung = False


async def _stop_kubelet(world: World) -> None:
    world.is_kubelet_running = False
    await world.kubelet.stop()


async def _restart_kubelet(world: World) -> None:
    await _stop_kubelet(world)
    await _start_kubelet(world)


async def _hang_kubelet(world: World) -> None:
    world.is_kubelet_hung = True
    world.kubelet.silence()


async def _resume_kubelet(world: World) -> None:
    world.kubelet.resume()
    world.is_kubelet_hung = False


def _refuse(count: int) -> Callable[[World], Awaitable[None]]:
    async def happen(world: World) -> None:
        world.kubelet.refuse_next(count, INJECTED)

    return happen


async def _lose_verdict(world: World) -> None:
    world.kubelet.disturbances.lost_notifies += 1


def _delay_kubelet(seconds: float) -> Callable[[World], Awaitable[None]]:
    async def happen(world: World) -> None:
        world.kubelet.disturbances.before_get_info_seconds = seconds
        world.kubelet.disturbances.before_notify_seconds = seconds

    return happen


async def _remove_socket(world: World) -> None:
    os.unlink(world.path)
    world.disturbed()


async def _move_socket(world: World) -> None:
    os.rename(world.path, tempfile.mkdtemp(dir=world.disk) + "/moved.sock")
    world.disturbed()


async def _kill_socket(world: World) -> None:
    """Put a socket at the path that nobody listens on."""
    path = tempfile.mkdtemp(dir=world.disk) + "/dead.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(path)
    os.rename(path, world.path)
    world.orphans.add(os.path.basename(world.path))
    world.disturbed()


def _block(kind: str) -> Callable[[World], Awaitable[None]]:
    """Put something at the path that is no socket."""

    async def happen(world: World) -> None:
        path = tempfile.mkdtemp(dir=world.disk) + "/blocker"
        match kind:
            case "a regular file":
                os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
            case "a symbolic link":
                os.symlink(f"{world.disk}/target", path)
            case _:
                os.symlink(world.driver.csi_address, path)
        os.rename(path, world.path)
        world.blocker = Blocker(kind, world.path)
        world.foreign.add(world.path)

    return happen


async def _unblock(world: World) -> None:
    assert world.blocker is not None
    world.foreign.forget_below(world.blocker.path)
    os.unlink(world.blocker.path)
    world.blocker = None


async def _remove_folder(world: World) -> None:
    await world.remove_folder()


async def _make_folder(world: World) -> None:
    world.make_folder()


async def _fill(world: World) -> None:
    world.fill()


async def _empty(world: World) -> None:
    world.empty()


async def _calm(world: World) -> None:
    await world.calm()


def _has_path(world: World) -> bool:
    return os.path.lexists(world.path) and world.blocker is None and not world.is_full


def _is_tidy(world: World) -> bool:
    return world.has_folder and world.blocker is None and not world.is_full


def _is_stopped(world: World) -> bool:
    return not world.is_driver_running


def _is_running(world: World) -> bool:
    return world.is_driver_running


def _has_kubelet(world: World) -> bool:
    return world.is_kubelet_running


def _is_small(world: World) -> bool:
    return os.path.ismount(world.disk) and world.has_folder and not world.is_full


def _is_slow(world: World) -> bool:
    return any(world.driver.delay_seconds.values())


_DRIVER = (
    Event("driver starts", 6, _is_stopped, _start_driver),
    Event("driver stops", 1, _is_running, _stop_driver),
    Event("driver crashes", 1, _is_running, _crash_driver),
    Event("driver restarts", 1, _is_running, _restart_driver),
    Event("driver is upgraded", 1, _is_running, _upgrade_driver),
    Event("driver is renamed", 1, _is_running, _rename_driver),
    Event("driver hangs", 1, lambda world: not world.driver.is_black_hole, _hang_driver),
    Event("driver hangs no more", 4, lambda world: world.driver.is_black_hole, _unhang_driver),
    Event("driver is slow", 1, lambda w: not _is_slow(w), _delay_driver(SLOW_SECONDS)),
    Event("driver is too slow", 1, lambda w: not _is_slow(w), _delay_driver(TOO_SLOW_SECONDS)),
    Event("driver is quick", 4, _is_slow, _delay_driver(0.0)),
)

_KUBELET = (
    Event(
        "kubelet starts",
        6,
        lambda world: not world.is_kubelet_running and not world.is_full,
        _start_kubelet,
    ),
    Event("kubelet stops", 1, _has_kubelet, _stop_kubelet),
    Event("kubelet restarts", 1.5, lambda w: _has_kubelet(w) and not w.is_full, _restart_kubelet),
    Event("kubelet hangs", 1, lambda w: _has_kubelet(w) and not w.is_kubelet_hung, _hang_kubelet),
    Event(
        "kubelet hangs no more",
        6,
        lambda w: w.is_kubelet_running and w.is_kubelet_hung,
        _resume_kubelet,
    ),
    Event("kubelet refuses once", 1, _has_kubelet, _refuse(1)),
    Event("kubelet refuses three times", 0.5, _has_kubelet, _refuse(3)),
    Event("kubelet loses a verdict", 1, _has_kubelet, _lose_verdict),
    Event("kubelet is slow", 0.5, _has_kubelet, _delay_kubelet(0.3)),
    Event("kubelet is quick", 1, _has_kubelet, _delay_kubelet(0.0)),
)

_FOLDER = (
    Event("socket is removed", 2, _has_path, _remove_socket),
    Event("socket is moved away", 1, _has_path, _move_socket),
    Event("socket is replaced by a dead one", 1.5, _is_tidy, _kill_socket),
    Event("path is taken by a regular file", 0.7, _is_tidy, _block("a regular file")),
    Event("path is taken by a symbolic link", 0.5, _is_tidy, _block("a symbolic link")),
    Event("path is taken by a link to a socket", 0.5, _is_tidy, _block("a link to a socket")),
    Event("path is free again", 6, lambda world: world.blocker is not None, _unblock),
    Event("folder is removed", 0.7, lambda w: w.has_folder and not w.is_full, _remove_folder),
    Event("folder is made", 8, lambda world: not world.has_folder, _make_folder),
    Event("disk is full", 0.7, _is_small, _fill),
    Event("disk has room again", 6, lambda world: world.is_full, _empty),
)


def _instance_events(number: int) -> tuple[Event, ...]:
    def is_there(world: World) -> bool:
        return number in world.instances

    def is_starved(world: World) -> bool:
        return is_there(world) and world.instances[number].is_starved

    async def start(world: World) -> None:
        await world.start_instance(number)

    async def stop(world: World) -> None:
        await world.end_instance(number, is_killed=False)

    async def kill(world: World) -> None:
        await world.end_instance(number, is_killed=True)

    async def hang_up(world: World) -> None:
        world.instances[number].hang_up()

    async def starve(world: World) -> None:
        world.instances[number].starve()

    async def feed(world: World) -> None:
        world.instances[number].feed()

    who = f"instance {number}"
    return (
        Event(f"{who} starts", 3, lambda world: not is_there(world), start),
        Event(f"{who} gets SIGTERM", 0.7, is_there, stop),
        Event(f"{who} gets SIGKILL", 0.7, is_there, kill),
        Event(f"{who} gets SIGHUP", 0.5, is_there, hang_up),
        Event(
            f"{who} has no file descriptors",
            0.4,
            lambda world: is_there(world) and not is_starved(world),
            starve,
        ),
        Event(f"{who} has file descriptors again", 4, is_starved, feed),
    )


EVENTS = {
    event.name: event
    for event in (
        *_DRIVER,
        *_KUBELET,
        *_FOLDER,
        *(event for number in range(INSTANCES) for event in _instance_events(number)),
        Event("all is calm", 6, lambda _: True, _calm),
    )
}
"""All events, by name."""


async def heal(world: World) -> None:
    """Undo every fault, so that all that was promised is owed."""
    is_restart_needed = world.is_kubelet_stuck or not world.is_kubelet_watching
    for name in (
        "disk has room again",
        "folder is made",
        "path is free again",
        "driver hangs no more",
        "driver is quick",
        "driver starts",
        "kubelet hangs no more",
        "kubelet is quick",
        *(f"instance {number} has file descriptors again" for number in range(INSTANCES)),
        "kubelet starts",
        "kubelet restarts",
    ):
        is_needed = name != "kubelet restarts" or is_restart_needed
        if is_needed and EVENTS[name].is_possible(world):
            await EVENTS[name].happen(world)
    world.kubelet._refusals.clear()
    world.kubelet.disturbances.lost_notifies = 0
    if not world.instances:
        await world.start_instance(0)
