"""Figures 2 and 3, the slope with scaled gaps, and attacks that know the algorithm."""

from __future__ import annotations

import math

import numpy as np

from unswayed.experiments.claims import (
    MARGIN,
    Judge,
    compared,
    does_not_degrade,
    everywhere,
    minus,
    own_is_no_worse,
    paper_beats,
    slope,
)
from unswayed.experiments.drawing import Panel, panels
from unswayed.experiments.sweeps import Experiment, along, with_own

# Robust MCB as in Section 3.1: a user's value in a cell is the mean reward of the user's visits to
# it
PER_VISIT = "paper-per-visit"
# Robust MCB as printed; ``paper`` differs from it if there are more contexts than actions
LITERAL = "paper-literal"

COMPARED = with_own("paper", "naive-ucb", "independent-ucb", "oracle")
CORRUPTION_ROBUST = ("liu", "barbar", "active-arm-elimination")

ASSUMED = 0.1  # The paper's "we set our algorithm to be run with alpha = 0.1"
N_USERS = 2303  # SA·log(SA)/0.2 at S = A = 10, as in Figure 2, for all true shares

TRUTH_VARIES, BELIEF_VARIES = "assumed 0.1", "true 0.1"

# The slope is tested at gaps of 0.3·sqrt(30 L/T): the paper's gap at the paper's T/L
SCALED_GAP = (0.3, 30)

FREQUENT, RARE = "S = A = 10", "S = 40, A = 5"
# Attacks that know the algorithm: rewards just inside the trimming limits, shifts below the
# filter's threshold, and names that would fall into one group if the assignment were not keyed
KNOWING = ("trim-edge", "hide-in-covariance", "id-grinding")

BASE = "20% colluders, each learner against its worst attack"
PER_USER = "interactions per user T/L"
# A tenth counts as a small share; Theorem 5.1 requires alpha < 1/3
SMALL_SHARE, LARGEST_SHARE = 0.1, 0.3
BROKEN = 0.15  # Ours: half of the paper's gap; a learner with a larger loss counts as broken
USER_THRESHOLD = 1000  # SA/alpha at S = 20, A = 10, alpha = 0.2
# Ours: a third of the paper's gap; preferences count as similar up to this size of tastes
SMALL_TASTES = 0.1
# Ours: losses "before saturation" are between a tenth and nine tenths of the loss of uniform play,
# about 0.3 at the paper's gap
UNSATURATED = (0.1 * 0.3, 0.9 * 0.3)


def _scaled_slope(algorithm: str, name: str, reading: str) -> Judge:
    """Return a test of the slope for gaps that shrink with sqrt(L/T)."""
    statement = (
        f"With gaps that shrink like (T/L)^-1/2, Robust MCB {reading} loses in proportion: the "
        "log-log slope is -1/2."
    )
    return slope(f"slope-{name}", statement, algorithm=algorithm, is_exact=True)


def _growth(
    letter: str,
    what: str,
    symbols: tuple[str, str],
    statement: str,
    *further: Judge,
    algorithms: tuple[str, ...] = COMPARED,
) -> Experiment:
    """Return the experiment that increases the number of contexts or actions; the other is ten."""
    symbol, other = symbols
    return Experiment(
        id=f"figure-2{letter}",
        title=f"Figure 2({letter}): more {what}",
        points=along(what, (2, 5, 10, 20, 40), quick=(10, 20)),
        algorithms=algorithms,
        panels=panels(
            {"": f"{other} = 10, T/L = 30, {BASE}"},
            f"{what} {symbol}",
            marks=((10, f"{symbol} = {other}"),),
        ),
        judges=(
            paper_beats(symbol),
            does_not_degrade(f"{what}-do-not-degrade", statement, symbol, start=10),
            own_is_no_worse(symbol),
            *further,
        ),
    )


EXPERIMENTS = (
    _growth(
        "a",
        "contexts",
        ("S", "A"),
        "Growing S beyond A does not degrade Robust MCB.",
        does_not_degrade(
            "contexts-do-not-degrade-as-printed",
            "Growing S beyond A does not degrade Robust MCB as printed.",
            "S",
            start=10,
            algorithm=LITERAL,
        ),
        everywhere(
            "better-path-is-no-worse",
            "Robust MCB loses no more than as printed at any S.",
            "as printed minus paper at S={x:g}",
            minus(LITERAL, "paper"),
            margin=MARGIN,
        ),
        algorithms=(*COMPARED, LITERAL),
    ),
    _growth(
        "b", "actions", ("A", "S"), "Growing A beyond S at fixed S does not degrade Robust MCB."
    ),
    Experiment(
        id="figure-2c",
        title="Figure 2(c): more interactions per user",
        points=along("interactions", (10, 15, 20, 25, 30, 40, 50, 60, 120), quick=(15, 30)),
        algorithms=with_own("paper", "naive-ucb", "independent-ucb", "oracle", PER_VISIT),
        panels=panels({"": f"S = A = 10, {BASE}"}, PER_USER),
        judges=(
            paper_beats("T/L"),
            compared(
                "interactions-help",
                "More interactions of each user make Robust MCB better.",
                "loss at the smallest T/L minus loss at the largest",
                lambda r: r.at("paper", -np.inf) - r.at("paper", np.inf),
            ),
            slope(
                "slope-one-half",
                "Before saturation suboptimality falls like (T/L)^-1/2: the log-log slope is -1/2.",
                means=UNSATURATED,
                is_exact=True,
            ),
            everywhere(
                "visits-need-less",
                "By Section 3.1, with means over visits, Robust MCB loses no more than by the "
                "appendix at any T/L.",
                "appendix minus visits at T/L={x:g}",
                minus("paper", PER_VISIT),
                margin=MARGIN,
            ),
            own_is_no_worse("T/L"),
        ),
    ),
    Experiment(
        id="figure-2d",
        title="Figure 2(d): more colluders, against corruption-robust learners",
        points=along(
            "alpha",
            (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4),
            quick=(0.1, 0.2),
            contexts=2,
            actions=5,
            users=500,
            interactions=500,
        ),
        algorithms=with_own("paper", "naive-ucb", "independent-ucb", *CORRUPTION_ROBUST, "oracle"),
        panels=panels(
            {"": "S = 2, A = 5, L = 500, T/L = 500, each learner against its worst attack"},
            r"true share of colluders $\alpha$",
            log_x=False,
        ),
        judges=(
            paper_beats(
                "alpha",
                name="beats-corruption-robust",
                statement="Robust MCB beats the corruption-robust learners at every alpha from 0.1 "
                "on.",
                rivals=CORRUPTION_ROBUST,
                above=SMALL_SHARE - 1e-9,
            ),
            everywhere(
                "small-share-breaks-corruption-robust",
                "A tenth of colluders breaks every corruption-robust learner (half of the gap "
                "lost).",
                "loss of {name} at alpha={x:g} minus half of the gap",
                lambda r, name, _, x: r.at(name, x) - BROKEN,
                of=CORRUPTION_ROBUST,
                at=lambda _, x: x == SMALL_SHARE,
            ),
            everywhere(
                "defends",
                "Robust MCB loses less than a tenth of the gap at every alpha up to 0.3.",
                "tenth of the gap minus loss at alpha={x:g}",
                lambda r, paper, _, x: MARGIN - r.at(paper, x),
                at=lambda _, x: x <= LARGEST_SHARE,
            ),
            own_is_no_worse("alpha"),
        ),
    ),
    Experiment(
        id="figure-3a",
        title="Figure 3(a): more users",
        points=along(
            "users",
            (125, 250, 500, 1000, 2000, 4000, 8000),
            quick=(125, 1000, 2000),
            contexts=20,
            interactions=50,
        ),
        algorithms=COMPARED,
        panels=panels(
            {"": f"S = 20, A = 10, T/L = 50, {BASE}"},
            "users L",
            marks=((USER_THRESHOLD, r"$L = SA/\alpha$"),),
        ),
        judges=(
            compared(
                "users-help-first",
                "More users improve Robust MCB up to L = SA/alpha.",
                f"loss at the fewest users minus loss at L={USER_THRESHOLD}",
                lambda r: r.at("paper", -np.inf) - r.at("paper", USER_THRESHOLD),
            ),
            compared(
                "users-stop-helping",
                "More users stop helping beyond L = SA/alpha (by less than a tenth of the gap).",
                f"{MARGIN:g} minus the gain from L={USER_THRESHOLD} to the most users",
                lambda r: MARGIN - (r.at("paper", USER_THRESHOLD) - r.at("paper", np.inf)),
            ),
            paper_beats(
                "L",
                statement="Robust MCB beats both naive approaches at every L from SA/alpha on.",
                above=USER_THRESHOLD - 1,
            ),
            own_is_no_worse("L"),
        ),
    ),
    Experiment(
        id="figure-3b",
        title="Figure 3(b): a wrongly assumed share of colluders",
        points=along(
            "alpha",
            (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3),
            {TRUTH_VARIES: {"assumed_alpha": ASSUMED}},
            quick=(0.1, 0.2),
            users=N_USERS,
        )
        + along(
            "assumed_alpha",
            (0.0, 0.05, 0.1, 0.15, 0.2, 0.3),
            {BELIEF_VARIES: {"alpha": ASSUMED}},
            quick=(0.05, 0.2),
            users=N_USERS,
        ),
        algorithms=COMPARED,
        panels=tuple(
            Panel(
                title=title,
                x_label=x_label,
                series=series,
                log_x=False,
                marks=((ASSUMED, "the truth"),),
            )
            for series, title, x_label in (
                (
                    TRUTH_VARIES,
                    "learners assume 0.1 (the paper's panel)",
                    r"true share of colluders $\alpha$",
                ),
                (BELIEF_VARIES, "the true share is 0.1", "share that learners assume"),
            )
        ),
        judges=(
            paper_beats(
                "alpha",
                name="overstated-still-beats-naive",
                statement="Assuming 0.1, Robust MCB beats both naive approaches while 0 < alpha <= "
                "0.1.",
                series=TRUTH_VARIES,
                above=0.0,
                up_to=ASSUMED,
            ),
            compared(
                "understating-loses-robustness",
                "Assuming 0.1, Robust MCB loses more at a true 0.2 than at a true 0.1.",
                "loss at alpha=0.2 minus loss at alpha=0.1",
                lambda r: r.at("paper", 0.2, TRUTH_VARIES) - r.at("paper", ASSUMED, TRUTH_VARIES),
            ),
            compared(
                "overstating-is-safer",
                "At a true 0.1, assuming half of it costs more than assuming twice as much.",
                "loss when assuming 0.05 minus loss when assuming 0.2",
                lambda r: r.at("paper", 0.05, BELIEF_VARIES) - r.at("paper", 0.2, BELIEF_VARIES),
            ),
            own_is_no_worse("alpha", series=TRUTH_VARIES, up_to=ASSUMED),
        ),
    ),
    Experiment(
        id="figure-3c",
        title="Figure 3(c): similar, not equal preferences",
        points=along("perturbation", (0.0, 0.05, 0.1, 0.2, 0.3, 0.4), quick=(0.0, 0.1)),
        algorithms=COMPARED,
        panels=panels(
            {"": f"S = A = 10, T/L = 30, {BASE}"},
            r"size of personal tastes $\epsilon_0$",
            log_x=False,
        ),
        judges=(
            does_not_degrade(
                "small-differences-are-tolerated",
                "Tastes of up to 0.1, a third of the gap, do not degrade Robust MCB.",
                "eps_0",
                start=0.0,
                up_to=SMALL_TASTES,
            ),
            paper_beats("eps_0"),
            own_is_no_worse("eps_0"),
        ),
    ),
    Experiment(
        id="slope",
        title="The slope, with gaps to scale",
        points=tuple(
            point
            for n in (15, 30, 60, 120, 240)
            for point in along(
                "interactions",
                (n,),
                quick=(15, 30),
                gap=SCALED_GAP[0] * math.sqrt(SCALED_GAP[1] / n),
            )
        ),
        algorithms=with_own("paper", "oracle", PER_VISIT),
        panels=panels(
            {
                "": f"S = A = 10, gap {SCALED_GAP[0]:g}·sqrt({SCALED_GAP[1]} L/T), "
                "20% colluders; worst attacks"
            },
            PER_USER,
            log_y=True,
        ),
        judges=(
            _scaled_slope("paper", "appendix", "by the appendix"),
            _scaled_slope(PER_VISIT, "visits", "by Section 3.1"),
            own_is_no_worse("T/L"),
        ),
    ),
    Experiment(
        id="knowing-attack",
        title="Attacks that know the algorithm",
        points=along("interactions", (10, 20, 40, 80), {FREQUENT: {}}, quick=(20,), attacks=KNOWING)
        + along(
            "interactions",
            (10, 20, 40),
            {RARE: {"contexts": 40, "actions": 5}},
            quick=(10,),
            attacks=KNOWING,
        ),
        algorithms=COMPARED,
        panels=panels(
            {series: f"{series}, 20% colluders" for series in (FREQUENT, RARE)}, PER_USER
        ),
        judges=(
            *(
                paper_beats(
                    "T/L",
                    name=f"beats-naive-{name}",
                    statement=f"At {series} Robust MCB beats both naive approaches although the "
                    "coalition knows it.",
                    series=series,
                )
                for series, name in ((FREQUENT, "frequent"), (RARE, "rare"))
            ),
            own_is_no_worse("T/L", series=FREQUENT, name="own-frequent"),
            own_is_no_worse("T/L", series=RARE, name="own-rare"),
        ),
    ),
)
