"""The skill in real agents, whose model is scripted: it is loaded, and every line that it teaches may be typed.

`autoresearch` is here a stand-in on PATH that writes down its words: what is under test are the agents' own rules.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from autoresearch.lab import skill
from tests.agents.taught import ACCEPTED, LET_THROUGH, REFUSED, command_lines, forms, texts

if TYPE_CHECKING:
    from tests.agents.homes import AgentHome
    from tests.agents.model_server import ModelServer
    from tests.agents.script import Asked, Flow

pytestmark = [pytest.mark.real, pytest.mark.waits]
LINES = forms(line for text in texts().values() for line in command_lines(text))
SEVEN = (
    *("autoresearch doctor --json", "autoresearch status --json", "autoresearch run exp.md --detach --json"),
    *("autoresearch wait RUN --json", "autoresearch logs RUN --json", "autoresearch explain RUN --json"),
    "autoresearch campaign status FILE --json",
)
CONFINED = (  # else /tmp, where the tests are, can be written
    *("-s", "workspace-write", "-c", "sandbox_workspace_write.exclude_slash_tmp=true"),
    *("-c", "sandbox_workspace_write.exclude_tmpdir_env_var=true"),
)
TRIGGER = "Use this skill when asked to run, launch, watch"


def words_of(argv: Sequence[str], repo: Path) -> str:
    """What an agent printed, both streams."""
    done = subprocess.run(
        argv,
        cwd=repo,
        env=os.environ | {"PWD": str(repo)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return f"{done.stdout}\n{done.stderr}"


def events(said: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in said.splitlines() if line.startswith("{")]


# ------------------------------------------------------------------------------------------ it is loaded


@pytest.fixture
def skilled(agent_repo: Path) -> Path:
    skill.install(agent_repo)
    return agent_repo


def test_claude_code_loads_it(agent_home: Callable[[str], AgentHome], model_server: ModelServer, skilled: Path) -> None:
    said = words_of(agent_home("claude").command("hello"), skilled)
    (first, *_) = [event for event in events(said) if event.get("subtype") == "init"]
    assert "autoresearch" in first["skills"]
    assert any(TRIGGER in request.body.decode() for request in model_server.asked)


def test_codex_loads_it(agent_home: Callable[[str], AgentHome], model_server: ModelServer, skilled: Path) -> None:
    said = words_of(agent_home("codex").command("hello"), skilled)
    assert any(TRIGGER in request.body.decode() for request in model_server.asked), said[-3000:]


@pytest.mark.parametrize(("name", "words"), [("opencode", ("debug", "skill")), ("gemini", ("skills", "list"))])
def test_it_is_listed(
    name: str,
    words: Sequence[str],
    agent_home: Callable[[str], AgentHome],
    skilled: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GEMINI_CLI_TRUST_WORKSPACE", "true")
    said = words_of([agent_home(name).program, *words], skilled)
    assert "autoresearch" in said and TRIGGER in said, said[-3000:]


def test_it_is_one_skill_of_a_plugin(agent_home: Callable[[str], AgentHome], agent_repo: Path, tmp_path: Path) -> None:
    claude = agent_home("claude").program
    root = tmp_path / "clone"  # the marketplace copies its directory, and a checkout may hold gigabytes of environments
    subprocess.run(["git", "clone", "-q", Path(__file__).parents[2], root], check=True)
    assert subprocess.run([claude, "plugin", "validate", str(root)], capture_output=True).returncode == 0
    words_of([claude, "plugin", "marketplace", "add", str(root)], agent_repo)
    words_of([claude, "plugin", "install", "autoresearch@autoresearch"], agent_repo)
    said = words_of([claude, "-p", "hello", "--output-format", "stream-json", "--verbose"], agent_repo)
    (first, *_) = [event for event in events(said) if event.get("subtype") == "init"]
    assert "autoresearch:autoresearch" in first["skills"]


# ------------------------------------------------------------------------------------- what may be typed


@pytest.fixture
def typed(tmp_path: Path, agent_repo: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[list[str]]]:
    """A stand-in for the command; gives the words of each call of it."""
    told, folder = agent_repo / "told.jsonl", tmp_path / "bin"
    folder.mkdir()
    program = folder / "autoresearch"
    program.write_text(
        f"#!{sys.executable}\nimport json, sys\nopen({str(told)!r}, 'a').write(json.dumps(sys.argv[1:]) + '\\n')\n"
    )
    program.chmod(0o755)
    (agent_repo / "repo").mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    profile = tmp_path / "profile"  # login shells set a PATH of their own
    profile.write_text(f"export PATH={folder}:$PATH\n")
    monkeypatch.setenv("BASH_ENV", str(profile))
    return lambda: [json.loads(line) for line in told.read_text().splitlines()] if told.exists() else []


def wanted(lines: Sequence[str]) -> list[list[str]]:
    """The words that the stand-in must see for these lines."""
    found = []
    for line in lines:
        expanded = line.replace('"$HOME/bp.md"', shlex.quote(os.environ["HOME"] + "/bp.md"))
        for part in re.split(r" && | \| ", expanded):
            words = shlex.split(part)
            if "autoresearch" in words[:3]:
                found.append(words[words.index("autoresearch") + 1 :])
    return found


def test_claude_code_accepts_every_line_by_one_rule(
    agent_home: Callable[[str], AgentHome],
    model_server: ModelServer,
    agent_repo: Path,
    typed: Callable[[], list[list[str]]],
) -> None:
    lines = [*LINES, *ACCEPTED]
    model_server.on("Type them", *({"shell": line} for line in lines), {"text": "All typed."})
    argv = [agent_home("claude").program, "-p", "Type them", "--output-format", "stream-json", "--verbose"]
    said = words_of([*argv, "--allowedTools", "Bash(autoresearch *)"], agent_repo)
    (end,) = [event for event in events(said) if event.get("type") == "result"]
    assert end["permission_denials"] == []
    assert typed() == wanted(lines)


def test_claude_code_refuses_what_the_skill_may_not_teach(
    agent_home: Callable[[str], AgentHome],
    model_server: ModelServer,
    agent_repo: Path,
    typed: Callable[[], list[list[str]]],
) -> None:
    model_server.on("Type them", *({"shell": line} for line in REFUSED), {"text": "Tried."})
    argv = [agent_home("claude").program, "-p", "Type them", "--output-format", "stream-json", "--verbose"]
    said = words_of([*argv, "--allowedTools", "Bash(autoresearch *)"], agent_repo)
    (end,) = [event for event in events(said) if event.get("type") == "result"]
    denied = {each["tool_input"]["command"] for each in end["permission_denials"]}
    assert set(REFUSED) - LET_THROUGH <= denied <= set(REFUSED)
    assert len(typed()) == len(REFUSED) - len(denied)


@pytest.mark.parametrize("mode", ["default", "plan", "acceptEdits"])
@pytest.mark.parametrize("allowed", [False, True])
def test_claude_code_types_our_commands_where_install_allows_it(
    mode: str,
    allowed: bool,
    agent_home: Callable[[str], AgentHome],
    model_server: ModelServer,
    agent_repo: Path,
    typed: Callable[[], list[list[str]]],
) -> None:
    if allowed:
        skill.allow(agent_repo / ".claude", agent_repo / ".codex")
    model_server.on("Type them", *({"shell": line} for line in SEVEN), {"text": "Tried."})
    argv = [agent_home("claude").program, "-p", "Type them", "--output-format", "stream-json", "--verbose"]
    said = words_of([*argv, "--permission-mode", mode], agent_repo)
    (end,) = [event for event in events(said) if event.get("type") == "result"]
    assert len(end["permission_denials"]) == (0 if allowed else len(SEVEN))
    assert typed() == (wanted(SEVEN) if allowed else [])


@pytest.mark.parametrize("where", ["", "user", "project"])
def test_codex_runs_our_commands_outside_its_sandbox_where_install_allows_it(
    where: str,
    agent_home: Callable[[str], AgentHome],
    model_server: ModelServer,
    agent_repo: Path,
    typed: Callable[[], list[list[str]]],
) -> None:
    """What the stand-in cannot write within the sandbox is beside the repository; all else stays inside."""
    agent, told = agent_home("codex"), agent_repo.parent / "outside"
    program = shutil.which("autoresearch")
    assert program
    Path(program).write_text(f"#!/bin/sh\necho $1 >> {shlex.quote(str(told))}\n")
    if where:
        skill.allow(agent_repo / ".claude", {"user": agent.home, "project": agent_repo}[where] / ".codex")
    if where == "project":
        with (agent.home / ".codex/config.toml").open("a") as config:
            config.write(f'[projects."{agent_repo}"]\ntrust_level = "trusted"\n')
    lines = [*SEVEN, f"echo other >> {told}", "cd . && autoresearch joined"]
    model_server.on("Type them", *({"shell": line} for line in lines), {"text": "Tried."})
    said = words_of([agent.program, "exec", "--json", "--skip-git-repo-check", *CONFINED, "Type them"], agent_repo)
    ran = told.read_text().split() if told.exists() else []
    assert ran == ([words[0] for words in wanted(SEVEN)] if where else []), said[-3000:]


def test_codex_types_every_line(
    agent_home: Callable[[str], AgentHome],
    model_server: ModelServer,
    agent_repo: Path,
    typed: Callable[[], list[list[str]]],
) -> None:
    model_server.on("Type them", *({"shell": line} for line in LINES), {"text": "All typed."})
    said = words_of(agent_home("codex").command("Type them"), agent_repo)
    assert typed() == wanted(LINES), said[-3000:]


# ------------------------------------------------------------------------- from the installation to a report

NIGHT = "Find out whether a larger step makes train.py better: the skill says how. Report what is proved."
PROGRAM = """\
import argparse, os, random
words = argparse.ArgumentParser()
words.add_argument("--lr", type=float, default=0.1)
lr = words.parse_args().lr
dice = random.Random(os.environ.get("AUTORESEARCH_SEED"))
for step in range(1, 6):
    print(f"step {step} accuracy {0.4 + 0.5 * lr + dice.gauss(0, 0.01):.5f}", flush=True)
"""


def follows_to_a_report(asked: Asked) -> Flow:
    """A model that reads the skill and then types what it says, line by line, with the names that it was answered."""

    def answered(asked: Asked) -> dict[str, Any]:
        lines = [line for line in asked.result.splitlines() if line.startswith("{")]
        assert lines, asked.result[-3000:]
        return dict(json.loads(lines[-1]))

    def until_ended(line: str) -> Generator[dict[str, Any], Asked, dict[str, Any]]:
        while True:
            told = answered((yield {"shell": line}))
            if told["state"] == "ended":
                return told
            line = told["next"][0]

    assert TRIGGER in asked.prose
    if "Skill" in asked.tools:
        yield {"tool": {"name": "Skill", "arguments": {"skill": "autoresearch"}}}
    else:
        yield {"shell": "cat .agents/skills/autoresearch/SKILL.md"}
    assert answered((yield {"shell": "autoresearch doctor --json"}))["ok"]
    why = "--purpose 'the baseline of a larger step'"
    yield {"shell": f"autoresearch blueprint new exp.md {why} --command 'python train.py' --set metric=accuracy"}
    assert answered((yield {"shell": "autoresearch blueprint check exp.md --json"}))["ok"]
    run = answered((yield {"shell": "autoresearch run exp.md --detach --json"}))["run"]
    ended = yield from until_ended(f"autoresearch wait {run} --for 100s --json")
    assert (ended["ending"], ended["verdict"]) == ("finished", "keep")
    yield {"shell": "autoresearch skill show campaign"}
    yield {"write": {"path": "ideas.yaml", "text": "- {slug: larger, sentence: a larger step, overrides: {lr: 0.3}}\n"}}
    plan = answered((yield {"shell": "autoresearch campaign exp.md --queue ideas.yaml --count 2 --json"}))
    campaign = answered((yield {"shell": f"{plan['next'][0]} --detach --json"}))["campaign"]
    yield from until_ended(f"autoresearch wait {campaign} --for 100s --json")
    shown = answered((yield {"shell": f"autoresearch campaign status {campaign} --json"}))
    report = answered((yield {"shell": f"autoresearch report {campaign} --json"}))
    yield {"text": f"{shown['best_shown']['sentence']} See {report['files'][0]}."}


@pytest.mark.parametrize("name", ["claude", "codex"])
def test_it_is_followed_from_installation_to_a_report(
    name: str, agent_home: Callable[[str], AgentHome], model_server: ModelServer, tmux_socket: str, agent_repo: Path
) -> None:
    agent = agent_home(name)
    (agent_repo / "train.py").write_text(PROGRAM)
    subprocess.run(["git", "commit", "-qam", "a program"], cwd=agent_repo, check=True)
    subprocess.run(["autoresearch", "skill", "install", "--allow"], cwd=agent_repo, check=True, capture_output=True)
    (agent.home / ".profile").write_text(f"export PATH={shlex.quote(os.environ['PATH'])}\n")  # of login shells
    model_server.answer_with(follows_to_a_report)
    argv = agent.command(NIGHT)
    if name == "claude":  # by the rules that `--allow` wrote, and no others
        argv = [agent.program, "-p", NIGHT, "--output-format", "stream-json", "--verbose"]
        argv += ["--permission-mode", "acceptEdits"]
    said = words_of(argv, agent_repo)
    assert "lr=0.3: confirmed, accuracy 0.5" in said, said[-5000:]
    (report,) = agent_repo.rglob("report.md")
    assert f"See {report}" in said and "confirmed" in report.read_text()
