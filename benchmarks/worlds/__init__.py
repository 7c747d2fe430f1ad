"""Worlds for the evaluation of learners: logs with known truth and known colluders."""

from worlds.building import Spec, build
from worlds.families import specs
from worlds.world import PARTS, Part, World

__all__ = ["PARTS", "Part", "Spec", "World", "build", "specs"]
