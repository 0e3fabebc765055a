"""Listening TCP sockets for an address, dual stack where Go's are (R47)."""

import asyncio
import errno
import socket
from contextlib import ExitStack
from typing import Any

from health.addresses import TcpAddress

BACKLOG = 128
_NO_IPV6 = {errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT}

SocketName = tuple[Any, ...]
"""Host and port, and for IPv6 two numbers more; the host is what `socket` calls it."""


async def open_sockets(address: TcpAddress) -> list[socket.socket]:
    """Bind, without listening yet, every socket that the address stands for.

    An address of all interfaces is one IPv6 socket that takes IPv4 too, or an IPv4 socket where
    IPv6 is off. `localhost` is both loopback addresses. Any other name is looked up in a thread.

    Raises:
        OSError: One of them is taken, or not ours, or the name is unknown. None stays open.
    """
    if not address.host:
        return [_bound_to_all(address.port)]
    if address.host == "localhost":
        return _bound_to_loopback(address.port)
    return await _bound_to_host(address)


def written_as_target(where: SocketName) -> str:
    """Write a socket's name as `HOST:PORT`, an IPv6 host in brackets."""
    host, port = where[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _bound_to_all(port: int) -> socket.socket:
    try:
        return _bound(socket.AF_INET6, ("::", port), v6only=False)
    except OSError as error:
        if error.errno not in _NO_IPV6:
            raise
    return _bound(socket.AF_INET, ("0.0.0.0", port))  # noqa: S104  # what the operator asked for


def _bound_to_loopback(port: int) -> list[socket.socket]:
    with ExitStack() as undo:
        first = undo.enter_context(_bound(socket.AF_INET, ("127.0.0.1", port)))
        opened = [first]
        try:
            opened.append(_bound(socket.AF_INET6, ("::1", first.getsockname()[1])))
        except OSError as error:
            if error.errno not in _NO_IPV6:
                raise
        undo.pop_all()
    return opened


async def _bound_to_host(address: TcpAddress) -> list[socket.socket]:
    """Bind to the first address of a host, as Go does; an IP address needs no look-up."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(
        address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    family, _, _, _, where = min(found, key=lambda one: one[0] != socket.AF_INET)
    return [_bound(family, where)]


def _bound(family: int, where: SocketName, *, v6only: bool = True) -> socket.socket:
    with ExitStack() as undo:
        opened = undo.enter_context(socket.socket(family, socket.SOCK_STREAM))
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, v6only)
        opened.settimeout(0)
        opened.bind(where)
        undo.pop_all()
    return opened
