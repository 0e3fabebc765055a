"""Publishing when the folder does not take it: nothing half-done stays, nothing live is lost."""

import asyncio
import os
import stat

import pytest

from registrar.errors import PublicationError
from registrar.publication import Publication
from registrar.registration_socket import Holder

NOBODY = 65534


def new_publication(folder: str) -> Publication:
    return Publication(f"{folder}/x.io-reg.sock", lambda _server: None)


@pytest.mark.needs_root
async def test_a_folder_that_does_not_let_us_is_named_and_nothing_is_left(folder: str) -> None:
    """R41."""
    os.chmod(folder, 0o755)  # noqa: S103 - nobody must get in, and may not write
    publication = new_publication(folder)
    os.seteuid(NOBODY)
    try:
        with pytest.raises(PublicationError, match=f"permission denied .* for user {NOBODY}"):
            await publication.publish(lambda: None)
    finally:
        os.seteuid(0)
    assert os.listdir(folder) == []


async def test_if_the_name_is_taken_in_between_the_listener_is_given_up(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    publication = new_publication(folder)
    os.mkdir(publication.socket.path)
    monkeypatch.setattr(publication.socket, "check_replaceable", lambda: None)
    with pytest.raises(PublicationError, match="cannot be published: Is a directory"):
        await publication.publish(lambda: None)
    assert os.listdir(folder) == ["x.io-reg.sock"]


async def test_publishing_again_replaces_the_listener_with_no_gap_and_mode_0600(
    folder: str,
) -> None:
    publication = new_publication(folder)
    published: list[int] = []

    def on_published() -> None:
        found = os.stat(publication.socket.path)
        assert stat.S_IMODE(found.st_mode) == 0o600
        published.append(found.st_ino)
        assert publication.look() is Holder.OURS

    await publication.publish(on_published)
    await publication.publish(on_published)
    assert published[0] != published[1]
    assert os.listdir(folder) == ["x.io-reg.sock"]
    await publication.withdraw()
    assert os.listdir(folder) == []


@pytest.mark.needs_root
async def test_a_failed_publication_leaves_the_live_one_alone(folder: str) -> None:
    publication = new_publication(folder)
    await publication.publish(lambda: None)
    os.chmod(folder, 0o555)  # noqa: S103 - nobody must get in, and may not write
    os.seteuid(NOBODY)
    try:
        with pytest.raises(PublicationError):
            await publication.publish(lambda: None)
        with pytest.raises(PublicationError):
            publication.announce_again()
    finally:
        os.seteuid(0)
    assert publication.look() is Holder.OURS
    await publication.withdraw()


async def test_withdrawing_what_was_never_published_is_no_trouble(folder: str) -> None:
    await new_publication(f"{folder}/gone").withdraw()


@pytest.mark.parametrize("rounds", [*range(1, 12), 50, 200])
async def test_a_cancellation_at_any_moment_leaves_nothing_and_says_nothing_else(
    folder: str, rounds: int
) -> None:
    """While gRPC starts a server, too: after that it cannot be stopped in order."""
    publication = new_publication(folder)

    async def live() -> None:
        try:
            await publication.publish(lambda: None)
            await asyncio.sleep(10)
        finally:
            await publication.withdraw()

    life = asyncio.create_task(live(), name="life")
    for _ in range(rounds):  # of the event loop
        await asyncio.sleep(0)
    life.cancel()
    with pytest.raises(asyncio.CancelledError):
        await life
    assert os.listdir(folder) == []


async def test_a_cancellation_while_it_stands_by_is_obeyed(folder: str) -> None:
    """As when an old instance is ended just when it sees its successor: it must not go on."""

    async def stand_by(publication: Publication) -> None:
        await publication.stand_by()
        await asyncio.sleep(10)

    for rounds in range(1, 400):  # of the event loop: one is the moment when the server has stopped
        publication = new_publication(folder)
        await publication.publish(lambda: None)
        standing_by = asyncio.create_task(stand_by(publication), name="stand by")
        for _ in range(rounds):
            await asyncio.sleep(0)
        standing_by.cancel()
        await asyncio.wait({standing_by}, timeout=2)
        assert standing_by.cancelled(), rounds
