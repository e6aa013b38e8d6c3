"""The verdict on a run that somebody stopped, and the word of its idea."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from autoresearch.core.run.ending import Ending
from autoresearch.lab.results.collected import charged
from autoresearch.records.exit_record import ExitRecord

pytestmark = pytest.mark.system


@pytest.mark.parametrize("why", ["retest", "confirm"])
@pytest.mark.parametrize(("mode", "failure"), [("", ""), ("drain", ""), ("stop", "campaign_stopped")])
def test_it_is_no_crash_and_takes_nothing_back(campaign: Callable[..., Any], mode: str, failure: str, why: str) -> None:
    made = campaign()
    made.idea("good")
    made.run("good", 0.99, "keep")
    made.tell("told", how=mode)
    last = made.state().by_slug("good").rows[-1]
    spec = replace(made.run_spec(replace(last, run_id="good-000002"), "good", "m.jsonl"), why=why)
    end = ExitRecord(spec.run, Ending.STOPPED, "enough", cause="stop_request")
    verdict = made.judged(spec, end, 0.2, 10)
    assert (verdict.verdict.value, verdict.reason, verdict.failure) == ("discard", "stopped: enough", failure)

    made.run("good", 0.2, "discard", ending="stopped", failure=failure, standing="discard", curve=False)
    state = made.state()
    idea = state.by_slug("good")
    assert (idea.status, idea.values) == ("keep", [0.99])
    assert charged(idea.rows[-1], state).standing == ("pending" if failure else "keep")
