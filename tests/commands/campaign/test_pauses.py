"""A campaign that is paused keeps no process, and whatever is asked of it then is answered, or waits for `resume`."""

from __future__ import annotations

import json
import sys
from typing import Any
from unittest import mock

import pytest

from autoresearch.errors import ConflictError

pytestmark = pytest.mark.system

GRID = {"space": {"lr": [0.05, 0.5]}, "proposer": "grid", "count": 3, "confirm": False}


def paused(camp: Any) -> Any:
    """Wait until it is paused and has no controller any more; its state."""
    camp.bench.until(lambda: camp.state().phase == "paused" and not camp.place.controlled)
    return camp.state()


def test_a_baseline_that_cannot_be_started_pauses_at_once_and_leaves_no_process(camp: Any) -> None:
    blueprint = camp.bench.repo / "exp.md"
    blueprint.write_text(blueprint.read_text() + "- prepare: test -e nowhere\n")
    found = camp.known(camp.bench.ask("campaign", camp.file(**GRID, baseline=3), "--yes", check=10))
    assert (found["state"], len(camp.state().rows)) == ("paused", 1), "no second and no third run dies of it"
    (row,) = camp.state().rows
    assert found["reason"] == f"the baseline could not be started: prepare_failed; see {row.log_path}"
    assert found["running"] == []
    paused(camp)
    camp.bench.until(lambda: not camp.bench.carriers())
    assert camp.bench.ask("campaign", "status")["state"] == "paused"


def test_a_baseline_whose_run_cannot_even_be_prepared_does_so_too(camp: Any) -> None:
    """It was `running` for hours, without a run: no run that was over was reported, and no report looked at it."""
    error = ConflictError("the script activate is not there")
    with mock.patch("autoresearch.lab.campaigns.live_runs.get_ready", side_effect=error):
        state = camp.run(**GRID, baseline=3)
    assert (state.phase, state.reason) == ("paused", f"the baseline could not be started: {error}")
    assert len(state.rows) == 1


def test_what_can_be_asked_of_a_paused_campaign(camp: Any) -> None:
    ask = camp.bench.ask
    hold = {"slug": "held", "overrides": {"mode": "hold"}}
    camp.start(queue=camp.ideas(hold, {"slug": "other", "overrides": {"lr": 0.2}}), count=3, retests=0, confirm=False)
    camp.until(lambda: camp.live("held"))
    ask("campaign", "pause", "--reason", "lunch")
    assert camp.place.controlled, "somebody has to record what runs"
    camp.go.touch()
    state = paused(camp)
    assert state.by_slug("held").rows
    camp.bench.until(lambda: not camp.bench.carriers())

    assert ask("wait", "one", "--for", "100s")["reason"] == "lunch"  # at once
    assert ask("campaign", "status")["next"][0] == "autoresearch campaign resume one --detach --json"
    (one,) = ask("status")["campaigns"]
    assert (one["state"], one["reason"]) == ("paused", "lunch")
    assert ask("campaign", "set", "count=5")["remaining"] == 3
    ask("campaign", "add", "--set", "lr=0.02", "--slug", "added")
    code, text, _ = camp.bench.here("campaign", "skip", "other")
    assert code == 0 and "it is paused: autoresearch campaign resume one" in text
    assert not camp.place.controlled

    assert ask("campaign", "resume")["state"] in ("running", "waiting")
    camp.phase("waiting")
    assert {idea.slug for idea in camp.state().ideas if idea.attempted} == {"baseline", "held", "added"}
    ask("campaign", "pause")
    paused(camp)
    ask("campaign", "stop", "--reason", "enough")
    assert camp.over().reason == "stopped on request: enough"


def test_a_bare_name_is_the_newest_campaign_whatever_else_is_paused(camp: Any) -> None:
    ask, keys = camp.bench.ask, {"queue": camp.ideas(), "baseline": 1, "count": 3, "confirm": False}
    camp.start(**keys)
    camp.phase("waiting")
    ask("campaign", "pause")
    paused(camp)
    camp.start(**keys | {"prefix": "autoresearch/two", "count": 1})
    camp.over()
    for words in (("campaign", "status"), ("wait", "last-campaign", "--for", "0s"), ("report",)):
        assert ask(*words)["campaign"] == "two", words
    assert ask("campaign", "resume", "--detach")["campaign"] == "one", "the one that can go on"
    camp.places.reverse()
    camp.phase("waiting")
    assert ask("wait", "--for", "0s")["campaign"] == "one", "the one that lives"
    ask("campaign", "stop")
    camp.over()


def test_what_a_reboot_interrupted_is_named_and_goes_on_at_once(camp: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ask = camp.bench.ask
    camp.recipe(mode="hold")
    camp.start(**GRID, baseline=1)
    camp.until(lambda: camp.live("baseline"))
    camp.kill()
    assert ask("campaign", "status")["reason"].startswith("its controller is gone and said nothing")
    assert ask("campaign", "resume", "--all")["campaigns"] == [], "it was killed, and perhaps given up"
    record = json.loads(camp.place.controller.read_bytes())
    camp.place.controller.write_text(json.dumps(record | {"started": 1.0}))
    why = "the machine was restarted while it ran; interrupted: #1 baseline, run 1"
    assert ask("campaign", "status")["reason"] == why
    monkeypatch.chdir(camp.bench.root)  # another project: whoever logs in is there
    (one,) = ask("status")["campaigns"]
    assert (one["campaign"], one["state"], one["reason"]) == ("one", "dead", why)
    assert ask("status")["next"][0] == "autoresearch campaign resume --all --detach --json"
    camp.go.touch()
    assert ask("campaign", "resume", "--all")["campaigns"] == [
        {"campaign": "one", "directory": str(camp.place.path), "error": None}
    ]
    assert camp.over().attempted == 3
    assert ask("campaign", "resume", "--all")["campaigns"] == []
    line = ask("doctor")["after_reboot"]
    assert f'at={sys.executable}; "$at" -m autoresearch campaign resume --all' in line
    assert line in " ".join(camp.bench.here("doctor")[1].split()), "no path of it is shortened"


def test_the_name_that_a_plan_prints_leads_to_what_starts_even_after_a_lone_run(camp: Any) -> None:
    ask, line = camp.bench.ask, (camp.bench.repo / "exp.md", "--count", "1", "--set", "space={lr: [0.2, 0.3]}")
    planned = ask("campaign", *line, "--dry-run")["campaign"]
    ask("run", camp.bench.repo / "exp.md")  # it keeps its records under that name
    begun = camp.known(ask("campaign", *line, "--yes", "--detach"))["campaign"]
    assert begun == f"{planned}-2"
    assert ask("wait", planned, "--for", "1s")["campaign"] == begun
    camp.over()
