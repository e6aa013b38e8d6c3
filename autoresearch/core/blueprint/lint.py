"""Lint: finds problems in blueprints, scripts and recipes before a run is started. Pure; the caller reads files.

Commands that kill by name are errors: `--autokill`, `pkill`, `killall`, `ray stop`, `tmux kill-server` end other
people's runs on the host, and the Runner that watches this one. So are commands that remove records.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import pairwise

from autoresearch.core.blueprint.finding import Finding, error, errors, warning
from autoresearch.core.blueprint.model import Blueprint
from autoresearch.core.blueprint.values import looks_like_command
from autoresearch.core.run.swarm import Swarm
from autoresearch.core.shell.commands import ShellReading, SimpleCommand
from autoresearch.core.shell.programs import FAR, nested_argv, python_file
from autoresearch.core.shell.reading import read_shell
from autoresearch.core.text.regex import later

_DETACHED = later(r"\s(?:-[a-z]*d[a-z]*|--detach(?:=true)?)(?:\s|\Z)")
_LOOPBACK = later(r"(?:-p|--publish)(?:=|\s*)[\"']?(?:127\.\d+\.\d+\.\d+|\[::1\]):")
DEADLY = frozenset({"autokill", "kills_by_name", "kills_tmux", "stops_ray", "kills_all"})
WIPES = "wipes_records"
RECORDS = "reports/auto_research"  # in the repository of the code
_SPARE = "the harness ends the whole process tree of a run itself; take it out"
_BLIND = frozenset({"tee", "grep", "egrep", "tail", "head", "cat", "sed", "awk", "ts", "less", "more", "logger"})
_STOPS_ON_ERROR = later(r"(?m)^\s*set\s+(?:-\w*e|-o\s+errexit)|^#!.*\s-\w*e\b|\bexit\s+\"?\$|\$\?")
_AUTOKILL = later(r"(?:\w+\+?=(?:.*\s)?)?--autokill(?:=|\s|\Z)", re.DOTALL)  # or in a variable that is passed on
_AUTOKILL_CUT = later(r"--a(?:u(?:t(?:o(?:k(?:i(?:l)?)?)?)?)?)?\Z")  # argparse accepts any prefix of a flag
_KILL = later(r"--k(?:i(?:l(?:l)?)?)?(?:=|\Z)")
_OWN = later(r"-[Pgs]\b|-[Pgs]\d|--(?:parent|pgroup|session)\b")  # of pkill: what the caller itself started
_BY_NAME = frozenset({"pkill", "killall", "killall5", "skill", "slay"})
_SEARCH = later(r"\b(?:pgrep|pidof|grep)\b")
_RAY_STOP = later(r"(?:ray|python[\d.]* (?:.* )?-m ray(?:\.scripts){0,2}) stop(?: |\Z)")
_PATH_KEYS = ("val_print_to_markdown_file_path", "train_print_to_markdown_file_path")


def lint_blueprint(
    blueprint: Blueprint, read: Callable[[str], ShellReading] = read_shell, records: Sequence[str] = (RECORDS,)
) -> list[Finding]:
    """Findings in the blueprint itself: its commands with their scripts, swarm notes, relative paths.

    read: reads one of its commands, whose lines count from 1. records: paths that no command may remove.
    """
    notes, swarm, name = blueprint.notes, blueprint.notes.swarm, blueprint.name
    launch, notes_line = read(blueprint.launch_command), blueprint.lines.get("notes", 0)
    findings = lint_shell(launch, where=name, line=blueprint.lines.get("exp_launch_command", 1), records=records)
    for command in (*notes.prepare, *notes.evaluate, *notes.cleanup):
        if "\n" not in command and not looks_like_command(command):
            message = f"{command[:60]!r} is run by a shell, but reads like a sentence"
            hint = "write `- note:` in front of what is meant for readers"
            report = error if command in notes.evaluate else warning  # it would fail after the training
            findings.append(report(notes_line, "not_a_command", message, hint, name))
    servers = (swarm.server, swarm.debug) if swarm else ()
    for command in (*notes.prepare, *notes.evaluate, *notes.cleanup, *servers):
        found = lint_shell(read(command), where=name, records=records)
        findings += [replace(f, line=notes_line) for f in errors(found) if f.where == name]
        findings += [f for f in found if f.where != name]
    findings += [replace(f, where=name, line=notes_line) for f in (lint_swarm(swarm) if swarm else ())]
    return list(dict.fromkeys([*findings, *_relative(blueprint)]))


def lint_shell(
    shell_reading: ShellReading, *, where: str, line: int = 1, records: Sequence[str] = (RECORDS,)
) -> list[Finding]:
    """Findings in a shell text and its scripts; `line` is the line number of the text's beginning in `where`.

    In scripts only what harms other runs, or hides how the training ends. records: paths that it may not remove.
    """
    findings = [f for command in shell_reading.commands for f in (*_harms(command), *_wipes(command, records))]
    findings += _hidden_exit_code(shell_reading)
    findings += _out_of_sight(shell_reading)
    if shell_reading.text.lstrip().startswith("$ "):
        hint = "take the `$ ` of the prompt out"
        findings.append(warning(1, "prompt", "the command begins with a prompt", hint))
    placed = [f if f.where else replace(f, where=where, line=f.line + line - 1) for f in findings]
    facts = {(f.code, f.where, f.line): f for f in reversed(placed)}
    return sorted(facts.values(), key=lambda f: (f.where != where, f.where, f.line))


def lint_recipe(recipe: Mapping[str, object], text: str, *, where: str) -> list[Finding]:
    """Findings in an AgentJet recipe; `text` is its source, for the line numbers."""
    findings: list[Finding] = []

    def line(name: str) -> int:
        match = re.search(rf"^[^#\n]*\b{re.escape(name)}[\"']?\s*:", text, re.MULTILINE)
        return text.count("\n", 0, match.end()) + 1 if match else 0

    for key, value in _leaves(recipe):
        name = key.rsplit(".", 1)[-1]
        if name == "execute_test" and value not in (False, None, 0, "", "False", "false", "do_not_test"):
            message = f"{key} is {value}: the trainer aborts below a reward threshold"
            findings.append(error(line(name), "execute_test", message, "set it to False", where))
        if name in _PATH_KEYS and isinstance(value, str) and value and "/" not in value:
            message = f"{key} is {value!r}: a path without a directory makes the trainer crash at its first write"
            hint = "write it inside exp_result_dir, or as ./" + value
            findings.append(error(line(name), "path_without_directory", message, hint, where))
    return findings


_HARMS: tuple[tuple[str, str, Callable[[SimpleCommand], bool]], ...] = (
    (
        *("autokill", "--autokill kills every python and ray process on this host, our watcher included"),
        lambda one: any(map(_AUTOKILL.match, one.words)) or (_is_ajet(one) and any(map(_AUTOKILL_CUT.match, one.argv))),
    ),
    (
        *("kills_by_name", "--kill ends every process whose command line matches, other runs included"),
        lambda one: _is_ajet(one) and any(map(_KILL.match, one.argv)),
    ),
    (
        *("kills_by_name", "{name} ends processes by name, other people's runs included"),
        lambda one: one.name in _BY_NAME and not any(map(_OWN.match, one.argv)),
    ),
    (
        *("kills_by_name", "kill with a search for names ends other people's processes too"),
        lambda one: one.name == "kill" and ("xargs" in one.words or bool(_SEARCH.search(" ".join(one.argv)))),
    ),
    (
        *("kills_tmux", "tmux kill-server ends every tmux session of this user"),
        lambda one: one.name == "tmux" and "kill-server" in one.argv,
    ),
    (
        "kills_all",
        "kill -1 signals every process of this user",
        lambda one: one.name == "kill" and "-1" in one.argv[2:],
    ),
    (  # from a published skill; argparse rejects it
        *(
            "swarm_wrong_command",
            "`ajet swarm server` is no command of AgentJet's: it stops with unrecognized arguments",
        ),
        lambda one: one.argv[:3] == ["ajet", "swarm", "server"],
    ),
    (  # `python -m ray.scripts.scripts stop` is the same; `ray job stop ID` is not
        *("stops_ray", "ray stop ends every Ray process on this host, other clusters included"),
        lambda one: bool(_RAY_STOP.match(" ".join([one.name, *one.argv[1:]]))),
    ),
)


def _harms(simple: SimpleCommand) -> Iterator[Finding]:
    """Errors for commands that end processes of other runs."""
    submitted = simple.parent is not None and simple.parent.name == "sbatch"
    report, place = (warning, ", on the nodes of the job") if submitted else (error, "")
    hints = {"swarm_wrong_command": "write `ajet-swarm start --swarm-port=10086`"}
    for code, message, applies in _HARMS:
        if applies(simple):
            yield report(
                simple.line, code, f"{message.format(name=simple.name)}{place}", hints.get(code, _SPARE), simple.where
            )


def _wipes(simple: SimpleCommand, records: Sequence[str]) -> Iterator[Finding]:
    """Errors for a command that removes records of runs."""
    for path in _removed(simple):
        if lost := next((one for one in records if _covers(path, one)), ""):
            name = "git clean" if simple.name == "git" else simple.name
            message = f"{name} removes {lost}, which holds the records of runs"
            hint = "take it out, or let it remove only what you name"
            yield error(simple.line, WIPES, message, hint, simple.where)
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


def _is_ajet(simple: SimpleCommand) -> bool:
    """Whether this is AgentJet's launcher or swarm command, with any interpreter."""
    return simple.name.startswith("ajet") or any(re.search(r"\bajet[./]", word) for word in simple.argv)


def _hidden_exit_code(shell_reading: ShellReading) -> Iterator[Finding]:
    """Warn where the trainer's exit code is lost: a pipe into tee returns tee's, `|| true` always 0."""
    texts = {"": shell_reading.text, **{script.where: script.text or "" for script in shell_reading.scripts}}
    for where in {command.where: None for command in shell_reading.commands if not command.python}:
        commands = [one for one in shell_reading.commands if one.where == where and not one.depth and one.live]
        careful, trains, piped = "PIPESTATUS" in texts.get(where, ""), False, False
        if (last := _not_last(commands, where)) and not any(map(_STOPS_ON_ERROR.search, texts.values())):
            yield last  # else one script may source it for all
        for before, after in pairwise(commands):
            trains, piped = before.may_train or (trains and piped), before.end in ("|", "|&")
            blind = piped and after.name in _BLIND and after.end not in ("|", "|&")
            if blind and trains and not (careful or after.pipefail):
                message = f"the pipe into {after.name} hides the trainer's exit code: a crash looks like success"
                hint = "the harness keeps a log itself; else begin with `set -o pipefail;`"
                yield warning(after.line, "hidden_exit_code", message, hint, where)
            if before.end == "||" and before.may_train and after.name in ("true", ":"):
                message = f"`|| {after.name}` hides the exit code: a crash looks like success"
                yield warning(after.line, "hidden_exit_code", message, "take it out", where)


def _not_last(commands: list[SimpleCommand], where: str) -> Finding | None:
    """A warning where something comes behind the trainer, whose exit code a shell then returns."""
    trainers = [n for n, one in enumerate(commands) if one.may_train]
    if not trainers:
        return None
    last = commands[trainers[-1]]
    behind = [one for one in commands[trainers[-1] + 1 :] if one.words]
    if behind and last.end not in ("|", "|&", "&&", "||", "&"):
        message = f"`{behind[0].name}` comes behind the trainer, whose exit code is lost: a crash looks like success"
        hint = "begin the script with `set -e`, or join them with `&&`"
        return warning(behind[0].line, "hidden_exit_code", message, hint, where)
    return None


_UNSEEN = "starts the trainer where this run cannot see how it ends"
_FINISHED = "returns while the job waits or runs, and the run would look finished at once"
_SEVERAL = "starts several trainings, and all of them would be one row"
_STAGE = later(r"(?i)eval|test|infer|pretrain|finetun|stage|phase|resum|prepar|download|convert|preproc")
_ONE = "start one training, and let a campaign choose the values"
_FOREGROUND = "start it in the foreground: the run survives the terminal anyway"
_NOT_WAITED_FOR = (  # programs and words that return before the training ends, or start more than one; what helps
    (("setsid", "screen", "daemonize", "disown"), r"", _UNSEEN, _FOREGROUND),
    (("tmux",), r"(\S+ )*(new|new-session|send-keys) ", _UNSEEN, _FOREGROUND),
    (("ray",), r"(?=(\S+ )*submit )(\S+ )*--no-wait ", _FINISHED, "take out --no-wait"),
    (("sbatch",), r"(?!(\S+ )*(--wait|-W) )", _FINISHED, "sbatch --wait, or `- launcher: slurm` in the notes"),
    (
        *(("docker", "podman"), r"(?=(\S+ )*(run|exec|up) )(\S+ )*(--detach(=true)?|-[a-z]*d[a-z]*) "),
        *(_UNSEEN, "take out -d"),
    ),
    (
        *(("kubectl",), r"(?=(\S+ )*(apply|create) )(\S+ )*(-f|--filename|-k|--kustomize)"),
        *(_FINISHED, "wait for the job's end in the same command, or `- launcher: kubernetes` in the notes"),
    ),
    (("sky",), r"(?=(\S+ )*(launch|exec) )(\S+ )*(-d|--detach-run|--async) ", _FINISHED, "take out -d"),
    (("wandb",), r"(\S+ )*agent ", _SEVERAL, _ONE),
    (("parallel", "xargs"), r"", _SEVERAL, _ONE),
)


def _out_of_sight(shell_reading: ShellReading) -> Iterator[Finding]:
    """Warn where a command returns before the trainer ends, or starts more than one training."""
    meant = [one for one in shell_reading.own if one.words or one.end == "&"]
    if meant and meant[-1].end == "&":
        message = "the command ends in the background: the run would look finished at once"
        hint = "take out the `&` (and nohup): the run survives the terminal anyway"
        yield warning(meant[-1].line, "background", message, hint)
    yield from _several(shell_reading)
    for simple in shell_reading.commands:
        if simple.depth or not simple.live or simple.python or not simple.argv:
            continue
        before = next((word for word in simple.words[:3] if word in ("setsid", "xargs") and simple.may_train), "")
        argv = [before, *simple.argv] if before else [simple.name, *simple.argv[1:]]
        program, *words = argv[: len(argv) - len(nested_argv(argv))] or [""]
        text = "".join(f"{word} " for word in words)
        rows = (row for row in _NOT_WAITED_FOR if program in row[0] and re.match(row[1], text))
        if row := next(rows, None):
            yield warning(simple.line, "detached", f"{' '.join(argv[:2])} {row[2]}", row[3], simple.where)
        elif _is_multirun(simple.argv):
            hint = "give each key one value, and let a campaign vary them"
            yield warning(simple.line, "detached", f"a multirun {_SEVERAL}", hint, simple.where)


def _several(shell_reading: ShellReading) -> Iterator[Finding]:
    """Warn where a loop starts the training, or one program is started twice, in the background or in turn."""
    trains = [one for one in shell_reading.commands if one.live and one.may_train and not one.python]
    if trains and trains[-1].repeated:
        yield warning(trains[-1].line, "detached", f"a loop {_SEVERAL}", _ONE, trains[-1].where)
    beside = [one for one in trains if one.end == "&"]
    names = [python_file(one.argv) or one.name for one in beside]
    if twice := next((one for one, name in zip(beside, names, strict=True) if names.count(name) > 1), None):
        yield warning(twice.line, "detached", f"`&` {_SEVERAL}", _ONE, twice.where)
    in_turn: dict[tuple[str, ...], list[SimpleCommand]] = {}  # by program and options: what differs is a value
    for one in trains:
        if one.sure and one not in beside and python_file(one.argv) and not any(map(_STAGE.search, one.argv)):
            options = sorted({word.partition("=")[0] for word in one.argv if word[:2] == "--" or "=" in word})
            in_turn.setdefault((python_file(one.argv), *options), []).append(one)
    for (program, *_), starts in in_turn.items():
        if len(starts) > 1:
            message = f"{program} is started {len(starts)} times with other values, and all of them would be one row"
            yield warning(starts[1].line, "detached", message, _ONE, starts[1].where)
            break


def _is_multirun(argv: Sequence[str]) -> bool:
    """Hydra's `train.py -m lr=0.1,0.2`."""
    args = argv[next((n for n, word in enumerate(argv) if word.endswith(".py")), len(argv)) :]
    return "--multirun" in args or ("-m" in args and any(re.match(r"[^=,]+=[^=\[({\"']*,", word) for word in args))


def lint_swarm(swarm: Swarm) -> Iterator[Finding]:
    """Findings in the swarm notes as a whole, their lines not yet set."""
    if swarm.server and swarm.ssh:
        message = "swarm_server starts a server here, and swarm_ssh says that it is on another host"
        hint = "keep one of them; a server on the other host is started there, in a tmux session of its own"
        yield error(0, "swarm_two_servers", message, hint)
    if swarm.server and swarm.url and re.search(r"//(?!127\.|localhost\b|\[::1\])", swarm.url):
        message = f"swarm_server starts a server on this machine, but swarm_url is {swarm.url}"
        yield error(0, "swarm_elsewhere", message, "write a url of 127.0.0.1, or none")
    if swarm.container and _DETACHED.search(swarm.server.partition("ajet-swarm")[0]):  # only docker's own flags
        message = "docker run -d returns at once: the server's end would never be seen"
        yield error(0, "swarm_detached", message, "take -d out; the session is detached itself")
    if swarm.server and not (swarm.container and _LOOPBACK.search(swarm.server)):
        message = "the swarm server listens on 0.0.0.0 without authentication, and runs code that is sent to it"
        way = "publish it as -p 127.0.0.1:PORT:PORT" if swarm.container else "keep its port behind a firewall"
        yield warning(0, "swarm_open", message, f"{way}; from another host use swarm_ssh")


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
            yield warning(blueprint.lines[key], "relative_path", message, hint, blueprint.name)


def _leaves(recipe: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, value in recipe.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
