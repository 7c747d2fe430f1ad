"""Audits of logs in which users chose: lockstep, shared targets and habits, and clean logs."""

from dataclasses import replace

import numpy as np
import pytest

from tests.audit.markets import Market, market
from unswayed.audit.by_users import Coordination, find_coordination
from unswayed.audit.lockstep import ratings_of
from worlds.real_ratings import redrawn
from worlds.reviews import (
    CLEAN,
    TEXTBOOK,
    ReviewLog,
    ReviewSpec,
    Textbook,
    area_under_curve,
    baselines,
    build_reviews,
    textbook,
    with_minority,
    with_releases,
    with_series,
)

DENSE = ReviewSpec(name="dense", spam_share=0.0, n_users=900, n_items=1_200, mean_activity=50)


def _found(log: ReviewLog, has_times: bool = False) -> Coordination:
    times = log.days * 86_400.0 if has_times else None
    sizes = {"n_users": log.n_users, "n_items": log.n_items}
    return find_coordination(ratings_of(log.users, log.items, log.stars, times, **sizes))


def _within_items(found: Coordination, drawn: Market) -> float:
    wins, pairs = 0.0, 0
    for item in np.unique(drawn.items[drawn.is_paid[drawn.users]]):
        raters = drawn.users[drawn.items == item]
        bad, honest = raters[drawn.is_paid[raters]], raters[~drawn.is_paid[raters]]
        wins += (found.scores[bad][:, None] > found.scores[honest][None, :]).sum()
        pairs += len(bad) * len(honest)
    return wins / pairs


@pytest.mark.parametrize("n_groups", [10, 25, 43])
def test_paid_groups_rank_above_others_over_all_and_within_items(
    rng: np.random.Generator, n_groups: int
) -> None:
    # Shares of .1, .2 and .3.
    drawn = market(rng, n_groups=n_groups)
    found = find_coordination(drawn.ratings())
    assert area_under_curve(found.scores, drawn.is_paid) > 0.97
    assert _within_items(found, drawn) > 0.95
    assert found.is_flagged[drawn.is_paid].mean() > 0.5
    assert found.is_flagged[~drawn.is_paid].mean() < 0.01
    # The negative control: activity alone ranks paid accounts much worse.
    activity = drawn.ratings().activity.astype(float)
    assert area_under_curve(activity, drawn.is_paid) < 0.6


@pytest.mark.parametrize("kind", TEXTBOOK)
@pytest.mark.parametrize("is_sinking", [False, True], ids=["push", "nuke"])
def test_textbook_attacks_are_found_without_labels(kind: Textbook, is_sinking: bool) -> None:
    """Profiles share one item only; the negative control is a statistic of one line."""
    log = textbook(build_reviews(DENSE, 11), kind, 0.05, 11, is_sinking=is_sinking)
    found = _found(log)
    assert area_under_curve(found.scores, log.is_spammer) >= 0.95
    assert found.is_flagged[log.is_spammer].mean() > 0.5
    assert found.is_flagged[~log.is_spammer].mean() < 0.03
    if kind != "segment":
        assert area_under_curve(baselines(log)["deviation"], log.is_spammer) < 0.95


def test_nobody_is_flagged_in_a_clean_market(rng: np.random.Generator) -> None:
    for _ in range(3):
        drawn = market(rng, n_groups=0)
        for with_times in (False, True):
            assert not find_coordination(drawn.ratings(with_times=with_times)).is_flagged.any()


@pytest.mark.parametrize("spec", CLEAN[7:], ids=lambda spec: spec.name)
def test_generous_accounts_and_beloved_niches_are_not_flagged(spec: ReviewSpec) -> None:
    """Also with random stars; the negative control is the same market with paid groups."""
    log = build_reviews(spec, 7)
    assert not _found(log).is_flagged.any()
    assert not _found(redrawn(log, 7)).is_flagged.any()
    paid = build_reviews(replace(spec, spam_share=0.1), 7)
    assert _found(paid).is_flagged[paid.is_spammer].mean() > 0.5


def test_times_help_where_groups_come_in_bursts(rng: np.random.Generator) -> None:
    drawn = market(rng, n_groups=15, group_size=6, n_targets=6, burst=86_400.0)
    without, with_times = (find_coordination(drawn.ratings(with_times=t)) for t in (False, True))
    caught = [found.is_flagged[drawn.is_paid].mean() for found in (without, with_times)]
    assert caught[1] > caught[0]
    assert with_times.is_flagged[~drawn.is_paid].mean() < 0.01


def test_likes_are_audited_by_what_accounts_chose(rng: np.random.Generator) -> None:
    for n_groups in (0, 10):
        drawn = market(rng, n_groups=n_groups)
        found = find_coordination(drawn._replace(stars=np.ones(len(drawn.stars))).ratings())
        if n_groups == 0:
            assert not found.is_flagged.any()
        else:
            assert area_under_curve(found.scores, drawn.is_paid) > 0.95
            assert found.is_flagged[drawn.is_paid].mean() > 0.5


def test_items_that_nearly_everybody_likes_do_not_hide_groups(rng: np.random.Generator) -> None:
    """Nine in ten accounts like the most popular item, which two accounts can share only once.

    The negative control is the same log without paid accounts.
    """
    n_honest, n_paid = 1_500, 60
    users = np.repeat(np.arange(n_honest), 8)
    items = np.minimum(rng.zipf(1.5, len(users)), 3_000)
    paid = np.repeat(n_honest + np.arange(n_paid), 10)
    targets = np.concatenate([rng.choice(15, 10, replace=False) for _ in range(n_paid)]) + 4_000
    for n in (0, len(paid)):
        likes = ratings_of(
            np.append(users, paid[:n]),
            np.append(items, targets[:n]),
            np.ones(len(users) + n),
            None,
            n_users=n_honest + n_paid,
            n_items=4_015,
        )
        is_flagged = find_coordination(likes).is_flagged
        assert is_flagged[n_honest:].mean() == (1.0 if n else 0.0)
        assert is_flagged[:n_honest].mean() < 0.01


def test_the_order_of_rows_and_of_accounts_changes_nothing(rng: np.random.Generator) -> None:
    drawn = market(rng, n_honest=400, n_groups=3)
    # Of several ratings of an item by one account, the first one counts.
    pairs = drawn.users * drawn.n_items + drawn.items
    _, first = np.unique(pairs, return_index=True)
    drawn = drawn._replace(
        users=drawn.users[first], items=drawn.items[first], stars=drawn.stars[first]
    )
    names, rows = rng.permutation(drawn.n_users), rng.permutation(len(drawn.users))
    moved = drawn._replace(
        users=names[drawn.users[rows]], items=drawn.items[rows], stars=drawn.stars[rows]
    )
    before, after = find_coordination(drawn.ratings()), find_coordination(moved.ratings())
    assert (after.is_flagged[names] == before.is_flagged).all()
    assert after.lockstep.scores[names] == pytest.approx(before.lockstep.scores)


def test_accounts_known_to_be_fakes_lead_to_others(rng: np.random.Generator) -> None:
    """Members who rate like a known fake rank higher; the negative control lacks the known fake."""
    drawn = market(rng, n_groups=12, group_size=5, n_targets=6)
    is_fake = drawn.is_paid & (np.arange(drawn.n_users) % 5 == 0)
    unknown = drawn.is_paid & ~is_fake
    judged = ~is_fake
    areas = [
        area_under_curve(find_coordination(drawn.ratings(), known).scores[judged], unknown[judged])
        for known in (None, is_fake)
    ]
    assert areas[1] >= areas[0]
    assert find_coordination(drawn.ratings(), is_fake).is_flagged[is_fake].all()


def test_a_log_without_any_overlap_is_no_error() -> None:
    users = np.arange(50)
    found = find_coordination(ratings_of(users, users, np.ones(50), None, n_users=50, n_items=50))
    assert not found.is_flagged.any()
    assert np.isfinite(found.scores).all()


def test_a_minority_with_items_of_its_own_is_not_flagged() -> None:
    """Sharing items is no evidence; the negative control always gives five stars."""
    log, is_member = with_minority(build_reviews(CLEAN[0], 3), 0.1, 60, 3)
    honest = _found(log).is_flagged
    alike = _found(replace(log, stars=np.where(is_member[log.users], 5.0, log.stars))).is_flagged
    assert honest.mean() < 0.01
    assert honest[is_member].mean() < 0.05
    assert alike[is_member].mean() > 0.5


@pytest.mark.parametrize("spec", CLEAN[3:5], ids=lambda spec: spec.name)
@pytest.mark.parametrize("has_times", [False, True])
def test_series_and_releases_are_no_lockstep(spec: ReviewSpec, has_times: bool) -> None:
    for log in (with_series(build_reviews(spec, 5), 5), with_releases(build_reviews(spec, 5), 5)):
        assert _found(log, has_times).is_flagged.mean() <= 0.02
