"""A campaign whose controller, runs, terminal and files are taken away at any moment: nothing lost, nothing twice."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from typing import Any

BEGINNING = (
    *("campaign.drafted", "repository.hypothesis_filled", "repository.hypothesis_committed"),
    *("repository.claimed", "campaign.claimed", "campaign.committed", "repository.slot_added"),
    *("repository.cleaned", "repository.switched", "launch.claimed", "launch.session_started"),
    *("launch.branch_made", "campaign.prepared", "campaign.waits", "launch.ready", "campaign.gone"),
)
ENDING = (
    *("campaign.told", "campaign.settled", "campaign.recorded", "collect.collected", "collect.measured"),
    *("collect.results_written", "collect.row_written", "collect.flag_written"),
    *("campaign.reported", "campaign.removed"),
)


def test_undisturbed(crashes: Any) -> None:
    crashes.start("--count", 4)
    crashes.ended(4)


def killed_at(crashes: Any, points: tuple[str, ...], count: int) -> Any:
    """One campaign whose controllers kill themselves one after another, each somewhere else."""
    crashes.start("--count", count, fail=points[0])
    for number, point in enumerate(points):
        if number:
            crashes.resume(point)
        crashes.dead()
        assert crashes.view().state != "ended", f"{point} was never reached"
    crashes.resume()
    return crashes.ended(count)


def test_kill_9_wherever_a_run_is_begun(crashes: Any) -> None:
    killed_at(crashes, BEGINNING, 6)


def test_kill_9_wherever_a_run_is_settled_and_at_the_end(crashes: Any) -> None:
    killed_at(crashes, ENDING, 12)


def test_kill_9_at_ten_random_moments(crashes: Any) -> None:
    """Where, is left to chance and to the load of the machine; each kill lands between two seconds of its life."""
    chance = random.Random(7)
    crashes.start("--count", 8)
    for _ in range(10):
        time.sleep(chance.uniform(0.0, 1.6))
        if crashes.place.controlled:
            crashes.kill()
        if crashes.view().state == "ended":
            break
        crashes.resume()
    crashes.ended(8)


# ------------------------------------------------------------------------------- what else may be killed


def test_kill_9_of_the_command_that_starts_it(crashes: Any) -> None:
    ask, file = crashes.bench.ask, crashes.file()
    start = ("campaign", file, "--count", 2, "--yes", "--detach")
    crashes.bench.cli(*start, check=-9, AUTORESEARCH_FAILPOINT="begin.registered:kill")
    assert ask("campaign", "status", check=4)["error"]["message"] == "there is no campaign yet"
    crashes.bench.cli(*start, check=-9, AUTORESEARCH_FAILPOINT="begin.begun:kill")
    found = ask("campaign", "status")
    assert (found["state"], found["attempted"]) == ("dead", 0)
    assert found["next"][0] == "autoresearch campaign resume one"
    refused = ask(*start, check=5)
    assert refused["error"]["fix"] == "autoresearch campaign resume one"
    crashes.bench.cli("campaign", "resume", "one", check=-9, AUTORESEARCH_FAILPOINT="begin.passed:kill")
    assert ask("campaign", "status")["state"] == "dead"
    crashes.bench.cli("campaign", "resume", "one", check=-9, AUTORESEARCH_FAILPOINT="begin.started:kill")
    crashes.ended(2)  # its controller knows nothing of it


def test_nothing_of_the_terminal_ends_it(crashes: Any) -> None:
    """The foreground command, the hangup, the session, the whole server: the campaign and its run go on."""
    crashes.recipe(mode="hold")
    process = crashes.bench.spawn("campaign", crashes.file(), "--count", 2, "--yes")
    crashes.bench.until(lambda: crashes.place.spec.exists())
    crashes.running("baseline")
    process.kill()
    controller = crashes.pid()
    os.kill(controller, signal.SIGHUP)
    (session,) = [name for name in crashes.sessions() if "campaign" in name]
    crashes.bench.tmux("kill-session", "-t", f"={session}")
    os.kill(int(crashes.bench.tmux("display-message", "-p", "#{pid}").stdout), signal.SIGKILL)  # this test's own server
    crashes.go.touch()
    view = crashes.ended(2)
    assert [row.ending for row in view.rows] == ["finished"] * 2
    assert [line.split()[1] for line in crashes.said().splitlines() if "took" in line] == ["controller"]


def test_sigterm_ends_the_controller_and_no_run(crashes: Any) -> None:
    crashes.recipe(mode="hold")
    crashes.start("--count", 2)
    run = crashes.running("baseline")
    crashes.kill(signal.SIGTERM)
    assert crashes.bench.ask("campaign", "status")["state"] == "dead"
    assert crashes.bench.ask("status", run.run)["state"] == "running"
    crashes.resume()
    refused = crashes.bench.ask("campaign", crashes.file(), "--yes", check=5)
    assert refused["error"]["message"] == "the campaign one is running"
    crashes.resume()  # one lives: it is told to go on, and no second one is started
    crashes.go.touch()
    view = crashes.ended(2)
    assert len(crashes.began(run.run)) == 1 and view.baseline.rows[0].ending == "finished"
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
    again = crashes.bench.until(lambda: [r for _, r in crashes.view().live if r.run != first.run])[0]
    crashes.bench.until(lambda: crashes.began(again.run))
    assert not [p for p in crashes.bench.carriers() if p.pid == int(crashes.began(first.run)[0][0])]
    crashes.go.touch()
    crashes.bench.until(lambda: [row for row in crashes.view().rows if row.ending == "finished"])
    crashes.go.unlink()
    for slug in ("a", "b"):
        run = crashes.running(slug)
        if slug == "a":
            os.kill(int(crashes.began(run.run)[0][0]), signal.SIGKILL)
        else:
            os.kill(crashes.bench.runner(run.run_dir)["pid"], signal.SIGKILL)
    crashes.bench.until(lambda: [row for row in crashes.view().rows if row.index == 3])
    crashes.go.touch()
    view = crashes.ended(3)
    endings = {idea.slug: [row.ending for row in idea.rows] for idea in view.ideas}
    assert endings == {"baseline": ["lost", "finished"], "a": ["crashed"], "b": ["lost", "finished"]}
    assert view.by_slug("a").status == "crash" and view.by_slug("a").rows[0].failure == "signal_9"
    assert [run.why for run in view.by_slug("b").runs] == ["first", "first"]
