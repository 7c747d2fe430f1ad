"""Epochs with tastes: who does not explore plays for themselves, the common policy as prior."""

from __future__ import annotations

import numpy as np

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.learners.epochs.playing import EpochPlayer
from unswayed.learners.interface import Setting
from unswayed.learners.personal import residuals_of
from unswayed.policy import Policy
from unswayed.policy.deciding import EXPLORE
from unswayed.tallies import Tallies

#: Ours: the share of a posterior's deviation that draws have; all of it costs more than it finds in
#: 500 interactions (docs/epochs.md).
BOLDNESS = 0.25

#: Ours: standard errors by which the variance of tastes must lie above 0.
CLEARLY = 3.0


class PersonalEpochPlayer(EpochPlayer):
    """Epochs for what users have in common, Thompson sampling for what they do not.

    After each epoch the size tau of tastes is estimated: how much more than by chance users' means
    differ from the common ones, as a mean over users without the largest. Where that is not clearly
    above 0, the common policy is played. Otherwise a user's mean rewards are taken for
    normal with the common means and variance tau² before the user's own plays, and one draw from
    what follows from those plays decides.

    A coalition enters through the common means, which are robust, and through tau, which is
    trimmed; the plays of a user depend on nobody else's.

    Parameters
    ----------
    setting
        As for ``EpochPlayer``.
    """

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        shape = (setting.n_users, setting.n_contexts, setting.n_actions)
        self._own_sums, self._own_counts = np.zeros(shape), np.zeros(shape)
        self.taste, self.noise = 0.0, 1.0
        self._common = np.zeros(shape[1:])

    def _play(self, users: IntArray, contexts: IntArray, answers: FloatArray) -> IntArray:
        actions, modes = self._decided(users, contexts)
        explores: BoolArray = modes == EXPLORE
        if self.taste > 0.0:
            own = np.flatnonzero(~explores)
            actions[own] = self._sampled(users[own], contexts[own])
        self._take(users, contexts, actions, answers, np.flatnonzero(explores))
        rewards = answers[np.arange(len(users)), actions]
        np.add.at(self._own_sums, (users, contexts, actions), rewards)
        np.add.at(self._own_counts, (users, contexts, actions), 1.0)
        return actions

    def _sampled(self, users: IntArray, contexts: IntArray) -> IntArray:
        """Return one draw of Thompson sampling for each arrival; shape (n,)."""
        counts, sums = self._own_counts[users, contexts], self._own_sums[users, contexts]
        variances = 1.0 / (1.0 / self.taste**2 + counts / self.noise**2)
        means = variances * (self._common[contexts] / self.taste**2 + sums / self.noise**2)
        draws = means + BOLDNESS * np.sqrt(variances) * self._setting.rng.standard_normal(
            means.shape
        )
        best: IntArray = draws.argmax(axis=1)
        return best

    def _learned(self, policy: Policy, tallies: Tallies) -> None:
        """Estimate tau and the noise anew."""
        alpha, mean_rewards = self._setting.adversarial_fraction, policy.mean_rewards
        assert policy.sampling_errors is not None  # every method gives them
        self._common = np.where(np.isnan(mean_rewards), -np.inf, mean_rewards)
        if not (tallies.plays > 1).any():
            return
        found = residuals_of(tallies, mean_rewards, adversarial_fraction=alpha)
        self.noise = found.noise
        counts = self._own_counts
        known = (counts > 0) & np.isfinite(mean_rewards)
        values = np.divide(self._own_sums, counts, where=known, out=np.zeros(counts.shape))
        # E[n d² − σ²] = n (τ² + v) for n plays of a cell whose common mean has variance v, so the
        # ratio of sums over a user estimates τ². Half-widths exceed deviations, which is prudent.
        common = counts * np.where(known, policy.sampling_errors, 0.0) ** 2
        differences = np.where(known, values - np.where(known, mean_rewards, 0.0), 0.0)
        excess = (counts * differences**2 - known * self.noise**2 - common).sum(axis=(1, 2))
        plays = (counts * known).sum(axis=(1, 2))
        of_users = excess[plays > 0] / plays[plays > 0]
        # Only the top is trimmed: that errs towards the common policy, colluders or not.
        of_users = of_users[of_users <= np.quantile(of_users, 1.0 - alpha)]
        variance = float(of_users.mean())
        chance = float(of_users.std() / np.sqrt(len(of_users)))
        self.taste = float(np.sqrt(variance)) if variance > CLEARLY * chance else 0.0
