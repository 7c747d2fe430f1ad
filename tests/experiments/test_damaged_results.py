"""Damaged results are reported, and never mixed with new ones."""

from pathlib import Path

import pytest

from unswayed.errors import InputError
from unswayed.experiments.results import Store


@pytest.mark.parametrize("damage", [b"", b"[", b"7", b"\xff", b"[" * 100_000])
def test_damaged_settings_are_reported(damage: bytes, tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.open({"seed": 0})
    (tmp_path / "settings.json").write_bytes(damage)
    for use in (store.settings, lambda: store.open({"seed": 0})):
        with pytest.raises(InputError, match="damaged"):
            use()


def test_a_damaged_part_is_reported(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.open({"seed": 0})
    (tmp_path / "parts/000-main-push-0000.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match="damaged"):
        store.rows()
