"""Worlds that judge learners: simulated and replayed logs with known truth and known colluders."""

from worlds.building import Spec, build
from worlds.families import specs
from worlds.world import PARTS, Part, World

__all__ = ["PARTS", "Part", "Spec", "World", "build", "specs"]
