"""The syntax of Go's `flag` package, and nothing of what our flags mean (`flag_sets`, `config`).

The exec probe reads its arguments with this and has 40 ms of CPU in all, so nothing is imported
here that the interpreter has not loaded for itself.
"""

from __future__ import annotations

from csi_node_driver_registrar.goquote import quote

TYPE_CHECKING = False  # as typing has it; importing typing costs more than this whole module
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

_DIGITS = frozenset("0123456789")
_INT64_MAX = 2**63 - 1
# More digits than any number in range has; int() itself refuses texts of some thousand digits.
_MAX_DIGITS = 30
_FRACTION_ONE = int(10**_MAX_DIGITS)

_BOOLEANS = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}

_NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "\u00b5s": 1_000,  # the micro sign
    "\u03bcs": 1_000,  # the Greek letter
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}


class FlagError(Exception):
    """The command line breaks the syntax or names an unknown flag: usage, status 2."""


class HelpRequested(Exception):  # noqa: N818 - a wish, not a failure
    """The command line asks for help (`-h`, `-help`): usage, status 0."""


class Kind:
    """What values a flag takes: the word for it in the usage, and how the text is read."""

    __slots__ = ("is_switch", "name", "parse")

    def __init__(self, name: str, parse: Callable[[str], Any], *, is_switch: bool = False) -> None:
        self.name = name
        self.parse = parse
        """Raises ValueError, with the reason as its text."""
        self.is_switch = is_switch
        """Whether the flag stands alone: it never takes the next word."""


class Flag:
    """One flag: name without dashes, kind, default as one would write it, and its meaning."""

    __slots__ = ("default", "kind", "meaning", "name")

    def __init__(self, name: str, kind: Kind, default: str, meaning: str) -> None:
        self.name = name
        self.kind = kind
        self.default = default
        self.meaning = meaning


class Parsed:
    """The values that a command line gives, with the defaults of all other flags.

    A flag that is repeated has the last of its values; `texts` alone tells all of them. Asking for
    a flag that the set lacks is a KeyError.
    """

    def __init__(self, flags: Mapping[str, Flag]) -> None:
        self._flags = flags
        self._values: dict[str, list[Any]] = {}
        self.rest: list[str] = []
        """The words after the flags."""

    def add(self, name: str, value: object) -> None:
        """Take one more value for the flag `name`."""
        self._values.setdefault(name, []).append(value)

    def is_given(self, name: str) -> bool:
        """Tell whether the flag stands on the command line."""
        return name in self._values

    def text(self, name: str) -> str:
        """Return the value of a flag that takes text."""
        return str(self._value(name))

    def texts(self, name: str) -> list[str]:
        """Return every value given for the flag, in order; none if it is not given."""
        return list(self._values.get(name, ()))

    def switch(self, name: str) -> bool:
        """Return the value of a boolean flag."""
        return bool(self._value(name))

    def number(self, name: str) -> int:
        """Return the value of an integer flag."""
        return int(self._value(name))

    def seconds(self, name: str) -> float:
        """Return the value of a duration flag, in seconds."""
        return float(self._value(name))

    def _value(self, name: str) -> Any:  # noqa: ANN401 - the getters above know the type
        flag = self._flags[name]
        given = self._values.get(name)
        return given[-1] if given else flag.kind.parse(flag.default)


def parse(flags: Mapping[str, Flag], arguments: Iterable[str]) -> Parsed:
    """Read a command line (without the program's name), as Go's `FlagSet.Parse` does.

    Raises:
        FlagError: with Go's text, at the first word that is wrong.
        HelpRequested: at `-h` or `-help`, unless the set has such a flag.
    """
    parsed = Parsed(flags)
    words = list(arguments)
    while words and words[0].startswith("-") and words[0] != "-":
        word = words.pop(0)
        if word == "--":
            break
        _take(parsed, flags, word, words)
    parsed.rest = words
    return parsed


def _take(parsed: Parsed, flags: Mapping[str, Flag], word: str, following: list[str]) -> None:
    name, value = _split(word)
    flag = flags.get(name)
    if flag is None:
        if name in {"h", "help"}:
            raise HelpRequested
        raise FlagError(f"flag provided but not defined: -{name}")
    if value is None:
        value = _separate_value(flag, following)
    parsed.add(name, _read(flag, value))


def _split(word: str) -> tuple[str, str | None]:
    body = word[2:] if word.startswith("--") else word[1:]
    if not body or body[0] in "-=":
        raise FlagError(f"bad flag syntax: {word}")
    name, equals, value = body.partition("=")
    return name, value if equals else None


def _separate_value(flag: Flag, following: list[str]) -> str:
    if flag.kind.is_switch:
        return "true"
    if not following:
        raise FlagError(f"flag needs an argument: -{flag.name}")
    return following.pop(0)


def _read(flag: Flag, value: str) -> object:
    try:
        return flag.kind.parse(value)
    except ValueError as error:
        what, whose = ("boolean value", "") if flag.kind.is_switch else ("value", "flag ")
        message = f"invalid {what} {quote(value)} for {whose}-{flag.name}: {error}"
        raise FlagError(message) from error


def parse_bool(text: str) -> bool:
    """Read a boolean (Go's `strconv.ParseBool`).

    Raises:
        ValueError: for any other word, such as `yes`.
    """
    try:
        return _BOOLEANS[text]
    except KeyError:
        raise ValueError("parse error") from None


def parse_int(text: str) -> int:
    """Read a signed integer of 64 bits (Go's `strconv.ParseInt` with base 0).

    Decimal, or with a prefix `0x`, `0b`, `0o` or a mere `0` (octal); an underscore may stand
    between digits.

    Raises:
        ValueError: for anything else, and out of range.
    """
    number = _any_base(text)
    if not -_INT64_MAX - 1 <= number <= _INT64_MAX:
        raise ValueError("value out of range")
    return number


def parse_uint(text: str) -> int:
    """Read an unsigned integer of 64 bits (Go's `strconv.ParseUint` with base 0).

    Raises:
        ValueError: for anything else, a sign included, and out of range.
    """
    if text[:1] not in _DIGITS:
        raise ValueError("parse error")
    number = _any_base(text)
    if number > 2 * _INT64_MAX + 1:
        raise ValueError("value out of range")
    return number


def _any_base(text: str) -> int:
    sign, digits = ("-", text[1:]) if text[:1] == "-" else ("", text.removeprefix("+"))
    if digits[:1] not in _DIGITS or not digits.isascii() or digits.strip() != digits:
        raise ValueError("parse error")
    if digits[0] == "0" and digits[1:2] and digits[1] in "01234567_":
        digits = "0o" + digits[1:]  # Go's octal without a letter, which Python refuses
    try:
        return int(sign + digits, 0)
    except ValueError:
        raise ValueError("parse error") from None


def parse_duration(text: str) -> float:
    """Read a duration such as `1m30s` or `1.5h` (Go's `time.ParseDuration`) as seconds.

    Raises:
        ValueError: for an unknown or missing unit, and for anything else that is no duration.
    """
    sign, rest = (-1, text[1:]) if text[:1] == "-" else (1, text.removeprefix("+"))
    if rest == "0":
        return 0.0
    if not rest:
        raise ValueError("parse error: not a duration, such as 30s")
    nanoseconds = 0
    while rest:
        part, rest = _take_part(rest)
        nanoseconds += part
    if nanoseconds > _INT64_MAX + (sign < 0):
        raise ValueError("parse error: duration out of range")
    return sign * nanoseconds / 1e9


def _take_part(rest: str) -> tuple[int, str]:
    whole, rest = _take_while(rest, _DIGITS.__contains__)
    fraction = ""
    if rest[:1] == ".":
        fraction, rest = _take_while(rest[1:], _DIGITS.__contains__)
    if not whole and not fraction:
        raise ValueError("parse error: not a duration, such as 30s")
    unit, rest = _take_while(rest, lambda character: character not in _DIGITS and character != ".")
    return _nanoseconds(whole, fraction, unit), rest


def _take_while(text: str, is_wanted: Callable[[str], bool]) -> tuple[str, str]:
    for index, character in enumerate(text):
        if not is_wanted(character):
            return text[:index], text[index:]
    return text, ""


def _nanoseconds(whole: str, fraction: str, unit: str) -> int:
    if not unit:
        raise ValueError("parse error: missing unit in duration, such as 30s")
    if unit not in _NANOSECONDS:
        raise ValueError(f"parse error: unknown unit {quote(unit)} in duration")
    if len(whole.lstrip("0")) > _MAX_DIGITS:
        raise ValueError("parse error: duration out of range")
    scale = _NANOSECONDS[unit]
    parts = int(fraction[:_MAX_DIGITS].ljust(_MAX_DIGITS, "0")) * scale // _FRACTION_ONE
    return int(whole.lstrip("0") or "0") * scale + parts


BOOL = Kind("", parse_bool, is_switch=True)
INT = Kind("int", parse_int)
UINT = Kind("uint", parse_uint)
DURATION = Kind("duration", parse_duration)
STRING = Kind("string", str)
