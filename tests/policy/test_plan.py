import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unswayed.errors import InputError
from unswayed.events import Labels
from unswayed.policy import Decider, EpochPlan, Mode, Rule

SECRET = bytes(range(16))
ACTIONS = ["tea", "soup", "cake"]


def a_plan(
    *, share: float = 0.4, control_share: float = 0.1, is_sticky: bool = True, epoch: int = 3
) -> EpochPlan:
    rules = (
        Rule(
            action="soup",
            surviving=("soup", "cake"),
            explorer_share=share,
            is_sticky=is_sticky,
            baseline="tea",
        ),
        Rule(action="cake", surviving=("cake",), explorer_share=share / 2, baseline="tea"),
    )
    return EpochPlan(
        campaign="spring",
        epoch=epoch,
        contexts=Labels.of(["lunch", "dinner"]),
        actions=Labels.of(ACTIONS),
        rules=rules,
        unknown=replace(rules[1], baseline="cake"),
        control_share=control_share,
    )


def users(n: int) -> list[str]:
    return [f"user {i}" for i in range(n)]


def within(observed: float, expected: float, n: int) -> bool:
    """Whether a mean of n draws in [0, 1] is within Hoeffding's bound at level 1e-9."""
    return bool(abs(observed - expected) < np.sqrt(np.log(2e9) / (2 * n)))


labels = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@st.composite
def plans(draw: st.DrawFn) -> EpochPlan:
    contexts = draw(st.lists(labels, unique=True, max_size=5))
    actions = draw(st.lists(st.integers(-5, 5), unique=True, min_size=1, max_size=5))
    share = st.floats(0.0, 1.0)

    def rule() -> Rule:
        surviving = draw(st.lists(st.sampled_from(actions), unique=True, min_size=1))
        return Rule(
            action=draw(st.sampled_from(surviving)),
            surviving=tuple(surviving),
            explorer_share=draw(share),
            is_sticky=draw(st.booleans()),
            is_spread=draw(st.booleans()),
            baseline=draw(st.sampled_from(actions)),
        )

    return EpochPlan(
        campaign=draw(labels.filter(len)),
        epoch=draw(st.integers(0, 2**62)),
        contexts=Labels.of(contexts),
        actions=Labels.of(actions),
        rules=tuple(rule() for _ in contexts),
        unknown=rule(),
        control_share=draw(share),
        is_alarmed=draw(st.booleans()),
    )


@given(plans())
def test_a_plan_decides_the_same_after_a_round_trip_through_json(plan: EpochPlan) -> None:
    again = EpochPlan.from_json(json.loads(json.dumps(plan.to_json())))
    assert again == plan
    assert hash(again) == hash(plan)
    first, second = Decider(plan, SECRET), Decider(again, SECRET)
    for context in [*plan.contexts, "not there"]:
        assert first.decide("ann", context, 7) == second.decide("ann", context, 7)


@given(plans(), st.integers(0, 2**32))
def test_decisions_in_bulk_equal_decisions_one_by_one(plan: EpochPlan, key: int) -> None:
    rng = np.random.default_rng(key)
    decider = Decider(plan, rng.bytes(16))
    n = 40 * bool(len(plan.contexts))
    who = [int(user) for user in rng.integers(-3, 3, n)]
    contexts = rng.integers(0, max(len(plan.contexts), 1), n)
    plays = rng.integers(0, 5, n)
    places = decider.places_of(decider.digests(who), contexts, plays)
    for i in range(n):
        one = decider.decide(who[i], plan.contexts[int(contexts[i])], int(plays[i]))
        assert decider.ruled[places[i]] == one


@given(plans())
def test_propensities_sum_to_one_over_the_possible_actions(plan: EpochPlan) -> None:
    decider = Decider(plan, SECRET)
    for context in plan.contexts:
        row = decider._row(context)
        by_action = {ruling.action: ruling.propensity for ruling in row.rulings}
        assert sum(by_action.values()) == pytest.approx(1.0)


@pytest.mark.parametrize("is_sticky", [True, False])
def test_shares_and_propensities_match_the_plays(is_sticky: bool) -> None:
    n = 40_000
    decider = Decider(a_plan(is_sticky=is_sticky), SECRET)
    rulings = [decider.decide(user, "lunch", 5) for user in users(n)]
    for mode, share in ((Mode.CONTROL, 0.1), (Mode.EXPLORE, 0.36), (Mode.EXPLOIT, 0.54)):
        assert within(sum(ruling.mode is mode for ruling in rulings) / n, share, n)
    for action in ACTIONS:
        (propensity,) = {ruling.propensity for ruling in rulings if ruling.action == action}
        played = sum(ruling.action == action for ruling in rulings) / n
        assert within(played, propensity, n)
    assert {r.mode_propensity for r in rulings if r.mode is Mode.EXPLORE} == {0.5}


def test_explorers_are_redrawn_in_every_epoch_and_controls_stay() -> None:
    n = 20_000
    first, later = (Decider(a_plan(epoch=epoch), SECRET) for epoch in (3, 4))
    modes = [
        (first.decide(user, "lunch").mode, later.decide(user, "lunch").mode) for user in users(n)
    ]
    held = [pair for pair in modes if Mode.CONTROL in pair]
    assert all(one is other for one, other in held)
    served = [pair for pair in modes if Mode.CONTROL not in pair]
    both = sum(one is other is Mode.EXPLORE for one, other in served) / len(served)
    assert within(both, 0.4**2, len(served))


def test_sticky_explorers_keep_their_action_and_others_draw_at_every_play() -> None:
    for is_sticky in (True, False):
        decider = Decider(a_plan(share=1.0, control_share=0.0, is_sticky=is_sticky), SECRET)
        actions = [decider.decide("ann", "lunch", play).action for play in range(2000)]
        if is_sticky:
            assert len(set(actions)) == 1
        else:
            assert within(actions.count("soup") / 2000, 0.5, 2000)


def test_spread_exploration_gives_every_user_about_the_same_share_of_plays() -> None:
    n_plays = 2000
    for is_spread in (True, False):
        plan = EpochPlan.start("x", ["lunch"], ACTIONS, explorer_share=0.3, is_spread=is_spread)
        decider = Decider(plan, SECRET)
        shares = [
            sum(decider.decide(user, "lunch", p).mode is Mode.EXPLORE for p in range(n_plays))
            / n_plays
            for user in users(20)
        ]
        if is_spread:
            assert all(within(share, 0.3, n_plays) for share in shares)
        else:
            assert set(shares) == {0.0, 1.0}


def test_an_unknown_context_is_served_by_its_own_rule() -> None:
    decider = Decider(a_plan(control_share=0.0), SECRET)
    ruling = decider.decide("ann", "breakfast")
    assert not ruling.is_known
    assert ruling.action == "cake"


def test_plan_files_are_read_back_and_damaged_ones_are_named(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    plan = a_plan()
    plan.save(path)
    assert EpochPlan.load(path, campaign="spring") == plan
    with pytest.raises(InputError, match="belongs to campaign 'spring' and this is campaign 'x'"):
        EpochPlan.load(path, campaign="x")
    path.write_text("{}")
    with pytest.raises(InputError, match=r"plan\.json is not a plan: its 'format' is not 'unsw"):
        EpochPlan.load(path)


@pytest.mark.parametrize("name", sorted(a_plan().to_json()))
@pytest.mark.parametrize("bad", [None, [], {}, "x", -1, 1.5, True, {"lunch": 3}, ["tea", "tea"]])
def test_damaged_plans_are_refused_in_one_sentence(name: str, bad: object) -> None:
    value = a_plan().to_json() | {name: bad}
    if (name, bad) in [
        ("campaign", "x"),
        ("contexts", {}),
        ("version", True),
        ("is_alarmed", True),
    ]:
        return  # these are valid values of a plan; Python holds True == 1
    with pytest.raises(InputError):
        EpochPlan.from_json(value)
