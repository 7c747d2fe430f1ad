"""Every attack runs; harmful ones mislead a believer, and honest behaviour does not."""

from __future__ import annotations

import numpy as np
import pytest

from tests.simulation.learners import Believer
from tests.simulation.worlds import CROWD, GAP, crowd_with, loss, small_instance
from unswayed.errors import InputError
from unswayed.learners.interface import Setting
from unswayed.simulation.algorithms import OracleLearner
from unswayed.simulation.arena import Match
from unswayed.simulation.arrivals import Arrivals, Order
from unswayed.simulation.attacks.registry import ATTACKS, Knob, knobs_of, make_attack
from unswayed.simulation.instances import RewardLaw

ONLY_BINARY = {"hiding", "hiding-two-sided"}

# The effect of each attack on the difference "promoted minus best" of pooled means, which is -0.1
# without lies. Its standard error, for cells with 400 * 60 / 20 = 1200 plays of deviation at most
# 0.5, is 0.0204 (plus the coalition's own noise).
HARMFUL: list[tuple[str, RewardLaw, dict[str, Knob]]] = [
    # Binary, share 0.3: the target gains up to 0.3, the rival loses up to 0.3 of its mean.
    ("push", RewardLaw.BERNOULLI, {}),
    ("nuke", RewardLaw.BERNOULLI, {}),
    ("runner-up-swap", RewardLaw.BERNOULLI, {}),
    ("variance-shell", RewardLaw.BERNOULLI, {}),
    ("extreme", RewardLaw.BERNOULLI, {}),
    ("heavy-tail", RewardLaw.BERNOULLI, {"scale": 10.0}),
    ("subtractive", RewardLaw.BERNOULLI, {"draws": 8}),
    ("frequency-flood", RewardLaw.BERNOULLI, {}),
    ("id-grinding", RewardLaw.BERNOULLI, {}),
    ("focus", RewardLaw.BERNOULLI, {"share": 0.5}),
    ("focus", RewardLaw.BERNOULLI, {"share": 0.5, "mode": "rare"}),
    ("sleeper", RewardLaw.BERNOULLI, {}),
    ("on-off", RewardLaw.BERNOULLI, {}),
    # Gaussian, highest reward 2: the target gains 0.3 * (2 - mean) > 0.3.
    ("power-user", RewardLaw.GAUSSIAN, {}),
    ("average", RewardLaw.GAUSSIAN, {}),
    ("bandwagon", RewardLaw.GAUSSIAN, {}),
    ("mimicry", RewardLaw.GAUSSIAN, {}),
    ("shifted-replay", RewardLaw.GAUSSIAN, {}),
    ("trim-edge", RewardLaw.GAUSSIAN, {"trim": 0.31}),
    # 0.7 * 0.1 - 0.3 * 5 * 0.1 = -0.08.
    ("flip", RewardLaw.GAUSSIAN, {"strength": 5.0}),
    # -0.1 + 1.5 * 0.1 = +0.05.
    ("scapegoats", RewardLaw.GAUSSIAN, {}),
    # The mean shift is 3/4 of 8 deviations of 0.5 on both actions: -0.1 + 2 * 0.3 * 3 = +1.7.
    ("ladder", RewardLaw.GAUSSIAN, {}),
    # A shift of 0.5 * sqrt((1 + 0.3) / 0.21 / 24) = 0.254 on both: -0.1 + 2 * 0.3 * 0.254 = +0.05.
    ("hide-in-covariance", RewardLaw.GAUSSIAN, {"threshold": 2.0}),
]


@pytest.mark.parametrize("law", RewardLaw)
def test_honest_accounts_are_harmless(law: RewardLaw, seed: int) -> None:
    """Negative control: with a gap of 4.9 standard errors, 16 pairs fail with P < 1e-5."""
    assert loss(make_attack("honest"), Believer, seed=seed, law=law) == 0.0


@pytest.mark.parametrize(("name", "law", "knobs"), HARMFUL)
def test_a_harmful_attack_misleads_a_believer_but_not_the_oracle(
    name: str, law: RewardLaw, knobs: dict[str, Knob], seed: int
) -> None:
    """At least one of four contexts is lost; the smallest loss of a wrong policy is its gap."""
    swayed = loss(make_attack(name, knobs), Believer, seed=seed, law=law)
    assert swayed >= GAP / 4 - 1e-12
    # The oracle has 840 good plays per cell: the gap is 4.1 standard errors, P < 4e-4.
    assert loss(make_attack(name, knobs), OracleLearner, seed=seed, law=law) == 0.0


@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.parametrize("law", RewardLaw)
@pytest.mark.parametrize("order", Order)
def test_every_attack_runs_in_every_kind_of_world(
    name: str, law: RewardLaw, order: Order, seed: int
) -> None:
    crowd = crowd_with(arrivals=Arrivals(order=order, limit=3.0), perturbation=0.05)
    if name in ONLY_BINARY and law is not RewardLaw.BERNOULLI:
        with pytest.raises(InputError, match="Bernoulli"):
            loss(make_attack(name), Believer, seed=seed, law=law, crowd=crowd)
        return
    assert loss(make_attack(name), Believer, seed=seed, law=law, crowd=crowd) >= 0.0


@pytest.mark.parametrize("name", ATTACKS)
def test_every_attack_has_a_name_and_a_summary(name: str) -> None:
    kind = ATTACKS[name]
    assert kind.name == name
    assert 10 < len(kind.summary) < 100
    assert "\n" not in kind.summary
    assert repr(make_attack(name))
    assert make_attack(name, {knob: str(value) for knob, value in knobs_of(kind).items()})


@pytest.mark.parametrize("name", ATTACKS)
def test_a_coalition_without_accounts_changes_nothing(name: str, seed: int) -> None:
    crowd = crowd_with()
    empty = type(crowd)(n_users=20, interactions_per_user=2, alpha=0.0)
    instance = small_instance(seed)
    losses = {
        Match(instance, make_attack(chosen), Believer, empty, algorithm="x", seed=seed).loss()
        for chosen in (name, "honest")
    }
    assert len(losses) == 1


@pytest.mark.parametrize(
    ("name", "knobs", "named"),
    [
        ("psuh", {}, "did you mean push"),
        ("push", {"strenght": 1.0}, "did you mean strength"),
        ("push", {"strength": "loud"}, "give a number"),
        ("push", {"strength": 1.5}, "strength"),
        ("on-off", {"period": "often"}, "a whole number"),
        ("on-off", {"period": 0}, "period"),
        ("extreme", {"magnitude": -1.0}, "magnitude"),
        ("hide-in-covariance", {"threshold": 1.0}, "threshold"),
        ("hide-in-covariance", {"directions": 0}, "directions"),
        ("subtractive", {"draws": 0}, "draws"),
        ("framing", {"strength": 0.0}, "strength"),
        ("framing", {"decoys": 1.5}, "decoys"),
        ("scapegoats", {"decoys": 0.25}, "fewer than 0.25"),
        ("ladder", {"height": 0.0}, "height"),
        ("ladder", {"rungs": 1.5}, "rungs"),
        ("focus", {"share": -0.1}, "share"),
        ("focus", {"mode": "frequently"}, "did you mean frequent"),
        ("hiding", {"plays": -1}, "plays"),
        ("context-poisoning", {"mode": "inflat"}, "did you mean inflate"),
        ("id-grinding", {"secret": "xyz"}, "hexadecimal"),
        ("shifted-replay", {"direction": "sideways"}, "direction"),
        ("sleeper", {"inner": "nap"}, "unknown attack"),
        ("sleeper", {"inner.volume": 1}, "knob of attack push"),
        ("sleeper", {"wake": 2.0}, "wake"),
    ],
)
def test_unknown_attacks_and_knobs_are_named_in_the_error(
    name: str, knobs: dict[str, Knob], named: str
) -> None:
    with pytest.raises(InputError, match=named):
        make_attack(name, knobs)


def test_a_sleeper_that_never_wakes_is_harmless(seed: int) -> None:
    """Without histories, rewards of the first of 60 rounds are coin flips."""
    assert loss(make_attack("sleeper", {"wake": 1.0}), Believer, seed=seed) == 0.0


def test_a_smaller_strength_weakens_a_lie(seed: int) -> None:
    """At strength 0 and filler 1, a push is coin flips, which affect all actions equally."""
    knobs: dict[str, Knob] = {"strength": 0.0, "filler": 1.0}
    # Differences shrink to 0.7 of the gap, 3.4 standard errors: at most one context may fail.
    assert loss(make_attack("push", knobs), Believer, seed=seed) <= 1.2 * GAP / 4


def test_floods_come_twice_as_often(seed: int) -> None:
    visits = {}
    for name in ("push", "frequency-flood"):
        attack = make_attack(name)
        seen: list[np.ndarray] = []

        class Counter(Believer):
            def __init__(self, setting: Setting, seen: list[np.ndarray] = seen) -> None:
                super().__init__(setting)
                self.seen = seen

            def play(
                self, users: np.ndarray, contexts: np.ndarray, outcomes: np.ndarray
            ) -> np.ndarray:
                self.seen.append(users)
                return super().play(users, contexts, outcomes)

        loss(attack, Counter, seed=seed)
        counts = np.bincount(np.concatenate(seen), minlength=CROWD.n_users)
        is_bad = np.isin(np.arange(CROWD.n_users), attack.briefing.accounts)
        visits[name] = counts[is_bad].mean() / counts[~is_bad].mean()
    assert visits["push"] == 1.0
    assert visits["frequency-flood"] == pytest.approx(2.0, rel=0.05)
