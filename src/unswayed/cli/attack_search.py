"""`unswayed attack-search`: the worst attack that a search can find against a learner."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from unswayed.cli.options import GoalName, Json, Processes, expanded, process_count
from unswayed.cli.world_options import Actions, Rewards, WorldOptions
from unswayed.reports.tables import print_json, print_table, progress_bar
from unswayed.simulation.attack_search import Worst, runs_planned, search_attacks
from unswayed.simulation.instances import RewardLaw
from unswayed.simulation.settings import Settings
from unswayed.simulation.simulate import Goal, Summary, goal_named


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedWorld(WorldOptions):
    """Worlds of a search: smaller by default, with rewards of zeros and ones."""

    actions: Actions = 5
    rewards: Rewards = RewardLaw.BERNOULLI.value


@expanded
def attack_search(
    algorithm: Annotated[
        str, typer.Option(help="Algorithms to attack, separated by commas.")
    ] = "paper,bounded",
    budget: Annotated[
        int, typer.Option(help="Number of simulation runs of the search, per algorithm.")
    ] = 200,
    fresh_worlds: Annotated[
        int, typer.Option(help="Number of fresh worlds in which the worst attack is evaluated.")
    ] = 20,
    *,
    world: SearchedWorld,
    goal: GoalName = Goal.SUBOPTIMALITY.value,
    processes: Processes = None,
    json: Json = False,
) -> None:
    """Search for the attack that harms each algorithm most."""
    settings = world.settings(algorithms=algorithm, attack="honest")
    measured = goal_named(goal)
    with progress_bar() as progress:
        planned = runs_planned(settings, budget=budget, fresh_worlds=fresh_worlds)
        task = progress.add_task("searching", total=planned)
        found = search_attacks(
            settings,
            budget=budget,
            fresh_worlds=fresh_worlds,
            goal=measured,
            processes=process_count(processes),
            on_run=lambda: progress.advance(task),
        )
    _print(settings, found, measured, budget=budget, as_json=json)


def _print(
    settings: Settings, found: list[Worst], goal: Goal, *, budget: int, as_json: bool
) -> None:
    if as_json:
        settings_shown = {
            name: value
            for name, value in asdict(settings).items()
            if name not in ("attack", "knobs", "repetitions")
        }
        print_json(
            {
                "settings": settings_shown,
                "goal": goal.value,
                "budget": budget,
                "worst": [_as_json(worst, goal) for worst in found],
            }
        )
        return
    print_table(
        f"Worst attacks found with {budget} runs, {100 * settings.alpha:g}% colluders",
        ["algorithm", "worst", "error", "before", "without", "attack", "knobs"],
        [
            [
                worst.algorithm,
                worst.fresh.mean,
                worst.fresh.stderr,
                worst.before_climbing.mean,
                worst.honest.mean,
                worst.attack,
                " ".join(f"{knob}={_short(value)}" for knob, value in worst.knobs.items()),
            ]
            for worst in found
        ],
        note=(
            f"worst: {_MEASURED[goal]} in {len(found[0].fresh.repetitions)} fresh worlds, "
            "with its standard error; before: under the attack from which the search climbed; "
            "without: if all were honest."
        ),
    )


_MEASURED = {
    Goal.SUBOPTIMALITY: "what good users lose",
    Goal.REGRET: "a good user's mean regret",
}


def _as_json(worst: Worst, goal: Goal) -> dict[str, object]:
    return {
        "algorithm": worst.algorithm,
        "attack": worst.attack,
        "knobs": worst.knobs,
        goal.value: _losses(worst.fresh),
        "before_climbing": _losses(worst.before_climbing),
        "honest": _losses(worst.honest),
        "training": {"mean": worst.training_mean, "worlds": worst.training_worlds},
        "runs": worst.runs,
    }


def _losses(summary: Summary) -> dict[str, object]:
    return {
        "mean": summary.mean,
        "stderr": summary.stderr,
        "repetitions": list(summary.repetitions),
    }


def _short(value: float | str) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
