"""Wild logs match their descriptions: colluders, honest means, and disjoint parts."""

from dataclasses import fields, replace

import numpy as np
import pytest

from unswayed.learners.design import design_of_log
from unswayed.limits import two_sided_adversaries
from worlds.wild import AB_ATTACKS, ATTACKS, FEW_ATTACKS, KINDS, ab_test, build_wild, few_accounts
from worlds.wild.kinds import Kind, wild_spec
from worlds.wild.rewards import draw, lie, link, mean_reward
from worlds.wild.small import AB_PLAYS, hidden_gap
from worlds.wild.specs import Family, WildSpec
from worlds.world import PARTS, World

FAMILIES: tuple[Family, ...] = (
    "clicks",
    "coin",
    "stars",
    "skewed stars",
    "baskets",
    "dwell",
    "counts",
    "costs",
    "refunds",
    "votes",
    "scores",
)
BASES = {"clicks": 0.05, "baskets": 0.06, "refunds": 0.08, "stars": 3.2, "skewed stars": 4.6}
IDS = [kind.name for kind in KINDS]


def small(kind: Kind, seed: int, n_events: int = 20_000) -> tuple[WildSpec, World]:
    """Return a log of one kind with fewer events."""
    spec = replace(wild_spec(kind, "development", seed), n_events=n_events)
    return spec, build_wild(spec)


def named(*words: str) -> list[Kind]:
    """Return the kinds that have all of the given tags."""
    return [kind for kind in KINDS if set(words) <= set(kind.tags)]


def test_there_are_enough_kinds_and_every_ingredient_occurs() -> None:
    assert len(set(IDS)) == len(KINDS) >= 64
    groups = [kind.group for kind in KINDS]
    assert groups.count("attacked") >= 40
    assert len(groups) - groups.count("attacked") >= 24
    assert {kind.family for kind in KINDS} == {*FAMILIES, "mixed"}
    assert {kind.attack for kind in KINDS} == {None, *ATTACKS}
    for name, choices in {
        "logging": {"uniform", "sticky", "epsilon-greedy", "softmax", "thompson"},
        "activity": {"equal", "log-normal", "pareto"},
        "size": {"ab", "arms", "few", "some", "many"},
    }.items():
        for is_attacked in (True, False):
            some = [kind for kind in KINDS if (kind.group == "attacked") == is_attacked]
            assert {getattr(kind, name) for kind in some} == choices


def test_parts_and_seeds_share_no_world() -> None:
    """Two logs of one kind differ in size and in rewards."""
    kind = KINDS[0]
    specs = [wild_spec(kind, part, seed) for part in PARTS for seed in (0, 1)]
    drawn = [(spec.base, spec.span, spec.n_users) for spec in specs]
    assert len(set(drawn)) == len(specs)
    logs = [build_wild(replace(specs[0], part=part, n_events=5_000)) for part in PARTS]
    assert len({log.rewards.tobytes() for log in logs}) == len(PARTS)


def test_a_spec_determines_its_log(seed: int) -> None:
    first, second = (small(named("thompson", "attacked")[0], seed)[1] for _ in range(2))
    for field in fields(World):
        one, other = getattr(first, field.name), getattr(second, field.name)
        assert np.array_equal(one, other) if isinstance(one, np.ndarray) else one == other


@pytest.mark.parametrize("kind", KINDS, ids=IDS)
def test_the_number_of_colluders_is_as_specified_and_zero_without_an_attack(
    kind: Kind, seed: int
) -> None:
    spec, log = small(kind, seed)
    assert log.is_bad.sum() == round(spec.bad_share * spec.n_users)
    assert log.is_bad.any() == (kind.group in ("attacked", "unaimed"))
    assert log.true_means.shape == (spec.n_contexts, spec.n_actions)
    assert np.isfinite(log.rewards).all()
    assert log.context_probabilities.sum() == pytest.approx(1.0)
    assert np.bincount(log.users, minlength=log.n_users).min() >= 1


def within_chance(log: World, factor: float = 1.0) -> float:
    """Return the deviations of mean honest rewards from the truth, in standard errors."""
    is_honest = ~log.is_bad[log.users]
    expected = factor * log.true_means[log.contexts, log.actions][is_honest]
    residuals = log.rewards[is_honest] - expected
    sums = np.bincount(log.users[is_honest], residuals, log.n_users)
    return float(sums.sum() / np.sqrt((sums**2).sum()))


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if "delayed" not in kind.traits], ids=lambda kind: kind.name
)
def test_the_truth_is_the_mean_of_honest_users(kind: Kind, seed: int) -> None:
    """Residuals are averaged by user, because those of one user are correlated."""
    _, log = small(kind, seed, 60_000)
    # The largest of 76 standard normal numbers exceeds 4.5 once in 2,000 runs.
    assert abs(within_chance(log)) < 4.5


def test_a_truth_that_is_off_by_a_tenth_is_detected(seed: int) -> None:
    """Negative control of the test above."""
    _, log = small(named("coin", "camps")[0], seed, 60_000)
    assert abs(within_chance(log, 0.9)) > 4.5


@pytest.mark.parametrize("family", FAMILIES)
def test_rewards_have_the_mean_that_is_promised(family: Family, rng: np.random.Generator) -> None:
    own = np.full(200_000, link(family, BASES.get(family, 0.5)))
    amounts = np.full(len(own), 40.0)
    rewards = draw(family, rng, own, amounts)
    error = rewards.std() / np.sqrt(len(own))
    # Amounts are rounded to cents, costs to tenths of a cent.
    assert rewards.mean() == pytest.approx(
        mean_reward(family, own[:1], amounts[:1])[0], abs=4.5 * error + 0.001
    )
    better = mean_reward(family, own[:1] + 0.1, amounts[:1])
    assert better > mean_reward(family, own[:1], amounts[:1])


@pytest.mark.parametrize("strength", ["top", "within", "extreme"])
@pytest.mark.parametrize("family", FAMILIES)
def test_lies_raise_or_lower_means(family: Family, strength: str, rng: np.random.Generator) -> None:
    centre = np.full(20_000, link(family, BASES.get(family, 0.5)))
    amounts = np.full(len(centre), 40.0)
    honest = draw(family, rng, centre, amounts).mean()
    for is_up in (True, False):
        told = lie(family, rng, centre, amounts, is_up=is_up, strength=strength)  # type: ignore[arg-type]
        assert (told.mean() > honest) == is_up


@pytest.mark.parametrize("kind", named("loud push"), ids=lambda kind: kind.name)
def test_a_loud_push_misleads_the_plain_mean_unless_bots_are_removed(kind: Kind, seed: int) -> None:
    """Negative control: an attack that plain means withstand would be useless."""
    log = build_wild(replace(wild_spec(kind, "development", seed), bad_share=0.35))
    assert log.score(log.naive()) > log.score(log.oracle()) + 0.2
    assert log.pushed_share(log.naive()) > log.pushed_share(log.oracle()) + 0.5


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_attacks_cause_large_losses_of_the_plain_mean(part: str) -> None:
    excess = []
    for kind in named("attacked"):
        log = build_wild(wild_spec(kind, part, 5))  # type: ignore[arg-type]
        excess.append(log.score(log.naive()) - log.score(log.oracle()))
    assert np.mean(excess) > 0.3


def traffic(log: World) -> float:
    """Return the colluders' share of the events."""
    return float(log.is_bad[log.users].mean())


@pytest.mark.parametrize("logging", ["uniform", "sticky", "epsilon-greedy"])
@pytest.mark.parametrize("n_accounts", [1, 3, 10, 30])
def test_few_accounts_are_added_to_an_unchanged_log(
    n_accounts: int, logging: str, seed: int
) -> None:
    without, joined = few_accounts(n_accounts, seed, logging=logging, n_events=20_000)  # type: ignore[arg-type]
    n = len(without.users)
    for name in ("users", "contexts", "actions", "rewards", "propensities"):
        before, after = getattr(without, name), getattr(joined, name)
        assert before is after is None or np.array_equal(before, after[:n])
    assert not without.is_bad.any()
    assert joined.is_bad.sum() == n_accounts
    assert joined.is_bad[joined.users[n:]].all()
    assert traffic(joined) == pytest.approx(0.1, abs=0.001)


@pytest.mark.parametrize("attack", FEW_ATTACKS)
def test_few_accounts_mislead_the_plain_mean(attack: str, seed: int) -> None:
    """Negative control: without caps three accounts with a tenth of the traffic suffice."""
    # Nuking an action requires that it often gets high rewards.
    family = {"wholesale": "baskets", "sink": "coin"}.get(attack, "clicks")
    without, joined = few_accounts(3, seed, attack=attack, family=family)  # type: ignore[arg-type]
    changed = without.naive() != joined.naive()
    assert without.context_probabilities @ changed > 0.1


@pytest.mark.parametrize("attack", AB_ATTACKS)
def test_an_ab_test_has_the_specified_share_of_colluders(attack: str, seed: int) -> None:
    log = ab_test(0.2, 0.2, attack, seed)
    assert log.is_bad.mean() == pytest.approx(0.2, abs=0.001)
    assert len(log.users) == 3_000 * AB_PLAYS
    assert log.score(log.oracle()) == 0
    assert design_of_log(log.tallies, "auto").is_sticky.all()


def test_all_or_nothing_misleads_the_plain_mean_and_hidden_arms_look_alike(seed: int) -> None:
    gap = hidden_gap(0.2)
    pair = two_sided_adversaries(gap, AB_PLAYS, 0.2, base=0.5 - gap / 2)
    assert pair.ordinary.distance == pytest.approx(0.0, abs=1e-6)
    loud = ab_test(2 * gap, 0.2, "all or nothing", seed)
    assert loud.score(loud.naive()) > 1
    hidden = ab_test(gap, 0.2, "hidden", seed)
    means = [hidden.rewards[hidden.actions == arm].mean() for arm in (0, 1)]
    # 1,500 users per arm, whose means have a standard deviation of at most one half.
    assert abs(means[0] - means[1]) < 4.5 * 0.15 * np.sqrt(2 / 1_500)
    assert abs(np.diff(hidden.true_means[0])[0]) == pytest.approx(gap)
