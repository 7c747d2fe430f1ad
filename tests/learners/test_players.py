"""Learners of the arena: keyed assignment, a log with propensities, and all names."""

import numpy as np
import pytest

from tests.learners.baselines.scenes import small_setting
from tests.learners.recording import Recording
from unswayed.learners.baselines import BASELINES
from unswayed.learners.interface import Setting
from unswayed.learners.methods import METHODS
from unswayed.learners.players import EPSILON, Explorer, LogLearner, learner_specs


def test_all_learners_are_registered() -> None:
    specs = learner_specs()
    assert list(specs) == [
        "bounded",
        "paper",
        "paper-literal",
        "bounded-on-log",
        "paper-on-log",
        "paper-literal-on-log",
        "paper-per-visit",
        "epochs",
        *BASELINES,
    ]
    assert all(name == spec.name for name, spec in specs.items())
    assert specs["barbar"] is BASELINES["barbar"]


@pytest.mark.parametrize(("name", "player"), [("mine", Explorer), ("mine-on-log", LogLearner)])
def test_a_learner_uses_the_method_it_is_named_after(
    name: str,
    player: type[Explorer] | type[LogLearner],
    monkeypatch: pytest.MonkeyPatch,
    rng: np.random.Generator,
) -> None:
    method, best = Recording(), np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    monkeypatch.setitem(METHODS, "mine", method)
    learner = learner_specs()[name].make(small_setting(rng, n_users=7, n_contexts=2, n_actions=3))
    assert isinstance(learner, player)
    contexts = np.arange(700) % 2
    learner.play(np.arange(700) % 7, contexts, best[contexts])
    assert learner.action_probabilities(np.arange(7)).tolist() == best.tolist()
    assert len(method.given) == 1


def test_an_epsilon_greedy_log_is_weighed_back_to_uniform_plays(rng: np.random.Generator) -> None:
    """The greedy action has most of the plays, but every action has the same total weight."""
    n_users, n_rounds, mu = 400, 30, np.array([0.2, 0.6, 0.4])
    setting = Setting(
        n_users=n_users,
        n_contexts=1,
        n_actions=3,
        interactions_per_user=n_rounds,
        alpha=0.1,
        rng=rng,
    )
    method = Recording()
    learner = LogLearner(setting, method)
    for _ in range(n_rounds):
        outcomes = (rng.random((n_users, 3)) < mu).astype(float)
        learner.play(np.arange(n_users), np.zeros(n_users, np.int64), outcomes)
    probabilities = learner.action_probabilities(np.arange(n_users))
    assert probabilities[0].argmax() == 1
    plays, weights = (method.given[0].tallies.cell_sums(name)[0] for name in ("plays", "counts"))
    n_plays = n_users * n_rounds
    # After one round the best action is known; binomial standard deviations are below .005.
    assert abs(plays[1] / n_plays - (1 - EPSILON + EPSILON / 3)) < 0.05
    # Weights of 1/(3 · .2/3) = 5 for .067 of the plays: the standard deviation of the sum is 2.3 %.
    np.testing.assert_allclose(weights, n_plays / 3, rtol=0.1)
