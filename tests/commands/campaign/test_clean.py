"""`autoresearch clean`: what is over goes, and nothing that is alive, unsaved, or somebody else's."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from autoresearch.git_repo.checkout import find
from autoresearch.lab.campaigns.slots import slots_of
from autoresearch.records import campaign_records

pytestmark = pytest.mark.system

QUEUE = [
    {"slug": "lr-0.2", "sentence": "twice", "set": {"lr": 0.2}},
    {"slug": "lr-0.3", "sentence": "three times", "set": {"lr": 0.3, "mode": "hold"}},
]
FAST = {"proposer": "queue", "baseline": 1, "retests": 0, "confirm": False, "queue": QUEUE, "count": 2}


def names(payload: dict[str, Any], key: str = "leftovers") -> set[str]:
    return {Path(one["name"]).name for one in payload[key]}


def everything(root: Path) -> dict[str, bytes]:
    """All files of a campaign's records, results and branches."""
    changing = (".lock", "collect.log")  # a collector may still say what it did
    files = (path for path in sorted(root.rglob("*")) if path.is_file() and not path.name.endswith(changing))
    return {str(path): path.read_bytes() for path in files}


@pytest.fixture
def over(camp: Any) -> Any:
    """A campaign that is over, and whose controller was killed before it removed its worktrees."""
    camp.killed_at("campaign.reported", **FAST)
    spec = camp.state().spec
    checkout = find(Path(spec.repository))
    assert checkout is not None
    for slot in slots_of(spec, checkout):
        slot.switch(spec.base_commit)
    campaign_records.append(camp.place, "state", state="ended", reason="stop condition met")  # as if it had got so far
    return camp


def test_a_campaign_that_is_over(over: Any) -> None:
    """Dry run first; --yes removes exactly what it listed; branches, ledger, results and records are as they were."""
    bench, trees = over.bench, Path(over.state().spec.trees)
    (trees / "slot-1.tmp" / "triton").mkdir(parents=True)
    (trees / "slot-1.tmp" / "triton" / "kernel").write_bytes(b"x" * 50_000)
    records, branches = everything(bench.repo / "reports"), bench.git("for-each-ref")
    results = everything(bench.root / "results")
    elsewhere = bench.root / "elsewhere"
    shutil.copytree(bench.repo / ".git", elsewhere / ".git")
    words = [sys.executable, "-m", "autoresearch", "clean", "--yes"]
    subprocess.run(words, cwd=elsewhere, env=bench.env, capture_output=True, check=True)
    assert trees.exists(), "another project's are left to --all"
    planned = bench.ask("clean")
    assert planned["state"] == "planned" and planned["kept"] == [] and planned["bytes"] > 50_000
    assert {"slot-1", "slot-2", "slot-1.tmp"} <= names(planned)
    assert planned["next"] == ["autoresearch clean --yes --json"]
    assert (trees / "slot-1").is_dir()
    done = bench.ask("clean", "--yes")
    assert done["state"] == "cleaned" and all(one["removed"] for one in done["leftovers"]), done
    assert names(done) == names(planned)
    assert not trees.exists()
    assert "slot-" not in bench.git("worktree", "list")
    assert bench.git("for-each-ref") == branches and everything(bench.root / "results") == results
    assert everything(bench.repo / "reports") == records
    _, said, _ = bench.here("clean")
    assert said == f"nothing of {bench.repo} is left over\n"


def test_what_is_alive_stays(camp: Any) -> None:
    bench = camp.bench
    camp.recipe(mode="hold")
    bench.git("commit", "-qam", "hold")
    camp.start(**FAST)
    camp.until(lambda: camp.live("baseline"))
    assert bench.ask("clean", "--yes", "--all")["leftovers"] == []
    camp.go.touch()
    assert camp.over().reason == "stop condition met: 2/2 ideas attempted"


def test_changes_that_no_commit_holds_stay_and_are_named(over: Any) -> None:
    trees = Path(over.state().spec.trees)
    (trees / "slot-1" / "train.py").write_text("mine\n")
    (trees / "slot-2" / "weights.bin").write_text("mine\n")
    done = over.bench.ask("clean", "--yes")
    assert {Path(one["name"]).name: one["why"] for one in done["kept"]} == {
        "slot-1": "changes that no commit holds: train.py",
        "slot-2": "changes that no commit holds: weights.bin",
    }
    assert (trees / "slot-1" / "train.py").read_text() == "mine\n" and (trees / "slot-2" / "weights.bin").exists()
    over.bench.git("-C", str(trees / "slot-1"), "commit", "-qam", "a commit that only the worktree knows")
    (trees / "slot-2" / "weights.bin").unlink()
    done = over.bench.ask("clean", "--yes")
    assert "is in no branch" in done["kept"][0]["why"] and (trees / "slot-1").is_dir() and len(done["kept"]) == 1
    assert not (trees / "slot-2").exists()
    code, said, _ = over.bench.here("clean")
    assert code == 0 and f"kept {trees}/slot-1: changes that no commit holds: its commit " in said
    over.bench.git("branch", "mine", over.bench.git("-C", str(trees / "slot-1"), "rev-parse", "HEAD"))
    over.bench.ask("clean", "--yes")
    assert not trees.exists()


def test_a_campaign_that_may_go_on_keeps_its_worktrees(camp: Any) -> None:
    camp.killed_at("campaign.settled", **FAST)
    done = camp.bench.ask("clean", "--yes")
    assert [one for one in done["leftovers"] if one["kind"] == "worktree"] == []
    assert "`campaign resume` goes on" in done["kept"][0]["why"]
    camp.bench.ask("campaign", "resume", "one", "--detach")
    assert camp.over().attempted == 2


def test_a_kill_in_the_middle_and_two_at_once(over: Any) -> None:
    bench, trees = over.bench, Path(over.state().spec.trees)
    killed = bench.cli("clean", "--yes", check=None, AUTORESEARCH_FAILPOINT="repository.retired:kill")
    assert killed.returncode == -9 and [path.name for path in trees.glob(".*")] == [".slot-1.removing"]
    words = [sys.executable, "-m", "autoresearch", "clean", "--yes", "--json"]
    two = [subprocess.Popen(words, cwd=bench.repo, env=bench.env, stdout=subprocess.PIPE) for _ in range(2)]
    assert [process.wait() for process in two] == [0, 0]
    for process in two:
        assert process.stdout is not None
        process.stdout.close()
    assert not trees.exists() and "slot-" not in bench.git("worktree", "list")


def test_a_campaign_that_goes_on_meanwhile_is_not_hurt(over: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is continued after `clean` has looked, and before it removes anything."""
    from autoresearch.lab.disk import cleaning

    bench, real = over.bench, cleaning.find_leftovers

    def then_started(*given: Any) -> Any:
        cleaned = real(*given)
        bench.cli("campaign", "set", "one", "count=3")
        over.until(lambda: over.state().live)
        return cleaned

    monkeypatch.setattr(cleaning, "find_leftovers", then_started)
    done = bench.ask("clean", "--yes")
    left = [one for one in done["leftovers"] if one["kind"] == "worktree" and one["removed"]]
    assert not left and "the campaign one is running" in str(done["kept"]), done
    over.go.touch()
    assert over.over().attempted == 3
