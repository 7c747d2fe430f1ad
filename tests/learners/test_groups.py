"""Groups of taste: found where they are, not where they are not, and not for a coalition."""

from typing import Any

import numpy as np
import pytest

from unswayed.errors import InputError
from unswayed.events import UNKNOWN, Labels
from unswayed.learners.design import Design, DesignName, uniform_design
from unswayed.learners.estimates import Estimates
from unswayed.learners.methods import METHODS
from unswayed.learners.paper import learn_paper
from unswayed.learners.tastes import NO_GROUP, Groups, check_groups, find_groups, group_decisions
from unswayed.policy import Policy
from unswayed.tallies import Tallies, tally

CONTEXTS, ACTIONS, GAP, NOISE = 6, 4, 0.3, 0.5
COLLUDERS = -1


def best_actions(n_groups: int) -> np.ndarray:
    """Return the best action of each group and context; groups agree nowhere."""
    return (np.arange(CONTEXTS)[None, :] + np.arange(n_groups)[:, None]) % (ACTIONS - 1)


def played(
    rng: np.random.Generator, shares: list[float], *, alpha: float, n_users: int, plays: int
) -> tuple[Tallies, np.ndarray]:
    """Return uniform plays of groups with these shares of the good users; colluders push 3."""
    truth = rng.choice(len(shares), size=n_users, p=shares)
    truth[rng.permutation(n_users)[: int(alpha * n_users)]] = COLLUDERS
    users = np.repeat(np.arange(n_users), plays)
    contexts, actions = rng.integers(CONTEXTS, size=len(users)), rng.integers(4, size=len(users))
    best = best_actions(len(shares))[truth[users], contexts]
    rewards = 0.3 + GAP * (actions == best) + NOISE * rng.standard_normal(len(users))
    is_lie = truth[users] == COLLUDERS
    rewards[is_lie] = actions[is_lie] == ACTIONS - 1
    return (
        tally(
            users,
            contexts,
            actions,
            rewards,
            n_users=n_users,
            n_contexts=CONTEXTS,
            n_actions=ACTIONS,
        ),
        truth,
    )


def common_policy(tallies: Tallies, alpha: float) -> Policy:
    """Return a policy by the middle half of users' means, which colluders move little."""
    means = np.zeros(tallies.n_cells)
    for cell in range(tallies.n_cells):
        own = (tallies.sums / tallies.counts)[tallies.cells == cell]
        low, high = np.quantile(own, [0.25, 0.75])
        means[cell] = own[(own >= low) & (own <= high)].mean()
    table = means.reshape(CONTEXTS, ACTIONS)
    return Policy(
        context_labels=Labels.numbered(CONTEXTS),
        action_labels=Labels.numbered(ACTIONS),
        mean_rewards=table,
        low=table - 0.1,
        high=table + 0.1,
        counts=np.ones(table.shape, np.int64),
        context_probabilities=np.full(CONTEXTS, 1 / CONTEXTS),
        alpha=alpha,
        method="paper",
    )


def found(tallies: Tallies, alpha: float, n_groups: int | str = "auto") -> Groups:
    return find_groups(
        tallies,
        common_policy(tallies, alpha),
        alpha=alpha,
        n_groups=check_groups(n_groups),
    )


@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.2])
@pytest.mark.parametrize("shares", [[0.5, 0.5], [0.5, 0.3, 0.2]])
def test_planted_groups_are_found_and_kept_apart(
    shares: list[float], alpha: float, rng: np.random.Generator
) -> None:
    """With 240 plays a user is told with errors far below 1 %; a tenth of it is allowed for."""
    tallies, truth = played(rng, shares, alpha=alpha, n_users=1500, plays=240)
    groups = found(tallies, alpha)
    assert groups.gains
    assert min(groups.gains) > 0.0
    whose = set()
    for number, size in enumerate(groups.sizes):
        owners = np.bincount(truth[groups.members == number] + 1, minlength=len(shares) + 1)
        assert owners.max() > 0.97 * size
        assert owners.argmax() > 0  # not the coalition
        whose.add(int(owners.argmax()))
    assert len(whose) == len(groups.gains)
    if alpha == 0.0:
        assert len(whose) >= len(shares) - 1  # the common policy may serve one


@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.2])
def test_one_taste_is_no_groups(alpha: float, rng: np.random.Generator) -> None:
    """Ten logs at 1 % each: two or more false groups have probability below 1 %."""
    n_false = 0
    for _ in range(10):
        tallies, _ = played(rng, [1.0], alpha=alpha, n_users=400, plays=60)
        groups = found(tallies, alpha)
        n_false += bool(groups.gains)
    assert n_false <= 1
    assert "the data do not support groups of taste" in groups.statement()
    assert (groups.members == NO_GROUP).all()


def test_a_group_below_alpha_gets_no_policy(rng: np.random.Generator) -> None:
    """It could be a coalition; with a smaller alpha the same group is one."""
    tallies, truth = played(rng, [0.85, 0.15], alpha=0.0, n_users=1500, plays=240)
    assert not found(tallies, 0.2).gains
    groups = found(tallies, 0.03)
    assert len(groups.gains) == 1
    assert (truth[groups.members == 0] == 1).mean() > 0.97


def test_a_coalition_beyond_alpha_gets_no_group_or_one_of_its_own(rng: np.random.Generator) -> None:
    """A tenth of the accounts where three in a hundred are stated: good users are in no group."""
    tallies, truth = played(rng, [1.0], alpha=0.1, n_users=1500, plays=240)
    groups = found(tallies, 0.03)
    assert (truth[groups.members != NO_GROUP] == COLLUDERS).all()
    assert not found(tallies, 0.1).gains


def test_groups_decide_as_their_members_want(rng: np.random.Generator) -> None:
    tallies, truth = played(rng, [0.6, 0.4], alpha=0.1, n_users=1500, plays=240)
    common = common_policy(tallies, 0.1)
    groups = find_groups(tallies, common, alpha=0.1, n_groups=2)
    names = Labels.of([f"u{code}" for code in range(1500)])
    own = group_decisions(groups, tallies, common, names, design="uniform")
    best, is_right, is_common = best_actions(2), [], []
    for user in np.flatnonzero(truth != COLLUDERS).tolist():
        for context in range(CONTEXTS):
            action = own.action(f"u{user}", context)
            chosen = common.actions[context] if action == UNKNOWN else action
            is_right.append(chosen == best[truth[user], context])
            is_common.append(common.actions[context] == best[truth[user], context])
    assert np.mean(is_right) > 0.97
    assert np.mean(is_common) < 0.7  # negative control
    assert own.group("a new user") == UNKNOWN


def test_groups_say_how_many_there_are_and_what_they_gain() -> None:
    members = np.array([1, 0, 1, NO_GROUP] + [1] * 1000)
    assert Groups(members, (0.25, 0.123), 5).sizes.tolist() == [1, 1002]
    assert Groups(members, (0.25, 0.123), 5).statement() == (
        "2 groups of taste (error rate 1% if user means are near normal, colluders allowed for): "
        "1 user gains at least 0.25 a play, 1,002 users gain at least 0.12 a play where "
        "decisions differ; 1 user with the common policy."
    )
    nobody = np.full(3, NO_GROUP)
    assert Groups(nobody, (0.5,), 3).sizes.tolist() == [0]
    assert Groups(nobody, (), 14).statement() == (
        "the data do not support groups of taste: none of 14 candidates gains on held-out plays "
        "(error rate 1% if user means are near normal, colluders allowed for), and everybody "
        "gets the common policy."
    )


def test_a_number_of_groups_is_one_from_2_to_20() -> None:
    assert [check_groups(value) for value in (2, 20, "2", " 20 ", "auto")] == [2, 20, 2, 20, "auto"]
    for bad in (1, 21, "1", "21", True, "AUTO", None, 3.0):
        with pytest.raises(InputError) as refused:
            check_groups(bad)
        assert str(refused.value) == (
            f"`groups` is {bad!r}: give a number of groups from 2 to 20, or auto."
        )


@pytest.mark.parametrize("design", ["uniform", "sticky"])
def test_a_group_is_learned_from_its_members_for_all_colluders(
    design: DesignName, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 120 users 12 may collude: a fifth of 60, and more than the most that is assumed of 20."""
    seen: list[tuple[int, float, bool]] = []

    def method(tallies: Tallies, chosen: Design, **options: Any) -> Estimates:
        is_sticky = bool(chosen.is_sticky.all())
        seen.append((tallies.n_users, options["alpha"], is_sticky))
        return learn_paper(tallies, uniform_design(tallies), **options)

    monkeypatch.setitem(METHODS, "paper", method)  # type: ignore[arg-type]
    tallies, _ = played(rng, [0.5, 0.5], alpha=0.0, n_users=120, plays=100)
    policy = common_policy(tallies, 0.1)
    members = np.array([0] * 60 + [NO_GROUP] * 40 + [1] * 20)
    groups = Groups(members, (0.1, 0.2), 2)
    names = Labels.of([f"user-{code}" for code in range(120)])
    own = group_decisions(groups, tallies, policy, names, design=design)
    assert seen == [(60, 0.2, design == "sticky"), (20, 0.45, design == "sticky")]
    assert (own.group("user-59"), own.group("user-70"), own.group("user-100")) == (0, UNKNOWN, 1)
    for number, user in ((0, "user-3"), (1, "user-110")):
        theirs = tallies.of_users(np.flatnonzero(members == number))
        means = learn_paper(theirs, uniform_design(theirs), alpha=(0.2, 0.45)[number]).mean_rewards
        best = means.argmax(axis=1)
        expected = np.where(best == policy.actions, UNKNOWN, best)
        assert [own.action(user, context) for context in range(CONTEXTS)] == expected.tolist()
