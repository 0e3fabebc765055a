"""The registration socket as a file: rename, proof of ownership, and what is never deleted."""

import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from registrar.errors import PublicationError
from registrar.registration_socket import Holder, RegistrationSocket
from registrar.unix_sockets import bind_errno, connect_errno, grpc_target


@contextmanager
def listening(path: str) -> Iterator[socket.socket]:
    """Listen on a path, as another process or a dead one's file would."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(path)
        server.listen()
        yield server


def leave_dead_socket(path: str) -> None:
    with listening(path):
        pass


@pytest.fixture
def published(folder: str) -> Iterator[RegistrationSocket]:
    """Publish a socket of ours that is listened on."""
    ours = RegistrationSocket(f"{folder}/x.io-reg.sock")
    hidden = ours.hidden_path()
    with listening(hidden):
        ours.publish(hidden)
        yield ours


PEER = """
import os, socket, sys
path = sys.argv[1]
server = socket.socket(socket.AF_UNIX)
server.bind(path + "~")
server.listen()
os.rename(path + "~", path)
print("listening", flush=True)
sys.stdin.read()
"""


@contextmanager
def another_process_listening(path: str) -> Iterator[None]:
    """Take a path over in another process, as a peer does."""
    with subprocess.Popen(
        [sys.executable, "-I", "-c", PEER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as peer:
        assert peer.stdout is not None
        assert peer.stdout.readline() == b"listening\n"
        yield
        peer.kill()


def test_a_published_socket_is_ours_with_mode_0600_and_leaves_no_other_file(
    published: RegistrationSocket,
) -> None:
    assert published.look() is Holder.OURS
    assert stat.S_IMODE(os.stat(published.path).st_mode) == 0o600
    assert os.listdir(published.folder) == ["x.io-reg.sock"]


def test_nothing_published_is_nobody(folder: str) -> None:
    assert RegistrationSocket(f"{folder}/x.io-reg.sock").look() is Holder.NOBODY


def test_a_socket_of_ours_that_was_unlinked_is_nobody(published: RegistrationSocket) -> None:
    os.unlink(published.path)
    assert published.look() is Holder.NOBODY


def test_announcing_again_keeps_the_file_ours(published: RegistrationSocket) -> None:
    inode = os.stat(published.path).st_ino
    for _ in range(20):
        published.announce_again()
        assert published.look() is Holder.OURS
    assert os.stat(published.path).st_ino == inode
    assert os.listdir(published.folder) == ["x.io-reg.sock"]


def test_a_change_of_mode_by_somebody_else_leaves_it_ours(published: RegistrationSocket) -> None:
    os.chmod(published.path, 0o640)
    assert published.look() is Holder.OURS
    published.remove()
    assert os.listdir(published.folder) == []


def test_a_dead_socket_is_replaced(folder: str) -> None:
    """R10."""
    ours = RegistrationSocket(f"{folder}/x.io-reg.sock")
    leave_dead_socket(ours.path)
    assert ours.look() is Holder.DEAD
    hidden = ours.hidden_path()
    with listening(hidden):
        ours.publish(hidden)
        assert ours.look() is Holder.OURS


def test_a_socket_of_ours_is_dead_once_its_listener_is_gone(folder: str) -> None:
    ours = RegistrationSocket(f"{folder}/x.io-reg.sock")
    hidden = ours.hidden_path()
    with listening(hidden):
        ours.publish(hidden)
    ours.disown()
    assert ours.look() is Holder.DEAD


def test_a_peers_live_socket_is_seen_and_never_removed(published: RegistrationSocket) -> None:
    """R01: the shutdown of the old instance must not take the new one's registration with it."""
    with another_process_listening(published.path):
        assert published.look() is Holder.PEER
        published.remove()
        assert published.look() is Holder.PEER


def test_a_peers_dead_socket_is_not_removed_on_the_way_out(published: RegistrationSocket) -> None:
    os.unlink(published.path)
    leave_dead_socket(published.path)
    published.remove()
    assert os.listdir(published.folder) == ["x.io-reg.sock"]


def test_a_peer_that_was_given_our_freed_inode_is_not_taken_for_us(folder: str) -> None:
    ours = RegistrationSocket(f"{folder}/x.io-reg.sock")
    hidden = ours.hidden_path()
    with listening(hidden):
        ours.publish(hidden)
    os.unlink(ours.path)
    with another_process_listening(ours.path):
        assert ours.look() is Holder.PEER
        ours.remove()
        assert os.path.exists(ours.path)


def _make_file(path: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write("precious")


def _make_symlink(path: str) -> None:
    os.symlink("/dev/null", path)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (_make_file, "is a regular file and no socket"),
        (os.mkdir, "is a directory and no socket"),
        (_make_symlink, "is a symbolic link and no socket"),
        (os.mkfifo, "is a named pipe and no socket"),
    ],
    ids=["file", "folder", "symlink", "pipe"],
)
def test_what_is_no_socket_is_named_and_left_alone(folder: str, make, words: str) -> None:  # type: ignore[no-untyped-def] # noqa: ANN001
    ours = RegistrationSocket(f"{folder}/x.io-reg.sock")
    make(ours.path)
    kind = stat.S_IFMT(os.lstat(ours.path).st_mode)
    hidden = ours.hidden_path()
    with listening(hidden):
        for attempt in (ours.look, ours.check_replaceable, lambda: ours.publish(hidden)):
            with pytest.raises(PublicationError, match=words):
                attempt()
    ours.remove()
    assert stat.S_IFMT(os.lstat(ours.path).st_mode) == kind


def test_a_missing_folder_is_named_with_what_to_do(folder: str) -> None:
    """R35."""
    ours = RegistrationSocket(f"{folder}/gone/x.io-reg.sock")
    with pytest.raises(PublicationError, match=r"folder .*/gone does not exist: mount the host"):
        ours.look()
    error = ours.explain_bind_failure(ours.hidden_path())
    assert "--plugin-registration-path" in str(error)


def test_a_folder_that_is_a_file_is_said_to_be_no_folder(folder: str) -> None:
    _make_file(f"{folder}/file")
    with pytest.raises(PublicationError, match="does not exist"):
        RegistrationSocket(f"{folder}/file/x.io-reg.sock").look()


@pytest.mark.needs_root
def test_a_folder_without_permission_is_named_with_owner_mode_and_user(folder: str) -> None:
    """R41."""
    os.chmod(folder, 0o755)  # noqa: S103 - somebody else must be able to enter
    ours = RegistrationSocket(f"{folder}/x.io-reg.sock")
    os.seteuid(65534)
    try:
        error = ours.explain_bind_failure(ours.hidden_path())
    finally:
        os.seteuid(0)
    for words in (folder, "belongs to user 0", "mode 0755", "for user 65534"):
        assert words in str(error)


def test_how_lately_it_was_published_is_told_by_the_file(published: RegistrationSocket) -> None:
    assert published.was_published_within(60.0)
    assert not published.was_published_within(0.0)
    os.unlink(published.path)
    assert not published.was_published_within(60.0)


def test_left_overs_of_dead_predecessors_are_swept_and_nothing_else(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("registrar.registration_socket._SWEEP_AGE_SECONDS", -1.0)
    leave_dead_socket(f"{folder}/.reg-dead")
    leave_dead_socket(f"{folder}/.reg-longer")
    leave_dead_socket(f"{folder}/y.io-reg.sock")
    _make_file(f"{folder}/.reg-file")
    with listening(f"{folder}/.reg-live"):
        RegistrationSocket(f"{folder}/x.io-reg.sock").sweep()
        assert sorted(os.listdir(folder)) == [
            ".reg-file",
            ".reg-live",
            ".reg-longer",
            "y.io-reg.sock",
        ]


def test_a_fresh_hidden_socket_is_not_swept_for_it_may_be_about_to_listen(folder: str) -> None:
    leave_dead_socket(f"{folder}/.reg-dead")
    RegistrationSocket(f"{folder}/x.io-reg.sock").sweep()
    assert os.listdir(folder) == [".reg-dead"]


def test_a_hidden_path_is_never_longer_than_the_shortest_final_one(folder: str) -> None:
    ours = RegistrationSocket(f"{folder}/x-reg.sock")
    assert len(ours.hidden_path()) <= len(ours.path)


def test_asking_who_listens_never_blocks_on_a_full_queue(folder: str) -> None:
    path = f"{folder}/s"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(path)
        server.listen(0)
        clients = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(3)]
        for client in clients:
            client.setblocking(False)  # noqa: FBT003 - the standard library's signature
            client.connect_ex(path)
        assert connect_errno(path) == 0
        for client in clients:
            client.close()


def test_a_bind_that_would_have_worked_leaves_nothing_behind(folder: str) -> None:
    assert bind_errno(f"{folder}/s") == 0
    assert os.listdir(folder) == []


def test_a_path_with_signs_of_a_uri_is_escaped_for_grpc() -> None:
    assert grpc_target("/a?b#c%41/s") == "unix:/a%3Fb%23c%2541/s"
