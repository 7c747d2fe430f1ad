"""Plugins: user-defined methods, attacks and learners, known by name in every command."""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib import import_module, util
from pathlib import Path

from unswayed.errors import InputError

VARIABLE = "UNSWAYED_PLUGINS"
"""Environment variable: modules or Python files to import, separated by commas."""


@cache
def load_plugins() -> None:
    """Import the modules that the environment variable names, once per process.

    Worker processes inherit the variable, so they import the plugins, too.
    """
    for name in os.environ.get(VARIABLE, "").split(","):
        if name.strip():
            _load(name.strip())


def _load(name: str) -> None:
    try:
        if not name.endswith(".py"):
            import_module(name)
            return
        spec = util.spec_from_file_location(Path(name).stem, name)
        assert spec is not None
        assert spec.loader is not None
        module = util.module_from_spec(spec)
        sys.modules[module.__name__] = module  # dataclasses look up their module
        spec.loader.exec_module(module)
    except InputError:
        raise
    except Exception as error:  # a plugin may raise anything
        raise InputError(
            f"the plugin {name} in {VARIABLE} cannot be imported ({type(error).__name__}: "
            f"{error}); fix it, or take it out of {VARIABLE}."
        ) from error
