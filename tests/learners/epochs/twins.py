"""Epoch learners arrival by arrival, straight from their descriptions."""

from collections import Counter
from typing import Any

import numpy as np

from unswayed.events import Events, Labels
from unswayed.events.thinning import remembered
from unswayed.learners.design import sticky_design, uniform_design
from unswayed.learners.epochs import Schedule, next_plan
from unswayed.learners.epochs.planning import shows_coalition
from unswayed.learners.interface import Setting
from unswayed.learners.methods import method_named
from unswayed.learners.personal import residuals_of
from unswayed.policy import Decider, EpochPlan, Mode, Policy
from unswayed.tallies import Tallies, tally, tally_events


class LiteralEpochs:
    """Plays one arrival after another; explorers' plays are listed and learned from."""

    def __init__(
        self,
        setting: Setting,
        schedule: Schedule,
        *,
        method: str = "bounded",
        is_sticky: bool = False,
        is_spread: bool = True,
    ) -> None:
        self.setting, self.schedule = setting, schedule
        self.method, self.is_sticky = method, is_sticky
        self.secret = setting.rng.bytes(16)
        self.plan = EpochPlan.start(
            "arena",
            range(setting.n_contexts),
            range(setting.n_actions),
            is_sticky=is_sticky,
            is_spread=is_spread,
        )
        self.decider = Decider(self.plan, self.secret)
        self.plays: Counter[int] = Counter()
        self.n_played = 0
        #: Epoch, user, context, action, reward and age of each exploring play.
        self.explored: list[tuple[int, int, int, int, float, float]] = []

    def step(self, user: int, context: int, outcome: np.ndarray) -> int:
        """Play one arrival."""
        ruling = self.decider.decide(user, context, self.plays[user])
        self.plays[user] += 1
        action = int(ruling.action)
        if ruling.mode is Mode.EXPLORE:
            reward, age = float(outcome[action]), self.n_played / self.setting.n_users
            self.explored.append((self.plan.epoch, user, context, action, reward, age))
        else:
            action = self.exploited(user, context, action)
        self.seen(user, context, action, float(outcome[action]))
        self.n_played += 1
        if self.n_played == self.setting.n_users * self.schedule.end(self.plan.epoch):
            self.end()
        return action

    def exploited(self, user: int, context: int, action: int) -> int:
        """Return what a user plays who does not explore."""
        del user, context
        return action

    def seen(self, user: int, context: int, action: int, reward: float) -> None:
        """See any play."""

    def learned(self, policy: Policy, tallies: Tallies) -> None:
        """See what was learned at the end of an epoch."""

    def tallies(self) -> Tallies:
        """Return explorers' plays; with sticky actions a user is another one in every epoch."""
        n_users = self.setting.n_users
        columns: list[Any] = list(zip(*self.explored, strict=True))
        epochs, users, contexts, actions, rewards, _ = (np.array(column) for column in columns)
        return tally(
            users + n_users * epochs if self.is_sticky else users,
            contexts,
            actions,
            rewards,
            n_users=n_users * (self.plan.epoch + 1) if self.is_sticky else n_users,
            n_contexts=self.setting.n_contexts,
            n_actions=self.setting.n_actions,
        )

    def end(self) -> None:
        """Learn, and go on to the next epoch."""
        tallies, alpha = self.tallies(), self.setting.alpha
        design = (sticky_design if self.is_sticky else uniform_design)(tallies)
        estimates = method_named(self.method)(tallies, design, alpha=alpha)
        policy = estimates.policy(
            tallies,
            Labels.numbered(self.setting.n_contexts),
            Labels.numbered(self.setting.n_actions),
            alpha=alpha,
            method=self.method,
        )
        self.learned(policy, tallies)
        self.plan = next_plan(
            self.plan,
            policy,
            schedule=self.schedule,
            n_users=self.setting.n_users,
            is_alarmed=shows_coalition(estimates, tallies),
        )
        self.decider = Decider(self.plan, self.secret)


class LiteralForgetting(LiteralEpochs):
    """Forgets plays by their age."""

    half_life = 64.0

    def tallies(self) -> Tallies:
        """Return what is remembered."""
        columns: list[Any] = list(zip(*self.explored, strict=True))
        _, users, contexts, actions, rewards, ages = (np.array(column) for column in columns)
        events = Events(
            users,
            contexts,
            actions,
            rewards,
            Labels.numbered(self.setting.n_users),
            Labels.numbered(self.setting.n_contexts),
            Labels.numbered(self.setting.n_actions),
            times=ages,
        )
        return tally_events(events.rows(remembered(events, half_life=self.half_life))).tallies


class LiteralPersonal(LiteralEpochs):
    """Plays one's own draw where tastes differ."""

    def __init__(self, setting: Setting, schedule: Schedule) -> None:
        super().__init__(setting, schedule)
        self.own: dict[tuple[int, int, int], list[float]] = {}
        self.taste, self.noise = 0.0, 1.0
        self.common = np.zeros((setting.n_contexts, setting.n_actions))

    def exploited(self, user: int, context: int, action: int) -> int:
        """Draw a quarter as widely as the posterior; the largest draw is played."""
        if self.taste == 0.0:
            return action
        draws = []
        for number, normal in enumerate(self.setting.rng.standard_normal(self.setting.n_actions)):
            told = self.own.get((user, context, number), [])
            precision = 1 / self.taste**2 + len(told) / self.noise**2
            mean = self.common[context, number] / self.taste**2 + sum(told) / self.noise**2
            draws.append(mean / precision + 0.25 * precision**-0.5 * normal)
        return int(np.argmax(draws))

    def seen(self, user: int, context: int, action: int, reward: float) -> None:
        """List the user's rewards."""
        self.own.setdefault((user, context, action), []).append(reward)

    def learned(self, policy: Policy, tallies: Tallies) -> None:
        """Estimate how much more than by chance users differ, without the largest alpha."""
        alpha = self.setting.alpha
        assert policy.sampling_errors is not None
        self.common = policy.mean_rewards
        self.noise = residuals_of(tallies, self.common, alpha=alpha).noise
        of_users = []
        for user in range(self.setting.n_users):
            excess, plays = 0.0, 0
            for (owner, context, action), told in self.own.items():
                if owner == user:
                    difference = np.mean(told) - self.common[context, action]
                    error = policy.sampling_errors[context, action]
                    excess += len(told) * (difference**2 - error**2) - self.noise**2
                    plays += len(told)
            if plays:
                of_users.append(excess / plays)
        largest = np.quantile(of_users, 1 - alpha)
        kept = [value for value in of_users if value <= largest]
        variance, chance = float(np.mean(kept)), float(np.std(kept)) / len(kept) ** 0.5
        self.taste = variance**0.5 if variance > 3 * chance else 0.0
