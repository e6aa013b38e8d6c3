"""The command lines and readings against the real agents, at the scripted model: `make agents`, `make test-real`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import pytest

from autoresearch.agents.registry import AIDER, researcher
from autoresearch.core.agents.agent import Agent, Answer, Bounds, Chosen, Spoken, Turn, TurnFault, TurnRole
from autoresearch.core.agents.proposals import object_with
from autoresearch.lab.agent_work.sandbox import why_not
from autoresearch.lab.agent_work.turn_dir import Level, TurnEnvironment, next_directory
from tests.agents.turns import run_turn
from tests.processes import is_dead
from tests.waiting import until

if TYPE_CHECKING:
    from tests.agents.homes import AgentHome
    from tests.agents.model_server import ModelServer

pytestmark = pytest.mark.real
ACP = ("opencode", "gemini", "qwen")
NAMES = ("claude", "codex", *ACP)
EDIT = ({"read": "train.py"}, {"edit": {"path": "train.py", "old": "lr = 1", "new": "lr = 2"}}, {"text": "It is 2."})
LONG = "Set lr to 2 in train.py\n" + "and mind this line of the briefing\n" * 4500  # 157 kB: no argument holds that
SLOW_S = 400  # a machine that does much else


@dataclass
class Real:
    """A real agent with the repository that it works in."""

    researcher: Agent
    repo: Path
    place: Path

    def ask(self, role: TurnRole, prompt: str) -> Answer:
        turn = Turn(role, prompt, PurePath(self.repo), PurePath(self.place), Bounds(SLOW_S))
        Path(turn.last_file).parent.mkdir(parents=True, exist_ok=True)
        Path(turn.prompt_file).write_text(prompt)
        argv, env = self.researcher.argv(turn), os.environ | self.researcher.environment(turn)
        done = subprocess.run(
            argv, cwd=self.repo, env=env | {"PWD": str(self.repo)}, input=prompt.encode(), capture_output=True,
            timeout=SLOW_S, check=False,
        )  # fmt: skip
        print(argv, done.returncode, done.stdout[-3000:], done.stderr[-2000:], sep="\n")  # seen where it fails
        return self.researcher.read(turn, Spoken(done.stdout, done.stderr, done.returncode))

    def ask_confined(self, role: TurnRole, prompt: str, interpreter: str = "") -> Answer:
        """As the lab does it."""
        level = Level.NONE if why_not() else Level.BUBBLEWRAP
        turn_environment = TurnEnvironment(
            environ=dict(os.environ), level=level, keep=("STUB_API_KEY",), interpreter=interpreter,
            readable=(Path(interpreter),) if interpreter else (),
        )  # fmt: skip
        turn = Turn(role, prompt, self.repo, next_directory(self.place, role), Bounds(SLOW_S))
        return run_turn(self.researcher, turn, turn_environment, threading.Event())


@pytest.fixture
def real(agent_home: Callable[[str], AgentHome], agent_repo: Path, tmp_path: Path) -> Callable[..., Real]:
    """`real("codex")`; without its own sandbox, which does not work everywhere, unless `sandbox=True`."""

    def make(name: str, *, sandbox: bool = False, web: bool = False) -> Real:
        home = agent_home(name)
        if name == "aider":
            return Real(researcher("command", Chosen(template=AIDER)), agent_repo, tmp_path / "turn")
        chosen = Chosen(program=home.program, model=home.model, outside=not sandbox, web=web)
        return Real(researcher(name, chosen), agent_repo, tmp_path / "turn")

    return make


@pytest.mark.parametrize("name", (*NAMES, "aider"))
def test_it_edits_and_answers(name: str, real: Callable[..., Real], model_server: ModelServer) -> None:
    """A long prompt, an edit, and a question about it, answered as JSON.

    The edit is within bubblewrap, where that works: of its home, an agent can write to its `homes` only.
    """
    model_server.on("Set lr to 2", *EDIT)
    model_server.on("What is lr?", {"json": {"answer": "two"}}, bare=True)
    agent = real(name)
    edited = agent.ask_confined(TurnRole.EDIT, LONG)
    assert (agent.repo / "train.py").read_text() == "lr = 2\nsteps = 10\n"
    assert edited.fault is None and "It is 2." in edited.text
    told = agent.ask_confined(TurnRole.REVIEW, "What is lr?")
    assert told.fault is None and object_with("answer", told.text)[0] == {"answer": "two"}
    assert name == "aider" or 0 < told.usage.tokens < edited.usage.tokens, "a turn is charged with its own tokens"


TRIED = (
    "python -c 'import sys; print(\"prefix\", sys.prefix)'",
    "pytest --version",
    "bash -lc 'python -m site; echo gpus=[$CUDA_VISIBLE_DEVICES]'",
    "git diff --stat && echo no-diff",
    "python train.py --steps 1; echo trained=$?",
    "touch /etc/outside || echo out-of-reach",
    "python -c \"import pathlib; print(pathlib.Path.home().joinpath('.claude.json').write_text('{}'))\"",
)


@pytest.mark.parametrize("name", NAMES)
def test_within_our_sandbox_it_may_run_what_it_wants(
    name: str, real: Callable[..., Real], model_server: ModelServer, tmp_path: Path, bubblewrap: None
) -> None:
    """Its shell has the interpreter of the experiments first on PATH, as a login shell, too."""
    venv = tmp_path / "experiments"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    (venv / "bin/pytest").write_text("#!/bin/sh\necho pytest of the experiments\n")
    (venv / "bin/pytest").chmod(0o755)
    model_server.on("Try it", *({"shell": command} for command in TRIED), {"text": "Tried."})
    agent = real(name)
    settings = Path.home() / ".claude.json"
    before = settings.read_text() if settings.exists() else ""
    answer = agent.ask_confined(TurnRole.EDIT, "Try it", str(venv / "bin/python"))
    seen = "".join(request.body.decode() for request in model_server.asked)
    for words in (f"prefix {venv}", "pytest of the experiments", f"{venv}/lib", "gpus=[]", "no-diff", "trained=0"):
        assert words in seen, (words, seen[-6000:])
    assert "out-of-reach" in seen and answer.denied == () and answer.fault is None
    assert (settings.read_text() if settings.exists() else "") == before, "it names programs that run outside"


@pytest.mark.parametrize("name", (*NAMES, "aider"))
def test_asked_it_changes_nothing(name: str, real: Callable[..., Real], model_server: ModelServer) -> None:
    model_server.on("Set lr to 2", *EDIT)
    agent = real(name, sandbox=True)
    agent.ask(TurnRole.PROPOSE, "Set lr to 2 in train.py")
    assert (agent.repo / "train.py").read_text() == "lr = 1\nsteps = 10\n"


WEB = ("WebSearch", "WebFetch", "web_search", "google_web_search", "web_fetch", "webfetch", "websearch")


@pytest.mark.parametrize("name", NAMES)
def test_the_web_is_offered_for_ideas_where_it_was_asked_for(
    name: str, real: Callable[..., Real], model_server: ModelServer
) -> None:
    offered = {}
    for role, web in ((TurnRole.PROPOSE, False), (TurnRole.EDIT, True), (TurnRole.PROPOSE, True)):
        before = len(model_server.asked)
        real(name, web=web).ask(role, "Think of it")
        tools = [json.loads(request.body or b"{}").get("tools") for request in model_server.asked[before:]]
        assert any(tools), "other tools are offered in each of them"
        offered[role, web] = [tool for tool in WEB if f'"{tool}"' in json.dumps(tools)]
    assert not offered[TurnRole.PROPOSE, False] and not offered[TurnRole.EDIT, True], offered
    assert offered[TurnRole.PROPOSE, True], offered


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_key_needs_a_person(name: str, real: Callable[..., Real], model_server: ModelServer) -> None:
    model_server.on("Hello", {"http": 401, "message": "invalid api key"})
    answer = real(name).ask(TurnRole.PROPOSE, "Hello")
    assert answer.fault is TurnFault.LOGIN and "key" in answer.message.lower()


@pytest.mark.parametrize("name", ACP)
def test_an_agent_behind_acp_that_dies_at_work(name: str, real: Callable[..., Real], model_server: ModelServer) -> None:
    """Its own shell kills it: the answer says so, and the turn is over."""
    model_server.on("Die", {"shell": "kill -9 $PPID"}, {"text": "I live."})
    agent = real(name)
    answer = agent.ask(TurnRole.EDIT, "Die")
    assert answer.fault is TurnFault.ENDED and "in the middle of the turn" in answer.message, answer


def test_an_agent_behind_acp_that_hangs(real: Callable[..., Real], model_server: ModelServer, agent_repo: Path) -> None:
    """The turn is ended with all that the agent has started."""
    model_server.on("Hang", {"shell": "echo $$ > pid; exec sleep 3000"}, {"text": "I slept."})
    agent, pid, stop = real("opencode"), agent_repo / "pid", threading.Event()
    turn = Turn(TurnRole.EDIT, "Hang", PurePath(agent.repo), PurePath(agent.place), Bounds(SLOW_S))
    waiting = threading.Thread(target=lambda: (until(lambda: pid.exists() and pid.read_text()), stop.set()))
    waiting.start()
    answer = run_turn(agent.researcher, turn, TurnEnvironment(environ=dict(os.environ)), stop)
    waiting.join()
    assert answer.fault is TurnFault.STOPPED
    assert is_dead(int(pid.read_text()))


@pytest.mark.parametrize("name", ["gemini", "qwen"])
def test_an_agent_behind_acp_that_is_not_logged_in(
    name: str, real: Callable[..., Real], monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = real(name)
    # to Gemini CLI, a base URL is a gateway that wants no key
    for variable in ("GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    (Path.home() / f".{name}" / "settings.json").write_text("{}")
    answer = agent.ask(TurnRole.PROPOSE, "Hello")
    assert answer.fault is TurnFault.LOGIN and "log in" in answer.message
