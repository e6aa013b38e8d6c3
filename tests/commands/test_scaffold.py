"""`autoresearch scaffold` from the front door: written, checked, refused, and what a program is told."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.system

AGENT = """
import http.client, json, os, sys
host = os.environ["OPENAI_BASE_URL"].split("/")[2]
connection = http.client.HTTPConnection(host, timeout=60)
connection.request("POST", "/v1/chat/completions", json.dumps({"messages": [{"content": sys.argv[1]}]}))
print(json.loads(connection.getresponse().read())["choices"][0]["message"]["content"])
"""


@pytest.fixture
def project(bench: Any) -> Iterator[Any]:
    (bench.repo / "agent.py").write_text(AGENT)
    (bench.repo / "data.jsonl").write_text('{"prompt": "2+2?", "answer": "4"}\n{"prompt": "2+3?", "answer": "5"}\n')
    yield bench


def flags(**changes: str) -> list[str]:
    given = {"agent-command": f"{sys.executable} agent.py {{prompt}}", "dataset": "data.jsonl", "reward": "exact"}
    return [
        word for name, value in (given | changes).items() for word in (f"--{name.replace('_', '-')}", value) if value
    ]


def test_written_and_checked_in_one_go(project: Any) -> None:
    told = project.ask("scaffold", "blackbox", "agents/adder", *flags())
    place = project.repo / "agents" / "adder"
    assert told["path"] == str(place) and told["files"] == [str(place / Path(name).name) for name in told["files"]]
    assert (told["items"], told["reward"], told["asked"], told["endpoint"]) == (1, 0.0, 1, "a stand-in model")
    assert told["next"][0] == "autoresearch scaffold check agents/adder --base-url URL --api-key-env NAME --json"
    assert "HERE / '../../data.jsonl'" in (place / "get_training_dataset_item_list.py").read_text()
    assert "'{here}/../../agent.py'" in (place / "run_episode_once.py").read_text()
    checked = project.ask("blueprint", "check", place / "blueprint.md")
    assert checked["valid"] and checked["cwd"] == str(place)
    again, _, err = project.here("scaffold", "blackbox", "agents/adder", *flags())
    assert again == 5 and "exist already" in err and "--force" in err
    code, out, _ = project.here("scaffold", "check", "agents/adder")
    assert code == 0 and "1 items to train on" in out and "reward 0 after" in out


def test_without_a_directory_it_is_where_the_published_skill_has_it(project: Any) -> None:
    (project.repo / "data.jsonl").rename(project.repo / "AIME-24.jsonl")
    told = project.ask("scaffold", "blackbox", *flags(dataset="AIME-24.jsonl"), "--no-check")
    assert told["path"] == str(project.repo / "tutorial/opencode_build_aime_24")


def test_a_check_that_fails_leaves_the_files_and_says_what_to_type(project: Any) -> None:
    (project.repo / "data.jsonl").write_text("")
    told = project.ask("scaffold", "blackbox", "adder", *flags(), check=3)
    error = told["error"]
    assert error["code"] == "check_failed" and "it holds no row" in error["message"]
    assert error["fix"] == f"autoresearch scaffold check {project.repo / 'adder'} --json"
    assert (project.repo / "adder" / "agent_roll.py").is_file()
    assert project.here("scaffold", "blackbox", "adder", *flags(), "--force", "--no-check")[0] == 0


@pytest.mark.parametrize(
    ("changes", "words", "code", "why"),
    [
        ({"reward": ""}, [], 2, "where does the reward come from?"),
        ({"dataset": "none.jsonl"}, [], 4, "there is no file"),
        ({}, ["--set", "agent_timeout=soon"], 2, "--set agent_timeout"),
        ({}, ["--base-url", "localhost:1"], 2, "is no address"),
        ({}, ["--api-key-env", "KEY"], 2, "--base-url names none"),
        ({}, ["--base-url", "http://x/v1", "--api-key-env", "NO_KEY"], 2, "NO_KEY is not set"),
    ],
)
def test_what_is_refused_changes_nothing(
    project: Any, changes: dict[str, str], words: list[str], code: int, why: str
) -> None:
    before = sorted(os.listdir(project.repo))
    rc, out, err = project.here("scaffold", "blackbox", "adder", *flags(**changes), *words)
    assert rc == code and why in err and out == "" and "Traceback" not in err
    assert sorted(os.listdir(project.repo)) == before


def test_a_directory_without_a_scaffold(project: Any) -> None:
    told = json.loads(project.here("scaffold", "check", ".", "--json")[1])
    assert (
        told["error"]["code"] == "not_found" and "lacks get_training_dataset_item_list.py" in told["error"]["message"]
    )
