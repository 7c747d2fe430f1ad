"""Algorithm 1's error falls like sqrt(alpha L/T0), whatever contexts the coalition claims."""

from functools import partial

import numpy as np

from unswayed.experiments.drawing import Panel
from unswayed.experiments.judging import Analysis, compared, falls_like_a_root
from unswayed.experiments.lemma_nu.sweep import FLOODED, QUIET
from unswayed.experiments.results import Results
from unswayed.learners.interface import FloatArray

X_LABEL = r"interactions per user $T_0/L$"
ALPHA = 0.2


def _within_the_bound(results: Results) -> dict[str, FloatArray]:
    flooded = results.curve("paper", FLOODED)
    return {
        f"bound minus error at T0/L={x:g}": np.sqrt(ALPHA / x) - flooded.at(x) for x in flooded.xs
    }


def _plain_minus_algorithm_1(results: Results) -> dict[str, FloatArray]:
    flooded, plain = (results.curve(name, FLOODED) for name in ("paper", "naive-mean"))
    return {
        f"plain minus Algorithm 1 at T0/L={x:g}": plain.at(x) - flooded.at(x) for x in flooded.xs
    }


ANALYSES = {
    "lemma-nu": Analysis(
        title="The lemma on context probabilities: Algorithm 1",
        x_label=X_LABEL,
        panels=tuple(
            Panel(
                title=title,
                x_label=X_LABEL,
                y_label=r"$\ell_1$ error of context probabilities",
                series=series,
                log_x=True,
                log_y=True,
            )
            for series, title in (
                (QUIET, "20 % of users under suspicion, all honest"),
                (FLOODED, "20 % colluders flood the rarest context"),
            )
        ),
        judges=(
            *(
                partial(
                    falls_like_a_root,
                    series=series,
                    name=name,
                    statement=f"With {series}, Algorithm 1's l1 error falls at least like "
                    "(T0/L)^-1/2.",
                )
                for series, name in ((QUIET, "slope-quiet"), (FLOODED, "slope-flooded"))
            ),
            compared(
                "within-the-bound",
                "Under flooding the l1 error stays below sqrt(alpha L/T0), with constant one.",
                _within_the_bound,
            ),
            compared(
                "beats-plain-shares",
                "Under flooding Algorithm 1 beats the plain share of visits at every T0.",
                _plain_minus_algorithm_1,
            ),
        ),
    )
}
