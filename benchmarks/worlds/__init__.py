"""Attacked worlds that judge learners: loud attacks, hidden attacks, and users with real tastes."""

from worlds.building import Spec, build
from worlds.families import PARTS, specs
from worlds.world import World

__all__ = ["PARTS", "Spec", "World", "build", "specs"]
