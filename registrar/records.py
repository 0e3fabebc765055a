"""Records: what frozen dataclasses with keyword-only fields are, at a tenth of the price.

A dataclass has its methods written and compiled for it whenever the process starts. For the kinds
of events alone that took a twentieth of the CPU of a start; here all share the methods below.
"""

from typing import ClassVar, Never, dataclass_transform


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Record:
    """A base for classes that are nothing but named values; a type checker sees dataclasses."""

    _fields: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        cls._fields = (*cls._fields, *cls.__annotations__)

    def __init__(self, **values: object) -> None:
        """Take a value for each field that has no default.

        Raises:
            TypeError: if one is missing, or there is no such field.
        """
        vars(self).update(values)
        missing = [name for name in self._fields if not hasattr(self, name)]
        unknown = values.keys() - {*self._fields}
        if missing or unknown:
            raise TypeError(f"{type(self).__name__} lacks {missing} and has no {sorted(unknown)}")

    def __setattr__(self, name: str, value: object) -> Never:
        raise AttributeError(f"{type(self).__name__} cannot be changed: {name}")

    def __delattr__(self, name: str) -> Never:
        raise AttributeError(f"{type(self).__name__} cannot be changed: {name}")

    def _values(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in self._fields)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record) or type(other) is not type(self):
            return NotImplemented
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash((type(self), self._values()))

    def __repr__(self) -> str:
        values = zip(self._fields, self._values(), strict=True)
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in values)})"
