"""What cannot be begun: one clear sentence and an exit code, and nothing is changed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from autoresearch.records.ledger import Ledger

pytestmark = pytest.mark.system


# keys of the campaign file, flags, exit code, what the sentence says; of each kind one (tests/lab/campaign_setup)
CASES: dict[str, tuple[dict[str, object], tuple[str, ...], int, str]] = {
    "an unknown key": ({"parallell": 2}, (), 2, r"campaign.yaml: unknown key 'parallell'"),
    "a word for a number": ({"count": "many"}, (), 2, r"campaign.yaml: count: .*'many'"),
    "one run of the baseline, and a proof": ({"baseline": 1}, (), 2, r"yaml: baseline: 1 with `confirm: true`"),
    "a proof of too few runs": ({"confirm_runs": 7}, (), 2, r"confirm_runs: 7 are too few: a proof takes four"),
    "a blueprint that is missing": ({"blueprint": "nowhere.md"}, (), 4, r"the blueprint \S+nowhere.md is not there"),
    "no blueprint": ({"blueprint": None}, (), 2, r"names no blueprint"),
    "a target downwards": ({"target": "task_pass_rate@1<=0.1"}, (), 2, r"contradicts the direction"),
    "a budget without a GPU": ({"budget_gpu_hours": 4}, (), 2, r"GPU"),
    "GPUs per run without a GPU": ({"gpus_per_run": 2}, (), 2, r"GPU"),
    "a million points": (
        {"space": {"lr": {"low": 1, "high": 1000000, "step": 1}}, "proposer": "grid", "queue": None},
        (),
        2,
        r"the grid has 1,000,000 points",
    ),
    "a grid without steps": (
        {"space": {"lr": {"low": 0.1, "high": 1.0}}, "proposer": "grid", "queue": None},
        (),
        2,
        r"a grid cannot cover a continuous range",
    ),
    "an empty space": ({"space": {}, "queue": None}, (), 2, r"space"),
    "no queue": ({"proposer": "queue", "queue": None}, (), 2, r"the proposer is a queue, and none is named"),
    "a queue that is missing": ({"queue": "nowhere.yaml"}, (), 2, r"the queue \S+nowhere.yaml is not there"),
    "nothing to vary": ({"proposer": "random", "queue": None}, (), 2, r"no `space` is given, and the trainer verl"),
    "a key that the recipe lacks": ({"space": {"rate": [1, 2]}, "queue": None}, (), 3, r"rate"),
    "an include that is missing": ({"include": ["data/"]}, (), 6, r"data"),
    "an include outside": ({"include": ["../data"]}, (), 2, r"\.\./data"),
    "an unknown base": ({}, ("--set", "base=no-such-ref", "--yes"), 2, r"base: 'no-such-ref' names no commit"),
    "a prefix that is no branch": ({"prefix": "a..b"}, (), 2, r"a\.\.b"),
    "an unknown option": ({}, ("--counts", "3"), 2, r"--counts"),
    "a number below nothing": ({}, ("--count", "-3"), 2, r"numbers above 0"),
}


def test_each_is_refused_in_one_sentence_and_nothing_is_changed(camp: Any) -> None:
    camp.ideas({"overrides": {"lr": 0.2}})
    path = camp.file()
    before = camp.bench.picture()
    for name, (keys, flags, code, said) in CASES.items():
        camp.file(**{"queue": "ideas.yaml", **keys})
        error = camp.bench.ask("campaign", path, *flags, check=code)["error"]
        assert re.search(said, error["message"]), (name, error["message"])
        assert "\n" not in error["message"] and len(error["message"]) < 400, name
    camp.file()
    assert camp.bench.picture() == before


def test_where_nothing_is_to_be_found(camp: Any) -> None:
    (camp.bench.repo / "exp.md").unlink()
    error = camp.bench.ask("campaign", "--count", "3", check=2)["error"]
    assert error["message"] == "here is neither a campaign file nor a blueprint"
    assert "no campaign file or blueprint" in camp.bench.ask("campaign", "nowhere.yaml", check=4)["error"]["message"]
    assert "campaign --help" in camp.bench.ask("campaign", "note", check=4)["error"]["hint"]
    assert camp.bench.ask("campaign", "status", check=4)["error"]["message"] == "there is no campaign yet"
    assert camp.bench.ask("campaign", "status", "other", check=4)["error"]["code"] == "not_found"


def test_a_prefix_serves_one_campaign(camp: Any) -> None:
    """What ended goes on by `campaign set`; the same file begins another one under another prefix."""
    keys = {"queue": camp.ideas({"overrides": {"lr": 0.2}}), "baseline": 1, "retests": 0, "confirm": False}
    camp.run(count=1, **keys)
    error = camp.bench.ask("campaign", camp.file(count=2, **keys), "--yes", "--detach", check=5)["error"]
    assert error["message"] == "a campaign one ended here" and "campaign set one count=N" in error["hint"]
    assert error["fix"].endswith("campaign.yaml --yes --detach --set prefix=autoresearch/one-2 --json")
    camp.bench.ask("campaign", "set", "one", "count=2")
    assert camp.over().attempted == 2


def test_the_branch_of_a_lone_run_is_left_alone(camp: Any) -> None:
    """`run baseline.md` shows how long a run takes; the campaign of the same blueprint is another one."""
    line = ("campaign", "exp.md", "--count", "2", "--queue", camp.ideas({"overrides": {"lr": 0.2}}), "--dry-run")
    usual = camp.bench.ask(*line)["campaign"]
    camp.bench.git("branch", f"autoresearch/{usual}/baseline")
    assert camp.bench.ask(*line)["campaign"] == f"{usual}-2"


def test_a_lone_run_and_a_campaign_of_one_name_have_a_ledger_each(camp: Any) -> None:
    """And what ran before changes no verdict: it is unmeasured, by nobody's fault."""
    bench = camp.bench
    odd = bench.unknown("print('all well')")
    usual = Path(bench.ask("run", odd, "--dry-run")["ledger"]).parent.name
    camp.run(prefix=f"autoresearch/{usual}", count=1, queue=camp.ideas({"overrides": {"lr": 0.2}}), confirm=False)
    before = camp.place.ledger.read_bytes()
    for index in ("1", "2"):
        lone = bench.ask("run", odd)
        assert (lone["verdict"], lone["exit_code"]) == ("unmeasured", 0)
        *_, row = Ledger(Path(lone["ledger"])).rows()
        assert (Path(lone["ledger"]).parent.name, str(row.index)) == (f"{usual}-2", index)
        assert any("no metric is named" in remark for remark in lone["remarks"])
    assert camp.place.ledger.read_bytes() == before
    assert "no_metric" in [finding["code"] for finding in bench.ask("blueprint", "check", odd)["findings"]]
    other = Path(bench.ask("run", "exp.md")["ledger"]).parent.name
    assert bench.ask("campaign", "exp.md", "--queue", "ideas.yaml", "--dry-run")["campaign"] == f"{other}-2"


def test_a_run_of_a_campaign_is_repaired_by_its_campaign(camp: Any) -> None:
    state = camp.run(count=2, queue=camp.ideas({"slug": "high", "overrides": {"lr": 0.2}}), confirm=False)
    run = state.by_slug("high").rows[0].run_id
    refused = camp.bench.ask("run", "exp.md", "--fix-of", run, check=5)["error"]
    assert refused["message"] == f"{run} is a run of the campaign one, which repairs its ideas itself"
    assert refused["fix"] == f"autoresearch explain {run} --json"


def test_a_second_campaign_with_a_long_name(camp: Any) -> None:
    """Its directory's name is cut to 40 characters: the number of the next one has to stay in it."""
    keys = {"queue": camp.ideas({"overrides": {"lr": 0.2}}), "baseline": 1, "retests": 0, "confirm": False}
    keys["prefix"] = "autoresearch/20261126-learn-to-sort-words-by-their-length"
    camp.run(count=1, **keys)
    error = camp.bench.ask("campaign", camp.file(count=1, **keys), "--yes", check=5)["error"]
    free = "autoresearch/20261126-learn-to-sort-words-by-their-2"
    assert error["fix"].endswith(f"campaign.yaml --yes --set prefix={free} --json")


def test_a_prefix_that_exists_is_left_alone(camp: Any) -> None:
    camp.bench.git("branch", "autoresearch/one/baseline")
    path = camp.file(queue=camp.ideas({"overrides": {"lr": 0.2}}))
    found = camp.bench.ask("campaign", path, check=5)
    assert found["error"]["code"] == "prefix_taken"
    assert "the branch autoresearch/one/baseline exists already" in found["error"]["message"]
    assert found["error"]["fix"].endswith("campaign.yaml --set prefix=autoresearch/one-2 --detach --json")


def test_a_repository_without_a_commit_and_none_at_all(camp: Any, tmp_path: Path) -> None:
    path = camp.file(queue=camp.ideas({"overrides": {"lr": 0.2}}))
    (camp.bench.repo / ".git").rename(tmp_path / "git")
    assert camp.bench.ask("campaign", path, check=6)["error"]["code"] == "no_repository"
    camp.bench.git("init", "-q")
    assert camp.bench.ask("campaign", path, check=6)["error"]["code"] == "no_commit"
