"""Worlds that judge learners: simulated and replayed logs with known truth and known colluders."""

from unswayed.simulation.worlds.building import Spec, build
from unswayed.simulation.worlds.families import specs
from unswayed.simulation.worlds.world import PARTS, Part, World

__all__ = ["PARTS", "Part", "Spec", "World", "build", "specs"]
