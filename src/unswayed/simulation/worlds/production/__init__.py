"""Logs as production leaves them: uneven activity, adaptive logging, odd rewards, bots."""

from unswayed.simulation.worlds.production.building import build_production
from unswayed.simulation.worlds.production.parts import production_specs
from unswayed.simulation.worlds.production.specs import ProductionSpec

__all__ = ["ProductionSpec", "build_production", "production_specs"]
