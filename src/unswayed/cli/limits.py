"""`unswayed limits`: what a coalition of a given size could hide."""

from __future__ import annotations

from dataclasses import asdict

from unswayed.cli.options import Json
from unswayed.limits import can_hide
from unswayed.reports.tables import print_json, print_line, print_table


def limits(
    gap: float,
    interactions: int,
    alpha: float,
    users: int | None = None,
    base: float = 0.5,
    json: Json = False,
) -> None:
    """Compute the smallest coalition that can hide a difference from every method.

    gap: Difference in mean reward between the better and the ordinary action; rewards are 0 or 1.
    interactions: Plays of that action by each user.
    alpha: Share of colluders among the users, below 0.5.
    users: Number of users; adds an upper bound on the probability of success.
    base: Mean reward of the ordinary action.
    """
    result = can_hide(gap, interactions, alpha, base=base, n_users=users)
    if json:
        print_json(asdict(result))
        return
    for sentence in result.words:
        print_line(sentence)
    columns = ["plays per user", "smallest coalition", "against a clean world", "trace left"]
    columns.append("hidden")
    rows = [
        [
            row.interactions,
            f"{100 * row.smallest_coalition:.2f}%",
            f"{100 * row.smallest_one_sided:.2f}%",
            row.distance,
            "yes" if row.is_hidden else "no",
            row.success_bound,
        ]
        for row in result.rows
    ]
    if users is None:
        rows = [row[:-1] for row in rows]
    else:
        columns.append("success at most")
    print_table(
        f"A gap of {gap:g} and a coalition of {100 * alpha:g}%",
        columns,
        rows,
        note="smallest coalition: the share that can hide the gap if it may lie in both worlds. "
        "against a clean world: the same if nobody lies in the world without the gap. trace left: "
        "total variation distance between the two worlds per user, under the best attack.",
    )
