"""Learners are told 0.1 while the truth goes from 0 to 0.3; and the other way round."""

from unswayed.experiments.measures import suboptimality_in_arena
from unswayed.experiments.sweeps import Point, Sweep, smaller, with_own, world

TOLD = 0.1
"""The paper's: "we set our algorithm to be run with alpha = 0.1"."""

N_USERS = 2303
"""SA·log(SA)/0.2, as in Figure 2, whatever the true share."""

TRUTH_VARIES, BELIEF_VARIES = "told 0.1", "true 0.1"

_TRUE_SHARES = tuple(
    Point(
        x=alpha,
        series=TRUTH_VARIES,
        settings=world(alpha=alpha, assumed_alpha=TOLD, users=N_USERS),
    )
    for alpha in (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3)
)
_BELIEFS = tuple(
    Point(
        x=told,
        series=BELIEF_VARIES,
        settings=world(alpha=TOLD, assumed_alpha=told, users=N_USERS),
    )
    for told in (0.0, 0.05, 0.1, 0.15, 0.2, 0.3)
)

SWEEP = Sweep(
    id="figure-3b",
    points=_TRUE_SHARES + _BELIEFS,
    algorithms=with_own("paper", "naive-ucb", "independent-ucb", "oracle"),
    measure=suboptimality_in_arena,
)

QUICK = smaller(SWEEP, points=(*_TRUE_SHARES[::2], _BELIEFS[1], _BELIEFS[2], _BELIEFS[4]))
