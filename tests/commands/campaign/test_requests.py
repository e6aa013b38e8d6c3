"""What people ask from another terminal: pause, resume, drain, stop, skip, add, set, wait; what pauses by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest

pytestmark = pytest.mark.system

KEYS = ("campaign", "state", "controller_pid", "attempted", "remaining", "best", "ledger", "next")


def held(*more: dict[str, object]) -> tuple[dict[str, object], ...]:
    """A queue whose first idea runs until the test lets it go."""
    return ({"slug": "held", "overrides": {"mode": "hold"}}, *more)


def journal(camp: Any) -> list[dict[str, Any]]:
    from autoresearch.records.campaign_records import read

    return read(camp.place).events


def wait(camp: Any, then: Callable[[], object]) -> dict[str, Any]:
    """What `wait` says of what happens once it waits."""
    from autoresearch.commands import campaign_view

    look, done = campaign_view.mark_of, []

    def mark(place: Any) -> tuple[int, str]:
        found = look(place)
        if not done:
            done.append(then())
        return found

    with mock.patch.object(campaign_view, "mark_of", mark):
        return dict(camp.bench.ask("wait", "last-campaign", "--for", "200s"))


def test_everything_that_can_be_asked_while_it_runs(camp: Any) -> None:
    ask = camp.bench.ask
    queue = camp.ideas(
        *held({"slug": "unwanted", "overrides": {"lr": 0.5}}, {"slug": "last", "overrides": {"lr": 0.4}})
    )
    camp.start(queue=queue, count=3, retests=0, confirm=False)
    camp.until(lambda: camp.live("held"))

    found = ask("campaign", "status")
    assert set(KEYS) <= found.keys()
    assert (found["campaign"], found["state"], found["attempted"], found["remaining"]) == ("one", "running", 2, 1)
    assert found["best"] == "baseline" and found["controller_pid"] > 1
    assert [run["slug"] for run in found["running"]] == ["held"]

    status = ask("status")
    (one,) = status["campaigns"]
    assert (one["campaign"], one["state"], one["attempted"], one["remaining"]) == ("one", "running", 2, 1)
    assert one["directory"] == str(camp.place.path)
    assert status["next"][0] == "autoresearch wait one --for 100s --json"
    assert "\none: running, 2/3 attempted, " in camp.bench.here("status")[1]
    assert ask("wait", "--for", "0s")["campaign"] == "one", "not the newest run"
    assert "step" in ask("wait", "last", "--for", "0s")

    assert ask("campaign", "pause", "--reason", "lunch")["state"] == "paused"
    assert camp.state().reason == "lunch"
    assert ask("campaign", "skip", "unwanted")["state"] == "paused"
    assert ask("campaign", "add", "--set", "lr=0.02", "--slug", "added", "--sentence", "a person's")["added"] == 1
    assert ask("campaign", "set", "count=4")["remaining"] == 2

    told = wait(camp, camp.go.touch)
    assert (told["state"], told["event"], told["attempted"]) == ("paused", "news", 2)
    assert camp.idea("held").rows

    assert ask("campaign", "resume")["state"] in ("running", "ended")
    state = camp.over()
    assert state.reason == "stop condition met: 4/4 ideas attempted"
    assert {idea.slug for idea in state.ideas if idea.attempted} == {"baseline", "held", "added", "last"}
    lines = journal(camp)
    paused = next(n for n, line in enumerate(lines) if line.get("state") == "paused")
    resumed = next(n for n, line in enumerate(lines) if n > paused and line.get("state") == "running")
    assert not [line for line in lines[paused:resumed] if line["do"] == "started"]
    assert {line["count"] for line in lines if line["do"] == "rules"} == {4}
    refused = ask("campaign", "pause", check=5)
    assert refused["error"]["message"].startswith("one has ended: stop condition met")


def test_stop_ends_what_runs_and_skip_too(camp: Any) -> None:
    queue = camp.ideas(*held({"slug": "other", "overrides": {"mode": "hold", "lr": 0.2}, "parent": "baseline"}))
    camp.start(queue=queue, confirm=False)
    camp.until(lambda: camp.live("held"))
    ask = camp.bench.ask
    error = ask("campaign", "skip", "nobody", check=4)["error"]
    assert error["message"] == "one has no idea 'nobody', and none waits to be begun"
    error = ask("campaign", "fix", "baseline", "--set", "lr=0.2", check=5)["error"]
    assert error["message"].startswith("the baseline cannot be repaired: ")
    error = ask("campaign", "fix", "held", "--set", "lr=0.2", check=5)["error"]
    assert error["message"] == "#2 mode=hold runs now: it can be repaired when that run is over"
    ask("campaign", "skip", "held")
    camp.until(lambda: camp.idea("held").rows)
    assert ask("campaign", "skip", "held", check=5)["error"]["message"].startswith("#2 mode=hold is over (")
    camp.until(lambda: camp.live("other"))
    camp.bench.ask("campaign", "stop", "--reason", "enough")
    state = camp.over()
    assert state.reason == "stopped on request: enough"
    assert [row.ending for slug in ("held", "other") for row in state.by_slug(slug).rows] == ["stopped"] * 2
    assert state.attempted == 3
    (skipped,), (ended,) = state.by_slug("held").rows, state.by_slug("other").rows
    assert (skipped.status, skipped.standing, skipped.failure) == ("discard", "discard", "")
    assert (ended.status, ended.standing, ended.failure) == ("discard", "pending", "campaign_stopped")
    assert ended.description.endswith("[stopped: enough]")
    flag = camp.bench.ask("campaign", "status")
    assert flag["state"] == "ended" and flag["controller_pid"] is None
    assert "crashed" not in flag["standings"] and flag["pending"] == ["other"]
    assert camp.place.flag.exists()

    camp.go.touch()
    ask("campaign", "set", f"count={state.attempted}")
    state = camp.over()
    assert [row.ending for row in state.by_slug("other").rows] == ["stopped", "finished"], "it is tried again"
    assert [row.ending for row in state.by_slug("held").rows] == ["stopped"]
    assert state.attempted == 3


def test_a_queue_that_runs_dry_waits_for_more(camp: Any) -> None:
    queue = camp.ideas(*({"slug": f"lr-{n}", "overrides": {"lr": n / 20}} for n in (1, 10)))
    camp.start(queue=queue, count=5, retests=0, confirm=False)
    camp.phase("waiting")
    found = camp.bench.ask("campaign", "status")
    assert found["reason"] == "proposer exhausted" and found["remaining"] == 2
    assert found["next"][0] == "autoresearch campaign add one --set KEY=VALUE --json"
    camp.until(lambda: "3/5 attempted, proposer exhausted" in camp.said())
    camp.bench.ask("campaign", "add", "--set", "lr=0.02")
    camp.until(lambda: len([idea for idea in camp.state().ideas if idea.rows]) == 4)
    camp.bench.ask("campaign", "set", "deadline=1s")
    state = camp.over()
    assert state.reason.startswith("stop condition met: ") and state.attempted == 4


def test_a_grid_that_is_tried_ends_below_its_count_and_goes_on_with_a_person_s_idea(camp: Any) -> None:
    """One of its four points is the baseline: nobody would have added the fifth idea by the morning."""
    grid = {"proposer": "grid", "space": {"lr": [0.1, 0.05], "bonus": [0.0, -0.01]}}
    state = camp.run(**grid, count=5, retests=0, confirm=False)
    assert (state.reason, state.attempted) == ("every point of the space is tried: 4/5 attempted", 4)
    (go_on,) = camp.bench.ask("campaign", "add", "--set", "lr=0.02")["next"]
    assert go_on == "autoresearch campaign set one count=6 --json"
    camp.bench.ask(*go_on.split()[1:-1])
    assert camp.over().reason == "every point of the space is tried: 5/6 attempted"


def test_three_that_die_alike_pause_it(camp: Any) -> None:
    camp.recipe(sleep=2)
    crashing = [{"slug": f"dies-{n}", "overrides": {"mode": "crash", "lr": n / 10}} for n in range(2, 10)]
    path = camp.file(queue=camp.ideas(*crashing), baseline=1, confirm=False, count=9)
    found = camp.known(camp.bench.ask("campaign", path, "--yes", check=10))
    assert found["state"] == "paused"
    assert found["reason"].startswith("circuit breaker: the last 3 ideas died alike")
    before = found["attempted"]
    assert found["next"][0] == "autoresearch campaign resume one --json"
    run = camp.idea("dies-2").rows[-1].run_id
    repair = "autoresearch campaign fix dies-2 --set KEY=VALUE --campaign one --json"
    for command in ("status", "explain"):
        assert camp.bench.ask(command, run)["next"][-1] == repair, "its worktree is another idea's by now"
    error = camp.bench.ask("campaign", "confirm", "dies-2", check=5)["error"]
    assert error["fix"] == "autoresearch campaign status one --full --json"
    camp.bench.ask("campaign", "resume")
    camp.until(lambda: camp.state().attempted > before)  # forgiven: three more may die
    camp.bench.ask("campaign", "stop")
    attempted = camp.over().attempted
    assert camp.bench.ask("explain", run)["next"][-1] == f"autoresearch campaign set one count={attempted + 1} --json"
    assert camp.bench.ask("campaign", "status", "--full")["next"] == ["autoresearch report one --json"]


def test_the_same_line_follows_what_runs_and_is_refused_while_that_is_ended(camp: Any) -> None:
    camp.start(queue=camp.ideas(*held()), count=2, baseline=1, confirm=False)
    camp.until(lambda: camp.live("held"))
    line = ("campaign", camp.bench.repo / "campaign.yaml", "--yes", "--detach")
    before = len(journal(camp))
    assert camp.bench.ask(*line)["campaign"] == "one" and len(journal(camp)) == before, "nothing is asked of it"
    camp.bench.ask("campaign", "stop", "--drain")
    refused = camp.bench.ask(*line, check=5)
    assert refused["error"]["message"] == "one, which this line began, is being ended"
    camp.bench.ask("campaign", "stop")
    camp.over()
