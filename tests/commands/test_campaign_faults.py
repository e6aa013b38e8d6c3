"""A campaign whose controller, runs, terminal and files are taken away at any moment: nothing lost, nothing twice."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.system

BEGINNING = (
    *("repository.hypothesis_committed", "campaign.drafted", "repository.claimed", "campaign.claimed"),
    *("campaign.committed", "repository.slot_added", "repository.switched", "campaign.prepared"),
    *("campaign.waits", "launch.claimed", "launch.branch_made", "launch.written", "launch.started", "campaign.gone"),
)
ENDING = (
    *("campaign.told", "campaign.settled", "campaign.recorded"),
    *("collect.measured", "collect.row_written", "collect.flag_written"),
    *("campaign.reported", "campaign.removed"),
)


def killed_at(crashes: Any, points: tuple[str, ...], count: int) -> Any:
    """One campaign whose controllers kill themselves one after another, each somewhere else."""
    crashes.start("--count", count, fail=points[0])
    for number, point in enumerate(points):
        if number:
            crashes.resume(point)
        crashes.dead()
        assert crashes.state().phase != "ended", f"{point} was never reached"
    crashes.resume()
    return crashes.ended(count)


@pytest.mark.waits
def test_kill_9_wherever_a_run_is_begun(crashes: Any) -> None:
    killed_at(crashes, BEGINNING, 6)


@pytest.mark.waits
def test_kill_9_wherever_a_run_is_settled_and_at_the_end(crashes: Any) -> None:
    killed_at(crashes, ENDING, 10)


# ------------------------------------------------------------------------------- what else may be killed


def test_kill_9_of_the_command_that_starts_it(crashes: Any) -> None:
    ask, file = crashes.bench.ask, crashes.file()
    start = ("campaign", file, "--count", 2, "--yes", "--detach")
    crashes.bench.cli(*start, check=-9, AUTORESEARCH_FAILPOINT="begin.registered:kill")
    assert ask("campaign", "status", check=4)["error"]["message"] == "there is no campaign yet"
    crashes.bench.cli(*start, check=-9, AUTORESEARCH_FAILPOINT="begin.begun:kill")
    found = ask("campaign", "status")
    assert (found["state"], found["attempted"]) == ("dead", 0)
    assert found["next"][0] == "autoresearch campaign resume one --detach --json"
    refused = ask(*start, "--set", "retests=1", check=5)  # another line
    assert refused["error"]["fix"] == "autoresearch campaign resume one --detach --json"
    crashes.bench.cli(*start, check=-9, AUTORESEARCH_FAILPOINT="begin.passed:kill")  # the same one goes on
    assert ask("campaign", "status")["state"] == "dead"
    crashes.bench.cli("campaign", "resume", "one", check=-9, AUTORESEARCH_FAILPOINT="begin.started:kill")
    crashes.bench.until(lambda: crashes.place.controlled or crashes.state().phase == "ended")
    crashes.ended(2)  # its controller knows nothing of it


def test_the_command_that_follows_it_says_that_its_controller_died(crashes: Any) -> None:
    crashes.recipe(mode="hold")
    process = crashes.bench.spawn("campaign", crashes.file(), "--count", 2, "--yes", "--json", stdout=subprocess.PIPE)
    crashes.bench.until(lambda: crashes.place.spec.exists())
    run = crashes.running("baseline")
    crashes.kill()
    told = json.loads(process.communicate()[0])
    assert process.returncode == 1 and told["error"]["code"] == "controller_died"
    assert told["error"]["fix"] == "autoresearch campaign resume one --json"
    assert crashes.bench.ask("status", run.run)["state"] == "running"
    crashes.bench.ask("stop", run.run, "--reason", "seen")


def test_nothing_of_the_terminal_ends_it(crashes: Any) -> None:
    """The foreground command, the hangup, the session, the whole server: the campaign and its run go on."""
    crashes.recipe(mode="hold")
    process = crashes.bench.spawn("campaign", crashes.file(), "--count", 2, "--yes")
    crashes.bench.until(lambda: crashes.place.spec.exists())
    run = crashes.running("baseline")
    process.kill()
    controller = crashes.pid()
    os.kill(controller, signal.SIGHUP)
    (session,) = [name for name in crashes.sessions() if "campaign" in name]
    crashes.bench.tmux("kill-session", "-t", f"={session}")
    os.kill(int(crashes.bench.tmux("display-message", "-p", "#{pid}").stdout), signal.SIGKILL)  # this test's own server
    assert crashes.pid() == controller and crashes.place.controlled
    refused = crashes.bench.ask("campaign", crashes.file(), "--yes", check=5)
    assert refused["error"]["message"] == "the campaign one is running"
    crashes.resume()  # one lives: it is told to go on, and no second one is started
    crashes.kill(signal.SIGTERM)  # this ends the controller, and no run
    assert crashes.bench.ask("campaign", "status")["state"] == "dead"
    assert crashes.bench.ask("status", run.run)["state"] == "running"
    crashes.resume()
    crashes.go.touch()
    state = crashes.ended(2)
    assert [row.ending for row in state.rows] == ["finished"] * 2 and len(crashes.began(run.run)) == 1
    assert crashes.said().count(" took ") == 2


def test_kill_9_of_a_runner_and_of_a_trainer(crashes: Any) -> None:
    """A lost run is repeated and counts once; a trainer that was killed is a crash."""
    crashes.recipe(mode="hold")
    queue = crashes.bench.repo / "ideas.yaml"
    entries = [{"slug": slug, "overrides": {"lr": lr}, "parent": "baseline"} for slug, lr in (("a", 0.2), ("b", 0.3))]
    queue.write_text(json.dumps(entries))
    crashes.start("--count", 3, proposer="queue", space=None, queue="ideas.yaml")
    first = crashes.running("baseline")
    os.kill(crashes.bench.runner(first.run_dir)["pid"], signal.SIGKILL)
    again = crashes.bench.until(lambda: [r for _, r in crashes.state().live if r.run != first.run])[0]
    crashes.bench.until(lambda: crashes.began(again.run))
    assert not [p for p in crashes.bench.carriers() if p.pid == int(crashes.began(first.run)[0][0])]
    Path(f"{crashes.go}{again.run}").touch()
    for slug in ("a", "b"):
        run = crashes.running(slug)
        if slug == "a":
            os.kill(int(crashes.began(run.run)[0][0]), signal.SIGKILL)
        else:
            os.kill(crashes.bench.runner(run.run_dir)["pid"], signal.SIGKILL)
    crashes.bench.until(lambda: [row for row in crashes.state().rows if row.index == 3])
    crashes.go.touch()
    state = crashes.ended(3)
    endings = {idea.slug: [row.ending for row in idea.rows] for idea in state.ideas}
    assert endings == {"baseline": ["lost", "finished"], "a": ["crashed"], "b": ["lost", "finished"]}
    assert state.by_slug("a").status == "crash" and state.by_slug("a").rows[0].failure == "signal"
    assert [run.why for run in state.by_slug("b").runs] == ["first", "retry"]


# ------------------------------------------------------------------------------- several at once


MEET = """
import os, time
from autoresearch.lab.campaign_setup import start_campaign
create = start_campaign.create
def meet(*words):
    open(f"{place}/{{os.getpid()}}", "w").close()
    while len(os.listdir({place!r})) < 3: time.sleep(0.02)
    return create(*words)
start_campaign.create = meet
"""


def test_two_that_start_at_once(crashes: Any) -> None:
    """One wins, the other says so with its exit code; a campaign under another prefix is in nobody's way."""
    other = dataclasses.replace(crashes, name="other")
    crashes.recipe(mode="hold")
    flags = ("--count", 2, "--yes", "--detach", "--json")
    files = [crashes.file(), crashes.file(), other.file()]
    place = crashes.bench.root / "meet"
    place.mkdir()
    patch = MEET.format(place=str(place))
    begun = [crashes.bench.spawn("campaign", file, *flags, stdout=subprocess.PIPE, patch=patch) for file in files]
    told = [crashes.bench.answer(process) for process in begun]
    codes = [process.returncode for process in begun]
    assert sorted(codes[:2]) == [0, 5] and codes[2] == 0, told
    (refused,) = [payload for payload in told if not payload["ok"]]
    assert refused["error"]["code"] == "conflict" and refused["error"]["fix"].endswith(" --json"), refused
    assert crashes.running("baseline").run_dir != other.running("baseline").run_dir
    places = {crashes.state().spec.result_dir, other.state().spec.result_dir}
    assert len(places) == 2  # neither moves the other's baseline aside
    crashes.go.touch()
    for one in (other, crashes):
        crashes.bench.until(lambda one=one: one.state().phase == "ended" and not one.place.controlled)
        assert [row.ending for row in one.state().rows] == ["finished"] * 2
    assert len(crashes.bench.git("worktree", "list").splitlines()) == 1
    assert len(crashes.starts.read_text().splitlines()) == 4


@pytest.mark.smoke
def test_two_that_resume_at_once(crashes: Any) -> None:
    """One that finds a line of the record damaged says so, and nothing is lost."""
    crashes.start("--count", 2, fail="campaign.prepared")
    crashes.dead()
    whole = crashes.place.events.read_bytes()
    crashes.place.events.write_bytes(whole.replace(b'"do": "idea"', b'"do": "ideb"', 1))
    refused = crashes.bench.ask("campaign", "resume", "one", check=6)
    assert refused["error"]["code"] == "record_damaged" and str(crashes.place.events) in refused["error"]["message"]
    crashes.place.events.write_bytes(whole)
    begun = [crashes.bench.spawn("campaign", "resume", "--detach", "--json", stdout=subprocess.PIPE) for _ in range(2)]
    told = [crashes.bench.answer(process) for process in begun]
    assert {process.returncode for process in begun} <= {0, 5} and any(payload["ok"] for payload in told), told
    crashes.ended(2)
    assert crashes.said().count(" took ") == 2  # the one that was killed, and one more


# ------------------------------------------------------------------------------- touched by hand


def test_a_ledger_that_was_edited_by_hand(crashes: Any) -> None:
    """A row taken out is written again, and what was changed is set aside."""
    crashes.recipe(mode="hold")
    crashes.start("--count", 4, parallel=1)
    ends: list[str] = []
    for _ in range(2):
        living = crashes.bench.until(lambda: [run.run for _, run in crashes.state().live if run.run not in ends])
        ends.append(living[0])
        Path(f"{crashes.go}{ends[-1]}").touch()
    crashes.bench.until(lambda: len(crashes.state().rows) == 2 and crashes.state().live)
    crashes.kill()
    path = crashes.place.ledger
    header, *lines = path.read_text().splitlines()
    columns = header.split("\t")
    first = lines[0].split("\t")
    first[columns.index("index")], first[columns.index("description")] = "one", "good enough"
    kept = ["\t".join([*first, "mine"]), *("\t".join([*line.split("\t"), ""]) for line in lines[2:])]
    fresh = path.with_suffix(".new")  # in one step: a run that ends just now may add its row
    fresh.write_text("\n".join([f"{header}\tremark", *kept]) + "\n")
    fresh.replace(path)
    with crashes.place.events.open("ab") as record:
        record.write(b'{"t": 1.0, "do": "sta')  # a kill in the middle of a line
    crashes.resume()
    crashes.bench.until(lambda: [row for row in crashes.state().rows if row.index == 2])
    lines = path.read_text().splitlines()  # while it runs: the second row again, by an editor that renames
    second = next(row.run_id for row in crashes.state().rows if row.index == 2)
    fresh.write_text("\n".join(line for line in lines if second not in line) + "\n")
    fresh.replace(path)
    crashes.go.touch()
    state = crashes.ended(4)
    assert "good enough" not in path.read_text()
    aside = path.with_name("results.tsv.edited").read_text()
    assert "good enough" in aside and "mine" in aside
    assert [len(idea.rows) for idea in state.ideas] == [1] * 4


def test_what_is_removed_or_damaged_while_it_runs(crashes: Any) -> None:
    """Its worktrees, a run directory, campaign.json, a branch that somebody moves: it goes on."""
    crashes.recipe(mode="hold")
    crashes.start("--count", 4)
    lost = crashes.running("baseline")
    crashes.bench.runner(lost.run_dir)  # its Runner makes no more files there
    crashes.place.spec.write_text("{")
    shutil.rmtree(lost.run_dir)
    again = crashes.bench.until(lambda: [r for _, r in crashes.state().live if r.run != lost.run])[0]
    crashes.bench.until(lambda: crashes.began(again.run))
    (directory,) = {place for _, place in crashes.began(again.run)}
    shutil.rmtree(directory)
    git, branch = crashes.bench.git, "refs/heads/autoresearch/one/baseline"
    before = git("rev-parse", branch)
    somebody = git("commit-tree", "-p", before, "-m", "mine", git("rev-parse", "HEAD^{tree}"))
    git("update-ref", branch, somebody)
    crashes.go.touch()
    state = crashes.ended(4)
    assert [row.ending for row in state.baseline.rows] == ["lost", "finished"]
    assert git("rev-parse", branch) == somebody  # it is theirs now
    assert "its run directory was removed" in state.baseline.rows[0].description


def test_a_branch_that_is_checked_out_gets_a_further_one(crashes: Any) -> None:
    """Somebody works on the baseline in a worktree of their own: its next run is kept beside it, without that."""
    crashes.start("--count", 2, baseline=2, parallel=1, fail="campaign.gone")
    crashes.dead()
    mine = crashes.bench.root / "mine"
    crashes.bench.git("worktree", "add", "-q", str(mine), "autoresearch/one/baseline")
    (mine / "mine.py").write_text("mine = 1\n")
    crashes.bench.git("-C", str(mine), "add", "-A")
    crashes.bench.git("-C", str(mine), "commit", "-qm", "mine")
    crashes.resume()
    crashes.bench.until(lambda: crashes.state().phase == "ended" and not crashes.place.controlled)
    branches = [row.branch for row in crashes.state().baseline.rows]
    assert branches == ["autoresearch/one/baseline", "autoresearch/one/baseline-2"]
    assert {row.status for row in crashes.state().rows} <= {"keep", "discard"}
    assert "mine.py" not in crashes.bench.git("ls-tree", "--name-only", crashes.state().baseline.rows[1].commit)
    crashes.bench.git("worktree", "remove", str(mine))
    crashes.ended(2)


# ------------------------------------------------------------------------------- a stranger's repository


@pytest.fixture
def stranger(crashes: Any) -> Any:
    """The bench's repository becomes that of a real library: its files, a trainer that imports it, data, dirt."""
    import jinja2

    repo = crashes.bench.repo
    shutil.copytree(Path(jinja2.__file__).parent, repo / "src" / "jinja2", ignore=shutil.ignore_patterns("__pycache__"))
    text = (repo / "knobs.py").read_text()
    look = 'sys.path.insert(0, "src")\nimport jinja2.defaults\n'
    look += "assert jinja2.defaults.__file__.startswith(os.getcwd())\n"
    (repo / "knobs.py").write_text(
        text.replace("def step", f'assert open("data/train.txt").read() == "1 + 1"\n{look}def step', 1)
    )
    (repo / "exp.md").write_text((repo / "exp.md").read_text().replace("python -S -E", "python"))
    (repo / ".gitignore").write_text("data/\n__pycache__/\n")
    crashes.bench.git("add", "-A")
    crashes.bench.git("commit", "-qm", "a library")
    (repo / "data").mkdir()
    (repo / "data" / "train.txt").write_text("1 + 1")
    with (repo / "src" / "jinja2" / "defaults.py").open("a") as changed:
        changed.write("\nMINE = 1  # not committed\n")
    (repo / "src" / "jinja2" / "debug.py").unlink()
    (repo / "staged.py").write_text("half = 1\n")
    crashes.bench.git("add", "staged.py")
    (repo / "staged.py").write_text("half = 2\n")
    (repo / "untracked note.txt").write_text("mine")
    return crashes


def test_a_repository_of_somebody_else_stays_as_it_was(stranger: Any) -> None:
    bench = stranger.bench
    file = stranger.file(include=["data"])
    before = {p: p.read_bytes() for p in bench.repo.rglob("*") if p.is_file() and ".git" not in p.parts}
    head = bench.git("rev-parse", "HEAD")
    status = bench.git("status", "--porcelain", "--ignored").splitlines()
    index = (bench.repo / ".git" / "index").read_bytes()
    begun = ("campaign", file, "--yes", "--detach", "--count", 2, "--parallel", 1)
    bench.ask(*begun, AUTORESEARCH_FAILPOINT="campaign.gone:kill")
    stranger.dead()
    stranger.resume()
    state = stranger.ended(2)
    assert [row.ending for row in state.rows] == ["finished"] * 2, stranger.said()
    assert (bench.repo / ".git" / "index").read_bytes() == index
    after = {p: p.read_bytes() for p in bench.repo.rglob("*") if p.is_file() and ".git" not in p.parts}
    assert {p: data for p, data in after.items() if "reports" not in p.parts} == before
    now = bench.git("status", "--porcelain", "--ignored").splitlines()
    assert [line for line in now if line != "!! reports/"] == status
    assert (bench.git("rev-parse", "HEAD"), bench.git("stash", "list")) == (head, "")
    assert "MINE = 1" in bench.git("show", f"{state.baseline.commit}:src/jinja2/defaults.py")
    refs = bench.git("for-each-ref", "--format=%(refname)").split()
    assert {ref for ref in refs if "/autoresearch/" not in ref} == {"refs/heads/main"}
