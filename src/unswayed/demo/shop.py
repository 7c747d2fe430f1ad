"""The demo: a café whose app is attacked by a drinks company with a fifth of the accounts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from unswayed.arrays import FloatArray, IntArray
from unswayed.events import Events, Label, Labels
from unswayed.learners.baselines import BASELINES
from unswayed.learners.methods import DEFAULT_METHOD
from unswayed.learners.players import learner_specs
from unswayed.simulation.arena import Crowd, Match
from unswayed.simulation.attacks.base import Attack, Turn
from unswayed.simulation.instances import Instance, suboptimality

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CONTEXTS = ("breakfast", "lunch", "coffee break", "dinner", "late night")
ITEMS = ("porridge", "soup", "espresso", "curry", "ice cream", "MegaCola")
VISITS = (0.25, 0.25, 0.2, 0.2, 0.1)
#: Honest customers' purchase rates of recommended items; one row per context.
PURCHASE_RATES = (
    (0.31, 0.05, 0.19, 0.04, 0.03, 0.09),
    (0.06, 0.30, 0.12, 0.17, 0.08, 0.11),
    (0.09, 0.06, 0.33, 0.05, 0.18, 0.12),
    (0.05, 0.16, 0.08, 0.32, 0.13, 0.10),
    (0.10, 0.12, 0.07, 0.16, 0.30, 0.13),
)
N_USERS = 2000
INTERACTIONS_PER_USER = 30
ADVERSARIAL_FRACTION = 0.2

# Okabe and Ito's colours; right and wrong decisions also have different markers.
RIGHT, WRONG, TRUTH = "#009E73", "#D55E00", "#56B4E9"


class BuyOnlyCola(Attack):
    """Accounts that buy MegaCola whenever it is recommended, and nothing else."""

    summary = "buy the promoted drink whenever it is shown, and nothing else"

    def rewards(self, turn: Turn) -> FloatArray:
        """Return a purchase for MegaCola and none for any other item."""
        rewards = np.zeros((len(turn.contexts), len(ITEMS)))
        rewards[:, ITEMS.index("MegaCola")] = 1.0
        return rewards


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """Result of the demo; arrays have shape (n_contexts,) and hold item codes.

    ``naive_share`` and ``robust_share`` are the fractions of the best possible number of purchases
    that the learned recommendations reach.
    """

    best: IntArray
    naive: IntArray
    robust: IntArray
    naive_share: float
    robust_share: float
    log: Events


def play(seed: int = 0) -> Outcome:
    """Run a naive bandit and unswayed on the same customers and the same coalition."""
    cafe = Instance(context_probabilities=np.array(VISITS), mean_rewards=np.array(PURCHASE_RATES))
    crowd = Crowd(
        n_users=N_USERS,
        interactions_per_user=INTERACTIONS_PER_USER,
        alpha=ADVERSARIAL_FRACTION,
    )
    most = float(np.array(VISITS) @ cafe.mean_rewards.max(axis=1))
    learners = {"naive": BASELINES["naive-ucb"], "robust": learner_specs()[DEFAULT_METHOD]}
    items, shares = {}, {}
    for name, spec in learners.items():
        match = Match(cafe, BuyOnlyCola(), spec.make, crowd, algorithm=name, seed=seed)
        rounds = list(match.rounds())
        chosen = match.learner.action_probabilities(np.arange(N_USERS))
        items[name], shares[name] = chosen.argmax(axis=1), 1 - suboptimality(cafe, chosen) / most
    names: list[Label] = [f"customer-{number:04d}" for number in range(N_USERS)]
    return Outcome(
        best=cafe.mean_rewards.argmax(axis=1),
        naive=items["naive"],
        robust=items["robust"],
        naive_share=shares["naive"],
        robust_share=shares["robust"],
        log=Events(
            np.concatenate([played.users for played in rounds]),
            np.concatenate([played.contexts for played in rounds]),
            np.concatenate([played.actions for played in rounds]),
            np.concatenate([played.rewards for played in rounds]),
            Labels.of(names),
            Labels.of(CONTEXTS),
            Labels.of(ITEMS),
        ),
    )


def draw(outcome: Outcome, folder: Path) -> list[Path]:
    """Write shop.svg and shop.png into a folder and return their paths."""
    # Imported here, because matplotlib is an extra that the simulation does not need.
    import matplotlib as mpl

    from unswayed.reports.style import STYLE, new_figure, save

    with mpl.rc_context(STYLE):
        figure, (left, right) = new_figure(
            width=10, height=4.6, panels=2, share_y=False, width_ratios=(3, 1.25)
        )
        _draw_recommendations(left, outcome)
        _draw_shares(right, outcome)
        figure.suptitle(
            f"{ADVERSARIAL_FRACTION:.0%} of the accounts buy MegaCola and nothing else",
            fontsize=14,
            fontweight="bold",
        )
    return save(figure, folder, "shop")


def _draw_recommendations(ax: Axes, outcome: Outcome) -> None:
    columns = (
        ("honest customers\nlike best", outcome.best),
        ("a naive bandit\nrecommends", outcome.naive),
        ("unswayed\nrecommends", outcome.robust),
    )
    n_rows = len(CONTEXTS)
    for x, (title, items) in enumerate(columns):
        ax.text(x + 0.5, n_rows + 0.1, title, ha="center", va="bottom", fontweight="bold")
        for row, item in enumerate(items.tolist()):
            is_right = item == outcome.best[row]
            colour, sign = (TRUTH, "") if x == 0 else (RIGHT, "✓ ") if is_right else (WRONG, "✗ ")
            y = n_rows - 1 - row
            ax.barh(y + 0.5, 0.9, 0.84, x + 0.05, color=colour, alpha=0.28)
            ax.text(x + 0.5, y + 0.6, f"{sign}{ITEMS[item]}", ha="center", va="center")
            bought = f"bought by {PURCHASE_RATES[row][item]:.0%}"
            ax.text(x + 0.5, y + 0.27, bought, ha="center", va="center", fontsize=9)
    for row, context in enumerate(CONTEXTS):
        ax.text(-0.05, n_rows - 0.5 - row, context, ha="right", va="center")
    ax.set_xlim(-0.75, len(columns))
    ax.set_ylim(0, n_rows + 0.8)
    ax.set_axis_off()


def _draw_shares(ax: Axes, outcome: Outcome) -> None:
    shares = {"naive bandit": outcome.naive_share, "unswayed": outcome.robust_share}
    bars = ax.bar(list(shares), list(shares.values()), color=[WRONG, RIGHT], alpha=0.75, width=0.6)
    ax.bar_label(bars, fmt="{:.0%}", padding=4, fontsize=13, fontweight="bold")
    ax.set_ylim(0, 1.12)
    ax.set_yticks([])
    ax.set_title("of the honest purchases\nthat could be had", fontsize=11)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="x", length=0)
