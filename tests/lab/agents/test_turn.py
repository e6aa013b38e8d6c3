"""One turn of an agent: whatever it does, it is bounded, understood, and nothing of it lives on.

The agents are small programs in Python. `-m real`: the same within bubblewrap, which keeps them from everything else.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any

import psutil
import pytest

from autoresearch.core.agents.agent import Answer, Bounds, Spoken, Traits, Turn, TurnFault, TurnRole, Usage
from autoresearch.errors import EnvironmentUnusable
from autoresearch.git_repo.checkout import find
from autoresearch.git_repo.patches import IsolatedWorktree
from autoresearch.git_repo.worktrees import slot
from autoresearch.lab.agent_work import sandbox
from autoresearch.lab.agent_work.turn import answer_of
from autoresearch.lab.agent_work.turn_dir import Level, TurnEnvironment, guard_in, next_directory, read_turn
from autoresearch.records.files import read_json, write_json
from autoresearch.records.rundir import RunDir
from autoresearch.runner.basics import RUN_ID
from tests.agents.turns import run_turn

Eventually = Callable[[Callable[[], object]], None]
SLEEP = "import time; time.sleep(1000)"

MARK = "AUTORESEARCH_TEST"  # how the tests find what was left behind
DAEMON = """
import os, signal, sys, time
def daemon(**environment):
    # away from its parent, in a session of its own, deaf to TERM
    ready, done = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            code = "import os, signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
            code += "os.write(int(sys.argv[1]), b'.'); os.close(int(sys.argv[1])); time.sleep(1000)"
            os.set_inheritable(done, True)
            os.execve(sys.executable, [sys.executable, "-S", "-c", code, str(done)], {**os.environ, **environment})
        os._exit(0)
    os.close(done)
    os.read(ready, 1)
"""


@dataclass
class Scripted:
    """A researcher whose agent is a few lines of Python; its last words are what it printed."""

    code: str = "print('done')"
    name: str = "scripted"
    traits: Traits = field(default_factory=Traits)
    command: tuple[str, ...] = ()
    wanted: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    own: tuple[Path, ...] = ()

    def program(self) -> str:
        return sys.executable

    def argv(self, turn: Turn) -> tuple[str, ...]:
        return self.command or (sys.executable, "-S", "-c", self.code)

    def environment(self, turn: Turn) -> Mapping[str, str]:
        return self.env

    def needs(self) -> tuple[str, ...]:
        return self.wanted

    def homes(self, environ: Mapping[str, str]) -> tuple[PurePath, ...]:
        return self.own

    def read(self, turn: Turn, spoken: Spoken) -> Answer:
        text = spoken.out.decode(errors="replace").strip()
        silent = TurnFault.SILENT if not text and spoken.returncode == 0 else None
        fault = spoken.fault or (TurnFault.ENDED if spoken.returncode else silent)
        return Answer(text, usage=Usage(tokens_out=len(text)), fault=fault, message=spoken.err.decode().strip()[-200:])


class TurnContext:
    """Asks scripted agents, in a worktree and with turn directories of the test's own."""

    def __init__(self, root: Path) -> None:
        self.cwd, self.turns = root / "tree", root / "turns"
        self.cwd.mkdir()
        self.turn_environment = TurnEnvironment(dict(os.environ), keep=(MARK,), file_bytes=64 << 20, grace_s=0.3)
        self.stop = threading.Event()
        self.asked: list[threading.Thread] = []

    def turn(self, role: TurnRole = TurnRole.EDIT, prompt: str = "go", seconds: float = 120.0) -> Turn:
        return Turn(role, prompt, self.cwd, next_directory(self.turns, role), bounds=Bounds(seconds))

    def ask(self, agent: Scripted | str, turn: Turn | None = None, **changes: object) -> Answer:
        agent = Scripted(agent) if isinstance(agent, str) else agent
        turn_environment = replace(self.turn_environment, **changes)  # type: ignore[arg-type]
        return run_turn(agent, turn or self.turn(), turn_environment, self.stop)

    def begin(self, agent: Scripted | str, turn: Turn | None = None) -> Callable[[], Answer]:
        """Ask in another thread; what is returned waits for the answer."""
        found: list[Answer] = []
        thread = threading.Thread(target=lambda: found.append(self.ask(agent, turn)))
        self.asked.append(thread)
        thread.start()

        def answer() -> Answer:
            thread.join()
            return found[0]

        return answer

    def spec(self) -> dict[str, Any]:
        (found,) = self.turns.glob("*/spec.json")
        return json.loads(found.read_text())


@pytest.fixture
def turn_context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TurnContext]:
    temporary = tmp_path / "scratch"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    made = TurnContext(tmp_path)
    yield made
    made.stop.set()
    for thread in made.asked:
        thread.join()
    assert list(temporary.iterdir()) == [], "a scratch directory was left behind"
    assert carriers() == []


def carriers(token: str = "turn-") -> list[psutil.Process]:
    """The living processes of this test's turns."""
    found = []
    for process in psutil.process_iter():
        try:
            environ = process.environ()
            mine = environ.get(MARK) == os.environ[MARK]
            if mine and environ.get(RUN_ID, "").startswith(token) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


# -- what comes back ---------------------------------------------------------------------------------------------


@pytest.mark.system
def test_an_answer_and_what_is_kept_of_it(turn_context: TurnContext) -> None:
    turn = turn_context.turn(TurnRole.PROPOSE)
    answer = turn_context.ask("import sys; sys.stderr.write('a warning'); print('three ideas')", turn)
    assert (answer.text, answer.fault, answer.message) == ("three ideas", None, "a warning")
    assert answer.usage.tokens_out == 11 and answer.usage.seconds > 0
    place = Path(turn.directory)
    assert place.name == "0001-propose" and stat.S_IMODE(place.stat().st_mode) == 0o700
    assert Path(turn.prompt_file).read_text() == "go"
    spec = turn_context.spec()
    assert spec["turn"]["level"] == "none" and spec["turn"]["role"] == "propose"
    assert str(spec["command"]).startswith(sys.executable) and not (place / "environment").exists()
    assert read_turn(place) == turn and answer_of(Scripted(), turn) == answer
    assert turn_context.ask("print('it is asked once')", turn) == answer


@pytest.mark.system
@pytest.mark.parametrize(
    ("code", "fault", "said"),
    [
        ("pass", TurnFault.SILENT, ""),
        ("import sys; sys.exit('no such model')", TurnFault.ENDED, "no such model"),
        ("import os; open('train.py', 'w').write('half'); os.kill(os.getpid(), 9)", TurnFault.ENDED, "signal 9"),
    ],
)
def test_how_it_may_end(turn_context: TurnContext, code: str, fault: TurnFault, said: str) -> None:
    answer = turn_context.ask(code)
    assert answer.fault is fault and said in answer.message
    if "train.py" in code:  # what it wrote stays: the truth is the diff, and somebody else's to look at
        assert (turn_context.cwd / "train.py").read_text() == "half"


@pytest.mark.system
def test_a_program_that_cannot_be_run(turn_context: TurnContext) -> None:
    for name, text, mode in (("plain", "#!/bin/sh\necho hi\n", 0o644), ("orphan", "#!/no/such/sh\n", 0o755)):
        program = turn_context.cwd / name
        program.write_text(text)
        program.chmod(mode)
        answer = turn_context.ask(Scripted(command=(str(program),)))
        assert answer.fault is TurnFault.NOT_INSTALLED and name in answer.message
    answer = turn_context.ask(Scripted(command=("codex-that-is-nowhere",)))
    assert answer.fault is TurnFault.NOT_INSTALLED and "codex-that-is-nowhere is not installed" in answer.message
    answer = turn_context.ask(Scripted(command=(sys.executable, "-c", "pass", "x" * (140 << 10))))
    assert answer.fault is TurnFault.ENDED and "Argument list too long" in answer.message


@pytest.mark.system
def test_last_words_in_a_file_are_read_but_no_link_and_no_pipe_is(turn_context: TurnContext) -> None:
    heard: list[str] = []

    class Listening(Scripted):
        def read(self, turn: Turn, spoken: Spoken) -> Answer:
            heard.append(spoken.last)
            return Answer("x")

    secret = turn_context.cwd / "secret"
    secret.write_text("hidden")
    for write in ("open(p, 'w').write('last')", f"os.symlink({str(secret)!r}, p)", "os.mkfifo(p)"):
        turn = turn_context.turn()
        turn_context.ask(Listening(f"import os; p = {str(turn.last_file)!r}; {write}"), turn)
    assert heard == ["last", "", ""]


# -- bounds ------------------------------------------------------------------------------------------------------


@pytest.mark.system
def test_one_that_hangs_is_ended(turn_context: TurnContext) -> None:
    answer = turn_context.ask(
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(1000)",
        turn_context.turn(seconds=0.5),
    )
    assert answer.fault is TurnFault.TIMEOUT and answer.usage.seconds >= 0.5
    assert "it took longer than" in answer.message


@pytest.mark.system
def test_all_that_it_started_ends_with_it(turn_context: TurnContext, eventually: Eventually) -> None:
    """A tool in a session of its own, a daemon deaf to TERM, and one that was given another environment."""
    code = DAEMON + (
        "daemon(); daemon(AUTORESEARCH_RUN_ID='', X='1'); signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "import subprocess\n"
        f"subprocess.Popen([sys.executable, '-S', '-c', {SLEEP!r}], start_new_session=True)\n"
        "print('working', flush=True); open('up', 'w').close(); time.sleep(1000)"
    )
    answer = turn_context.begin(code)
    eventually((turn_context.cwd / "up").exists)
    eventually(lambda: len(carriers("")) == 5)  # one in the middle of its exec has no environment
    turn_context.stop.set()
    assert (answer().fault, answer().text) == (TurnFault.STOPPED, "working")
    assert carriers("") == []


@pytest.mark.system
def test_a_flood_of_words_costs_neither_memory_nor_disk(turn_context: TurnContext) -> None:
    answer = turn_context.ask("import os\nwhile True: os.write(1, b'x' * 65536)", printed_bytes=1 << 20)
    assert answer.fault is TurnFault.FLOOD and len(answer.text) == 1 << 20
    assert answer.message.startswith("it printed more than 1 MiB")
    (out,) = turn_context.turns.glob("*/out")
    assert out.stat().st_size == 1 << 20


@pytest.mark.system
@pytest.mark.parametrize("ignores", [True, False])
def test_no_file_of_it_becomes_too_large(turn_context: TurnContext, ignores: bool) -> None:
    """Python is told by an error; others end by SIGXFSZ."""
    default = "" if ignores else "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_DFL); "
    answer = turn_context.ask(f"{default}open('large', 'wb').write(b'x' * (2 << 20))", file_bytes=1 << 20)
    assert (turn_context.cwd / "large").stat().st_size == 1 << 20
    assert answer.fault is (TurnFault.ENDED if ignores else TurnFault.FLOOD)
    assert ("File too large" if ignores else "larger file than it may") in answer.message


@pytest.mark.system
def test_its_own_file_may_know_better(turn_context: TurnContext) -> None:
    """An agent that waits for its network for ever has met an outage, which passes; one that edits may say nothing."""

    class Knowing(Scripted):
        def read(self, turn: Turn, spoken: Spoken) -> Answer:
            return Answer(fault=TurnFault.OUTAGE if spoken.fault is TurnFault.TIMEOUT else None, message="no network")

    answer = turn_context.ask(Knowing("import time; time.sleep(1000)"), turn_context.turn(seconds=0.3))
    assert answer.fault is TurnFault.OUTAGE and answer.message.endswith("its last words: no network")
    assert turn_context.ask(Knowing("pass")).fault is None


def test_damaged_records_of_a_turn_are_passed_over(turn_context: TurnContext) -> None:
    for text in ("", "{}", '{"run": "turn-x", "turn": {"role": "sing"}}', '{"turn": 3}'):
        (turn_context.turns / "0001-edit").mkdir(parents=True, exist_ok=True)
        (turn_context.turns / "0001-edit/spec.json").write_text(text)
        assert read_turn(turn_context.turns / "0001-edit") is None


@pytest.mark.system
def test_two_at_once_do_not_end_each_other_s(turn_context: TurnContext, eventually: Eventually) -> None:
    code = DAEMON + "daemon(); open('up', 'w').close()\nwhile not os.path.exists('go'): time.sleep(0.01)\nprint('late')"
    late = turn_context.begin(code)
    eventually((turn_context.cwd / "up").exists)
    assert turn_context.ask(DAEMON + "daemon(); print('early')").text == "early"
    assert len(carriers()) == 2  # itself, its daemon
    (turn_context.cwd / "go").touch()
    assert late().text == "late"


# -- what it sees ------------------------------------------------------------------------------------------------


@pytest.mark.system
def test_its_environment(turn_context: TurnContext) -> None:
    mine = {
        **{"WANDB_API_KEY": "abc", "ANTHROPIC_API_KEY": "sk", "MY_TOKEN": "t", "CLAUDECODE": "1", "TMUX": "/t,1,0"},
        **{"GIT_DIR": "/x", "SSH_AUTH_SOCK": "/s", "PYTHONPATH": "/p", RUN_ID: "controller", "LANG": "C"},
    }
    agent = Scripted("import os, json; print(json.dumps(dict(os.environ)))", wanted=("ANTHROPIC_*",), env={"OWN": "1"})
    seen = json.loads(turn_context.ask(agent, environ={**os.environ, **mine}, keep=(MARK, "MY_TOKEN")).text)
    assert {"ANTHROPIC_API_KEY": "sk", "MY_TOKEN": "t", "OWN": "1", "LANG": "C", "TERM": "dumb"}.items() <= seen.items()
    assert seen.keys().isdisjoint({"WANDB_API_KEY", "CLAUDECODE", "TMUX", "GIT_DIR", "SSH_AUTH_SOCK", "PYTHONPATH"})
    assert seen[RUN_ID] == turn_context.spec()["run"] != "controller"
    assert seen["HOME"] == os.environ["HOME"] and seen["PWD"] == str(turn_context.cwd)
    assert not Path(seen["TMPDIR"]).exists()


@pytest.mark.system
def test_its_shell_has_what_a_guard_has(turn_context: TurnContext, tmp_path: Path) -> None:
    """A login shell sets PATH anew; what the user's own BASH_ENV does is done before."""
    python = tmp_path / "it's an env" / "bin/python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    (tmp_path / "own.sh").write_text("export OWN=1 PATH=/nowhere\n")
    environ = {**os.environ, "BASH_ENV": str(tmp_path / "own.sh")}
    tell = 'echo "$(command -v python)|$OWN|$PYTHONPATH|$PATH"'
    for how, path in (("-lc", ""), ("-c", "/nowhere")):
        agent = Scripted(command=("bash", how, tell))
        said = turn_context.ask(agent, environ=environ, interpreter=str(python)).text.split("|")
        assert said[:3] == [str(python), "1", str(turn_context.cwd)]
        assert said[3].startswith(f"{python.parent}:") and said[3].endswith(path)
    said = turn_context.ask("import os; print(os.environ.get('PYTHONPATH'), os.environ['PATH'])").text
    assert said == f"None {os.environ['PATH']}", "the agent itself may be a program of another Python"


# -- when we are killed ------------------------------------------------------------------------------------------


PROGRAM = """
import importlib.util, os, sys, tempfile, threading
from pathlib import Path
spec = importlib.util.spec_from_file_location('t', {file!r})
m = importlib.util.module_from_spec(spec); sys.modules['t'] = m; spec.loader.exec_module(m)
tempfile.tempdir = {temporary!r}
d = object.__new__(m.TurnContext)
d.cwd, d.turns, d.stop = Path({cwd!r}), Path({turns!r}), threading.Event()
d.turn_environment = m.TurnEnvironment(dict(os.environ), keep=(m.MARK,), grace_s=0.3)
d.ask({code!r})
"""


@pytest.mark.system
def test_a_turn_outlives_its_controller_and_is_asked_once(turn_context: TurnContext, eventually: Eventually) -> None:
    """Whoever comes next waits for its answer; with the daemons that it left, it is over."""
    code = DAEMON + "daemon(); open('asked', 'a').write('.'); open('up', 'w').close()\n"
    code += "while not os.path.exists('go'): time.sleep(0.01)\nprint('a whole thought')"
    paths = {"cwd": str(turn_context.cwd), "turns": str(turn_context.turns), "temporary": tempfile.gettempdir()}
    program = PROGRAM.format(file=__file__, code=code, **paths)
    controller = subprocess.Popen([sys.executable, "-c", program])
    try:
        eventually((turn_context.cwd / "up").exists)
    finally:
        controller.kill()
        controller.wait()
    (turn,) = filter(None, map(read_turn, turn_context.turns.iterdir()))
    answer = turn_context.begin("print('not asked')", turn)
    (turn_context.cwd / "go").touch()
    assert (answer().text, answer().fault) == ("a whole thought", None)
    assert answer().usage.tokens_out == len("a whole thought")
    assert (turn_context.cwd / "asked").read_text() == "." and carriers() == []


@pytest.mark.system
def test_the_processes_of_a_turn_are_found_even_without_its_runner(
    turn_context: TurnContext, eventually: Eventually
) -> None:
    answer = turn_context.begin(DAEMON + f"daemon(); open('up', 'w').close(); {SLEEP}")
    eventually((turn_context.cwd / "up").exists)
    psutil.Process((read_json(turn_context.turns / "0001-edit/runner.json") or {})["pid"]).kill()
    assert answer().fault is TurnFault.LOST
    assert carriers() == []


def test_a_turn_whose_runner_never_began_is_lost(turn_context: TurnContext) -> None:
    """A Runner that is late finds its record, and starts nothing."""
    turn = turn_context.turn()
    record = {"role": "edit", "bounds": {}, "base": ""}
    write_json(RunDir(Path(turn.directory)).spec, {"run": "turn-x", "command": "x", "cwd": "/", "turn": record})
    assert turn_context.ask("print('late')", turn).fault is TurnFault.LOST


# -- confined ----------------------------------------------------------------------------------------------------

TRY = """
import json, os, pathlib, shutil, socket, subprocess, sys
def tried(act):
    try:
        return str(act())
    except Exception as error:
        return type(error).__name__ + ": " + str(error)
def write(path):
    with open(path, "a") as file: file.write("robbed")
def ran(*argv):
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    return (done.returncode, (done.stdout + done.stderr).strip()[-300:])
"""


class Town:
    """A user's machine in small: a repository with two linked worktrees, a home with keys, a tmux server."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.repo, self.home, self.other = root / "repo", root / "home", root / "other"
        for name in (".ssh/id_rsa", ".codex/auth.json", ".claude/settings.json", ".config/gh/hosts.yml", "notes.txt"):
            (self.home / name).parent.mkdir(parents=True, exist_ok=True)
            (self.home / name).write_text("private")
        self.repo.mkdir()
        self.git("init", "-q")
        (self.repo / "train.py").write_text("lr = 1\n")
        self.git("add", "-A")
        self.git("commit", "-qm", "start")
        self.git("worktree", "add", "-q", "--detach", str(self.other))
        self.turn_context = TurnContext(root)
        self.turn_context.cwd.rmdir()
        self.git("worktree", "add", "-q", "--detach", str(self.turn_context.cwd))
        environ = {**os.environ, "HOME": str(self.home)}
        self.turn_context.turn_environment = replace(
            self.turn_context.turn_environment, environ=environ, level=Level.BUBBLEWRAP, hidden=(self.home / ".codex",)
        )

    def git(self, *arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=self.repo, check=True, capture_output=True, text=True).stdout

    def ask(self, code: str, role: TurnRole = TurnRole.EDIT, **more: object) -> Answer:
        """An agent that says what came of `tried(...)`."""
        agent = Scripted(TRY + code, own=(self.home / ".claude", self.home / ".new"))
        return self.turn_context.ask(agent, self.turn_context.turn(role), **more)

    def state(self) -> dict[str, str]:
        """Every file of the machine outside of the worktree, the turns and the agent's own home; all refs."""
        own = (
            self.turn_context.cwd,
            self.turn_context.cwd.with_name("tree.tmp"),
            self.turn_context.turns,
            self.home / ".claude",
            self.home / ".new",
        )
        found = {}
        for path in sorted(self.root.rglob("*")):
            if not any(path.is_relative_to(place) for place in own) and path.is_file():
                found[str(path)] = path.read_bytes().hex()
        return found | {"refs": self.git("for-each-ref"), "worktrees": self.git("worktree", "list")}


@pytest.fixture(params=["below /tmp", "elsewhere"])
def town(request: pytest.FixtureRequest, tmp_path: Path, bubblewrap: None) -> Iterator[Town]:
    """Twice: where /tmp is replaced as a whole, and where the machine's files are seen."""
    place = tmp_path
    if request.param == "elsewhere":
        home = pwd.getpwuid(os.getuid()).pw_dir
        if home.startswith("/tmp") or not os.access(home, os.W_OK):
            pytest.skip("there is no place to write to outside of /tmp")
        place = Path(tempfile.mkdtemp(prefix=".autoresearch-test-", dir=home))
    made = Town(place)
    yield made
    if place != tmp_path:
        shutil.rmtree(place)
    assert carriers() == []


@pytest.mark.real
def test_a_confined_edit_reaches_its_worktree_and_its_own_home_only(town: Town, tmp_path: Path) -> None:
    outside = tmp_path / "host"
    outside.mkdir()
    places = {
        "worktree": town.turn_context.cwd / "train.py",
        "own": town.home / ".claude/session",
        "new": town.home / ".new/state",
        "tmp": Path("/tmp/mine"),
        "shm": Path("/dev/shm/mine"),
        "home": town.home / "notes.txt",
        "homes": town.home / "new.txt",
        "repository": town.repo / "train.py",
        "config": town.repo / ".git/config",
        "hook": town.repo / ".git/hooks/post-checkout",
        "link": town.turn_context.cwd / ".git",
        "other": town.other / "train.py",
        "host": outside / "robbed",
        "turn": town.turn_context.turns / "0001-edit/spec.json",
        "dev": Path("/dev/robbed"),
        "run": Path("/run/robbed"),
        "etc": Path("/etc/robbed"),
        "settings": town.home / ".claude/settings.json",
    }
    before = town.state()
    paths = {name: str(path) for name, path in places.items()}
    answer = town.ask(f"print(json.dumps({{n: tried(lambda: write(p)) for n, p in {paths!r}.items()}}))")
    said = json.loads(answer.text)
    assert {name for name, word in said.items() if word == "None"} == {"worktree", "own", "new", "tmp", "shm"}
    assert town.state() == before
    assert (town.turn_context.cwd / "train.py").read_text() == "lr = 1\nrobbed"
    assert (town.home / ".new/state").read_text() == "robbed"
    assert list(outside.iterdir()) == [] and not Path("/tmp/mine").exists() and not Path("/dev/shm/mine").exists()
    assert not (town.turn_context.turns / "0001-edit/tmp").exists()


@pytest.mark.real
def test_a_confined_agent_sets_no_switch_of_the_kernel(town: Town) -> None:
    """Opened for writing only: this test must not set one, should it fail."""
    switches = ["/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/sys/power/state", "/dev/mem", "/dev/kmsg"]
    code = f"print(json.dumps([tried(lambda: os.close(os.open(p, os.O_WRONLY))) for p in {switches!r}]))"
    assert "None" not in json.loads(town.ask(code).text)


@pytest.mark.real
def test_a_confined_question_changes_nothing(town: Town) -> None:
    before = (town.turn_context.cwd / "train.py").read_text()
    answer = town.ask(
        "print(tried(lambda: write('train.py')), tried(lambda: write('new')), open('train.py').read())",
        TurnRole.PROPOSE,
    )
    assert answer.text.count("Read-only") == 2 and "lr = 1" in answer.text
    assert (town.turn_context.cwd / "train.py").read_text() == before


@pytest.mark.real
def test_a_confined_agent_reads_no_keys(town: Town) -> None:
    paths = [town.home / name for name in (".ssh/id_rsa", ".codex/auth.json", ".config/gh/hosts.yml", "notes.txt")]
    paths += [town.home / ".claude/settings.json", Path("/etc/shadow")]
    code = f"print(json.dumps([tried(lambda: open(p).read()) for p in {[str(path) for path in paths]!r}]))"
    ssh, codex, gh, notes, own, shadow = json.loads(town.ask(code).text)
    assert (notes, own) == ("private", "private")
    assert "private" not in ssh + codex + gh and "root:" not in shadow


@pytest.mark.real
def test_in_an_enclosure_a_confined_agent_s_git_works_and_the_user_s_is_not_touched(town: Town) -> None:
    """git's directory lies beside the worktree then, and borrows the user's objects."""
    checkout = find(town.repo)
    assert checkout is not None
    opened = IsolatedWorktree(slot(checkout, town.root / "trees/agent-a")).open("HEAD")
    town.turn_context.cwd = opened.path
    own = (f"{opened.path}/", f"{opened.repository}/")
    before = {path: content for path, content in town.state().items() if not path.startswith(own)}
    code = "write('train.py'); lines = ('add -A', '-c user.name=A -c user.email=a@b.c commit -qm mine', 'log');"
    added, committed, log = json.loads(
        town.ask(f"{code} print(json.dumps([ran('git', *line.split()) for line in lines]))").text
    )
    assert added[0] == committed[0] == 0 and "mine" in log[1] and "start" in log[1]
    assert {path: content for path, content in town.state().items() if not path.startswith(own)} == before


@pytest.mark.real
def test_a_guard_is_confined_as_a_turn_is(town: Town) -> None:
    guarded = guard_in(town.turn_context.turn_environment)
    before = town.state()
    words = f"echo robbed >> {town.home}/notes.txt; cat {town.home}/.ssh/id_rsa; echo ok > made; echo $PWD > /tmp/x"
    for _ in range(2):
        done = subprocess.run(
            ["bash", "-c", guarded(words, town.turn_context.cwd)],
            cwd=town.turn_context.cwd,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0 and "private" not in done.stdout, done
    assert town.state() == before
    assert (town.turn_context.cwd / "made").read_text() == "ok\n"
    assert (
        guard_in(replace(town.turn_context.turn_environment, level=Level.NONE))("make test", town.turn_context.cwd)
        == "make test"
    )


@pytest.mark.real
def test_a_confined_agent_sees_no_process_but_its_own(town: Town) -> None:
    code = DAEMON + "daemon(); daemon(AUTORESEARCH_RUN_ID='')\n"
    code += "print(max(int(name) for name in os.listdir('/proc') if name.isdigit()))"
    assert int(town.turn_context.ask(code).text) < 100
    assert carriers("") == []


@pytest.mark.real
def test_a_sandbox_that_cannot_be_made_is_no_fault_of_the_agent(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "_SPACES", (*sandbox._SPACES, "--ro-bind", "/nowhere", "/nowhere"))
    with pytest.raises(EnvironmentUnusable, match="nowhere"):
        town.ask("print(1)")


@pytest.mark.real
def test_a_confined_program_is_found_through_links(town: Town, tmp_path: Path) -> None:
    """A prefix below /tmp that is a link to elsewhere, with a program that is a link, too."""
    real = town.home / "opt"
    (real / "bin").mkdir(parents=True)
    (real / "lib").mkdir()
    (real / "lib/agent.py").write_text(f"#!{sys.executable}\nprint('here')\n")
    (real / "lib/agent.py").chmod(0o755)
    (real / "bin/agent").symlink_to("../lib/agent.py")
    (tmp_path / "prefix").symlink_to(real)
    assert town.turn_context.ask(Scripted(command=(str(tmp_path / "prefix/bin/agent"),))).text == "here"


@pytest.mark.real
def test_a_disk_that_is_full_under_our_records_ends_the_turn(
    turn_context: TurnContext, disk: Callable[..., Path]
) -> None:
    turn_context.turns = disk(turn_context.cwd.parent / "small")
    code = DAEMON + "daemon()\nwhile True: os.write(1, b'x' * 65536)"
    with pytest.raises(OSError, match="the disk that holds"):
        turn_context.ask(code)
    assert carriers("") == []
