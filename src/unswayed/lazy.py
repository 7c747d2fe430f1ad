"""Names of a package that are imported on first use."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path


def lazy_names(package: str) -> Callable[[str], object]:
    """Return the ``__getattr__`` of a package that imports names on first use (PEP 562).

    Short commands then pay only for the packages they need: the compiler, the database and scipy
    take a second to import. The names are those that the package's source imports from its own
    modules, which it does under ``TYPE_CHECKING``.
    """

    @cache
    def homes() -> dict[str, str]:
        source = Path(str(sys.modules[package].__file__)).read_text("utf-8")
        imports = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
        return {name.name: str(node.module) for node in imports for name in node.names}

    def find(name: str) -> object:
        module = homes().get(name, "")
        if not module.startswith(f"{package}."):
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(module), name)

    return find
