"""Fuzz every reader, the policy format and the online API; `make fuzz` runs them longer."""

import random
from pathlib import Path

import pytest

from tests.faults.fuzz import INPUTS, SECONDS, fuzz
from tests.faults.targets import TARGETS

#: Inputs that once caused a traceback, named after their targets.
FINDINGS = sorted((Path(__file__).parent / "findings").iterdir())

#: Fraction of the recorded inputs that `make test-all` tries.
SHARE = 0.04


def test_the_recorded_inputs_cover_every_target_and_sum_to_a_million() -> None:
    assert set(INPUTS) == set(TARGETS)
    assert sum(INPUTS.values()) == 1_000_000


@pytest.mark.parametrize("name", TARGETS)
def test_valid_and_damaged_inputs_end_in_results_or_input_errors(
    name: str, seed: int, tmp_path: Path
) -> None:
    target, chance = TARGETS[name], random.Random(seed)
    for sound in target.seeds():
        target.run(tmp_path, sound)
        for _ in range(15):
            damaged = bytearray(sound)
            for _ in range(chance.choice([1, 2, 8])):
                place = chance.randrange(len(damaged) + 1)
                damaged[place : place + chance.choice([0, 1, 4])] = chance.randbytes(
                    chance.choice([0, 1, 4])
                )
            target.run(tmp_path, bytes(damaged))


@pytest.mark.parametrize("finding", FINDINGS, ids=lambda path: path.name)
def test_inputs_that_once_failed_no_longer_do(finding: Path, tmp_path: Path) -> None:
    name, _, _ = finding.name.partition("-")
    TARGETS[name].run(tmp_path, finding.read_bytes())


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_coverage_guided_inputs_end_in_results_or_input_errors(name: str) -> None:
    n_inputs = max(int(INPUTS[name] * SHARE), 1)
    found = fuzz(name, n_inputs)
    assert found["is_sound"]
    assert found["inputs"] == n_inputs
    assert isinstance(found["slowest_seconds"], int)
    assert found["slowest_seconds"] < SECONDS
