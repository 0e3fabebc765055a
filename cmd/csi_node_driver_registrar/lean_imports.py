"""Keeps out of memory what the libraries load by habit and nothing here uses.

Measured on CPython 3.11, of 58 MB of resident memory and 0.4 s of CPU until registered:

- aiohttp's package loads its HTTP client, and prometheus_client's a server of its own: 7 MB and a
  quarter of the CPU.
- OpenSSL, which asyncio and hashlib load: 4.5 MB. Nothing here encrypts, and hashlib has
  implementations of its own.
- What protobuf needs where its C library is missing, attrs to validate, yarl for host names that
  are not ASCII, and a library of types for older Pythons: 2 MB and an eighth of the CPU.

Nothing breaks where this does not fit a release of a library: whoever uses one of these after all
has it loaded then, and whoever finds no OpenSSL goes on without, as on a Python built so.
"""

import contextlib
import gc
import sys
import typing
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from importlib.util import LazyLoader, find_spec, module_from_spec
from types import ModuleType

_OPENSSL = ("ssl", "_hashlib")

_SELDOM_USED = (
    "attr.converters",
    "attr.filters",
    "attr.validators",
    "google.protobuf.internal.python_message",
    "idna",
)


@contextlib.contextmanager
def importing_leanly() -> Iterator[None]:
    """Set the stage for the imports in the block, asyncio, aiohttp and the others among them.

    While they go on, nothing of what is made becomes garbage, and looking for it among so much took
    a fifth of their CPU; what they have made is not looked through later either.
    """
    _set_the_stage()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _set_the_stage() -> None:
    for name in _OPENSSL:
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]  # "not there", for `import`
    # aiohttp's modules write its version into a header; ours do not tell it.
    _put_off("aiohttp", __version__="")
    _put_off("prometheus_client")
    # All that gRPC wants of it is in `typing` by now.
    _put_off("typing_extensions", Self=typing.Self)
    sys.meta_path.insert(0, _LoadingWhenUsed)


class _LoadingWhenUsed:
    """Finds the modules that are seldom used, and has them loaded when they are."""

    @staticmethod
    def find_spec(
        name: str, path: object = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder`."""
        if name not in _SELDOM_USED:
            return None
        for finder in sys.meta_path[1:]:
            spec = finder.find_spec(name, path, target)  # type: ignore[arg-type]
            if spec is not None and spec.loader is not None:
                spec.loader = LazyLoader(spec.loader)
                return spec
        return None


class _PutOff(ModuleType):
    """A module whose code runs when somebody asks for a name that it lacks until then."""

    def __getattr__(self, name: str) -> object:
        spec = self.__spec__
        if name.startswith("__") or spec is None or spec.loader is None or self._has(name):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        self.__class__ = ModuleType  # type: ignore[assignment]  # once is enough
        for openssl in _OPENSSL:  # which prometheus_client, for one, cannot do without
            if sys.modules.get(openssl) is None:
                sys.modules.pop(openssl, None)
        spec.loader.exec_module(self)
        return getattr(self, name)

    def _has(self, name: str) -> bool:
        """Return whether a module is meant: `from package import module` asks for a name first."""
        return "__path__" in vars(self) and find_spec(f"{self.__name__}.{name}") is not None


def _put_off(name: str, **attributes: object) -> None:
    """Let a module wait, with what is asked of it at once."""
    spec = find_spec(name) if name not in sys.modules else None
    if spec is not None:
        module = module_from_spec(spec)
        module.__class__ = _PutOff
        vars(module).update(attributes)
        sys.modules[name] = module
