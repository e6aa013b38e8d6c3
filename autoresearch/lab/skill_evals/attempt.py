"""One attempt: a private project with or without the skill, an agent, and its results.

<attempt>/project/        the git repository that the agent works in
<attempt>/turn/           prompt.md, out, err: the transcript
<attempt>/calls.jsonl     every watched command line, as it was typed
<attempt>/grading.json timing.json
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from autoresearch.core.agents.agent import Agent, Answer, Bounds, Turn, TurnRole
from autoresearch.core.agents.evals import EvalEvidence, EvalTask, Graded, Score, counted, grade
from autoresearch.errors import ConflictError, UsageError
from autoresearch.lab.agents.turn import TurnEnvironment, run_turn
from autoresearch.lab.render import data_dir
from autoresearch.lab.skill_evals import skill
from autoresearch.lab.skill_evals.shims import Shims
from autoresearch.records.ledger import Ledger
from autoresearch.records.rundir import write_json

_KEPT = ("AUTORESEARCH_TMUX_SOCKET", "AUTORESEARCH_GPU_CHECK", "CUDA_VISIBLE_DEVICES", "PATH", "BASH_ENV")
MOST_TEXT, MOST_FILES = 1 << 16, 2000  # characters of a file, and files, that are looked at
SETUP_S = 120.0
_SKILL_READ = re.compile(
    rb"skills/autoresearch/(?:SKILL\.md|references/)"  # a file of it was opened
    rb'|"(?:skill|name|command)"\s*:\s*"(?:[\w-]+:)?autoresearch"'  # a tool was asked for it by name
)


@dataclass(frozen=True, slots=True)
class EvalAttempt:
    """What to try: the task, variant, directory and agent; `seconds` for the agent's whole turn."""

    task: EvalTask
    variant: str
    path: Path
    researcher: Agent
    seconds: float
    skilled: bool

    @property
    def project(self) -> Path:
        """The agent's working directory."""
        return self.path / "project"


def attempt(trial: EvalAttempt, environ: Mapping[str, str]) -> tuple[Score, list[Graded]]:
    """Create the project, run the agent, grade and record its work, end all that still runs."""
    with _surroundings(trial, environ) as (shims, env):
        _prepare(trial, env)
        files_before = _texts(trial.project)
        began = time.monotonic()
        answer = _ask(trial, shims.around(env))
        took = time.monotonic() - began
        evidence = EvalEvidence(
            calls=shims.calls(),
            files=_texts(trial.project),
            files_before=files_before,
            rows=_rows(trial.project),
            answer=answer.text,
            read_skill=_read_skill(trial, shims.calls()),
        )
    graded = grade(trial.task, evidence)
    held, triggered = counted(trial.task, graded)
    fault = answer.fault.value if answer.fault else ""
    tokens = answer.usage.tokens
    score = Score(trial.task.name, trial.variant, sum(held), len(held), took, tokens, fault, triggered)
    _write(trial, score, graded, answer)
    return score, graded


def installed_for_user(environ: Mapping[str, str]) -> Path | None:
    """The skill in the user's own directories, where every agent would find it even without it in the project."""
    home = Path(environ.get("HOME", "/"))
    claude = Path(environ.get("CLAUDE_CONFIG_DIR") or home / ".claude")
    folders = [home / skill.REAL, claude / "skills", home / ".codex/skills", home / ".gemini/skills"]
    return next((folder / skill.NAME for folder in folders if (folder / skill.NAME).exists()), None)


@contextlib.contextmanager
def _surroundings(trial: EvalAttempt, environ: Mapping[str, str]) -> Iterator[tuple[Shims, dict[str, str]]]:
    """The attempt's own state, tmux server and watched programs; on exit all remaining processes are ended."""
    if trial.path.exists():
        raise ConflictError(f"{trial.path} exists already", hint="name another directory by --out")
    short = Path(tempfile.mkdtemp(prefix="ar-eval-"))  # a socket's path has 107 characters at most
    shims = Shims(trial.path / "bin", short / "tmux")
    env = {name: value for name, value in environ.items() if name not in ("TMUX", "TMUX_PANE")}
    env |= {"XDG_STATE_HOME": str(trial.path / "state"), "AUTORESEARCH_TMUX_SOCKET": str(shims.socket)}
    try:
        shims.make()
        yield shims, env
    finally:
        _end_runs(trial, shims, env)
        shutil.rmtree(short, ignore_errors=True)


def _prepare(trial: EvalAttempt, env: Mapping[str, str]) -> None:
    trial.project.mkdir(parents=True)
    for name in trial.task.files:
        source = data_dir("skills") / skill.NAME / name
        target = trial.project / Path(*Path(name).parts[3:])  # behind evals/files/<set>/
        if not source.is_file():
            raise UsageError(f"eval {trial.task.name}: {name} is not there")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    if trial.skilled:
        name = trial.researcher.name
        skill.install(trial.project, agents=["claude", *([name] if name in skill.AGENTS else [])])
    identity = ["-c", "user.name=eval", "-c", "user.email=eval@localhost"]
    for words in (["init", "-q"], ["add", "-A"], [*identity, "commit", "-q", "--allow-empty", "-m", "as given"]):
        subprocess.run(["git", *words], cwd=trial.project, env=dict(env), check=True, capture_output=True)
    for line in trial.task.setup:
        _type(line, trial.project, env)


def _type(line: str, where: Path, env: Mapping[str, str], *, needed: bool = True) -> None:
    """Run a command line that is not recorded among the agent's calls."""
    import shlex

    words = shlex.split(line)
    argv = [sys.executable, "-P", "-m", *words]
    done = subprocess.run(argv, cwd=where, env=dict(env), capture_output=True, text=True, timeout=SETUP_S)
    if needed and done.returncode:
        raise UsageError(f"the setup `{line}` failed: {(done.stderr or done.stdout).strip()[-300:]}")


def _ask(trial: EvalAttempt, env: Mapping[str, str]) -> Answer:
    """The agent's turn. It may run commands, so it is not confined: the project is its own."""
    directory = trial.path / "turn"
    bounds = Bounds(trial.seconds, None)
    turn = Turn(TurnRole.EDIT, trial.task.prompt, trial.project, directory, bounds=bounds)
    turn_environment = TurnEnvironment(env, keep=_KEPT)
    return run_turn(trial.researcher, turn, turn_environment, threading.Event())


def _end_runs(trial: EvalAttempt, shims: Shims, env: Mapping[str, str]) -> None:
    """End the attempt's runs, then its private tmux server."""
    live = trial.path / "state/autoresearch/live"
    for entry in sorted(live.iterdir()) if live.is_dir() else ():
        with contextlib.suppress(subprocess.TimeoutExpired):
            _type(f"autoresearch stop {entry.name} --reason 'the attempt is over'", trial.project, env, needed=False)
    if shims.socket.exists():
        subprocess.run(["tmux", "-S", str(shims.socket), "kill-server"], env=dict(env), capture_output=True)


def _texts(project: Path) -> dict[str, str]:
    """The text of the project's files, without git's own and the skill's."""
    found: dict[str, str] = {}
    for folder, folders, names in os.walk(project):
        folders[:] = sorted(f for f in folders if f not in (".git", ".agents", ".claude", "__pycache__"))
        for name in sorted(names):
            path = Path(folder) / name
            if len(found) < MOST_FILES and path.is_file():
                with path.open("rb") as file:
                    text = file.read(MOST_TEXT).decode("utf-8", "replace")
                found[path.relative_to(project).as_posix()] = text
    return found


def _rows(project: Path) -> tuple[Mapping[str, str], ...]:
    ledgers = sorted(project.glob("reports/auto_research/*/results.tsv"))
    return tuple(record for path in ledgers for record in Ledger(path).records())


def _read_skill(trial: EvalAttempt, calls: tuple[str, ...]) -> bool | None:
    if not trial.skilled:
        return None
    if any(re.match(r"autoresearch skill show", line) for line in calls):
        return True
    out = trial.path / "turn/out"
    return out.is_file() and bool(_SKILL_READ.search(out.read_bytes()))


def _write(trial: EvalAttempt, score: Score, graded: list[Graded], answer: Answer) -> None:
    """Write the files and keys that the guide to evals defines."""
    summary = {
        "passed": score.passed,
        "failed": score.total - score.passed,
        "total": score.total,
        "pass_rate": score.rate,
    }
    grading = {
        "assertion_results": [asdict(each) for each in graded],
        "summary": summary,
        "fault": score.fault or None,
        "said": answer.message,
        "denied": list(answer.denied),
    }
    timing = {"total_tokens": score.tokens, "duration_ms": round(score.seconds * 1000), "usd": answer.usage.usd}
    for name, value in (("grading.json", grading), ("timing.json", timing)):
        write_json(trial.path / name, value)
