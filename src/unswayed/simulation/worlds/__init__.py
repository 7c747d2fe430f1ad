"""Worlds that judge learners: simulated and replayed logs with known truth and known colluders."""

from unswayed.simulation.worlds.building import Spec, build
from unswayed.simulation.worlds.world import PARTS, Part, World
from unswayed.simulation.worlds.zoo import specs

__all__ = ["PARTS", "Part", "Spec", "World", "build", "specs"]
