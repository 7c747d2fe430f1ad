"""Options are described by docstrings; each field of a dataclass is an option."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import typer
from typer.testing import CliRunner

from unswayed.cli import COMMANDS
from unswayed.cli.main import app, subcommand
from unswayed.cli.options import expanded


@dataclass(frozen=True, kw_only=True)
class Size:
    """Two options of the command line, and one for Python only.

    width: How wide.
    height (CM): How high, with
        more to say.
    """

    width: int = 2
    height: int = 3
    inside: dict[str, int] | None = None


def test_fields_of_a_dataclass_parameter_become_options() -> None:
    @expanded
    def area(*, size: Size, unit: str = "cm", twice: bool = False) -> None:
        """Print an area.

        unit: Unit of ``width``.
        twice: Twice as large.
        """
        typer.echo(f"{size.width * size.height * (1 + twice)} {unit}")

    area_app = typer.Typer()
    area_app.command()(area)
    run = CliRunner()
    assert run.invoke(area_app, ["--height", "5"]).output == "10 cm\n"
    assert run.invoke(area_app, ["--twice", "--unit", "m"]).output == "12 m\n"
    shown = " ".join(run.invoke(area_app, ["--help"]).output.split())
    assert "Print an area." in shown
    assert "Unit of width." in shown
    assert "CM" in shown
    assert "How high, with more to say." in shown
    assert "--inside" not in shown
    assert "--no-twice" not in shown


def test_an_option_without_a_description_is_refused() -> None:
    def walk(speed: int = 1) -> None:
        """Walk."""

    with pytest.raises(KeyError, match="speed"):
        expanded(walk)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_every_option_in_full_on_80_columns(name: str) -> None:
    shown = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "80"}).output
    assert max(map(len, shown.splitlines())) <= 80
    for parameter in subcommand(name).params:
        assert parameter.help
        assert any(f"{option} " in shown for option in (*parameter.opts, parameter.metavar))
    assert "--json" in shown
    assert not any(cut in shown for cut in ("…", "<bool>"))
