"""Lint: finds problems in blueprints, scripts and recipes before a run is started. Pure; the caller reads files.

Commands that kill by name are errors: `--autokill`, `pkill`, `killall`, `ray stop`, `tmux kill-server` end other
people's runs on the host, and the Runner that watches this one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.blueprint.model import Blueprint
from autoresearch.core.blueprint.swarm_notes import lint_swarm, lint_wrong_command
from autoresearch.core.blueprint.values import looks_like_command
from autoresearch.core.shell.commands import ShellReading, SimpleCommand
from autoresearch.core.shell.reading import read_shell
from autoresearch.core.text.durations import spoken

_SPARE = "the harness ends the whole process tree of a run itself; take it out"
_BLIND = frozenset({"tee", "grep", "egrep", "tail", "head", "cat", "sed", "awk", "ts", "less", "more", "logger"})
_AUTOKILL = re.compile(r"(?:\w+\+?=(?:.*\s)?)?--autokill(?:=|\s|\Z)", re.DOTALL)  # or in a variable that is passed on
_AUTOKILL_CUT = re.compile(r"--a(?:u(?:t(?:o(?:k(?:i(?:l)?)?)?)?)?)?\Z")  # argparse accepts any prefix of a flag
_KILL = re.compile(r"--k(?:i(?:l(?:l)?)?)?(?:=|\Z)")
_OWN = re.compile(r"-[Pgs]\b|-[Pgs]\d|--(?:parent|pgroup|session)\b")  # of pkill: what the caller itself started
_PATH_KEYS = ("val_print_to_markdown_file_path", "train_print_to_markdown_file_path")


def lint_blueprint(blueprint: Blueprint, read: Callable[[str], ShellReading] = read_shell) -> list[Finding]:
    """Findings in the blueprint itself: its commands with their scripts, swarm notes, limits and relative paths.

    read: reads one of its commands, whose lines count from 1.
    """
    launch = read(blueprint.launch_command)
    findings = lint_shell(launch, where=blueprint.name, line=blueprint.lines.get("exp_launch_command", 1))
    notes_line = blueprint.lines.get("notes", 0)
    for command in (*blueprint.notes.prepare, *blueprint.notes.evaluate, *blueprint.notes.cleanup):
        if "\n" not in command and not looks_like_command(command):
            message = f"{command[:60]!r} is run by a shell, but reads like a sentence"
            hint = "write `- note:` in front of what is meant for readers"
            late = command in blueprint.notes.evaluate  # it would fail only after the training
            severity = Severity.ERROR if late else Severity.WARNING
            findings.append(Finding(severity, "not_a_command", message, hint, blueprint.name, notes_line))
        findings += _deadly(read(command), blueprint.name, notes_line)
    findings += _swarm(blueprint, notes_line, read)
    return list(dict.fromkeys([*findings, *_limits(blueprint), *_relative(blueprint)]))


def _deadly(shell_reading: ShellReading, where: str, line: int) -> list[Finding]:
    """What a command of the notes would kill; those are on one line."""
    found = [f for f in lint_shell(shell_reading, where=where) if f.code in DEADLY or f.where != where]
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


def lint_shell(shell_reading: ShellReading, *, where: str, line: int = 1) -> list[Finding]:
    """Findings in a shell text and its scripts; `line` is the line number of the text's beginning in `where`.

    In scripts only what harms other runs or hides the exit code.
    """
    findings = [f for command in shell_reading.commands for f in _kills(command)]
    findings += _hidden_exit_code(shell_reading)
    findings += _out_of_sight(list(shell_reading.own))
    findings += _submitted([one for one in shell_reading.commands if one.live and one.where and not one.depth])
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


DEADLY = frozenset({"autokill", "kills_by_name", "kills_tmux", "stops_ray", "kills_all"})


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


def _out_of_sight(commands: list[SimpleCommand]) -> Iterator[Finding]:
    """Warn where the command returns before the trainer ends, or detaches it from this run."""
    meant = [c for c in commands if c.words or c.end == "&"]
    if meant and meant[-1].end == "&":
        message = "the command ends in the background: the run would look finished at once"
        hint = "take out the `&` (and nohup): the run survives the terminal anyway"
        yield Finding(Severity.WARNING, "background", message, hint, line=meant[-1].line)
    for command in commands:
        argv = command.argv
        detaches = (
            _leaves_it(command)
            or command.name in ("disown", "screen", "daemonize")
            or "setsid" in command.words[:3]
            or (command.name == "tmux" and any(w in ("new", "new-session", "send-keys") for w in argv))
            or (argv[:3] == ["ray", "job", "submit"] and "--no-wait" in argv)
        )
        if detaches:
            yield _detached(command)


def _submitted(commands: list[SimpleCommand]) -> Iterator[Finding]:
    """Warn where a script submits a job that nobody waits for."""
    yield from (_detached(command) for command in commands if _leaves_it(command))


def _leaves_it(simple: SimpleCommand) -> bool:
    return simple.name == "sbatch" and not any(w in ("--wait", "-W") for w in simple.argv)


def _detached(simple: SimpleCommand) -> Finding:
    message = f"{' '.join(simple.argv[:2])} starts the trainer where this run cannot see how it ends"
    hint = "start it in the foreground" if simple.name != "sbatch" else "sbatch --wait, or start it in the foreground"
    return Finding(Severity.WARNING, "detached", message, hint, simple.where, simple.line)


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
