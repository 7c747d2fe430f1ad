"""Invalid options, arguments and files are named in a one-sentence error."""

from pathlib import Path

import pytest

from tests.cli.shop import unswayed
from tests.cli.test_main import run
from unswayed.cli.main import UsageError, usage_sentence
from unswayed.errors import InputError

PLAN = "plan --contexts 100 --actions 20 --alpha 0.1 --epsilon 0.05"
THREE = "plan --contexts 3 --actions 2 --alpha 0.2 --epsilon 0.1 --context-probabilities"
SIMULATE = "simulate --contexts 2 --actions 3 --users 40 --interactions 5 --processes 1"
FILES = {"words": "0.5 half", "two": "0.5 0.5", "large": "1 1 1", "log.csv": "who,reward\na,1\n"}
FILES["known.csv"] = "user,status\nu1,honest\n"
FILES["good.csv"] = "user,context,action,reward\n" + "".join(
    f"u{n},home,{'tea' if n % 3 else 'milk'},{n % 2}\n" for n in range(40)
)

REFUSED = {
    "evaluate log.csv": "--policy is missing; see",
    "evaluate good.csv --policy good.csv": "of each: good.csv has no column 'probability'.",
    "learn good.csv --out good.csv": "good.csv cannot be written: it is an input",
    "learn good.csv --out p.json --cells ./p.json": "p.json cannot be written: it is an input, or",
    "learn good.csv --known known.csv --users known.csv": "known.csv cannot be written: it is an",
    "learn good.csv --out nowhere/p.json": "there is no folder nowhere; make it, or name another",
    "audit good.csv --users good.csv": "good.csv cannot be written: it is an input",
    "evaluate good.csv --policy p.json --out p.json": "p.json cannot be written: it is an input",
    "predict policy.json --file good.csv --out good.csv": "good.csv cannot be written",
    "learn good.csv --colour red": "there is no option --colour; see",
    "compare a.json b.json --limit x": "--limit must be a whole number; see",
    "compare a.json b.json --limit -1": "--limit is -1: it must be 0 or larger.",
    "predict a.json --context lunch --out x.csv": "--out and --context-column require --file.",
    "predict /dev/null --context home": "is not JSON",
    "demo --world newz": "did you mean news?",
    "demo --seed -1 --out nowhere": "--seed is -1: it must be 0 or larger.",
    "demo --out /dev/null/demo": "cannot make the folder",
    "reproduce --processes 0": "--processes is 0: at least 1 is needed.",
    "reproduce figure-2a --out /dev/null/results": "cannot make the folder",
    "learn --alpha 20 log.csv --out p.json": "did you mean 0.2?",
    "learn": "nothing to learn from: give a log, or --tallies with a folder",
    "learn good.csv --context-bins price:3": "bins are given for column 'price'",
    "learn good.csv --context-bins context:ten": "written as COLUMN:NUMBER",
    "learn good.csv --context-bins context:1": "cannot be cut into 1 bins",
    "learn good.csv --context-bins context:3": "holds no numbers, so it cannot be cut",
    "learn good.csv --query SELECT": "--query needs a database address",
    "learn sqlite:///shop.db": "a database needs a query; give one with --query",
    "learn sqlite:///shop.db --query SELECT": "there is no database file shop.db",
    "learn sqlite:///good.csv --query SELECT": "the query on sqlite failed",
    "learn good.csv --query SELECT --engine dask": "--query works only with --engine local",
    "learn --tallies none": "holds no tallies yet",
    "learn --tallies none --engine dask": "needs a log",
    "learn log.csv --scheduler tcp://127.0.0.1:1": "--scheduler requires --engine dask",
    f"learn --tallies {'t' * 300}": "too long",
    "limits --gap wide": "--gap must be a number; see",
    "limits --gap 0 --interactions 10 --alpha 0.2": "gap",
    f"{SIMULATE} --gap 2": "--gap is 2.0: it must be positive and at most 0.75.",
    f"{SIMULATE} --knob force": "--knob is 'force': write NAME=VALUE, such as strength=0.5.",
    f"{SIMULATE} --attack honest --strength 1": "unknown knob of attack honest 'strength'",
    f"{SIMULATE} --goal regert": "did you mean regret?",
    f"{SIMULATE} --alpha 0.6": "--alpha is 0.6",
    f"{SIMULATE} --users 1000000000": "users times actions is 3,000,000,000",
    f"{SIMULATE} --contexts 1000000000": "contexts times actions is 3,000,000,000",
    f"{SIMULATE} --processes 0": "--processes is 0: at least 1 is needed.",
    f"{SIMULATE} --base 0.9": "--base is 0.9",
    f"{SIMULATE} --context-probabilities nowhere.txt": "--context-probabilities is",
    f"{SIMULATE} --context-probabilities words": "one number for each context",
    f"{SIMULATE} --context-probabilities {'a' * 300}": "File name too long",
    "plan --alpha 0.1 --epsilon 0.01": "give a log, or --contexts and --actions",
    "plan log.csv --alpha 0.1 --epsilon 0.01": "has no column 'user'",
    "plan log.csv --alpha 0.1 --epsilon 0.01 --contexts 3": "--contexts is read from the log",
    f"{PLAN} --contexts 0": "--contexts is 0",
    f"{PLAN} --contexts 1000000000": "contexts is 1,000,000,000: at most 10,000,000",
    f"{PLAN} --actions 1000000000": "at most 1,000,000 are supported",
    f"{PLAN} --actions 1": "at least 2",
    f"{PLAN} --arrival-ratio 1": "--arrival-ratio is 1",
    f"{PLAN} --base 1.5": "a click rate lies between 0 and 1",
    f"{PLAN} --activity sometimes": "--activity is even or heavy-tailed",
    f"{PLAN} --exploration 0": "above 0 and at most 1",
    f"{PLAN} --deviation -1": "--deviation is -1.0",
    f"{THREE} zipf:-1": "it must be uniform, zipf:EXPONENT",
    f"{THREE} missing.txt": "it must be uniform, zipf:EXPONENT",
    f"{THREE} words": "one number for each",
    f"{THREE} two": "2 numbers for 3",
    f"{THREE} large": "sum to 3",
}


@pytest.mark.parametrize("typed", REFUSED, ids=lambda typed: typed[:80])
def test_wrong_usage_is_refused_in_one_sentence(
    typed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    with pytest.raises((InputError, UsageError)) as caught:
        unswayed(*typed.split())
    error = caught.value
    said = error.on_command_line if isinstance(error, InputError) else usage_sentence(error)
    assert REFUSED[typed] in said
    assert "\n" not in said


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        ("nonsense", "no such command 'nonsense'; see `unswayed --help`."),
        ("lern", "there is no command 'lern'; did you mean `unswayed learn`?"),
        ("warm_up", "there is no command 'warm_up'; did you mean `unswayed warm-up`?"),
        ("learn x.csv --alhpa 1", "there is no option --alhpa; did you mean --alpha?"),
        ("simulate --seed -1", "--seed is -1: it must be 0 or larger."),
        ("predict", "POLICY is missing; see `unswayed predict --help`."),
    ],
)
def test_the_command_prints_the_error_and_exits_with_code_2(typed: str, sentence: str) -> None:
    done = run(*typed.split())
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"error: {sentence}\n")
