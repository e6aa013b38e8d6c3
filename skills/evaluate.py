"""What the skill is worth to an agent and a model: its evals, tried with and without it.

    python -m skills.evaluate                                    # list the tasks
    python -m skills.evaluate --agent claude --attempts 3        # with and without the skill
    python -m skills.evaluate --agent claude --triggers          # only whether it is read when due

Each attempt gets a project, a state directory and a tmux server of its own; the agent may type any command there, with
your login and outside a sandbox. It costs what your agent costs.

<out>/benchmark.json                   the summary of all attempts
<out>/eval-<task>/<variant>/attempt-<n>/
    project/                           the git repository that the agent works in
    turn/                              prompt.md, out, err: the transcript
    calls.jsonl                        every watched command line, as it was typed
    grading.json timing.json
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from autoresearch.agents.registry import researcher
from autoresearch.core.agents.agent import Agent, Answer, Bounds, Chosen, Turn, TurnFault, TurnRole
from autoresearch.errors import AutoresearchError, ConflictError, NotFoundError, ResearcherFailed, UsageError
from autoresearch.lab import skill
from autoresearch.lab.agent_work.turn import answer_turn, begin_turn, is_over
from autoresearch.lab.agent_work.turn_dir import TurnEnvironment
from autoresearch.records.index import state_home
from autoresearch.records.ledger import Ledger
from autoresearch.records.rundir import RunDir, write_json
from skills.grading import (
    WITH,
    WITHOUT,
    EvalEvidence,
    EvalTask,
    Graded,
    Score,
    benchmark,
    counted,
    grade,
    tasks_from,
    triggers_from,
)

SKILL = Path(__file__).parent / skill.NAME
KEPT = ("AUTORESEARCH_TMUX_SOCKET", "AUTORESEARCH_GPU_CHECK", "CUDA_VISIBLE_DEVICES", "PATH", "BASH_ENV")

# what an agent without the skill would use, and what the skill forbids
WATCHED = ("sleep", "tmux", "nohup", "pkill", "killall", "setsid", "watch")

_PROGRAM = """#!{python}
import json, os, sys
here, told = {here!r}, {told!r}
name = os.path.basename(sys.argv[0])
fd = os.open(told, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
os.write(fd, (json.dumps([name, *sys.argv[1:]]) + "\\n").encode("utf-8", "replace"))
os.close(fd)
path = [one for one in os.environ.get("PATH", os.defpath).split(os.pathsep) if one != here]
os.environ["PATH"] = os.pathsep.join(path)
os.environ.pop("BASH_ENV", None)
if name == "autoresearch":
    if {root!r}:
        os.environ["PYTHONPATH"] = {root!r}
    start = "import sys; sys.argv[0] = 'autoresearch'; from autoresearch.cli import main; main()"
    os.execv({python!r}, [{python!r}, "-P", "-c", start, *sys.argv[1:]])
extra = ["-S", {socket!r}] if name == "tmux" and not {{"-L", "-S"}} & set(sys.argv[1:3]) else []
for folder in path:
    if os.access(os.path.join(folder, name), os.X_OK):
        os.execv(os.path.join(folder, name), [name, *extra, *sys.argv[1:]])
sys.stderr.write(name + ": not found\\n")
sys.exit(127)
"""


@dataclass(frozen=True, slots=True)
class Shims:
    """A directory of such programs, and their record."""

    folder: Path
    socket: Path  # of the attempt's own tmux server

    @property
    def record(self) -> Path:
        """The record: one JSON list of words per line."""
        return self.folder.parent / "calls.jsonl"

    @property
    def profile(self) -> Path:
        """The file that a shell reads first (`BASH_ENV`), as login shells set a PATH of their own."""
        return self.folder.parent / "bash_env"

    def make(self) -> None:
        """Write the programs."""
        self.folder.mkdir(parents=True)
        text = _PROGRAM.format(
            python=sys.executable,
            here=str(self.folder),
            told=str(self.record),
            root=os.environ.get("PYTHONPATH", ""),
            socket=str(self.socket),
        )
        for name in ("autoresearch", *WATCHED):
            (self.folder / name).write_text(text, encoding="utf-8")
            (self.folder / name).chmod(0o755)
        self.profile.write_text(f'export PATH={shlex.quote(str(self.folder))}:"$PATH"\n', encoding="utf-8")

    def around(self, environ: Mapping[str, str]) -> dict[str, str]:
        """An environment in which they are found first."""
        path = os.pathsep.join([str(self.folder), environ.get("PATH", os.defpath)])
        return {**environ, "PATH": path, "BASH_ENV": str(self.profile)}

    def calls(self) -> tuple[str, ...]:
        """The command lines, in the order in which they were typed."""
        try:
            lines = self.record.read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            return ()
        return tuple(shlex.join(json.loads(line)) for line in lines)


MOST_TEXT, MOST_FILES = 1 << 16, 2000  # characters of a file, and files, that are looked at
SETUP_S = 120.0
SKILL_READ = re.compile(
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
        source = SKILL / name
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
    turn_environment = TurnEnvironment(env, keep=KEPT)
    if (refused := begin_turn(trial.researcher, turn, turn_environment)) is not None:
        return refused
    while not is_over(RunDir(directory), turn_environment.printed_bytes):
        time.sleep(0.1)
    return answer_turn(trial.researcher, turn, turn_environment)


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
    return out.is_file() and bool(SKILL_READ.search(out.read_bytes()))


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


# Both variants may run any command: with only the skill's own allowed, an agent without it could do nothing.
_MAY_TYPE: Mapping[str, tuple[str, ...]] = {
    "claude": ("--tools", "Skill", "--allowedTools", "Bash"),  # beside those that it has anyway
}
VARIANTS = {"both": (WITH, WITHOUT), "with": (WITH,), "without": (WITHOUT,)}


@dataclass(frozen=True, slots=True)
class EvalRequest:
    """What to measure."""

    agent: str
    model: str = ""
    template: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()  # names or ids; all if none
    triggers: bool = False  # the queries of eval_queries.json instead of the tasks
    variant: str = "both"
    attempts: int = 1
    seconds: float = 600.0  # per attempt


def tasks(*, triggers: bool = False) -> list[EvalTask]:
    """The skill's tasks. UsageError says what is wrong with its files."""
    name = "eval_queries.json" if triggers else "evals.json"
    path = SKILL / "evals" / name
    try:
        document = json.loads(path.read_bytes())
        return triggers_from(document) if triggers else tasks_from(document)
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(f"{path}: {error}") from error


def chosen_tasks(eval_request: EvalRequest) -> list[EvalTask]:
    """The named tasks. Raises NotFoundError for an unknown one."""
    known = tasks(triggers=eval_request.triggers)
    names = {name for task in known for name in (task.name, str(task.id))}
    for name in eval_request.tasks:
        if name not in names:
            raise NotFoundError(f"there is no eval {name[:60]!r}", hint=", ".join(task.name for task in known))
    return [task for task in known if not eval_request.tasks or {task.name, str(task.id)} & set(eval_request.tasks)]


def evaluate(
    eval_request: EvalRequest, out: Path, environ: Mapping[str, str], tell: Callable[[Score, Sequence[Graded]], None]
) -> dict[str, Any]:
    """Run every attempt, call `tell` as each ends, and write `benchmark.json` after each of them.

    Raises ConflictError if the skill is in the user's own directories, so that no attempt would be without it, and
    ResearcherFailed if the agent is not installed or not logged in.
    """
    variants = _variants(eval_request, environ)
    agent = _agent(eval_request)
    scores: list[Score] = []
    summary: dict[str, Any] = {}
    for one in _attempts(eval_request, variants, agent, out):
        score, graded = attempt(one, environ)
        if score.fault and TurnFault(score.fault).needs_person:
            said = json.loads((one.path / "grading.json").read_bytes())["said"]
            raise ResearcherFailed(
                f"{eval_request.agent}: {said or score.fault}", hint=f"its output is in {one.path / 'turn'}"
            )
        scores.append(score)
        tell(score, graded)
        head = {"skill_name": skill.NAME, "agent": eval_request.agent, "model": eval_request.model or None}
        summary = {**head, **benchmark(scores), "tasks": _by_task(scores)}
        write_json(out / "benchmark.json", summary)
    return summary


def _variants(eval_request: EvalRequest, environ: Mapping[str, str]) -> tuple[str, ...]:
    if eval_request.variant not in VARIANTS:
        raise UsageError(f"there is no variant {eval_request.variant!r}", hint=", ".join(VARIANTS))
    variants = VARIANTS[eval_request.variant]
    if WITHOUT in variants and not eval_request.triggers and (found := installed_for_user(environ)):
        raise ConflictError(
            f"the skill is in {found}: no attempt would be without it",
            hint="move it away while this lasts, or measure --variant with",
        )
    return (WITH,) if eval_request.triggers else variants


def _agent(eval_request: EvalRequest) -> Agent:
    extra = (*_MAY_TYPE.get(eval_request.agent, ()), *eval_request.extra)
    return researcher(
        eval_request.agent, Chosen(model=eval_request.model, extra=extra, template=eval_request.template, outside=True)
    )


def _attempts(eval_request: EvalRequest, variants: Sequence[str], agent: Agent, out: Path) -> Iterable[EvalAttempt]:
    for task in chosen_tasks(eval_request):
        for number in range(1, eval_request.attempts + 1):
            for variant in variants:
                path = out / f"eval-{task.name}" / variant / f"attempt-{number}"
                yield EvalAttempt(task, variant, path, agent, eval_request.seconds, skilled=variant == WITH)


def _by_task(scores: Sequence[Score]) -> list[dict[str, Any]]:
    """Per task and variant: attempts, assertions that passed, and those that were checked."""
    found = []
    for name in dict.fromkeys(score.task for score in scores):
        row: dict[str, Any] = {"task": name}
        for variant in (WITH, WITHOUT):
            mine = [score for score in scores if (score.task, score.variant) == (name, variant)]
            passed, total = sum(score.passed for score in mine), sum(score.total for score in mine)
            row[variant] = {"attempts": len(mine), "passed": passed, "total": total} if mine else None
        found.append(row)
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """List the tasks, or let an agent try them. Returns an exit code of the command `autoresearch`."""
    options = _options().parse_args(argv)
    try:
        if not options.agent:
            return _list(tasks(triggers=options.triggers), as_json=options.json)
        return _measure(options)
    except AutoresearchError as error:
        sys.stderr.write(f"{error.message}\n" + (f"hint: {error.hint}\n" if error.hint else ""))
        return int(error.exit_code)


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m skills.evaluate", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--agent", default="", help="claude, codex, opencode, gemini, qwen or command")
    parser.add_argument("--model", default="", help="the agent's own word for it")
    parser.add_argument("--command", default="", help="for --agent command: its words, with {prompt_file}")
    parser.add_argument("--arg", action="append", default=[], help="a further argument for the agent")
    parser.add_argument("--seconds", type=float, default=600.0, help="for the agent's whole turn")
    parser.add_argument("--task", action="append", default=[], help="only these, by name or id")
    parser.add_argument("--triggers", action="store_true", help="only whether the skill is read when due")
    parser.add_argument("--variant", default="both", help="both, with or without the skill")
    parser.add_argument("--attempts", type=int, default=1, help="of each task and variant")
    parser.add_argument("--out", default="", help="else below the state directory")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    return parser


def _list(found: Sequence[EvalTask], *, as_json: bool) -> int:
    if as_json:
        print(json.dumps({"evals": [{"id": task.id, "name": task.name, "prompt": task.prompt} for task in found]}))
    else:
        print("\n".join(f"{task.name.ljust(26)}  {task.prompt[:90]}" for task in found))
    return 0


def _measure(options: argparse.Namespace) -> int:
    if not 1 <= options.attempts <= 100:
        raise UsageError(f"--attempts {options.attempts} cannot be", hint="1 to 100 attempts")
    request = EvalRequest(
        options.agent,
        options.model,
        tuple(shlex.split(options.command)),
        tuple(options.arg),
        tuple(options.task),
        options.triggers,
        options.variant,
        options.attempts,
        options.seconds,
    )
    started = time.strftime("%Y%m%d-%H%M%S")
    out = Path(options.out).absolute() if options.out else state_home() / "evals" / started
    summary = evaluate(request, out, os.environ, _tell)
    if options.json:
        print(json.dumps({**summary, "out": str(out)}))
        return 0
    for row in _table(summary):
        print("  ".join(cell.ljust(26) for cell in row).rstrip())
    print(f"written to {out}")
    return 0


def _tell(score: Score, graded: Sequence[Graded]) -> None:
    fault = f", {score.fault}" if score.fault else ""
    lines = [f"{score.task}, {score.variant}: {score.passed}/{score.total} in {score.seconds:.0f} s{fault}"]
    lines += [f"  not: {each.text}" for each in graded if each.passed is False]
    sys.stderr.write("\n".join(lines) + "\n")


def _table(summary: Mapping[str, Any]) -> Iterator[list[str]]:
    """Assertions that held of those that were checked, by task; then the means."""
    yield ["", "with", "without"]
    for row in summary["tasks"]:
        pairs = (row[WITH], row[WITHOUT])
        yield [row["task"], *(f"{pair['passed']}/{pair['total']}" if pair else "-" for pair in pairs)]
    runs = summary["run_summary"]
    for key in ("pass_rate", "time_seconds", "tokens"):
        means = [(runs.get(variant) or {}).get(key) for variant in (WITH, WITHOUT)]
        yield [key.replace("_", " "), *(f"{one['mean']:g} (sd {one['stddev']:g})" if one else "-" for one in means)]
    right = (runs.get(WITH) or {}).get("triggered_rightly")
    yield ["triggered rightly", "-" if right is None else f"{right:.0%}", ""]


if __name__ == "__main__":
    raise SystemExit(main())
