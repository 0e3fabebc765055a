"""Reads the `:authority` of the first request on an HTTP/2 connection (RFC 9113, RFC 7541)."""

from collections.abc import Iterator

_PREFACE_BYTES = 24
_FRAME_HEADER_BYTES = 9
_MAX_BYTES = 65536
"""Where a request is not looked for any further."""
_HEADERS_FRAME = 1
_PADDED_FLAG = 0x8
_PRIORITY_FLAG = 0x20
_STATIC_AUTHORITY = 1
"""The index of `:authority` in HPACK's static table."""
_INDEXED = 0x80
"""Name and value both stand in the tables."""
_KEPT = 0x40
"""The value is literal, and is put into the dynamic table."""
_TABLE_SIZE = 0x20
"""No field, but a new size for the dynamic table."""


class AuthorityReader:
    """Is fed what a client sends, and knows the authority once the first request is in.

    Later requests on a connection need not be read: a gRPC channel has one authority for all.
    """

    def __init__(self) -> None:
        self.authority = ""
        """Empty if it is not known yet, absent, or compressed by a Huffman code (Go does that)."""
        self._data = bytearray()
        self._is_done = False

    def feed(self, data: bytes) -> None:
        """Take in what the client sent next; what is no HTTP/2 has no authority."""
        if self._is_done:
            return
        self._data += data
        try:
            block = _first_header_block(bytes(self._data))
            self.authority = _authority(block or b"")
        except IndexError:
            block = b""
        self._is_done = block is not None or len(self._data) > _MAX_BYTES


def _first_header_block(data: bytes) -> bytes | None:
    """Return the first request's fields, or None if they are not complete yet."""
    for kind, flags, payload in _frames(data):
        if kind == _HEADERS_FRAME:
            return _header_block(flags, payload)
    return None


def _frames(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield the type, flags and payload of each complete frame after the preface."""
    start = _PREFACE_BYTES
    while len(data) >= start + _FRAME_HEADER_BYTES:
        end = start + _FRAME_HEADER_BYTES + int.from_bytes(data[start : start + 3])
        if len(data) < end:
            return
        yield data[start + 3], data[start + 4], data[start + _FRAME_HEADER_BYTES : end]
        start = end


def _header_block(flags: int, payload: bytes) -> bytes:
    padding = payload[0] if flags & _PADDED_FLAG else 0
    start = (1 if flags & _PADDED_FLAG else 0) + (5 if flags & _PRIORITY_FLAG else 0)
    return payload[start : len(payload) - padding]


def _authority(block: bytes) -> str:
    for index, name, value in _fields(block):
        if index == _STATIC_AUTHORITY or name == b":authority":
            return value.decode(errors="replace")
    return ""


def _fields(block: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield the name's index, or the name, and the value of each literal field."""
    at = 0
    while at < len(block):
        first = block[at]
        if first & _INDEXED:
            _, at = _integer(block, at, 7)
        elif first & (_KEPT | _TABLE_SIZE) == _TABLE_SIZE:
            _, at = _integer(block, at, 5)
        else:
            index, at = _integer(block, at, 6 if first & _KEPT else 4)
            name, at = (b"", at) if index else _string(block, at)
            value, at = _string(block, at)
            yield index, name, value


def _string(block: bytes, at: int) -> tuple[bytes, int]:
    """Return a string, empty if it is compressed, and where the next thing begins."""
    is_compressed = block[at] & 0x80
    length, at = _integer(block, at, 7)
    return (b"" if is_compressed else block[at : at + length]), at + length


def _integer(block: bytes, at: int, prefix_bits: int) -> tuple[int, int]:
    """Return an integer (RFC 7541, section 5.1) and where the next thing begins."""
    limit = (1 << prefix_bits) - 1
    value = block[at] & limit
    at += 1
    if value < limit:
        return value, at
    shift = 0
    while True:
        value += (block[at] & 0x7F) << shift
        shift += 7
        at += 1
        if not block[at - 1] & 0x80:
            return value, at
