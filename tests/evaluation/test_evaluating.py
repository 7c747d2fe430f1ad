"""Policies under attack: their value for honest users, against an oracle and the plain estimate."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from unswayed import Evaluation, Events, InputError, Labels, Policy, RobustMCB, evaluate_policy
from unswayed.events import Columns
from unswayed.policy import Origin

S, A, N_USERS, N_PLAYS = 10, 5, 1_000, 30
MEANS = np.random.default_rng(5).uniform(0.3, 0.6, (S, A))
LABELS = Labels.of(range(N_USERS)), Labels.of(range(S)), Labels.of(range(A))
BEST, SECOND = np.argsort(-MEANS, axis=1)[:, :2].T


def policy_that_plays(choices: np.ndarray) -> Policy:
    """Return a policy learned from a log of other users."""
    table = np.zeros((S, A))
    table[np.arange(S), choices] = 1.0
    counts = np.ones((S, A), dtype=np.int64)
    others = Labels.of([f"other {k}" for k in range(N_USERS)])
    return Policy(
        context_labels=LABELS[1],
        action_labels=LABELS[2],
        mean_rewards=table,
        low=table,
        high=table,
        counts=counts,
        context_probabilities=np.full(S, 1 / S),
        alpha=0.0,
        method="given",
        source={"origin": Origin.of(LABELS[1], LABELS[2], counts, others).to_json()},
    )


def log_with(
    rng: np.random.Generator, lies: str = "none", *, tastes: float = 0.0, means: np.ndarray = MEANS
) -> Events:
    """Return a log in which a fifth collude, for action 2 or mildly for the two best ones."""
    users = np.repeat(np.arange(N_USERS), N_PLAYS)
    contexts, actions = rng.integers(S, size=len(users)), rng.integers(A, size=len(users))
    own = tastes * rng.standard_normal((N_USERS, A))
    rates = np.clip(means[contexts, actions] + own[users, actions], 0.02, 0.98)
    rewards = (rng.random(len(users)) < rates).astype(float)
    is_bad = users < N_USERS // 5
    if lies == "quiet":
        is_bad &= rng.random(len(users)) < 0.35
        rewards[is_bad & (actions == BEST[contexts])] = 0.0
        rewards[is_bad & (actions == SECOND[contexts])] = 1.0
    elif lies != "none":
        rewards[is_bad & (actions == 2)] = 1.0 if lies == "push" else 0.0
    return Events(users, contexts, actions, rewards, *LABELS)


def uplift_of(choices: np.ndarray, means: np.ndarray = MEANS) -> float:
    return float(means[np.arange(S), choices].mean() - means.mean())


TARGET = np.full(S, 2)


@pytest.mark.parametrize("lies", ["push", "nuke"])
def test_intervals_hold_under_lies_about_the_evaluated_actions(
    rng: np.random.Generator, lies: str
) -> None:
    true = uplift_of(TARGET)
    found = evaluate_policy(log_with(rng, lies), policy_that_plays(TARGET), alpha=0.2)
    naive, robust = found.naive.uplift, found.honest.uplift
    # The negative control: the bias of the plain estimate is a fifth of the size of the lies.
    assert abs(naive.estimate - true) > 0.05
    assert not naive.low <= true <= naive.high
    assert robust.low <= true <= robust.high
    # A policy that lies only in favour of one action is detected less often; then only the interval
    # allows for it. Errors of an oracle have a deviation of .006; four of these, and .006 of bias.
    assert lies == "nuke" or abs(robust.estimate - true) < 0.03
    assert found.n_coalitions == 1 or lies == "nuke"


@pytest.mark.parametrize("alpha", [0.2, "auto"])
@pytest.mark.parametrize(("plays", "choices"), [("best", BEST), ("second", SECOND)])
def test_intervals_hold_under_quiet_lies(
    rng: np.random.Generator, plays: str, choices: np.ndarray, alpha: float | str
) -> None:
    """A fifth of the users lie in a third of their plays of the two best items."""
    del plays
    true = uplift_of(choices)
    found = evaluate_policy(log_with(rng, "quiet"), policy_that_plays(choices), alpha=alpha)  # type: ignore[arg-type]
    naive, robust = found.naive.uplift, found.honest.uplift
    # The negative control: lies move the plain estimate by .035, three of its standard errors.
    assert not naive.low <= true <= naive.high
    assert robust.low <= true <= robust.high
    assert found.condition == "if at most 20% of the accounts collude"
    assert found.condition in found.statement
    # A fifth of liars could move the difference of two means of clicks by .4.
    assert robust.high - robust.low < 0.25


def test_the_order_of_the_rows_does_not_matter(rng: np.random.Generator) -> None:
    log, policy = log_with(rng, "push"), policy_that_plays(TARGET)
    once = evaluate_policy(log, policy, alpha=0.2).honest
    again = evaluate_policy(log.rows(rng.permutation(len(log))), policy, alpha=0.2).honest
    assert once.value == pytest.approx(again.value, rel=1e-6)
    assert once.uplift == pytest.approx(again.uplift, rel=1e-6)


def test_an_uplift_stays_within_the_range_of_rewards(rng: np.random.Generator) -> None:
    """With nearly half of few accounts colluding, only the range of rewards bounds the value."""
    log = log_with(rng)
    found = evaluate_policy(log.rows(log.users < 30), policy_that_plays(TARGET), alpha=0.49)
    assert (found.honest.uplift.low, found.honest.uplift.high) == (-1.0, 1.0)
    assert -1.0 < found.honest.sampling.low < found.honest.sampling.high < 1.0


@pytest.mark.parametrize("tastes", [0.0, 0.1])
def test_without_an_attack_nothing_is_lost(rng: np.random.Generator, tastes: float) -> None:
    found = evaluate_policy(log_with(rng, tastes=tastes), policy_that_plays(TARGET), alpha=0.2)
    worst, chance = found.honest.uplift, found.honest.sampling
    assert found.n_coalitions == 0
    assert worst.estimate == pytest.approx(found.naive.uplift.estimate, abs=0.003)
    assert worst.low <= uplift_of(TARGET) <= worst.high
    assert worst.low < chance.low < chance.high < worst.high


def test_more_colluders_leave_wider_intervals_until_the_sign_is_open(
    rng: np.random.Generator,
) -> None:
    events, policy = log_with(rng), policy_that_plays(BEST)
    found = [evaluate_policy(events, policy, alpha=alpha) for alpha in (0.0, 0.05, 0.2, 0.4)]
    widths = [one.honest.uplift.high - one.honest.uplift.low for one in found]
    assert widths == sorted(widths)
    assert found[0].honest.uplift == found[0].honest.sampling
    for one in found:
        assert one.holds_to is not None
        is_open = one.honest.uplift.low <= 0.0 <= one.honest.uplift.high
        assert is_open == (one.share > one.holds_to)
    assert f"It is better unless more than {found[0].holds_to:.1%}" in found[0].statement
    even = evaluate_policy(events, policy, baseline=policy, alpha=0.1)
    assert even.holds_to is None
    assert all(one.uplift.estimate == 0.0 for one in even.estimates)


def test_a_policy_of_this_log_is_cross_fitted_and_others_are_not(rng: np.random.Generator) -> None:
    """All actions have equal means; without cross-fitting the estimated uplift is positive."""
    alike = np.full((S, A), 0.3)
    events = log_with(rng, means=alike)
    policy = RobustMCB(alpha=0.05).fit(events).policy()
    same = evaluate_policy(events, policy, alpha=0.0)
    assert same.fitting == "cross-fitted"
    assert "it was learned from this log" in same.statement
    assert same.honest.uplift.low < 0.0
    unknown = evaluate_policy(events, replace(policy, source={}), alpha=0.0)
    assert "it may have been learned from this log" in unknown.statement
    assert unknown.honest == same.honest
    # The negative control: a maximum over five actions with standard errors of .02 is biased.
    elsewhere = replace(policy, source=policy_that_plays(BEST).source)
    naive = evaluate_policy(events, elsewhere, alpha=0.0)
    assert naive.fitting == "as it is"
    assert naive.honest.uplift.low > 0.0
    # The next day's log has the same users; without times it may have the same events.
    tomorrow = log_with(rng, means=alike)
    assert evaluate_policy(tomorrow, policy, alpha=0.0).fitting == "cross-fitted"
    # A policy of an unknown method cannot be learned again.
    doubtful = evaluate_policy(events, replace(policy, source={}, method="mine"), alpha=0.0)
    assert doubtful.fitting == "as it is"
    assert any("estimates are too high" in warning for warning in doubtful.warnings)


def test_a_holdout_is_learned_from_the_past_and_evaluated_on_the_rest(
    rng: np.random.Generator,
) -> None:
    """Action 0 is best in the first half of the log and action 1 in the second."""
    early, late = np.full((S, A), 0.2), np.full((S, A), 0.2)
    early[:, 0], late[:, 1] = 0.5, 0.5
    halves = [log_with(rng, means=means) for means in (early, late)]
    columns = ("users", "contexts", "actions", "rewards")
    both = [np.concatenate([getattr(one, name) for one in halves]) for name in columns]
    order = rng.permutation(len(both[0]))
    times = np.repeat([0.0, 1.0], len(halves[0])) + rng.random(len(order)) / 2
    users, contexts, actions, rewards = (column[order] for column in both)
    events = Events(users, contexts, actions, rewards, *LABELS, times=times[order])
    policy = RobustMCB(alpha=0.1).fit(halves[1]).policy()
    assert (policy.actions == 1).all()
    found = evaluate_policy(events, policy, alpha=0.1, holdout=0.5)
    assert found.fitting == "holdout"
    assert found.n_events == len(halves[1])
    # The policy plays action 0, whose mean is .2 in the second half, where all average .26.
    assert {one.action for one in found.contexts} == {0}
    assert found.honest.uplift.low <= -0.06 <= found.honest.uplift.high < 0.0
    for share, sentence in ((0.0, "above 0 and below 1"), (1.5, "above 0 and below 1")):
        with pytest.raises(InputError, match=sentence):
            evaluate_policy(events, policy, holdout=share)
    with pytest.raises(InputError, match="the log has no times"):
        evaluate_policy(halves[0], policy, holdout=0.5)


def test_stochastic_policies_are_mixtures(rng: np.random.Generator) -> None:
    """Playing two actions with probability one half each yields the mean of their values."""
    events = log_with(rng)

    def evaluated(*rows: tuple[int, float]) -> Evaluation:
        table = [(s, a, p) for s in range(S) for a, p in rows]
        columns = zip(("context", "action", "probability"), zip(*table, strict=True), strict=True)
        return evaluate_policy(events, pa.table(dict(columns)), alpha=0.1)

    one, other, mixed = evaluated((0, 1.0)), evaluated((3, 1.0)), evaluated((0, 0.5), (3, 0.5))
    a, b, half = (found.naive.uplift.estimate for found in (one, other, mixed))
    assert half == pytest.approx((a + b) / 2)
    assert (
        one.honest == evaluate_policy(events, policy_that_plays(np.zeros(S, int)), alpha=0.1).honest
    )
    assert mixed.matched == one.matched + other.matched
    for rows, sentence in (
        (((0, 0.5), (1, 0.4)), "context 0 add up to 0.9, or one is negative"),
        (((0, 1.5), (1, -0.5)), "must be at least 0"),
    ):
        with pytest.raises(InputError, match=sentence):
            evaluated(*rows)
    with pytest.raises(InputError, match="no row for context 1"):
        evaluate_policy(events, pa.table({"context": [0], "action": [0], "probability": [1.0]}))


def test_results_are_tables_and_json_of_the_promised_shape(rng: np.random.Generator) -> None:
    found = evaluate_policy(log_with(rng), policy_that_plays(TARGET), alpha=0.05)
    told = found.to_json()
    assert [(one["estimator"], one["robust"]) for one in told["estimates"]] == [
        ("dr", False),
        ("dr", True),
    ]
    for one in told["estimates"]:
        for part in (one["value"], one["uplift"], one["uplift_if_nobody_hides"]):
            assert part["low"] <= part["estimate"] <= part["high"]
    assert len(told["contexts"]) == S
    # Uniform play of five actions: a fifth of the events count, with equal weights.
    assert told["effective_sample_size"] == pytest.approx(told["matched_events"])
    frame = found.table().to_pandas()
    assert frame["uplift_low"].tolist() == [one.uplift.low for one in found.estimates]
    assert found.table("contexts").num_rows == S


def test_poorly_covered_policies_are_reported_by_their_width(
    streams: Callable[..., np.random.Generator],
) -> None:
    """A rarely played action causes a warning only if chance could explain its uplift."""
    told = []
    for n in range(3):  # a log in twenty has a significant uplift by chance
        rng = streams(n)
        events = log_with(rng)
        kept = (events.actions != 2) | (rng.random(len(events)) < 0.04)
        shares = np.where(events.actions == 2, 0.01, 0.2475)
        rare = replace(events.rows(kept), propensities=shares[kept])
        for uplift in (0.0, 0.5):
            log = replace(
                rare, rewards=np.where(rare.actions == 2, rare.rewards + uplift, rare.rewards)
            )
            found = evaluate_policy(log, policy_that_plays(TARGET), alpha=0)
            assert found.effective_sample_size < 0.05 * len(rare)
            told.append(any("chance alone could explain" in warning for warning in found.warnings))
    assert any(told[::2])
    assert not any(told[1::2])


def test_a_policy_without_any_logged_action_is_refused(rng: np.random.Generator) -> None:
    """If some actions are missing, they count as the mean of their context."""
    events = log_with(rng)
    kept = events.actions != 2
    some = replace(events.rows(kept), propensities=np.full(int(kept.sum()), 0.25))
    some = replace(some, action_labels=Labels.of([0, 1, 9, 3, 4]))
    with pytest.raises(InputError, match="nothing can be said about the policy"):
        evaluate_policy(some, policy_that_plays(TARGET), alpha=0.0)
    rows = [(s, a, 0.5) for s in range(S) for a in (0, 2)]
    names = ("context", "action", "probability")
    table = pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
    found = evaluate_policy(some, table, alpha=0.0)
    assert found.unsupported == pytest.approx(0.5)
    assert any("never played" in warning for warning in found.warnings)
    expected = 0.0
    for s in range(S):
        here = some.contexts == s
        known = some.rewards[here & (some.actions == 0)].mean()
        expected += here.mean() * (0.5 * known + 0.5 * some.rewards[here].mean())
    assert found.naive.value.estimate == pytest.approx(expected)


def test_contexts_of_another_type_are_refused(rng: np.random.Generator) -> None:
    named = replace(log_with(rng), context_labels=Labels.of([f"c{k}" for k in range(S)]))
    with pytest.raises(InputError, match="`context_column`"):
        evaluate_policy(named, policy_that_plays(TARGET), alpha=0.0)


def test_intervals_hold_where_users_met_the_action_once_or_twice() -> None:
    """A fifth of the users always report 1, which eight plays of six actions hardly reveal."""
    labels = Labels.of(range(N_USERS)), Labels.of([0]), Labels.of(range(6))
    table = pa.table({"context": [0], "action": [0], "probability": [1.0]})
    users, means = np.repeat(np.arange(N_USERS), 8), np.array([0.3, *[0.12] * 5])
    for seed in range(4):
        rng = np.random.default_rng(seed)
        actions = rng.integers(6, size=len(users))
        rewards = (rng.random(len(users)) < means[actions]).astype(float)
        rewards[(users < N_USERS // 5) & (actions == 0)] = 1.0
        events = Events(users, np.zeros(len(users), np.int64), actions, rewards, *labels)
        found = evaluate_policy(events, table, alpha=0.2)
        true = float(means[0] - means.mean())
        assert found.honest.uplift.low <= true <= found.honest.uplift.high
        # The negative control: the plain estimate has an error above a tenth.
        assert found.naive.uplift.low > true


def test_a_log_is_cut_into_the_bins_of_the_policy(rng: np.random.Generator) -> None:
    def drawn(first: int, scale: float) -> pa.Table:
        n = 4_000
        price, action = scale * rng.random(n), rng.integers(2, size=n)
        reward = (rng.random(n) < np.where((price < 0.5) == (action == 0), 0.8, 0.2)).astype(float)
        users = first + rng.integers(400, size=n)
        return pa.table({"user": users, "price": price, "action": action, "reward": reward})

    binned = Columns(context=("price",), bins={"price": 2})
    policy = RobustMCB(0.1).fit(drawn(0, 1.0), columns=binned).policy_
    result = evaluate_policy(drawn(10_000, 2.0), policy, columns=binned)
    assert {row.context for row in result.contexts} == set(policy.context_labels)
