import hashlib

import numpy as np
from scipy import stats

from tests.refusals import refusal
from unswayed.policy.assignment import Assignment, new_secret, siphash_of_four

SECRET = bytes(range(16))


def test_siphash_equals_the_published_test_vector() -> None:
    """From Aumasson and Bernstein, for the message 00 01 02 … 1f and this key."""
    low, high = np.frombuffer(SECRET, "<i8").tolist()
    words = np.frombuffer(bytes(range(32)), "<i8").tolist()
    assert siphash_of_four((low, high), *words) == 0x7127512F72F27CCE


def group_sizes(draw: Assignment, names: list[str], n_actions: int) -> np.ndarray:
    users = draw.digests("user", names)
    contexts = np.repeat(draw.digests("context", ["home"]), len(names))
    return np.bincount(draw.actions(users, contexts, n_actions=n_actions), minlength=n_actions)


def test_assignments_are_uniform_over_actions() -> None:
    sizes = group_sizes(Assignment(secret=SECRET), [f"user {i}" for i in range(20_000)], 10)
    # Uniform draws are rejected for one secret in a million.
    assert stats.chisquare(sizes).pvalue > 1e-6


def test_assignments_are_the_same_on_every_call_and_new_in_every_epoch() -> None:
    draw = Assignment(secret=SECRET)
    users = draw.digests("user", range(1000))
    contexts = np.repeat(draw.digests("context", [3]), 1000)
    first = draw.actions(users, contexts, n_actions=2)
    np.testing.assert_array_equal(first, draw.actions(users, contexts, n_actions=2))
    later = Assignment(secret=SECRET, epoch=1).actions(users, contexts, n_actions=2)
    # Independent coins agree on half; 6 standard deviations are 95 of 1000.
    assert abs((first == later).sum() - 500) < 95


def test_draws_change_from_play_to_play() -> None:
    draw = Assignment(secret=SECRET)
    users = np.repeat(draw.digests("user", ["ann"]), 5000)
    contexts = np.repeat(draw.digests("context", ["home"]), 5000)
    plays = draw.actions(users, contexts, n_actions=5, plays=np.arange(5000))
    assert stats.chisquare(np.bincount(plays, minlength=5)).pvalue > 1e-6


def test_the_action_of_the_first_play_is_independent_of_the_fixed_action() -> None:
    """Both are uniform over 5 actions: 400 of 2,000 pairs agree, with sd 18; tolerance 4 sd."""
    draw = Assignment(secret=SECRET)
    users = draw.digests("user", range(2000))
    contexts = np.repeat(draw.digests("context", ["home"]), 2000)
    for_good = draw.actions(users, contexts, n_actions=5)
    first = draw.actions(users, contexts, n_actions=5, plays=np.zeros(2000, np.int64))
    assert abs(int((for_good == first).sum()) - 400) < 72


def test_the_integer_7_and_the_text_7_are_different_users() -> None:
    draw = Assignment(secret=SECRET)
    assert draw.digests("user", [7])[0] != draw.digests("user", ["7"])[0]
    assert draw.digests("user", ["7"])[0] != draw.digests("context", ["7"])[0]


def test_grinding_ids_works_against_a_known_key_and_fails_against_a_secret_one() -> None:
    """A coalition of 20 % picks names that hash to the group of action 0."""
    n_users, n_actions, n_bad = 2000, 10, 400
    public = Assignment(secret=bytes(16))
    candidates = [f"sybil {i}" for i in range(8 * n_bad * n_actions // 4)]
    groups = public.actions(
        public.digests("user", candidates),
        np.repeat(public.digests("context", ["home"]), len(candidates)),
        n_actions=n_actions,
    )
    bad = [name for name, group in zip(candidates, groups, strict=True) if group == 0][:n_bad]
    assert len(bad) == n_bad
    good = [f"customer {i}" for i in range(n_users - n_bad)]

    def corrupted_share(draw: Assignment) -> float:
        return float(group_sizes(draw, bad, n_actions)[0]) / float(
            group_sizes(draw, bad + good, n_actions)[0]
        )

    # alpha·A / (1 − alpha + alpha·A) = 0.714 (paper-notes, section 5) up to binomial noise of
    # the 160 good users in the group: 6 standard deviations move the share by less than 0.1.
    assert abs(corrupted_share(public) - 0.714) < 0.1
    # With a secret key the group has Binomial(400, 1/10) colluders among 200; six sd are 0.17.
    assert corrupted_share(Assignment(secret=SECRET)) < 0.2 + 0.17


def test_secrets_are_random_never_printed_and_of_the_right_length() -> None:
    assert new_secret() != new_secret()
    assert repr(SECRET) not in repr(Assignment(secret=SECRET))
    assert refusal(Assignment, secret=b"short") == (
        "the secret has 5 bytes and needs 16; make one with new_secret()."
    )


def test_digests_do_not_change_between_versions() -> None:
    """A changed hash would reassign every user in the middle of an epoch."""

    def hashed(message: bytes, person: bytes, size: int = 8) -> bytes:
        return hashlib.blake2b(message, digest_size=size, key=SECRET, person=person).digest()

    draw = Assignment(secret=SECRET, epoch=5)
    expected = [hashed(b"sann", b"user"), hashed("sgrün".encode(), b"user"), hashed(b"i7", b"user")]
    found = draw.digests("user", ["ann", "grün", 7])
    assert found.tolist() == [int.from_bytes(one, "little") for one in expected]
    assert draw.digest("context", "ann") == int.from_bytes(
        hashed(b"sann", b"context"), "little", signed=True
    )
    campaign = draw.for_campaign("spring")
    assert campaign.secret == hashed(b"spring", b"campaign", 16)
    assert campaign.epoch == 5
    assert draw.key == tuple(
        int.from_bytes(SECRET[start : start + 8], "little", signed=True) for start in (0, 8)
    )


def test_assignments_do_not_change_between_versions() -> None:
    """The secret is two little-endian words; another byte order would reassign every user."""
    draw = Assignment(secret=SECRET)
    users, contexts = (
        draw.digests("user", ["ann", "bob", 7, 8]),
        draw.digests("context", ["home"] * 4),
    )
    assert draw.actions(users, contexts, n_actions=1000).tolist() == [134, 127, 838, 986]
    plays = draw.actions(users, contexts, n_actions=1000, plays=np.arange(4))
    assert plays.tolist() == [198, 622, 484, 203]
    later = Assignment(secret=SECRET, epoch=3)
    assert later.actions(users, contexts, n_actions=1000).tolist() == [549, 762, 409, 115]
