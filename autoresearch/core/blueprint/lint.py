"""Lint: finds problems in blueprints, scripts and recipes before a run is started. Pure; the caller reads files.

Commands that kill by name are errors: `--autokill`, `pkill`, `killall`, `ray stop`, `tmux kill-server` end other
people's runs on the host, and the Runner that watches this one. So are commands that remove records.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import pairwise

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.blueprint.model import Blueprint
from autoresearch.core.blueprint.swarm_notes import lint_swarm, lint_wrong_command
from autoresearch.core.blueprint.values import looks_like_command
from autoresearch.core.shell.commands import ShellReading, SimpleCommand
from autoresearch.core.shell.programs import FAR, nested_argv
from autoresearch.core.shell.reading import read_shell
from autoresearch.core.text.durations import spoken

DEADLY = frozenset({"autokill", "kills_by_name", "kills_tmux", "stops_ray", "kills_all"})
WIPES = "wipes_records"
RECORDS = "reports/auto_research"  # in the repository of the code
_SPARE = "the harness ends the whole process tree of a run itself; take it out"
_BLIND = frozenset({"tee", "grep", "egrep", "tail", "head", "cat", "sed", "awk", "ts", "less", "more", "logger"})
_STOPS_ON_ERROR = re.compile(r"(?m)^\s*set\s+(?:-\w*e|-o\s+errexit)|^#!.*\s-\w*e\b|\bexit\s+\"?\$|\$\?")
_AUTOKILL = re.compile(r"(?:\w+\+?=(?:.*\s)?)?--autokill(?:=|\s|\Z)", re.DOTALL)  # or in a variable that is passed on
_AUTOKILL_CUT = re.compile(r"--a(?:u(?:t(?:o(?:k(?:i(?:l)?)?)?)?)?)?\Z")  # argparse accepts any prefix of a flag
_KILL = re.compile(r"--k(?:i(?:l(?:l)?)?)?(?:=|\Z)")
_OWN = re.compile(r"-[Pgs]\b|-[Pgs]\d|--(?:parent|pgroup|session)\b")  # of pkill: what the caller itself started
_PATH_KEYS = ("val_print_to_markdown_file_path", "train_print_to_markdown_file_path")


def lint_blueprint(
    blueprint: Blueprint, read: Callable[[str], ShellReading] = read_shell, records: Sequence[str] = (RECORDS,)
) -> list[Finding]:
    """Findings in the blueprint itself: its commands with their scripts, swarm notes, limits and relative paths.

    read: reads one of its commands, whose lines count from 1. records: paths that no command may remove.
    """
    launch = read(blueprint.launch_command)
    at = blueprint.lines.get("exp_launch_command", 1)
    findings = lint_shell(launch, where=blueprint.name, line=at, records=records)
    notes_line = blueprint.lines.get("notes", 0)
    for command in (*blueprint.notes.prepare, *blueprint.notes.evaluate, *blueprint.notes.cleanup):
        if "\n" not in command and not looks_like_command(command):
            message = f"{command[:60]!r} is run by a shell, but reads like a sentence"
            hint = "write `- note:` in front of what is meant for readers"
            late = command in blueprint.notes.evaluate  # it would fail only after the training
            severity = Severity.ERROR if late else Severity.WARNING
            findings.append(Finding(severity, "not_a_command", message, hint, blueprint.name, notes_line))
        findings += _deadly(read(command), blueprint.name, notes_line, records)
    findings += _swarm(blueprint, notes_line, read)
    return list(dict.fromkeys([*findings, *_limits(blueprint), *_relative(blueprint)]))


def _deadly(shell_reading: ShellReading, where: str, line: int, records: Sequence[str] = (RECORDS,)) -> list[Finding]:
    """What a command of the notes would kill or remove; those are on one line."""
    findings = lint_shell(shell_reading, where=where, records=records)
    found = [f for f in findings if f.code in DEADLY or f.code == WIPES or f.where != where]
    return [replace(f, line=line) if f.where == where else f for f in found]


def _swarm(blueprint: Blueprint, notes_line: int, read: Callable[[str], ShellReading]) -> Iterator[Finding]:
    """Findings about AgentJet's swarm mode, including a published command that does not exist."""
    at = blueprint.lines.get("exp_launch_command", 1)
    for command, line in ((blueprint.launch_command, at), *((text, notes_line) for text in blueprint.notes.prepare)):
        yield from (replace(f, where=blueprint.name, line=line) for f in lint_wrong_command(command))
    swarm = blueprint.notes.swarm
    if swarm is None:
        return
    yield from (replace(f, where=blueprint.name, line=notes_line) for f in lint_swarm(swarm))
    for command in (swarm.server, swarm.debug):
        yield from _deadly(read(command), blueprint.name, notes_line)


def lint_shell(
    shell_reading: ShellReading, *, where: str, line: int = 1, records: Sequence[str] = (RECORDS,)
) -> list[Finding]:
    """Findings in a shell text and its scripts; `line` is the line number of the text's beginning in `where`.

    In scripts only what harms other runs, or hides how the training ends. records: paths that it may not remove.
    """
    findings = [f for command in shell_reading.commands for f in (*_kills(command), *_wipes(command, records))]
    findings += _hidden_exit_code(shell_reading)
    findings += _out_of_sight(shell_reading)
    if re.match(r"\s*\$ ", shell_reading.text):
        hint = "take the `$ ` of the prompt out"
        findings.append(Finding(Severity.WARNING, "prompt", "the command begins with a prompt", hint, line=1))
    placed = [f if f.where else replace(f, where=where, line=f.line + line - 1) for f in findings]
    facts = {(f.code, f.where, f.line): f for f in reversed(placed)}
    return sorted(facts.values(), key=lambda f: (f.where != where, f.where, f.line))


def lint_recipe(recipe: Mapping[str, object], text: str, *, where: str) -> list[Finding]:
    """Findings in an AgentJet recipe; `text` is its source, for the line numbers."""
    findings: list[Finding] = []
    for key, value in _leaves(recipe):
        name = key.rsplit(".", 1)[-1]
        if name == "execute_test" and value not in (False, None, 0, "", "False", "false", "do_not_test"):
            message = f"{key} is {value}: the trainer aborts below a reward threshold"
            findings.append(_recipe_error("execute_test", message, "set it to False", text, name, where))
        if name in _PATH_KEYS and isinstance(value, str) and value and "/" not in value:
            message = f"{key} is {value!r}: a path without a directory makes the trainer crash at its first write"
            hint = "write it inside exp_result_dir, or as ./" + value
            findings.append(_recipe_error("path_without_directory", message, hint, text, name, where))
    return findings


def _kills(simple: SimpleCommand) -> Iterator[Finding]:
    """Errors for commands that end processes of other runs."""

    def stop(code: str, message: str) -> Finding:
        submitted = simple.parent is not None and simple.parent.name == "sbatch"
        severity = Severity.WARNING if submitted else Severity.ERROR
        place = ", on the nodes of the job" if submitted else ""
        return Finding(severity, code, f"{message}{place}", _SPARE, simple.where, simple.line)

    argv, name = simple.argv, simple.name
    if any(map(_AUTOKILL.match, simple.words)) or (_is_ajet(simple) and any(map(_AUTOKILL_CUT.match, argv))):
        yield stop("autokill", "--autokill kills every python and ray process on this host, our watcher included")
    if _is_ajet(simple) and any(map(_KILL.match, argv)):
        yield stop("kills_by_name", "--kill ends every process whose command line matches, other runs included")
    if name in ("pkill", "killall", "killall5", "skill", "slay") and not any(map(_OWN.match, argv)):
        yield stop("kills_by_name", f"{name} ends processes by name, other people's runs included")
    if name == "tmux" and "kill-server" in argv:
        yield stop("kills_tmux", "tmux kill-server ends every tmux session of this user")
    if _stops_ray(simple):
        yield stop("stops_ray", "ray stop ends every Ray process on this host, other clusters included")
    if name == "kill" and "-1" in argv[2:]:
        yield stop("kills_all", "kill -1 signals every process of this user")
    if name == "kill" and ("xargs" in simple.words or re.search(r"\b(?:pgrep|pidof|grep)\b", " ".join(argv))):
        yield stop("kills_by_name", "kill with a search for names ends other people's processes too")


def _wipes(simple: SimpleCommand, records: Sequence[str]) -> Iterator[Finding]:
    """Errors for a command that removes records of runs."""
    for path in _removed(simple):
        if lost := next((one for one in records if _covers(path, one)), ""):
            name = "git clean" if simple.name == "git" else simple.name
            message = f"{name} removes {lost}, which holds the records of runs"
            hint = "take it out, or let it remove only what you name"
            yield Finding(Severity.ERROR, WIPES, message, hint, simple.where, simple.line)
            return


def _removed(simple: SimpleCommand) -> list[str]:
    """The paths that `rm -r`, or `git clean` of ignored files, removes on this machine, as far as they are known."""
    words, folder, parent = simple.argv[1:], "", simple.parent
    while parent is not None:
        if parent.name in FAR:  # another file system
            return []
        parent = parent.parent
    if simple.name == "git" and "clean" in words:
        at = words.index("clean")
        folder = next((value for option, value in pairwise(words[:at]) if option == "-C"), "")
        words = words[at + 1 :]
    elif simple.name != "rm":
        return []
    options = [word for word in words if word.startswith("-")]
    letters = {letter for word in options if not word.startswith("--") for letter in word}
    if simple.name == "rm":
        removes = bool({"r", "R"} & letters) or "--recursive" in options
    else:
        forced = "f" in letters or "--force" in options
        excludes = "e" in letters or any(word.startswith("--exclude") for word in options)
        removes = bool({"x", "X"} & letters) and forced and not ("n" in letters or "--dry-run" in options or excludes)
    paths = [word for word in words if not word.startswith("-")] or ["."] * (simple.name == "git")
    if simple.cwd is None or not removes:
        return []
    whole = (
        posixpath.normpath(posixpath.join(simple.cwd, folder, path)) for path in paths if not set("$`") & set(path)
    )
    return list(whole)


def _covers(path: str, kept: str) -> bool:
    """Whether a path, which may be a pattern, is at, above or below one of ours."""
    parts = [] if path == "." else path.rstrip("/").split("/")
    return all(map(fnmatchcase, kept.split("/"), parts))


def _stops_ray(simple: SimpleCommand) -> bool:
    """`ray stop`, and `python -m ray.scripts.scripts stop`, which is the same; not `ray job stop ID`."""
    argv = simple.argv
    if simple.name == "ray":
        return argv[1:2] == ["stop"]
    return simple.name.startswith("python") and any(
        argv[n : n + 2] == ["-m", module] and argv[n + 2 : n + 3] == ["stop"]
        for n in range(1, len(argv))
        for module in ("ray.scripts.scripts", "ray.scripts", "ray")
    )


def _is_ajet(simple: SimpleCommand) -> bool:
    """Whether this is AgentJet's launcher or swarm command, with any interpreter."""
    return simple.name.startswith("ajet") or any(re.search(r"\bajet[./]", word) for word in simple.argv)


def _hidden_exit_code(shell_reading: ShellReading) -> Iterator[Finding]:
    """Warn where the trainer's exit code is lost: a pipe into tee returns tee's, `|| true` always 0."""
    texts = {"": shell_reading.text, **{script.where: script.text or "" for script in shell_reading.scripts}}
    for where in {command.where: None for command in shell_reading.commands if not command.python}:
        commands = [one for one in shell_reading.commands if one.where == where and not one.depth and one.live]
        careful, trains, piped = "PIPESTATUS" in texts.get(where, ""), False, False
        if not any(map(_STOPS_ON_ERROR.search, texts.values())):  # one script may source it for all
            yield from _not_last(commands, where)
        for before, after in pairwise(commands):
            trains, piped = before.may_train or (trains and piped), before.end in ("|", "|&")
            blind = piped and after.name in _BLIND and after.end not in ("|", "|&")
            if blind and trains and not (careful or after.pipefail):
                message = f"the pipe into {after.name} hides the trainer's exit code: a crash looks like success"
                hint = "the harness keeps a log itself; else begin with `set -o pipefail;`"
                yield Finding(Severity.WARNING, "hidden_exit_code", message, hint, where, after.line)
            if before.end == "||" and before.may_train and after.name in ("true", ":"):
                message = f"`|| {after.name}` hides the exit code: a crash looks like success"
                yield Finding(Severity.WARNING, "hidden_exit_code", message, "take it out", where, after.line)


def _not_last(commands: list[SimpleCommand], where: str) -> Iterator[Finding]:
    """Warn where something comes behind the trainer, whose exit code a shell then returns."""
    trainers = [n for n, one in enumerate(commands) if one.may_train]
    if not trainers:
        return
    last = commands[trainers[-1]]
    behind = [one for one in commands[trainers[-1] + 1 :] if one.words]
    if behind and last.end not in ("|", "|&", "&&", "||", "&"):
        message = f"`{behind[0].name}` comes behind the trainer, whose exit code is lost: a crash looks like success"
        hint = "begin the script with `set -e`, or join them with `&&`"
        yield Finding(Severity.WARNING, "hidden_exit_code", message, hint, where, behind[0].line)


@dataclass(frozen=True, slots=True)
class _Detaching:
    """A command that returns before the training ends, or starts more than one."""

    programs: tuple[str, ...]
    means: str
    instead: str
    verbs: frozenset[str] = frozenset()  # one of them is among its arguments
    option: str = ""  # and an argument like this
    unless: str = ""  # and none like this

    def is_in(self, name: str, args: Sequence[str]) -> bool:
        """Whether a program with these arguments does it."""

        def has(pattern: str) -> bool:
            return any(re.fullmatch(pattern, word) for word in args)

        verb = not self.verbs or not self.verbs.isdisjoint(args)
        return name in self.programs and verb and not has(self.unless) and (not self.option or has(self.option))


_UNSEEN = "starts the trainer where this run cannot see how it ends"
_FINISHED = "returns while the job waits or runs, and the run would look finished at once"
_SEVERAL = "starts several trainings, and all of them would be one row"
_FOREGROUND = "start it in the foreground: the run survives the terminal anyway"
_DETACHING = (
    _Detaching(("setsid", "screen", "daemonize", "disown"), _UNSEEN, _FOREGROUND),
    _Detaching(("tmux",), _UNSEEN, _FOREGROUND, frozenset({"new", "new-session", "send-keys"})),
    _Detaching(("ray",), _FINISHED, "take out --no-wait", frozenset({"submit"}), option="--no-wait"),
    _Detaching(("sbatch",), _FINISHED, "sbatch --wait, or `- launcher: slurm` in the notes", unless="--wait|-W"),
    _Detaching(
        *(("docker", "podman"), _UNSEEN, "take out -d", frozenset({"run", "exec", "up"})),
        option=r"--detach(?:=true)?|-[a-z]*d[a-z]*",
    ),
    _Detaching(
        *(
            ("kubectl",),
            _FINISHED,
            "wait for the job's end in the same command, or `- launcher: kubernetes` in the notes",
        ),
        *(frozenset({"apply", "create"}), r"(?:-f|--filename|-k|--kustomize).*"),
    ),
    _Detaching(("sky",), _FINISHED, "take out -d", frozenset({"launch", "exec"}), option="-d|--detach-run|--async"),
    _Detaching(("wandb",), _SEVERAL, "start one training, and let a campaign choose the values", frozenset({"agent"})),
)


def _is_multirun(argv: Sequence[str]) -> bool:
    """Hydra's `train.py -m lr=0.1,0.2`."""
    args = argv[next((n for n, word in enumerate(argv) if word.endswith(".py")), len(argv)) :]
    return "--multirun" in args or ("-m" in args and any(re.match(r"[^=,]+=[^=\[({\"']*,", word) for word in args))


def _out_of_sight(shell_reading: ShellReading) -> Iterator[Finding]:
    """Warn where a command returns before the trainer ends, or starts more than one training."""
    meant = [one for one in shell_reading.own if one.words or one.end == "&"]
    if meant and meant[-1].end == "&":
        message = "the command ends in the background: the run would look finished at once"
        hint = "take out the `&` (and nohup): the run survives the terminal anyway"
        yield Finding(Severity.WARNING, "background", message, hint, line=meant[-1].line)
    for simple in shell_reading.commands:
        if simple.depth or not simple.live or simple.python:
            continue
        argv, name = simple.argv, "setsid" if "setsid" in simple.words[:3] else simple.name
        args = argv[1 : len(argv) - len(nested_argv(argv))]
        row = next((row for row in _DETACHING if row.is_in(name, args)), None)
        words = " ".join(argv[:2] if name != "setsid" else [name, *argv[:1]])
        if row is None and _is_multirun(argv):
            row, words = _Detaching((), _SEVERAL, "give each key one value, and let a campaign vary them"), "a multirun"
        if row is not None:
            yield Finding(Severity.WARNING, "detached", f"{words} {row.means}", row.instead, simple.where, simple.line)


def _limits(blueprint: Blueprint) -> Iterator[Finding]:
    """Warn if the first-step limit exceeds the default total; the parser compares two limits that are both given."""
    if blueprint.first_step_given and not blueprint.max_time_given and blueprint.first_step_s > blueprint.max_time_s:
        both = f"{spoken(blueprint.first_step_s)}, longer than {spoken(blueprint.max_time_s)} in all, the default"
        message, hint = f"the first step may take {both}", "give the time in all too"
        line = blueprint.lines.get("exp_max_time", 0)
        yield Finding(Severity.WARNING, "limits_crossed", message, hint, blueprint.name, line)


def _relative(blueprint: Blueprint) -> Iterator[Finding]:
    """Warn of a relative path, unless it is written as one on purpose: `./results`."""
    for key, value in (
        ("exp_codebase_dir", blueprint.codebase_dir),
        ("exp_venv_exe", blueprint.venv_exe),
        ("exp_result_dir", blueprint.result_dir),
    ):
        bare = key == "exp_venv_exe" and "/" not in value
        if value and key in blueprint.lines and not value.startswith(("/", "~/", "./")) and not bare:
            message = f"[{key}] is relative: {value}"
            hint = "it is taken from the root of the repository that holds the blueprint, else from its folder"
            yield Finding(Severity.WARNING, "relative_path", message, hint, blueprint.name, blueprint.lines[key])


def _leaves(recipe: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, value in recipe.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _recipe_error(code: str, message: str, hint: str, text: str, key: str, where: str) -> Finding:
    match = re.search(rf"^[^#\n]*\b{re.escape(key)}[\"']?\s*:", text, re.MULTILINE)
    line = text.count("\n", 0, match.end()) + 1 if match else 0
    return Finding(Severity.ERROR, code, message, hint, where, line)
