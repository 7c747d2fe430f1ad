"""What a learner learned last, by the names that scikit-learn gives such things."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from unswayed.arrays import FloatArray
from unswayed.errors import InputError
from unswayed.events import Label, Labels, check_list
from unswayed.learners.estimates import Estimates
from unswayed.learners.flips.bounds import FlipBounds
from unswayed.learners.unknown_fraction import UnknownFraction
from unswayed.policy import Policy


class Fitted:
    """The fitted state of ``RobustMCB``: predictions and shortcuts into the estimates."""

    policy_: Policy
    estimates_: Estimates
    flip_bounds_: FlipBounds | None
    unknown_fraction_: UnknownFraction | None
    _user_labels: Labels

    def predict(self, contexts: Iterable[Label]) -> list[Label]:
        """Return the learned action of each context; unknown contexts get the default action."""
        return self._fitted().decide_many(contexts)[0]

    def predict_expectations(self, contexts: Iterable[Label]) -> FloatArray:
        """Return mean rewards, shape (n, n_actions); NaN for what was not learned."""
        policy = self._fitted()
        check_list(contexts, "contexts")
        table = np.vstack([policy.mean_rewards, np.full(len(policy.action_labels), np.nan)])
        return table[policy.context_labels.codes(contexts)]

    @property
    def mean_rewards_(self) -> FloatArray:
        """Estimated mean rewards; shape (n_contexts, n_actions)."""
        return self._fitted().mean_rewards

    @property
    def context_probabilities_(self) -> FloatArray:
        """Estimated context probabilities; shape (n_contexts,)."""
        return self._fitted().context_probabilities

    @property
    def frequent_contexts_(self) -> list[Label]:
        """Labels of S₊."""
        is_frequent = self._estimated().frequent_contexts
        return [label for label, yes in zip(self.context_labels_, is_frequent, strict=True) if yes]

    @property
    def user_weights_(self) -> FloatArray:
        """How much of each user was kept, in [0, 1]; shape (n_users,)."""
        return self._estimated().user_weights

    @property
    def context_labels_(self) -> Labels:
        """The contexts, in the order of the arrays."""
        return self._fitted().context_labels

    @property
    def action_labels_(self) -> Labels:
        """The actions, in the order of the arrays."""
        return self._fitted().action_labels

    @property
    def user_labels_(self) -> Labels:
        """The users, in the order of ``user_weights_``."""
        self._estimated()
        return self._user_labels

    def _fitted(self) -> Policy:
        if not hasattr(self, "policy_"):
            raise InputError("nothing was learned yet; call fit(log) or policy() first.")
        return self.policy_

    def _estimated(self) -> Estimates:
        self._fitted()
        if not hasattr(self, "estimates_"):
            raise InputError("a loaded learner has its policy only; call policy() to learn again.")
        return self.estimates_

    def _forget(self) -> None:
        """Discard what was learned."""
        for name in ("policy_", "estimates_", "flip_bounds_", "unknown_fraction_"):
            self.__dict__.pop(name, None)
