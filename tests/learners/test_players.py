import numpy as np

from unswayed.learners.design import Design
from unswayed.learners.estimates import Estimates
from unswayed.learners.interface import Setting
from unswayed.learners.paper import learn_paper
from unswayed.learners.players import EPSILON, LogLearner
from unswayed.tallies import Tallies


def test_an_epsilon_greedy_log_is_weighed_back_to_uniform_plays(rng: np.random.Generator) -> None:
    """The greedy action has most of the plays, and every action the same weight."""
    n_users, n_rounds, mu = 400, 30, np.array([0.2, 0.6, 0.4])
    setting = Setting(
        n_users=n_users,
        n_contexts=1,
        n_actions=3,
        interactions_per_user=n_rounds,
        adversarial_fraction=0.1,
        rng=rng,
    )
    seen: list[Tallies] = []

    def method(tallies: Tallies, design: Design, **options: float) -> Estimates:
        seen.append(tallies)
        return learn_paper(tallies, design, **options)  # type: ignore[arg-type]

    learner = LogLearner(setting, method)  # type: ignore[arg-type]  # a spy with the same call
    for _ in range(n_rounds):
        outcomes = (rng.random((n_users, 3)) < mu).astype(float)
        learner.play(np.arange(n_users), np.zeros(n_users, np.int64), outcomes)
    probabilities = learner.action_probabilities(np.arange(n_users))
    assert probabilities[0].argmax() == 1
    plays = np.bincount(seen[0].cells, seen[0].plays, minlength=3)
    weights = np.bincount(seen[0].cells, seen[0].counts, minlength=3)
    n_plays = n_users * n_rounds
    # One round is needed to find the best action; binomial deviations are below .005.
    assert abs(plays[1] / n_plays - (1 - EPSILON + EPSILON / 3)) < 0.05
    # A weight of 1/(3 · .2/3) = 5 at .067 of the plays: the sum's deviation is 2.3 % of it.
    np.testing.assert_allclose(weights, n_plays / 3, rtol=0.1)
