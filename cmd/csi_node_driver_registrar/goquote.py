"""Go's `%q`: text in double quotes on one line, as Go's error texts and klog's records show it."""

_NAMED = {
    '"': '\\"',
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}
_BYTES_BELOW = 0x80
_WIDE_FROM = 0x10000
# Where Python keeps a byte of the command line or of a path that is not UTF-8.
_FIRST_STRAY_BYTE, _LAST_STRAY_BYTE = 0xDC80, 0xDCFF


def quote(text: str) -> str:
    """Quote `text` as Go's `strconv.Quote` does: what is not printable is escaped."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(map(_escape, text)) + '"'


def _escape(character: str) -> str:
    named = _NAMED.get(character)
    if named is not None:
        return named
    return character if character.isprintable() else _numbered(ord(character))


def _numbered(code: int) -> str:
    if _FIRST_STRAY_BYTE <= code <= _LAST_STRAY_BYTE:
        return f"\\x{code & 0xFF:02x}"
    if code < _BYTES_BELOW:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < _WIDE_FROM else f"\\U{code:08x}"
