"""Residuals, their noise and decisions of one's own, against loops over plays."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from scipy import stats

from unswayed.errors import InputError
from unswayed.events import Labels
from unswayed.learners.personal import Residuals, personal_decisions, residuals_of, shrunken
from unswayed.policy import Policy
from unswayed.tallies import Tallies, tally

N_USERS, N_CONTEXTS, N_ACTIONS = 40, 3, 3
COMMON = np.array([[0.2, 0.6, 0.3], [0.7, np.nan, 0.2], [0.1, 0.4, 0.5]])

#: Rewards by (user, cell).
Plays = Mapping[tuple[int, int], list[float]]


def tallied(plays: Plays, n_users: int, n_contexts: int, n_actions: int) -> Tallies:
    rows = [(user, cell, told) for (user, cell), all_told in plays.items() for told in all_told]
    users, cells, rewards = (np.array(column) for column in zip(*rows, strict=True))
    contexts, actions = np.divmod(cells, n_actions)
    shape: dict[str, Any] = {"n_users": n_users, "n_contexts": n_contexts, "n_actions": n_actions}
    return tally(users, contexts, actions, rewards, **shape)


def random_plays(rng: np.random.Generator) -> Plays:
    """Return plays, of each user with tastes of another size; the first and the last never came."""
    plays: dict[tuple[int, int], list[float]] = {}
    common = np.nan_to_num(COMMON, nan=0.5)
    for user in range(1, N_USERS - 1):
        tastes = user / 60 * rng.standard_normal(COMMON.shape)
        for _ in range(int(rng.integers(2, 60))):
            cell = int(rng.integers(COMMON.size))
            mean = (common + tastes).flat[cell]
            noise = (0.1 + user / 100) * rng.standard_normal()
            plays.setdefault((user, cell), []).append(float(mean + noise))
    return dict(sorted(plays.items()))


def literal_noise(plays: Plays, alpha: float) -> float:
    """Return the pooled deviation of users between the quantiles of their variances."""
    squares: dict[int, float] = {}
    freedom: dict[int, int] = {}
    for (user, _), told in plays.items():
        squares[user] = squares.get(user, 0.0) + len(told) * float(np.var(told))
        freedom[user] = freedom.get(user, 0) + len(told) - 1
    variances = {user: squares[user] / free for user, free in freedom.items() if free}
    low, high = np.quantile(list(variances.values()), [alpha, 1 - alpha])
    kept = [user for user, variance in variances.items() if low <= variance <= high]
    return float(np.sqrt(sum(squares[u] for u in kept) / sum(freedom[u] for u in kept)))


def literal_p_value(values: list[float], counts: list[int], noise: float) -> float:
    """Return twice the smaller of the two tests' p-values."""
    if not values:
        return 1.0
    scores = [n * (value / noise) ** 2 for value, n in zip(values, counts, strict=True)]
    of_sum = stats.chi2.sf(sum(scores), len(scores))
    of_largest = len(scores) * stats.chi2.sf(max(scores), 1)
    return min(1.0, 2 * of_sum, 2 * of_largest)


@pytest.mark.parametrize("alpha", [0.0, 0.2])
def test_residuals_are_what_loops_over_plays_give(alpha: float, rng: np.random.Generator) -> None:
    plays = random_plays(rng)
    found = residuals_of(tallied(plays, N_USERS, N_CONTEXTS, N_ACTIONS), COMMON, alpha=alpha)
    noise = literal_noise(plays, alpha)
    assert found.noise == pytest.approx(noise, rel=1e-9)
    known = {key: told for key, told in plays.items() if np.isfinite(COMMON.flat[key[1]])}
    assert len(known) < len(plays)
    assert list(zip(found.users.tolist(), found.cells.tolist(), strict=True)) == list(known)
    assert found.plays.tolist() == [len(told) for told in known.values()]
    values = [np.mean(told) - COMMON.flat[cell] for (_, cell), told in known.items()]
    assert found.values == pytest.approx(values, abs=1e-12)
    expected = []
    for user in range(N_USERS):
        rows = [row for row, (owner, _) in enumerate(known) if owner == user]
        counts = [len(list(known.values())[row]) for row in rows]
        expected.append(literal_p_value([values[row] for row in rows], counts, noise))
    assert found.p_values == pytest.approx(expected, rel=1e-6)
    assert found.p_values[[0, -1]].tolist() == [1.0, 1.0]
    assert found.is_different.tolist() == [p < 0.01 for p in expected]
    assert 0 < found.is_different.sum() < N_USERS - 1


def test_a_user_at_the_level_is_not_different() -> None:
    nothing = np.empty(0, np.int64)
    residuals = Residuals(
        nothing, nothing, np.empty(0), np.empty(0), 1.0, np.array([0.0, 0.0099, 0.01, 1.0])
    )
    assert residuals.is_different.tolist() == [True, True, False, False]


def test_noise_is_the_deviation_around_the_users_own_mean_worked_out_by_hand() -> None:
    """A single play has no noise, so it counts neither as one nor against it."""
    plays = {(0, 0): [1.0, 3.0], (0, 1): [5.0], (1, 0): [0.0, 0.0, 6.0], (2, 0): [9.0]}
    found = residuals_of(tallied(plays, 3, 1, 2), np.zeros((1, 2)), alpha=0.0)
    # Squares of 2 with freedom 1, and of 24 with freedom 2.
    assert found.noise == pytest.approx(np.sqrt(26 / 3))
    # The largest and the smallest variance of five go; those of 2, 4 and 6 stay.
    spread = {(user, 0): [-np.sqrt(user), np.sqrt(user)] for user in range(5)}
    trimmed = residuals_of(tallied(spread, 5, 1, 2), np.zeros((1, 2)), alpha=0.2)
    assert trimmed.noise == pytest.approx(2.0)


def test_tastes_that_cannot_be_separated_from_noise_get_a_sentence() -> None:
    once = {(0, 0): [1.0], (0, 1): [3.0], (1, 0): [2.0]}
    constant = {(0, 0): [1.0, 1.0], (1, 0): [2.0, 2.0, 2.0]}
    for plays, sentence in (
        (once, "no user played an action in a context twice, so tastes"),
        (constant, "rewards of a user never vary, so tastes"),
    ):
        with pytest.raises(InputError) as refused:
            residuals_of(tallied(plays, 2, 1, 2), np.zeros((1, 2)), alpha=0.1)
        assert str(refused.value) == (
            f"{sentence} cannot be separated from noise; learn without `personal`."
        )


def a_policy(means: np.ndarray) -> Policy:
    return Policy(
        context_labels=Labels.numbered(means.shape[0]),
        action_labels=Labels.numbered(means.shape[1]),
        mean_rewards=means,
        low=means - 0.1,
        high=means + 0.1,
        counts=np.full(means.shape, 9),
        context_probabilities=np.full(len(means), 1 / len(means)),
        alpha=0.1,
        method="paper",
    )


def literal_decisions(
    found: Residuals, means: np.ndarray, *, prudence: float = 0.5
) -> dict[tuple[int, int], int]:
    """Return the action of each (user, context) whose own best one leads by half an error."""
    decisions = {}
    n_actions = means.shape[1]
    for user in np.flatnonzero(found.is_different).tolist():
        rows = np.flatnonzero(found.users == user)
        errors = found.noise / np.sqrt(found.plays[rows])
        shrunk = shrunken(found.values[rows], errors)
        own, error = np.nan_to_num(means, nan=-np.inf), np.zeros(means.shape)
        for cell, more, its_error in zip(found.cells[rows], shrunk, errors, strict=True):
            own.flat[cell] += more
            error.flat[cell] = its_error
        for context in {int(cell) // n_actions for cell in found.cells[rows]}:
            best, common = int(own[context].argmax()), int(np.nanargmax(means[context]))
            chance = np.hypot(error[context, best], error[context, common])
            if own[context, best] - own[context, common] > prudence * chance:
                decisions[user, context] = best
    return decisions


def test_own_decisions_are_what_loops_over_residuals_give(rng: np.random.Generator) -> None:
    plays = random_plays(rng)
    tallies = tallied(plays, N_USERS, N_CONTEXTS, N_ACTIONS)
    names = Labels.of([f"user-{user}" for user in range(N_USERS)])
    personal = personal_decisions(tallies, a_policy(COMMON), names, alpha=0.1)
    residuals = residuals_of(tallies, COMMON, alpha=0.1)
    expected = literal_decisions(residuals, COMMON)
    own = personal.decisions
    found = {
        (int(str(own.user_labels[user])[5:]), context): action
        for user, context, action in zip(
            own.users.tolist(), own.contexts.tolist(), own.actions.tolist(), strict=True
        )
    }
    assert found == expected
    assert len(found) < len(literal_decisions(residuals, COMMON, prudence=0.0))
    assert len(found) == len(own.users) > 10
    assert sorted({user for user, _ in found}) == sorted(
        int(str(name)[5:]) for name in own.user_labels
    )
    assert personal.n_different == residuals.is_different.sum()
    assert personal.noise == residuals.noise
    assert len(own.user_labels) < personal.n_different  # some differ and want the same


def test_nobody_differs_and_there_are_no_decisions() -> None:
    plays = {(user, 0): [-1.0, 1.0] for user in range(3)}
    personal = personal_decisions(
        tallied(plays, 3, 1, 2),
        a_policy(np.zeros((1, 2))),
        Labels.numbered(3),
        alpha=0.1,
    )
    own = personal.decisions
    assert (personal.n_different, len(own.user_labels)) == (0, 0)
    for column in (own.users, own.contexts, own.actions):
        assert (column.dtype.name, len(column)) == ("int64", 0)
    with pytest.raises(InputError, match=r"below 0\.5"):
        personal_decisions(
            tallied(plays, 3, 1, 2),
            a_policy(np.zeros((1, 2))),
            Labels.numbered(3),
            alpha=0.5,
        )


def test_residuals_are_shrunk_by_their_size_or_by_a_threshold() -> None:
    # The mean of squares exceeds that of the errors by 0.75; a quarter of 1 is chance.
    assert shrunken(np.array([1.0, -1.0]), np.full(2, 0.5)) == pytest.approx([0.75, -0.75])
    # Weights of 1 and 4: (8 + 4 · 0.75) / 5.
    uneven = shrunken(np.array([3.0, 1.0]), np.array([1.0, 0.5]))
    assert uneven == pytest.approx([3 * 2.2 / 3.2, 2.2 / 2.45])
    # One sticks out: a threshold of sqrt(2 ln 2) errors has a risk of 1.39, a factor 7/9 of 1.56.
    assert shrunken(np.array([3.0, 0.0]), np.ones(2)) == pytest.approx([3 - np.sqrt(np.log(4)), 0])
    many = np.array([-8.0] + [0.5] * 9)
    assert shrunken(many, np.ones(10)) == pytest.approx([-8 + np.sqrt(2 * np.log(10))] + [0.0] * 9)
    assert shrunken(np.array([2.0]), np.ones(1)) == pytest.approx([2 * 0.75])


def literal_shrunken(values: Any, errors: Any) -> list[float]:
    """Return the estimate with the smaller risk by Stein."""
    weights = [1 / error**2 for error in errors]
    pairs = list(zip(values, errors, strict=True))
    excess = [weight * (v**2 - e**2) for weight, (v, e) in zip(weights, pairs, strict=True)]
    size = max(0.0, sum(excess) / sum(weights))
    linear, soft, risks = [], [], [0.0, 0.0]
    for value, error in pairs:
        share = size / (size + error**2)
        linear.append(share * value)
        risks[0] += (value - share * value) ** 2 + (2 * share - 1) * error**2
        over = abs(value) - error * np.sqrt(2 * np.log(max(len(pairs), 2)))
        soft.append(np.sign(value) * over if over > 0 else 0.0)
        risks[1] += (value - soft[-1]) ** 2 + (error**2 if over > 0 else -(error**2))
    return soft if risks[1] < risks[0] else linear


def test_the_smaller_risk_by_stein_is_chosen(rng: np.random.Generator) -> None:
    n_soft = 0
    for number in range(200):
        errors = rng.uniform(0.1, 1.0, size=2 + number % 9)
        is_large = rng.random(len(errors)) < 0.3
        values = errors * rng.standard_normal(len(errors)) + 2.0 * is_large
        found = shrunken(values, errors)
        assert found == pytest.approx(literal_shrunken(values, errors), abs=1e-12)
        n_soft += bool((found == 0).any() and (found != 0).any())
    assert 20 < n_soft < 180
