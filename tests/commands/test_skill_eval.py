"""The evals of the skill: each can be passed and can be failed, and an attempt touches nobody's things."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from skills import evaluate
from skills.grading import WITH, WITHOUT

REPO = Path(__file__).parents[2]
SKILL = REPO / "skills/autoresearch"
STAND_IN = f"{shlex.quote(sys.executable)} {shlex.quote(str(Path(__file__).parent / 'skill_agent.py'))} {{prompt_file}}"
TASKS = evaluate.tasks()


def program(bench: Any, *words: object, **environ: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "skills.evaluate", *map(str, words), "--json"]
    env = {**bench.env, **environ}
    return subprocess.run(argv, cwd=bench.repo, env=env, capture_output=True, text=True)


def measure(bench: Any, *words: object, **environ: str) -> dict[str, Any]:
    line = ["--agent", "command", "--command", STAND_IN, "--out", bench.root / "out", *words]
    done = program(bench, *line, **environ)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def graded(bench: Any, task: str, variant: str, number: int = 1) -> dict[str, bool | None]:
    path = bench.root / "out" / f"eval-{task}" / variant / f"attempt-{number}" / "grading.json"
    return {each["text"]: each["passed"] for each in json.loads(path.read_text())["assertion_results"]}


# ------------------------------------------------------------------------------------------ the files


def test_the_files_have_the_shape_that_others_read() -> None:
    document = json.loads((SKILL / "evals/evals.json").read_text())
    assert set(document) == {"skill_name", "evals"} and document["skill_name"] == "autoresearch"
    for one in document["evals"]:
        assert {"id", "prompt", "expected_output", "files", "assertions"} <= set(one)
        assert all(isinstance(text, str) for text in one["assertions"])
        assert all((SKILL / name).is_file() for name in one["files"])
    shipped = {p.relative_to(SKILL).as_posix() for p in (SKILL / "evals/files").rglob("*") if p.is_file()}
    shipped = {name for name in shipped if "__pycache__" not in name}
    assert shipped == {name for one in document["evals"] for name in one["files"]} | {"evals/files/quick/exp.md"}


# ---------------------------------------------------------------------------------------- attempts


@pytest.mark.system
def test_with_and_without_the_skill(bench: Any) -> None:
    told = measure(bench, "--task", "run-a-blueprint", "--task", "12")
    rows = {row["task"]: row for row in told["tasks"]}
    assert rows["run-a-blueprint"][WITH] == {"attempts": 1, "passed": 5, "total": 5}
    assert rows["run-a-blueprint"][WITHOUT] == {"attempts": 1, "passed": 0, "total": 5}
    assert rows["not-an-edit-of-a-recipe"][WITH]["passed"] == 3
    assert graded(bench, "run-a-blueprint", WITH)["The skill was read"] is True
    assert graded(bench, "run-a-blueprint", WITHOUT)["The skill was read"] is None
    assert told["run_summary"][WITH]["triggered_rightly"] == 1.0
    assert told["run_summary"]["delta"]["pass_rate"] > 0.5
    written = json.loads((bench.root / "out/benchmark.json").read_text())
    assert written["run_summary"] == told["run_summary"] and written["attempts"] == 4
    place = bench.root / "out/eval-run-a-blueprint"
    calls = [json.loads(line) for line in (place / WITH / "attempt-1/calls.jsonl").read_text().splitlines()]
    assert [call[:2] for call in calls[:2]] == [["autoresearch", "skill"], ["autoresearch", "run"]]
    assert "0.62" in (place / WITH / "attempt-1/turn/out").read_text()
    assert set(json.loads((place / WITH / "attempt-1/timing.json").read_text())) >= {"total_tokens", "duration_ms"}
    assert not (place / WITHOUT / "attempt-1/project/.agents").exists()
    # the evals hold the answers: they are not among what an agent can see
    assert not list((place / WITH).rglob("evals.json"))


@pytest.mark.system
def test_what_runs_at_the_end_is_ended_and_nobody_elses_is_seen(bench: Any) -> None:
    mine = bench.blueprint("long")
    run = bench.ask("run", mine, "--detach")["run"]
    told = measure(bench, "--task", "how-is-it-going", "--variant", "with")
    assert told["tasks"][0][WITH]["passed"] == 3
    rows = (bench.root / "out/eval-how-is-it-going").rglob("results.tsv")
    assert all("stopped" in path.read_text() for path in rows)
    assert [one["run"] for one in bench.ask("status")["runs"]] == [run]  # not the attempts' own
    bench.ask("stop", run, "--reason", "over")
    bench.until(lambda: not bench.carriers())


@pytest.mark.system
def test_a_skill_of_the_user_would_spoil_the_comparison(bench: Any) -> None:
    home = bench.root / "home"
    home.mkdir()
    bench.ask("skill", "install", "--scope", "user", "--dir", home)
    line = ["--agent", "command", "--command", STAND_IN, "--out", bench.root / "out", "--task", "12"]
    refused = program(bench, *line, HOME=str(home))
    assert refused.returncode == 5 and str(home) in refused.stderr and "--variant with" in refused.stderr
    assert measure(bench, "--task", "12", "--variant", "with", HOME=str(home))["attempts"] == 1


@pytest.mark.real
def test_every_check_can_hold_and_can_fail(undrawn: Any) -> None:
    """Each task is one that can be done, and none is done by itself; a minute or two of real runs."""
    measure(undrawn)
    never_failed = {(task.name, text) for task in TASKS for text, check in task.assertions if check}
    for task in TASKS:
        held = graded(undrawn, task.name, WITH)
        assert all(held[text] for text, check in task.assertions if check), (task.name, held)
        never_failed -= {(task.name, text) for text, ok in graded(undrawn, task.name, WITHOUT).items() if ok is False}
    # what an agent that does nothing right passes all the same: it can only be failed by doing too much
    assert {text for _, text in never_failed} <= {
        "The skill was read",
        "The skill was left alone",
        "Nothing was agreed to",
        "No run was made",
        "The code is as it was",
    }


@pytest.mark.parametrize(
    ("printed", "read"),
    [
        ('{"type":"tool_use","name":"Skill","input":{"skill":"autoresearch"}}', True),
        ('{"type":"tool_use","name":"Skill","input":{"skill":"autoresearch:autoresearch"}}', True),
        ('{"tool_name":"activate_skill","parameters":{"name": "autoresearch"}}', True),
        ('{"command":"bash -lc \'cat .agents/skills/autoresearch/SKILL.md\'"}', True),
        ('{"file_path":"/p/.claude/skills/autoresearch/references/run.md"}', True),
        ('{"subtype":"init","skills":["autoresearch","debug"],"slash_commands":["autoresearch"]}', False),
        ('{"text":"autoresearch is a skill"}', False),
        ('{"name":"autoresearch-next"}', False),
    ],
)
def test_what_counts_as_having_read_it(printed: str, read: bool) -> None:
    assert bool(evaluate.SKILL_READ.search(printed.encode())) is read
