"""Sweeps small enough for a test: every point of the quick sweep, in a miniature world."""

from __future__ import annotations

from dataclasses import replace

from unswayed.experiments.registry import Experiment
from unswayed.experiments.sweeps import Point, Sweep, quick_version

LARGE = 30


def tiny(experiment: Experiment) -> Experiment:
    """Return the experiment with miniature worlds, two attacks at most and a pilot of one."""
    quick = quick_version(experiment.sweep)
    points = experiment.sweep.quick
    if len(points) > LARGE:  # a grid of users and interactions: its corner will do
        points = tuple(point for point in points if point.settings.users <= 250)
    shrunk = tuple(map(_shrunk, points))
    small = replace(
        quick,
        points=shrunk,
        quick=shrunk,
        algorithms=tuple(dict.fromkeys((*quick.algorithms[:3], *quick.algorithms[-5:]))),
        pilot_repetitions=1,
        repetition_factor=1,
    )
    return replace(experiment, sweep=small)


def miniature(sweep: Sweep, *, points: int = 2) -> Sweep:
    """Return a few cells of a sweep, for tests of the frame."""
    return replace(
        sweep,
        points=tuple(map(_shrunk, sweep.points[:points])),
        algorithms=sweep.algorithms[:2],
        pilot_repetitions=1,
    )


def _shrunk(point: Point) -> Point:
    settings = replace(
        point.settings,
        users=min(point.settings.users, 60),
        interactions=min(point.settings.interactions, 4),
    )
    return replace(point, settings=settings, attacks=point.attacks[:2])
