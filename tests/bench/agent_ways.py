"""Three ways for a coding agent to run one experiment: our skill, our MCP server, the published prose skill.

A real Claude Code is driven by a scripted model that follows each procedure to the letter, so that what is counted
is what the procedure and its tools cost, and no model's skill or mood. Time is told 20 times as fast as it is: a
procedure that waits 100 s waits 5 s here, and the run of about half a minute stands for one of about ten.

The published skill's text is not ours to carry. In its place stands filler of its length, counted in
modelscope/AgentJet, `ajet/copilot/auto-research-blueprint-execute-classic/SKILL.md` at 5c456b2: 8,029 characters,
most of them in the monitoring procedure that it holds (`monitor-with-tmux/SKILL.md`: 5,872). A byte for each is
counted, although a good part is Chinese, three bytes each. NVIDIA-NeMo/RL's `skills/nemo-rl-auto-research/SKILL.md`
at 7ea279a has 9,168 bytes. The wait script that an agent is to write by that skill is the one in `published.py`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.agents.homes import AgentHome, make_home
from tests.agents.model_server import ModelServer
from tests.agents.script import Asked, Flow, Step
from tests.bench import published

ROOT = Path(__file__).parents[2]
LAPSE = 20.0  # how much faster time is told
TRAINING_S = 45.0  # however busy the machine is
FIRST_S, LATER_S = 100, 540  # that our skill waits for the first step, and at a time from then on
PUBLISHED_CHARACTERS = 8029
PUBLISHED_NAME = "auto-research-blueprint-execute-classic"
PUBLISHED_WAITS_S = (30, 60, 120, 240, 480, 960)  # the last is repeated
PROMPT = "Run the experiment of exp.md, wait for its end, and tell me how it went."
MOST_LOOKS = 60
RECIPE = "blueprints/recipes/quickstart.yaml"
TRAIN = f"{sys.executable} -m autoresearch.tinygrpo --conf {RECIPE}"
REPORT = "The run finished; the objective rose as the ledger says."
LOG = "# Experiment log\n\n" + "- launched in tmux, watched until it ended, nothing had to be repaired\n" * 8
BLUEPRINT = """# Quick

## [exp_purpose]
- description: See how far the base recipe goes.

## [exp_codebase_dir]
- dir: {repo}

## [exp_venv_exe]
- path: {python}

## [exp_yaml_path]
- path: {recipe}

## [exp_launch_command]
```bash
{command}
```

## [exp_result_dir]
- dir: {repo}/results

## [exp_max_time]
- time: 30 minutes in all, 10 minutes to the first step

## Other Notes
- trainer: tinygrpo
- metric: task_pass_rate@1
- direction: maximize
"""


@dataclass(slots=True)
class Told:
    """What reached the model in one experiment."""

    sizes: list[int] = field(default_factory=list)  # bytes of each request
    looks: list[int] = field(default_factory=list)  # which of them brought what a look at the run showed
    finished: bool = False

    @property
    def total(self) -> int:
        return sum(self.sizes)

    @property
    def look_bytes(self) -> float:
        """By how much a look that shows nothing new, neither the first nor the last, enlarges all later requests."""
        return statistics.median(self.sizes[at] - self.sizes[at - 1] for at in self.looks[1:-1])

    def total_with(self, looks: int) -> float:
        """Bytes if it had taken so many looks: each is a request of its own, and is part of all later ones."""
        more = looks - len(self.looks)
        last = self.sizes[self.looks[-1]]
        after = len(self.sizes) - self.looks[-1] - 1
        grown = sum(last + n * self.look_bytes for n in range(1, more + 1))
        return self.total + grown + after * more * self.look_bytes


Way = Callable[[Told, ModelServer], Callable[[Asked], Flow]]


def by_skill(told: Told, server: ModelServer) -> Callable[[Asked], Flow]:
    """Our skill, as its SKILL.md says: doctor, check, run, the line in `next` until the run has ended.

    Both pages that its table names for this are loaded, although most of what is needed stands in SKILL.md.
    """

    def flow(asked: Asked) -> Flow:
        yield _skill("autoresearch")
        yield {"shell": "autoresearch skill show run"}
        yield {"shell": "autoresearch doctor --json"}
        yield {"shell": "autoresearch blueprint check exp.md --json"}
        asked = yield {"shell": "autoresearch run exp.md --detach --json"}
        yield {"shell": "autoresearch skill show monitor"}
        answer = _answer(asked)
        for _ in range(MOST_LOOKS):
            asked = yield {"shell": f"{_lapsed(answer['next'][0], first='event' not in answer)} --json"}
            told.looks.append(len(server.asked))
            answer = _answer(asked)
            if answer["state"] == "ended":
                told.finished = answer["ending"] == "finished"
                break
        yield {"text": REPORT}

    return flow


def by_mcp(told: Told, server: ModelServer) -> Callable[[Asked], Flow]:
    """Our MCP server: run, then wait until the run has ended."""

    def flow(asked: Asked) -> Flow:
        asked = yield _tool("act", "run", "exp.md")
        answer = _answer(asked)
        since: list[str] = []
        for _ in range(MOST_LOOKS):
            seconds = round((LATER_S if since else FIRST_S) / LAPSE)
            asked = yield _tool("look", "wait", answer["run"], "--for", f"{seconds}s", *since)
            told.looks.append(len(server.asked))
            answer = _answer(asked)
            since = ["--since", str(answer["seq"])] if "seq" in answer else since
            if answer["state"] == "ended":
                told.finished = answer["ending"] == "finished"
                break
        yield {"text": REPORT}

    return flow


def by_prose(told: Told, server: ModelServer) -> Callable[[Asked], Flow]:
    """The published procedure: a wait script, tmux by hand, looks at the pane, two documents and a flag."""
    session, wait = "ajet_quick", f"{sys.executable} tmp/wait_tmux.py {os.environ['AUTORESEARCH_TMUX_SOCKET']}.pub"
    tmux = f"tmux -S {os.environ['AUTORESEARCH_TMUX_SOCKET']}.pub"

    def flow(asked: Asked) -> Flow:
        yield _skill(PUBLISHED_NAME)
        yield {"read": "exp.md"}
        yield {"write": {"path": "tmp/wait_tmux.py", "text": published.WAIT_SCRIPT.replace("(2)", f"({2 / LAPSE})")}}
        yield {"shell": f"{tmux} new-session -d -s {session} -c {asked.cwd}"}
        yield {"shell": f"{tmux} send-keys -t {session} '{TRAIN}' Enter"}
        asked = yield {"shell": f"{tmux} capture-pane -t {session} -p | tail -40"}
        told.looks.append(len(server.asked))
        for number in range(MOST_LOOKS):
            seconds = PUBLISHED_WAITS_S[min(number, len(PUBLISHED_WAITS_S) - 1)] / LAPSE
            look = f"{wait} {session} {seconds:g} && {tmux} capture-pane -t {session} -p | tail -80"
            asked = yield {"shell": look}
            told.looks.append(len(server.asked))
            if "xit code 1" in asked.result:
                break
        asked = yield {"shell": f"{tmux} capture-pane -t {session} -p | tail -80"}
        told.finished = "task_pass_rate" in asked.result
        yield {"shell": "tail -n 20 auto_agent/exp_results/quickstart/validation.md"}
        yield {"write": {"path": "results/experiment_log.md", "text": LOG}}
        yield {"write": {"path": "results/results.md", "text": LOG}}
        yield {"shell": "touch results/finish.flag"}
        yield {"shell": f"{tmux} kill-session -t {session}"}
        yield {"text": REPORT}

    return flow


def measure(way: Way, place: Path) -> Told:
    """One experiment by one way, in a repository of its own; the bench's environment is `yard.isolated`'s."""
    repo, home = place / "repo", place / "home"
    home.mkdir(parents=True)
    _fill(repo)
    _on_path(home)
    told = Told()
    with ModelServer() as server:
        agent = make_home("claude", home, server.url)
        _equip(agent, way, repo)
        server.answer_with(way(told, server))
        environ = os.environ | agent.variables | {"HOME": str(home), "PWD": str(repo)}
        environ["PATH"] = f"{home / 'bin'}:{environ['PATH']}"
        with (place / "said").open("w") as said:
            subprocess.run(
                agent.command(PROMPT), cwd=repo, env=environ, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                timeout=600, check=False,
            )  # fmt: skip
        told.sizes = [request.size for request in server.asked]
    if not told.finished:
        raise RuntimeError(f"{way.__name__} came to no end: {(place / 'said').read_text()[-3000:]}")
    return told


def _skill(name: str) -> Step:
    return {"tool": {"name": "Skill", "arguments": {"skill": name}}}


def _tool(tool: str, *argv: str) -> Step:
    return {"mcp": {"server": "autoresearch", "tool": tool, "arguments": {"argv": list(argv)}}}


def _answer(asked: Asked) -> dict[str, Any]:
    """The JSON of a command of ours, which is all that it prints."""
    try:
        found: dict[str, Any] = json.loads(asked.result[asked.result.index("{") : asked.result.rindex("}") + 1])
    except ValueError as error:
        raise RuntimeError(f"no JSON: {asked.result[:2000]}") from error
    return found


def _lapsed(line: str, *, first: bool) -> str:
    """A line of `next`, with the skill's patience in the bench's time."""
    return re.sub(r"--for \S+", f"--for {(FIRST_S if first else LATER_S) / LAPSE:g}s", line)


def _fill(repo: Path) -> None:
    """The codebase: the recipe, and a blueprint of it."""
    (repo / RECIPE).parent.mkdir(parents=True)
    recipe = (ROOT / RECIPE).read_text().replace("total_steps: 450", "total_steps: 1000000")
    (repo / RECIPE).write_text(f"{recipe}\ntotal_time: {TRAINING_S}\nstep_sleep: 0.2\n")
    (repo / ".gitignore").write_text("/results/\n/auto_agent/\n/reports/\n/tmp/\n/.claude/\n/.agents/\n")
    told = {"repo": repo, "python": sys.executable, "recipe": RECIPE}
    command = f"python -m autoresearch.tinygrpo --conf {RECIPE}"
    (repo / "exp.md").write_text(BLUEPRINT.format(**told, command=command))
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "start"]):
        subprocess.run(["git", *words], cwd=repo, check=True, capture_output=True)


def _on_path(home: Path) -> None:
    """`autoresearch`, as an installed one is called."""
    program = home / "bin" / "autoresearch"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m autoresearch "$@"\n')
    program.chmod(0o755)


def _equip(agent: AgentHome, way: Way, repo: Path) -> None:
    """Give the agent what the way is about, and leave to do it without questions."""
    for rule in ("Bash", "Read", "Write", "Edit", "Skill"):
        agent.permit(rule)
    if way is by_skill:
        shutil.copytree(ROOT / "skills" / "autoresearch", repo / ".claude" / "skills" / "autoresearch")
    elif way is by_mcp:
        agent.add_mcp("autoresearch", [sys.executable, "-m", "autoresearch", "mcp"])
    else:
        skill = repo / ".claude" / "skills" / PUBLISHED_NAME / "SKILL.md"
        skill.parent.mkdir(parents=True)
        skill.write_text(_filler())


def _filler() -> str:
    """Text of the published skill's length, which says nothing."""
    about = "Run a training experiment from its blueprint: launch in tmux, look at it at growing intervals, mend it, "
    head = f"---\nname: {PUBLISHED_NAME}\ndescription: {about}collect results, write a finish flag.\n---\n\n"
    words = "filler of the length that the published procedure has and of none of its words " * 120
    return (head + textwrap.fill(words, 110))[: PUBLISHED_CHARACTERS - 1] + "\n"
