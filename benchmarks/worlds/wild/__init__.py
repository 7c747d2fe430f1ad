"""Wild logs: like those of shops, feeds, review sites and A/B tests, with and without attacks."""

from worlds.wild.building import build_wild
from worlds.wild.kinds import KINDS, Kind, wild_spec
from worlds.wild.small import AB_ATTACKS, FEW_ATTACKS, ab_test, few_accounts
from worlds.wild.specs import ATTACKS, Attack, WildSpec

__all__ = [
    "AB_ATTACKS",
    "ATTACKS",
    "FEW_ATTACKS",
    "KINDS",
    "Attack",
    "Kind",
    "WildSpec",
    "ab_test",
    "build_wild",
    "few_accounts",
    "wild_spec",
]
