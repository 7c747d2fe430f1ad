"""Decisions of single users, or of groups, that differ from the common policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from unswayed.arrays import IntArray
from unswayed.errors import InputError
from unswayed.events import UNKNOWN, Label, Labels


def _codes(
    pairs: list[tuple[str, Label]], contexts: Labels, actions: Labels, whose: str
) -> tuple[IntArray, IntArray]:
    """Return the codes of written (context, action) pairs; refuse what a policy does not have."""
    context_codes = Labels.of(contexts.texts).codes([context for context, _ in pairs])
    action_codes = actions.codes([action for _, action in pairs])
    if (context_codes == UNKNOWN).any() or (action_codes == UNKNOWN).any():
        raise InputError(f"the policy is damaged: {whose} names what is not in it.")
    return context_codes, action_codes


@dataclass(frozen=True, eq=False)
class PersonalDecisions:
    """Decisions of single users: one row for each (user, context) that differs.

    Users without a row get the common policy, so the size goes with the differences and not with
    the number of users.

    Parameters
    ----------
    user_labels
        The users with a decision of their own.
    users, contexts, actions
        Shape (n_decisions,); codes of ``user_labels`` and of the policy's contexts and actions.
    """

    user_labels: Labels
    users: IntArray
    contexts: IntArray
    actions: IntArray

    def action(self, user: Label, context: int) -> int:
        """Return the code of a user's own action in a context, or ``UNKNOWN`` if it has none."""
        code = self.user_labels.code(user)
        return UNKNOWN if code == UNKNOWN else self._by_cell.get((code, context), UNKNOWN)

    @cached_property
    def _by_cell(self) -> dict[tuple[int, int], int]:
        cells = zip(self.users.tolist(), self.contexts.tolist(), strict=True)
        return dict(zip(cells, self.actions.tolist(), strict=True))

    def to_json(self, contexts: Labels, actions: Labels) -> dict[str, Any]:
        """Return the decisions by user and context, in words."""
        texts, names = contexts.texts, list(actions)
        decisions: dict[str, dict[str, Label]] = {text: {} for text in self.user_labels.texts}
        users = self.user_labels.texts
        rows = zip(self.users.tolist(), self.contexts.tolist(), self.actions.tolist(), strict=True)
        for user, context, action in rows:
            decisions[users[user]][texts[context]] = names[action]
        return {"user_type": self.user_labels.type_name, "decisions": decisions}

    @classmethod
    def from_json(
        cls, value: Mapping[str, Any], contexts: Labels, actions: Labels
    ) -> PersonalDecisions:
        """Return the decisions that ``to_json`` wrote."""
        decisions = value["decisions"]
        user_labels = Labels.parsed(decisions, str(value["user_type"]))
        rows = [
            (user, context, action)
            for user, own in enumerate(decisions.values())
            for context, action in own.items()
        ]
        pairs = [(context, action) for _, context, action in rows]
        users = np.array([user for user, _, _ in rows], dtype=np.int64)
        return cls(user_labels, users, *_codes(pairs, contexts, actions, "a user's own decision"))


@dataclass(frozen=True, eq=False)
class GroupDecisions:
    """Decisions of groups: a table of actions for each group, and the group of each member.

    Parameters
    ----------
    user_labels, groups
        The members, and the group of each; shape (n_members,).
    actions
        Shape (n_groups, n_contexts); codes of the policy's actions, ``UNKNOWN`` where a group
        decides as everybody does.
    """

    user_labels: Labels
    groups: IntArray
    actions: IntArray

    def group(self, user: Label) -> int:
        """Return the group of a user, or ``UNKNOWN`` for the common policy."""
        code = self.user_labels.code(user)
        return UNKNOWN if code == UNKNOWN else int(self.groups[code])

    def action(self, user: Label, context: int) -> int:
        """Return the code of a user's group's own action in a context, or ``UNKNOWN``."""
        group = self.group(user)
        if UNKNOWN in (group, context):
            return UNKNOWN
        return int(self.actions[group, context])

    def to_json(self, contexts: Labels, actions: Labels) -> dict[str, Any]:
        """Return the groups with their decisions and members, in words."""
        texts, names = contexts.texts, list(actions)
        return {
            "user_type": self.user_labels.type_name,
            "groups": [
                {
                    "decisions": {
                        texts[context]: names[action]
                        for context, action in enumerate(table.tolist())
                        if action != UNKNOWN
                    },
                    "users": [
                        self.user_labels.texts[user]
                        for user in np.flatnonzero(self.groups == number).tolist()
                    ],
                }
                for number, table in enumerate(self.actions)
            ],
        }

    @classmethod
    def from_json(
        cls, value: Mapping[str, Any], contexts: Labels, actions: Labels
    ) -> GroupDecisions:
        """Return the groups that ``to_json`` wrote."""
        found = value["groups"]
        members = [(user, number) for number, one in enumerate(found) for user in one["users"]]
        if len({user for user, _ in members}) != len(members):
            raise InputError("the policy is damaged: a user is in two groups.")
        table = np.full((len(found), len(contexts)), UNKNOWN, np.int64)
        for number, one in enumerate(found):
            pairs = list(one["decisions"].items())
            own, chosen = _codes(pairs, contexts, actions, "a group's decision")
            table[number, own] = chosen
        labels = Labels.parsed([user for user, _ in members], str(value["user_type"]))
        return cls(labels, np.array([number for _, number in members], np.int64), table)
