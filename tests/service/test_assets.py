"""Assets of pages are part of the wheel."""

from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

from unswayed.service.console.pages import ASSETS

ROOT = Path(__file__).parents[2]


def test_the_wheel_holds_all_that_pages_load() -> None:
    packed = {
        Path(file.distribution_path).as_posix()
        for file in WheelBuilder(str(ROOT)).recurse_included_files()
    }
    folder = "unswayed/service/console/assets"
    licences = {"htmx.LICENSE", "uplot.LICENSE"}
    # The style of reports is that of pages, too, and is no file.
    files = licences | set(ASSETS) - {"style.css"}
    assert len(files) > 5
    assert {f"{folder}/{name}" for name in files} <= packed
