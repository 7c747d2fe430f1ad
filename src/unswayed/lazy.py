"""Names of a package that are imported on first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_names(package: str, modules: Mapping[str, str]) -> Callable[[str], object]:
    """Return the ``__getattr__`` of a package that imports names on first use (PEP 562).

    Short commands then pay only for the packages they need: the compiler, the database and scipy
    take a second to import.

    ``modules`` has, for each module of the package, the names it defines, separated by spaces.
    """
    homes = {name: module for module, names in modules.items() for name in names.split()}

    def find(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    return find
