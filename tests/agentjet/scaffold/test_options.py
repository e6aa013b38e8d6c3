"""From options to a Blackbox: what is taken over, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autoresearch.agentjet.scaffold.blackbox import Blackbox, Reward, RewardKind, blackbox_of
from autoresearch.core.run.scaffold import ScaffoldOptions
from autoresearch.errors import UsageError

GIVEN = ScaffoldOptions("python agent.py {prompt}", "data.jsonl", "exact")


def test_options_are_taken_over() -> None:
    agent = ("python", "agent.py", "{prompt}")
    assert blackbox_of(GIVEN, "p") == Blackbox(agent, "data.jsonl", Reward(RewardKind.EXACT), project="p")
    more: dict[str, Any] = {"eval_dataset": "e.csv", "prompt_column": "q", "answer_column": "a", "id_column": "n"}
    made = blackbox_of(replace(GIVEN, agent_timeout_s=5.0, model="/m", **more), "p")
    assert (made.agent_timeout_s, made.model_path) == (5.0, "/m")
    assert {name: getattr(made, name) for name in more} == more


def test_a_judge_is_a_reward() -> None:
    given = replace(GIVEN, reward="", judge_model="j", judge_base_url="http://j", judge_api_key_env="KEY")
    assert blackbox_of(given, "p").reward == Reward(RewardKind.JUDGE, "j", judge_url="http://j", judge_key_env="KEY")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"reward": ""}, "where does the reward come from"),
        ({"judge_model": "j"}, "exclude each other"),
        ({"reward": "score"}, "names no reward"),
        ({"agent_command": "python agent.py"}, "holds neither"),
        ({"agent_command": "bash -c {prompt}"}, "the shell would run"),
    ],
)
def test_what_is_refused(changes: dict[str, str], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        blackbox_of(replace(GIVEN, **changes), "p")
