"""Addresses to listen on, as the flags spell them. Reading only; sockets are in `sockets`."""

import ipaddress
import os
import re
from typing import NamedTuple

from health.errors import AddressError

MAX_UNIX_PATH_BYTES = 107
_MAX_PORT = 65535
_PORT = re.compile(r"[0-9]{1,5}")
_LOOKS_LIKE_IPV4 = re.compile(r"[0-9.]+")
_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_EXAMPLES = "such as :9809, 127.0.0.1:9809, [::1]:9809 or unix:///run/health.sock"


class TcpAddress(NamedTuple):
    """A port, on all interfaces or on those of one host."""

    text: str
    """As the flag has it."""
    host: str
    """Empty: every interface, IPv6 and IPv4 alike."""
    port: int
    """0: whichever is free."""


class UnixAddress(NamedTuple):
    """A unix socket in the file system."""

    text: str
    """As the flag has it."""
    path: str


Address = TcpAddress | UnixAddress


def parse_address(text: str) -> Address:
    """Read an address: `:9809`, `9809`, `HOST:9809`, `[::1]:9809`, `unix:///path`.

    `:PORT`, `0.0.0.0:PORT` and `[::]:PORT` all mean every interface, in both families, as they
    do in Go (R47).

    Raises:
        AddressError: The text is none of these.
    """
    if text.startswith("unix:"):
        return _unix_address(text)
    host, _, port = text.rpartition(":")
    return TcpAddress(text, _host(host, text), _port(port, text))


def _unix_address(text: str) -> UnixAddress:
    path = text.removeprefix("unix:")
    if path.startswith("//"):
        path = path.removeprefix("//")
    if not path.startswith("/") or path.endswith("/") or "\0" in path:
        raise AddressError(f"{text!r} does not name a socket: give its path as unix:///run/x.sock")
    if len(os.fsencode(path)) > MAX_UNIX_PATH_BYTES:
        length = len(os.fsencode(path))
        raise AddressError(
            f"the path in {text!r} has {length} bytes; a unix socket's has at most"
            f" {MAX_UNIX_PATH_BYTES}"
        )
    return UnixAddress(text, path)


def _port(port: str, text: str) -> int:
    if not _PORT.fullmatch(port) or int(port) > _MAX_PORT:
        raise AddressError(
            f"{text!r} has no port from 0 to {_MAX_PORT} at its end: give an address {_EXAMPLES}"
        )
    return int(port)


def _host(host: str, text: str) -> str:
    """Read what stands before the port; every name of "all interfaces" becomes empty."""
    if host.startswith("[") and host.endswith("]"):
        host = _ip(host[1:-1], text)
    elif ":" in host:
        raise AddressError(f"{text!r}: an IPv6 address goes into brackets, as in [::1]:9809")
    elif _LOOKS_LIKE_IPV4.fullmatch(host):
        host = _ip(host, text)
    elif host and not _HOST_NAME.fullmatch(host):
        raise AddressError(f"{text!r}: {host!r} is no host name; give an address {_EXAMPLES}")
    return "" if host in {"0.0.0.0", "::"} else host  # noqa: S104  # what the operator asked for


def _ip(host: str, text: str) -> str:
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        raise AddressError(f"{text!r}: {host!r} is no IP address") from None
