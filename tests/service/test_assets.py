"""The wheel contains the files that pages load."""

from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

from unswayed.service.console.pages import ASSETS

ROOT = Path(__file__).parents[2]


def test_the_wheel_contains_all_files_that_pages_load() -> None:
    packed = {
        Path(file.distribution_path).as_posix()
        for file in WheelBuilder(str(ROOT)).recurse_included_files()
    }
    folder = "unswayed/service/console/assets"
    licences = {"htmx.LICENSE", "uplot.LICENSE"}
    # The style of reports, which pages share, is not a file.
    files = licences | set(ASSETS) - {"style.css"}
    assert len(files) > 5
    assert {f"{folder}/{name}" for name in files} <= packed
