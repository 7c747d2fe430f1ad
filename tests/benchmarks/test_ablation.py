from __future__ import annotations

import pkgutil
from importlib import import_module

import pytest

import unswayed.learners.discount
from ablation import INGREDIENTS, WHOLE, Row, report, taken_out
from tests.learners.discount.worlds import make_world
from unswayed.learners.design import design_of_log
from unswayed.learners.discount import learn_discounted, settings
from unswayed.randomness import generator


@pytest.mark.parametrize("name", INGREDIENTS)
def test_every_ingredient_can_be_taken_out_and_is_put_back(name: str, seed: int) -> None:
    """An attribute that was renamed would fail here, not measure nothing."""
    tallies = make_world(generator(seed, "ablation"), n_users=150, taste=0.15).tallies
    before = [getattr(module, attribute) for module, attribute, _ in INGREDIENTS[name]]
    with taken_out(name):
        estimates = learn_discounted(
            tallies, design_of_log(tallies, "auto"), adversarial_fraction=0.2
        )
    assert estimates.mean_rewards.shape == (12, 5)
    after = [getattr(module, attribute) for module, attribute, _ in INGREDIENTS[name]]
    assert all(b is a for b, a in zip(before, after, strict=True))


@pytest.mark.parametrize("name", INGREDIENTS)
def test_an_ingredient_is_taken_out_wherever_the_learner_uses_it(name: str) -> None:
    """A name that a module imports is its own: left alone, it leaves the ingredient half in."""
    folder = unswayed.learners.discount
    modules = [
        import_module(found.name)
        for found in pkgutil.walk_packages(folder.__path__, f"{folder.__name__}.")
    ]
    replaced = {(module, attribute) for module, attribute, _ in INGREDIENTS[name]}
    for module, attribute, _ in INGREDIENTS[name]:
        whole = getattr(module, attribute)
        home = getattr(whole, "__module__", settings.__name__)
        users = {
            other
            for other in modules
            if getattr(other, attribute, None) is whole
            and other.__name__ not in (home, settings.__name__)
            and not hasattr(other, "__path__")  # a package that only hands it on
        }
        assert users <= {other for other, replaced_name in replaced if replaced_name == attribute}


def test_the_report_counts_worlds_that_changed(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        Row(name, "loud", f"world {n}", 0, loss, 0.01, 0.02)
        for name, losses in ((WHOLE, (0.01, 0.01)), ("guard", (0.01, 0.05)))
        for n, loss in enumerate(losses)
    ]
    report(rows)
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == f"| {WHOLE} | 0.0100 | 0 of 2 | +0.0000 | 0 |"
    assert lines[3] == "| guard | 0.0300 | 1 of 2 | +0.0400 | 1 |"
