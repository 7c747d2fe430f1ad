"""Shared options: each field of a dataclass is an option, and the command gets the dataclass."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from unswayed.cli.audit import audit
from unswayed.cli.evaluate import evaluate
from unswayed.cli.learn import learn
from unswayed.cli.log_options import SourceOptions
from unswayed.cli.options import expanded
from unswayed.cli.plan import plan


@dataclass(frozen=True, kw_only=True)
class Size:
    """Two options."""

    width: Annotated[int, typer.Option(help="How wide.")] = 2
    height: Annotated[int, typer.Option(help="How high.")] = 3


@expanded
def area(name: str, *, size: Size, unit: str = "cm") -> None:
    """Print an area."""
    typer.echo(f"{name}: {size.width * size.height} {unit}")


def test_fields_become_options_where_the_dataclass_stands() -> None:
    assert list(inspect.signature(area).parameters) == ["name", "width", "height", "unit"]
    app = typer.Typer()
    app.command()(area)
    assert CliRunner().invoke(app, ["door", "--height", "5"]).output == "door: 10 cm\n"
    assert "How high." in CliRunner().invoke(app, ["--help"]).output


@pytest.mark.parametrize("command", [learn, audit, evaluate, plan])
def test_every_command_that_reads_a_log_has_the_same_column_options(command: object) -> None:
    assert callable(command)
    options = inspect.signature(command).parameters
    for name, option in inspect.signature(SourceOptions).parameters.items():
        assert options[name].default == option.default


@pytest.mark.parametrize("command", [learn, audit, evaluate, plan])
def test_help_shows_every_option_in_full_on_80_columns(command: Callable[..., None]) -> None:
    app = typer.Typer()
    app.command()(command)
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "80"}).output
    assert max(map(len, shown.splitlines())) <= 80
    for name, option in inspect.signature(command).parameters.items():
        if "OptionInfo" in repr(option.annotation) and name != "table_format":
            assert f"--{name.replace('_', '-')} " in shown
