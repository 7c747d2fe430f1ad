"""The service benchmark measures the quantities that it reports."""

import pytest

import service


def test_decisions_in_process_are_measured() -> None:
    found = service.compare_in_process(n=2_000, turns=1)
    assert found["Decider.decide"] > 0
    assert found["RobustMCB.decide"] > 0


def test_decisions_of_a_server_are_measured() -> None:
    with service.serving() as server:
        for measured in (
            service.compare_decides(server, n=400, turns=1),
            service.batch_rate(server, n=50, turns=1),
            service.compare_rewards(server, n=200, turns=1),
        ):
            assert measured["ratio"] > 0


@pytest.mark.slow
def test_memory_is_flat_over_a_million_decisions() -> None:
    with service.serving() as server:
        assert service.memory_growth(server, n=1_000_000)["ratio"] < 1.1
