"""What each route does."""

from unswayed.service.endpoints.campaigns import (
    activate_version,
    learn,
    list_campaigns,
    list_jobs,
    list_policies,
    show_campaign,
    show_policy,
    show_version,
)
from unswayed.service.endpoints.looking import audit, explain_decision, list_decisions, status
from unswayed.service.endpoints.server import index
from unswayed.service.endpoints.table import ENDPOINTS

__all__ = [
    "ENDPOINTS",
    "activate_version",
    "audit",
    "explain_decision",
    "index",
    "learn",
    "list_campaigns",
    "list_decisions",
    "list_jobs",
    "list_policies",
    "show_campaign",
    "show_policy",
    "show_version",
    "status",
]
