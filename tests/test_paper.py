"""The paper's algorithms and base cases for plain arrays, with a choice of estimators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import unswayed
from tests.learners.paper import literal_twin
from tests.refusals import refusal
from unswayed import paper

ALPHA, BAD = 0.2, 0
"""A fifth collude, and praise action 0, which is the worst."""

Columns = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def plays(
    rng: np.random.Generator, *, S: int, A: int, sticky: int, L: int = 400, N: int = 40
) -> Columns:
    """Return plays in which users keep one action in the first contexts; the best is s mod A."""
    user = np.arange(L * N) % L
    context = rng.integers(S, size=L * N)
    action = rng.integers(A, size=L * N)
    kept = rng.integers(A, size=(L, S))[user, context]
    action = np.where(context < sticky, kept, action)
    reward = (action == 1 + context % (A - 1)) + 0.5 * rng.standard_normal(L * N)
    lies = user < ALPHA * L
    reward[lies] = np.where(action[lies] == BAD, 8.0, -8.0)
    return user, context, action, reward


def plain_choice(columns: Columns, S: int, A: int) -> np.ndarray:
    _, context, action, reward = columns
    cells = context * A + action
    means = np.bincount(cells, reward, S * A) / np.maximum(np.bincount(cells, minlength=S * A), 1)
    return np.asarray(means.reshape(S, A).argmax(axis=1))


def events(columns: Columns) -> list[literal_twin.Event]:
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [literal_twin.Event(*row) for row in rows]


@pytest.mark.parametrize(("S", "A"), [(3, 4), (4, 2)])
def test_algorithms_equal_their_literal_twins(rng: np.random.Generator, S: int, A: int) -> None:
    """If there are no more contexts than actions, all are in S₊; otherwise the A most frequent."""
    columns = plays(rng, S=S, A=A, sticky=min(S, A), L=60, N=60)
    # Sticky contexts are also the most probable ones, so that both find the same S₊.
    keep = (columns[1] < min(S, A)) | (rng.random(len(columns[0])) < 0.5)
    columns = tuple(column[keep] for column in columns)  # type: ignore[assignment]
    T0 = 1200
    found = paper.algorithm_2(*columns, alpha=ALPHA, T0=T0)
    every = events(columns)
    kept = {(e.user, e.context): e.action for e in every[T0:] if e.context < min(S, A)}
    mu, policy = literal_twin.algorithm_2(
        every[T0:], every[:T0], lambda user, s: kept[user, s], S, A, ALPHA
    )
    np.testing.assert_allclose(found.mu, mu, rtol=1e-6, atol=1e-9)
    assert found.policy.tolist() == policy
    assert found.S_plus.tolist() == list(range(min(S, A)))
    assert found.S_minus.tolist() == list(range(min(S, A), S))
    first = paper.algorithm_1(columns[0][:T0], columns[1][:T0], alpha=ALPHA)
    np.testing.assert_allclose(first.nu, literal_twin.algorithm_1(every[:T0], S, ALPHA)[0])
    np.testing.assert_allclose(first.nu, found.nu)


@pytest.mark.parametrize("univariate", [*paper.UNIVARIATE, lambda points, _: np.median(points)])
def test_base_case_1_finds_the_best_arm_with_every_estimator(
    rng: np.random.Generator, univariate: Any
) -> None:
    """Lugosi and Mendelson's estimator needs a small share of bad points and many users."""
    is_split = univariate == "lugosi-mendelson"
    columns = plays(rng, S=1, A=5, sticky=1, L=4000 if is_split else 400, N=10)
    alpha = ALPHA
    if is_split:
        honest = columns[0] >= ALPHA * 4000 - 20  # only half a percent of the users collude
        columns, alpha = tuple(column[honest] for column in columns), 0.01  # type: ignore[assignment]
    else:
        assert plain_choice(columns, 1, 5).tolist() == [BAD]  # negative control
    found = paper.base_case_1(*columns, alpha=alpha, univariate=univariate)
    assert found.policy.tolist() == [1]
    assert (found.S_plus.tolist(), found.S_minus.tolist(), found.nu.tolist()) == ([0], [], [1.0])


@pytest.mark.parametrize("multivariate", paper.MULTIVARIATE)
def test_base_case_2_finds_the_best_actions_with_every_estimator(
    rng: np.random.Generator, multivariate: str
) -> None:
    """Many contexts, two actions."""
    columns = plays(rng, S=20, A=2, sticky=0, L=600, N=60)
    assert (plain_choice(columns, 20, 2) == BAD).all()  # negative control
    found = paper.base_case_2(*columns, alpha=ALPHA, multivariate=multivariate)
    assert (found.policy == 1).all()
    assert (found.S_plus.tolist(), found.S_minus.tolist()) == ([], list(range(20)))


def test_custom_estimators_get_points_of_groups_and_rows_of_users(
    rng: np.random.Generator,
) -> None:
    columns = plays(rng, S=4, A=2, sticky=2, L=100, N=40)
    seen: dict[str, list[tuple[int, ...]]] = {"points": [], "rows": []}

    def univariate(points: np.ndarray, alpha: float) -> float:
        assert alpha == ALPHA
        seen["points"].append(points.shape)
        return float(np.median(points))

    def multivariate(rows: np.ndarray, alpha: float) -> np.ndarray:
        assert alpha == ALPHA
        seen["rows"].append(rows.shape)
        return np.asarray(np.median(rows, axis=0))

    paper.algorithm_2(*columns, alpha=ALPHA, univariate=univariate, multivariate=multivariate)
    # The two groups in each of two contexts have 100 users in total.
    assert len(seen["points"]) == 4
    assert sum(size for (size,) in seen["points"]) == 200
    # Both passes of Algorithm 1 have a column per context, the recovery has one per rare cell.
    assert seen["rows"] == [(100, 4), (100, 4), (100, 4)]


def test_arrays_rows_tables_and_labels_give_the_same_result(rng: np.random.Generator) -> None:
    columns = plays(rng, S=3, A=4, sticky=3)
    names = ("user", "context", "action", "reward")
    plain = paper.algorithm_2(*columns, alpha=ALPHA)
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    table = pa.table(dict(zip(names, columns, strict=True)))
    user, context, action, reward = columns
    labelled = (user, np.array(["a", "b", "c"])[context], np.array([*"wxyz"])[action], reward)
    for found in (
        paper.algorithm_2(rows, alpha=ALPHA),
        paper.algorithm_2(table.to_pandas(), alpha=ALPHA),
        paper.algorithm_2(*labelled, alpha=ALPHA),
    ):
        np.testing.assert_allclose(found.mu, plain.mu)
    assert (found.contexts, found.actions) == (["a", "b", "c"], ["w", "x", "y", "z"])
    more = paper.algorithm_2(*columns, alpha=ALPHA, n_contexts=5, n_actions=6)
    assert more.mu.shape == (5, 6)
    assert np.isnan(more.mu[3:]).all()


def test_the_paper_module_is_exported() -> None:
    assert unswayed.paper is paper
    assert paper.instance_complexity([0.25] * 4, 4) == 2.0
    # (1 + 2·.05)^2 = 1.21 ≤ 1/(1 − .2), so the gap is hidden, but not at three plays.
    assert paper.hiding_adversary(0.05, 2, 0.2).distance == 0.0
    assert paper.hiding_adversary(0.05, 3, 0.2).distance > 0.0


def test_invalid_input_is_explained_in_one_sentence() -> None:
    column = [0, 1]
    assert refusal(paper.algorithm_2, column, column, column, alpha=0.1) == (
        "reward is missing: give user, context, action, reward, or rows of them."
    )
    assert refusal(paper.algorithm_2, column, column, column, [0.0], alpha=0.1) == (
        "give user, context, action, reward, all of the same length."
    )
    good = (column, column, column, [0.0, 1.0])
    assert refusal(paper.algorithm_2, *good, alpha=0.1, T0=2).startswith("T0 is 2: it must")
    assert refusal(paper.algorithm_2, *good, alpha=0.1, n_actions=1).startswith("action: codes")
    assert refusal(paper.algorithm_2, *good, alpha=0.7).startswith("`alpha` is 0.7")
    assert refusal(paper.base_case_1, *good, alpha=0.1, univariate="trimed") == (
        "unknown univariate estimator 'trimed': did you mean trimmed? Choices: "
        "lugosi-mendelson, median-of-means, trimmed."
    )
    assert refusal(paper.base_case_2, *good, alpha=0.1, multivariate=lambda *_: [1.0]) == (
        "multivariate returned shape (1,) instead of (4,)."
    )
    infinite = (column, column, column, [0.0, np.inf])
    assert refusal(paper.base_case_2, *infinite, alpha=0.1) == "reward 1 is not a finite number."
    assert refusal(paper.algorithm_1, [], [], alpha=0.1).startswith("there are no interactions")
