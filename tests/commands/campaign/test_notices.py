"""A campaign tells whom `notify:` names of its end, its pauses and its claims: also after a kill at any point."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytestmark = pytest.mark.system

FAST = {"proposer": "grid", "space": {"lr": [0.2, 0.3]}, "baseline": 1, "retests": 0, "confirm": False, "count": 2}


def tell(camp: Any, *entries: object) -> None:
    camp.bench.env["NO_PROXY"] = "127.0.0.1"
    (camp.bench.repo / "autoresearch.yaml").write_text(json.dumps({"notify": list(entries)}))


def senders(camp: Any) -> list[Any]:
    return [process for process in camp.bench.carriers() if "apprise.cli" in process.command]


def keys(camp: Any) -> list[str]:
    """The occasions of which everyone was told, when nobody sends any more."""
    camp.bench.until(lambda: not senders(camp))
    return sorted(one.name.removeprefix("notice-").partition(":")[0] for one in camp.place.path.glob("notice-*"))


def test_the_end_is_told_once(camp: Any, hook: Any) -> None:
    tell(camp, hook.url)
    camp.start(**FAST)
    camp.over()
    assert keys(camp) == ["campaign_end"]
    (post,) = hook.posts
    assert post["title"] == "one: over after 2 ideas, 0 kept, 0 confirmed"
    reason, best, following, where = post["message"].splitlines()
    assert reason == "stop condition met: 2/2 ideas attempted"
    assert best.startswith("best: #1 baseline: task_pass_rate@1 0.4") and best.endswith("; no idea was better")
    assert following == "next: autoresearch report one"
    assert where.endswith(str(camp.place.path))


@pytest.mark.parametrize("point", ["campaign.removed", "campaign.announced"])
def test_a_controller_killed_at_its_end_has_told_it_once_when_it_is_resumed(camp: Any, hook: Any, point: str) -> None:
    tell(camp, hook.url)
    camp.killed_at(point, **FAST)
    camp.bench.until(lambda: not senders(camp))
    assert len(hook.posts) == (0 if point == "campaign.removed" else 1)
    camp.bench.ask("campaign", "resume", "one", "--detach")
    camp.over()
    assert keys(camp) == ["campaign_end"]
    assert len(hook.posts) == 1


def test_a_pause_is_told_with_its_reason_and_each_pause_anew(camp: Any, hook: Any) -> None:
    camp.recipe(mode="hold")
    tell(camp, hook.url)
    camp.start(**FAST)
    camp.until(lambda: camp.live("baseline"))
    for count, reason in enumerate(("lunch", "dinner"), 1):
        camp.bench.ask("campaign", "pause", "--reason", reason)
        camp.until(lambda count=count: len(hook.posts) == count)
        assert hook.posts[-1]["title"] == "one: paused"
        assert reason in hook.posts[-1]["message"]
        assert "next: autoresearch campaign resume one" in hook.posts[-1]["message"]
        camp.bench.ask("campaign", "resume", "--detach")
    camp.bench.ask("campaign", "stop")
    camp.over()
    assert keys(camp) == ["campaign_end", "pause", "pause"]
    assert hook.titles[2:] == ["one: over after 1 of 2 ideas, 0 kept, 0 confirmed"]


def test_a_controller_that_ends_on_an_error_says_so(camp: Any, hook: Any) -> None:
    tell(camp, hook.url)
    camp.recipe(mode="hold")
    camp.start(**FAST)
    camp.until(lambda: camp.live("baseline"))
    camp.kill()
    repo = camp.bench.repo
    (repo / ".git").rename(repo / ".git-moved")
    camp.bench.here("campaign", "resume", str(camp.place.path), "--detach")
    camp.bench.until(lambda: hook.posts)
    (repo / ".git-moved").rename(repo / ".git")
    assert hook.titles == ["one: its controller ended on an error"]
    assert "is not there any more" in hook.posts[0]["message"] and "campaign resume one" in hook.posts[0]["message"]
    camp.bench.until(lambda: not senders(camp))
    camp.go.touch()
