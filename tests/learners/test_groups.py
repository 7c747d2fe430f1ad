"""Groups of taste: found where they are, not where they are not, and not for a coalition."""

import numpy as np
import pytest

from unswayed.events import UNKNOWN, Labels
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


def test_groups_are_counted_in_one_sentence() -> None:
    one = Groups(members=np.array([0, 0, NO_GROUP]), gains=(0.25,), n_tried=3)
    assert one.statement().startswith("1 group of taste (")
    assert (
        "2 users gain at least 0.25 a play where decisions differ; 1 user with" in one.statement()
    )
    two = Groups(members=np.array([0, 1, 1]), gains=(0.25, 0.5), n_tried=3)
    assert two.statement().startswith("2 groups of taste (")
