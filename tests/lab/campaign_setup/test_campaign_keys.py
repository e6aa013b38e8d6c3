"""The table of keys of a campaign file, and KEY=VALUE words that are read by it."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from autoresearch.core.agents.agent import AgentSpec
from autoresearch.core.keys import ValueType
from autoresearch.errors import UsageError
from autoresearch.lab.campaign_setup.campaign_keys import AGENT_KEYS, CAMPAIGN_KEYS, TYPES
from autoresearch.lab.yaml_files import parse_pairs

NOW = 1_800_000_000.0

# what is typed, and what the campaign then holds
PAIRS: dict[str, Any] = {
    "gpus_per_run=2": 2,
    "gpus-per-run=2": 2,
    "count=24": 24,
    "confirm=false": False,
    "confirm=no": False,
    "review=on": True,
    "screen=10m": 600.0,
    "sandbox=off": "off",
    "direction=higher": "maximize",
    "guard=python -m pytest -q": ["python -m pytest -q"],
    "guard=pytest -q  # all: of them": ["pytest -q  # all: of them"],
    "guard=[pytest -q, make lint]": ["pytest -q", "make lint"],
    "guard='one, two'": ["one, two"],
    "protect=data/**": ["data/**"],
    "protect=*.json": ["*.json"],
    "agent_command={prompt_file} {cwd}": ["{prompt_file}", "{cwd}"],
    "agent_command=[agent, '--ask {prompt_file}']": ["agent", "--ask {prompt_file}"],
    "tell=note: the reward saturates": ["note: the reward saturates"],
    "target=pass@1 >= 0.8": "pass@1 >= 0.8",
    "target=>=0.8": ">=0.8",
    "base=0123456": "0123456",
    "gpus=0,1": "0,1",
    "gpus=2": "2",
    "prefix=autoresearch/night-3": "autoresearch/night-3",
    "agent_model=a=b": "a=b",
    "timeout=1h": 3600.0,
    "timeout=90": 90.0,
    "deadline=10h": NOW + 36000,
    "deadline=600": NOW + 600,
    "include=data": ["data"],
    "count=3.0": 3,
    "budget_usd=20": 20.0,
    "agent_share=0.3": 0.3,
    "space=space.yaml": "space.yaml",
    "space={lr: [1, 2]}": {"lr": [1, 2]},
    "space=lr: [1, 2]": {"lr": [1, 2]},
    "launcher=local:2, ssh:gpu1:4": "local:2, ssh:gpu1:4",
    "queue=ideas/": "ideas/",
    "screen=null": None,
    "guard=~": None,
}


@pytest.mark.parametrize("pair", PAIRS)
def test_what_is_typed(pair: str) -> None:
    ((name, value),) = parse_pairs([pair], TYPES).items()
    assert CAMPAIGN_KEYS[name].read(value, NOW) == PAIRS[pair]


@pytest.mark.parametrize(
    ("text", "hour", "minute"), [("06:00", 6, 0), ("6:30", 6, 30), ("6am", 6, 0), ("12 am", 0, 0), ("22:05", 22, 5)]
)
def test_a_time_of_the_day_is_the_next_such_one(text: str, hour: int, minute: int) -> None:
    value = parse_pairs([f"deadline={text}"], TYPES)["deadline"]
    at = CAMPAIGN_KEYS["deadline"].read(value, NOW)
    then = datetime.datetime.fromtimestamp(at)
    assert (then.hour, then.minute, then.second) == (hour, minute, 0) and 0 < at - NOW <= 25 * 3600


def test_a_date_may_be_a_deadline() -> None:
    value = parse_pairs(["deadline=2099-01-01 07:00"], TYPES)["deadline"]
    assert CAMPAIGN_KEYS["deadline"].read(value, NOW) == datetime.datetime(2099, 1, 1, 7).timestamp()


@pytest.mark.parametrize(
    ("pairs", "message", "hint"),
    [
        (["paralell=2"], "--set 'paralell=2': unknown key 'paralell'", "did you mean 'parallel'?"),
        (["max_hours=2"], "--set 'max_hours=2': unknown key 'max_hours'", "did you mean 'deadline'?"),  # 2 are seconds
        (["max_runs=2"], "--set 'max_runs=2': unknown key 'max_runs'", "did you mean 'count'?"),
        (["zebra=2"], "--set 'zebra=2': unknown key 'zebra'", "known: agent, agent_args"),
        (["count"], "--set 'count' is no KEY=VALUE", "such as --set count=VALUE"),
        (["=3"], "--set '=3' is no KEY=VALUE", ""),
        (["launcher="], "--set launcher= has no value", "--set launcher=null is its default"),
        (["guard=a", "guard=b"], "--set guard stands twice", "a list is one value: --set guard='[A, B]'"),
        (["guard=[a"], "--set guard:2: ", "quote"),
    ],
)
def test_what_is_no_pair(pairs: list[str], message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_pairs(pairs, TYPES)
    assert caught.value.message.startswith(message) and hint in caught.value.hint


# a key, a value that it does not take, and what is said of it; more are in tests/lab/test_json_schemas.py
REFUSED = (
    ("count", "many", "'many'"),
    ("count", True, "True is not a whole number of at least 1"),
    ("retests", "x", "'x' is not a number"),
    ("resolution", [1], "[1] is not a number"),
    ("confirm_runs", 0, "0 is not a whole number of at least 1"),
    ("budget_gpu_hours", "nan", "'nan' is not a number above 0"),
    ("proposer", "oracle", "'oracle' is not one of queue, grid, random"),
    ("sandbox", "", "'' is not one of auto, need, off"),
    ("sandbox", True, "True is not one of auto, need, off"),
    ("deadline", "2001-01-01", "2001-01-01 has passed"),
    ("deadline", "yesterday", "yesterday"),
    ("deadline", "25:00", "hour must be in 0..23"),
    ("deadline", "-1h", "-1h"),
    ("deadline", "0s", "0s"),
    ("deadline", "nan", "nan"),
)


@pytest.mark.parametrize(("name", "value", "says"), REFUSED)
def test_what_a_key_does_not_take(name: str, value: Any, says: str) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        CAMPAIGN_KEYS[name].read(value, NOW)
    assert says in str(caught.value)


def test_every_field_of_the_agents_has_a_key_and_every_default_is_a_value() -> None:
    assert all(key.read(key.default, NOW) == key.default for key in CAMPAIGN_KEYS.values())
    fields = {key.spec_field for key in AGENT_KEYS if key.spec_field}
    assert fields == AgentSpec.__dataclass_fields__.keys() - {"agent", "own"}  # of several keys


def test_without_an_option_the_key_alone_is_named() -> None:
    with pytest.raises(UsageError) as caught:
        parse_pairs(["cuont=3"], {"count": ValueType.COUNT}, option="")
    assert caught.value.message == "'cuont=3': unknown key 'cuont'" and caught.value.hint == "did you mean 'count'?"
