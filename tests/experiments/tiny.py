"""Small versions of experiments: every point of a quick run, in a tiny world."""

from __future__ import annotations

from dataclasses import replace

from unswayed.experiments.sweeps import Experiment, Point, quick_version

LARGE = 30


def tiny(experiment: Experiment) -> Experiment:
    """Return the experiment with tiny worlds, at most two attacks and one pilot repetition."""
    quick = quick_version(experiment)
    points = tuple(point for point in experiment.points if point.is_quick)
    if len(points) > LARGE:  # one corner of the grid of users and interactions
        points = tuple(point for point in points if point.settings.users <= 250)
    shrunk = tuple(map(_shrunk, points))
    return replace(
        quick,
        points=shrunk,
        algorithms=tuple(dict.fromkeys((*quick.algorithms[:3], *quick.algorithms[-5:]))),
        pilot_repetitions=1,
        repetition_factor=1,
    )


def miniature(experiment: Experiment, *, points: int = 2) -> Experiment:
    """Return a few cells of an experiment, for tests of the runner."""
    return replace(
        experiment,
        points=tuple(map(_shrunk, experiment.points[:points])),
        algorithms=experiment.algorithms[:2],
        pilot_repetitions=1,
    )


def _shrunk(point: Point) -> Point:
    settings = replace(
        point.settings,
        users=min(point.settings.users, 60),
        interactions=min(point.settings.interactions, 4),
    )
    return replace(point, settings=settings, attacks=point.attacks[:2])
