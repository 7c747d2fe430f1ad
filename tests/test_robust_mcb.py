"""Conventions of scikit-learn and of notebooks."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from typing import Any

import numpy as np
import pytest
from matplotlib import pyplot

from tests.cli.shop import BEST, café_log
from tests.refusals import refusal
from unswayed import InputError, RobustMCB, audit_log, evaluate_policy, learn_log
from unswayed.errors import Note


@pytest.fixture
def learner(rng: np.random.Generator) -> RobustMCB:
    """Return a learner that was fitted on the log of a café."""
    return RobustMCB(alpha=0.1).fit(café_log(rng))


def test_predict_warns_about_unknown_contexts(learner: RobustMCB) -> None:
    assert learner.predict(["home", "search"]) == ["tea", "milk"]
    with pytest.warns(Note, match=r"no context 'hime'.*default action.*Did you mean 'home'\?"):
        learner.predict(["home", "hime"])
    with pytest.warns(Note, match="and 1 more"):
        learner.predict(["hime", "nowhere"])


def test_a_clone_has_only_the_parameters(learner: RobustMCB) -> None:
    learner.set_params(method="paper", actions=["tea", "milk", "water"])
    copy = learner.__sklearn_clone__()  # sklearn.base.clone calls this method
    assert copy.get_params() == learner.get_params()
    with pytest.raises(InputError, match="fit"):
        copy.predict(["home"])


def test_changed_parameters_take_effect_at_the_next_fit(learner: RobustMCB) -> None:
    """The log is kept; with fewer assumed colluders the policy is a different one."""
    assert learner.set_params(alpha=0.3) is learner
    assert learner.policy().alpha == 0.3
    assert learner.policy().decide("home").action == "tea"
    with pytest.raises(TypeError, match="did you mean 'alpha'"):
        learner.set_params(alhpa=0.2)
    assert "below 0.5" in refusal(learner.set_params, alpha=0.7)
    assert learner.get_params()["alpha"] == 0.3, "a refused change changes nothing"


def test_parameters_of_online_decisions_cannot_change_later() -> None:
    learner = RobustMCB(actions=["tea", "milk"], contexts=["home"], secret=bytes(16))
    same = RobustMCB(actions=["tea", "water"], contexts=["home"], secret=bytes(16))
    same.set_params(actions=["tea", "milk"])
    users = [f"user-{code}" for code in range(50)]
    assert same.decide_many(users, ["home"] * 50) == learner.decide_many(users, ["home"] * 50)
    assert "first decision" in refusal(learner.set_params, actions=["tea", "cola"])
    learner.set_params(alpha=0.2)
    assert learner.alpha == 0.2


def test_score_is_the_cross_fitted_value_for_honest_users(
    learner: RobustMCB, rng: np.random.Generator
) -> None:
    """Honest users get 0.9 from the best action, and the mean over all of the log is far lower.

    One standard error of a mean over 2,000 plays of the chosen actions is below 0.01.
    """
    log = café_log(rng)
    assert abs(learner.score(log) - 0.9) < 0.05
    assert float(np.mean(log["reward"])) < 0.6


def test_columns_are_named_in_the_call_wherever_a_log_is_read(rng: np.random.Generator) -> None:
    log = café_log(rng)
    renamed = log.rename_columns([f"my {name}" for name in log.column_names])
    names: dict[str, Any] = {name: f"my {name}" for name in log.column_names}
    policy = learn_log(renamed, alpha=0.2, **names).policy
    assert policy.decide("home").action == BEST["home"]
    for call, same in (
        (audit_log(renamed, **names).verdict, audit_log(log).verdict),
        (
            evaluate_policy(renamed, policy, **names).honest.value,
            evaluate_policy(log, policy).honest.value,
        ),
    ):
        assert call == same
    for function in (audit_log, partial(evaluate_policy, policy=policy)):
        with pytest.raises(TypeError, match="did you mean 'known'"):
            function(log, knwon="accounts.csv")


def test_a_policy_can_be_shown_as_a_table_and_a_picture(learner: RobustMCB) -> None:
    table = learner.policy_.to_pandas()
    chosen = table[table["is_chosen"]].set_index("context")["action"]
    assert chosen.to_dict() == BEST
    assert {"mean", "low", "high", "n", "context_probability"} <= set(table.columns)
    for shown in (learner, learner.policy_):
        axes = shown.plot()
        labels = [label.get_text() for label in axes.get_yticklabels()]
        assert sorted(labels)[0] == "home: milk"
        assert len(labels) == 9
        pyplot.close("all")


def test_notebooks_show_tables_with_labels_escaped() -> None:
    rows = 40
    log = {
        "user": np.repeat(np.arange(20), 2 * rows // 20),
        "context": np.array(["<b>home</b>"] * 2 * rows),
        "action": np.array(["tea", "milk"] * rows),
        "reward": np.array([1.0, 0.0] * rows),
    }
    import pandas as pd

    learned = learn_log(pd.DataFrame(log), alpha=0.1)
    html = learned._repr_html_()
    assert "<table>" in html
    assert "&lt;b&gt;home&lt;/b&gt;" in html
    assert "<b>home" not in html
    assert "At least and at most hold if rewards can only be 0 or 1, as all in this log." in html
    for thing in (learned, learned.policy):
        assert "\n" not in repr(thing)
        assert len(repr(thing)) < 200
    labels = [label.get_text() for label in learned.plot().get_yticklabels()]
    assert labels == ["<b>home</b>: tea", "<b>home</b>: milk"]
    pyplot.close("all")
    fitted = RobustMCB().fit(pd.DataFrame(log))
    assert "<table>" in fitted._repr_html_()
    assert "RobustMCB(alpha=0.1)" in RobustMCB()._repr_html_()


#: DuckDB takes this for a Jupyter kernel, and then requires ipywidgets for its progress bar.
_JUPYTER = """
import sys, types
kernel = types.SimpleNamespace(config={"IPKernelApp": {}})
sys.modules["IPython"] = types.ModuleType("IPython")
sys.modules["IPython"].get_ipython = lambda: kernel
"""


def test_jupyter_without_ipywidgets_reads_logs() -> None:
    """Negative control: DuckDB itself fails there when its progress bar is turned off."""
    read = "import unswayed; from unswayed.learners.warm_up import small_log\n"
    read += "print(len(unswayed.read_events(small_log('clicks')).events))"
    bar = "import duckdb; duckdb.connect().sql('SET enable_progress_bar = false')"
    for code, printed in ((read, "2000\n"), (bar, "")):
        done = subprocess.run(
            [sys.executable, "-c", _JUPYTER + code], capture_output=True, text=True, check=False
        )
        assert done.stdout == printed, done.stderr
        assert bool(printed) == (done.returncode == 0)
