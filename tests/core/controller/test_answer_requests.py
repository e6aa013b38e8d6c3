"""What a controller does about each request, without a controller."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from autoresearch.core.controller.actions import Do, Note, RepairIdea, Say, StopRun
from autoresearch.core.controller.next_actions import answer, unrepairable

BASELINE_SAFE = (Say("the baseline cannot be skipped"),)


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (
            {"do": "drain", "reason": "lunch"},
            (Note("told", {"how": "drain", "reason": "lunch"}), Say("drain: lunch")),
        ),
        (
            {"do": "stop"},
            (
                Note("told", {"how": "stop", "reason": "asked for"}),
                Say("stop: asked for"),
                StopRun("a-000001", "asked for"),
                StopRun("b-000001", "asked for"),
            ),
        ),
        ({"do": "skip", "slug": "baseline"}, BASELINE_SAFE),
        ({"do": "veto", "what": "baseline"}, BASELINE_SAFE),
        (
            {"do": "set", "count": 5, "seq": 3, "t": 1.0},
            (Note("rules", {"count": 5}), Say("rules changed: count 5")),
        ),
        (
            {"do": "tell", "text": "try LoRA"},
            (Note("told_agent", {"text": "try LoRA"}), Say("told the researcher: try LoRA")),
        ),
        ({"do": "approve", "slug": "code"}, (Note("approved", {"slug": "code"}), Say("code: approved"))),
        (
            {"do": "hold", "on": True},
            (Note("hold", {"on": True, "reason": "asked for"}), Say("code ideas wait for a person")),
        ),
        (
            {"do": "hold", "on": False},
            (Note("hold", {"on": False, "reason": "asked for"}), Say("code ideas wait for nobody")),
        ),
        ({"do": "fix", "slug": "nobody"}, (Say("nobody: there is no such idea"),)),
        ({"do": "confirm"}, (Say("no confirmation: nothing was kept that could be claimed"),)),
        ({"do": "of a newer version"}, ()),
        ({"do": "add"}, ()),  # its entry waits in a queue already
    ],
)
def test_requests(records: Callable[..., Any], request_: dict[str, Any], expected: tuple[Any, ...]) -> None:
    assert answer(records().state(), request_, ("a-000001", "b-000001")) == expected


def test_what_goes_on_again_has_no_reason(records: Callable[..., Any]) -> None:
    made = records()
    made.note("state", state="paused", reason="lunch")
    actions = answer(made.state(), {"do": "resume"}, ())
    assert actions == (Note("state", {"state": "running", "reason": ""}), Say("going on"), Do.READMIT_AGENT)
    made.apply(actions)
    assert (made.state().phase, made.state().reason) == ("running", "")


def test_a_baseline_without_its_metric_is_repeated_on_resume(records: Callable[..., Any]) -> None:
    made = records(empty=True)
    made.idea("baseline")
    for _ in range(3):
        made.run("baseline", None, "crash")
    assert answer(made.state(), {"do": "resume"}, ())[0] == Note("again", {"reason": "asked for", "after": 3})


def test_a_skip_stops_the_live_run_of_the_idea_and_no_other(records: Callable[..., Any]) -> None:
    made = records()
    for slug in ("one", "other"):
        made.idea(slug)
        made.start(slug)
    actions = answer(made.state(), {"do": "skip", "slug": "one", "reason": "dull"}, ("one-000001", "other-000001"))
    assert actions == (
        Note("unwanted", {"slug": "one", "reason": "dull"}),
        Say("one: to be skipped: dull"),
        StopRun("one-000001", "skipped: dull"),
    )


def test_a_veto_skips_an_idea_that_is_known_and_passes_words_on(records: Callable[..., Any]) -> None:
    made = records()
    made.idea("one")
    known = answer(made.state(), {"do": "veto", "what": "one"}, ())
    assert [type(action) for action in known] == [Note, Say, Note, Say]
    assert known[0] == Note("unwanted", {"slug": "one", "reason": "vetoed: asked for"})
    words = answer(made.state(), {"do": "veto", "what": "larger models"}, ())
    assert words == (
        Note("vetoed", {"what": "larger models", "reason": "asked for"}),
        Say("vetoed: larger models"),
    )


def test_what_can_be_repaired(records: Callable[..., Any]) -> None:
    made = records()
    for slug in ("over", "live", "skipped"):
        made.idea(slug)
    made.run("over", None, "crash")
    made.start("live")
    made.note("unwanted", slug="skipped")
    state = made.state()
    refused = {idea.slug: unrepairable(state, idea) for idea in state.ideas}
    assert refused["over"] is None
    assert all(refused[slug] for slug in ("baseline", "live", "skipped"))
    entry = {"overrides": {"lr": 0.1}}
    fixed = answer(state, {"do": "fix", "slug": "over", "entry": entry, "note": "lr"}, ())
    assert fixed == (RepairIdea(2, entry, "lr"),)
    assert answer(state, {"do": "fix", "slug": "live"}, ()) == (Say((refused["live"] or ("",))[0]),)


def test_a_confirmation_on_request_withdraws_what_is_prepared(records: Callable[..., Any]) -> None:
    made = records()
    made.checked()
    made.idea("good")
    made.run("good", 0.9)
    actions = answer(made.state(), {"do": "confirm", "slugs": ["good"]}, ())
    assert actions[0] is Do.WITHDRAW_RUN
    assert isinstance(actions[1], Note) and actions[1].do == "confirming" and actions[1].fields["candidates"] == [2]
    made.apply(actions)
    assert answer(made.state(), {"do": "confirm"}, ()) == (Say("a confirmation is under way"),)
