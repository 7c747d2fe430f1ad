"""Production-like logs: uneven activity, adaptive logging, unusual rewards, bots."""

from worlds.production.building import build_production
from worlds.production.parts import production_specs
from worlds.production.specs import ProductionSpec

__all__ = ["ProductionSpec", "build_production", "production_specs"]
