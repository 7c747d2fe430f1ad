"""Run functions on blocks of users: in local threads, or on the workers of a Dask cluster."""

from unswayed.engine.blocked import Blocked, BlockedRows
from unswayed.engine.workers import HERE, DaskWorkers, Workers

__all__ = ["HERE", "Blocked", "BlockedRows", "DaskWorkers", "Workers"]
