"""Lint: finds problems in blueprints, scripts and recipes before a run is started. Pure; the caller reads files.

Words that kill by name are errors: `--autokill`, `--kill`, `pkill`, `killall`, `ray stop`, `tmux kill-server` end other
people's runs on the host, and the Runner that watches this one. What no word shows, the shims of the run stop.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from autoresearch.core.blueprint.finding import Finding, error, warning
from autoresearch.core.blueprint.model import Blueprint
from autoresearch.core.blueprint.parser import looks_like_command
from autoresearch.core.campaign.overrides import flatten
from autoresearch.core.run.swarm import Swarm
from autoresearch.core.shell import ShellReading, SimpleCommand, read_shell
from autoresearch.core.text.regex import later

_DETACHED = later(r"\s(?:-[a-z]*d[a-z]*|--detach(?:=true)?)(?:\s|\Z)")
_LOOPBACK = later(r"(?:-p|--publish)(?:=|\s*)[\"']?(?:127\.\d+\.\d+\.\d+|\[::1\]):")
RECORDS = "reports/auto_research"  # in the repository of the code
_SPARE = "the harness ends the whole process tree of a run itself; take it out"
_AUTOKILL = later(r"(?:\w+\+?=(?:.*\s)?)?--autokill(?:=|\s|\Z)", re.DOTALL)  # or in a variable that is passed on
_KILL = later(r"--kill(?:=|\Z)")
_OWN = later(r"-[Pgs]\b|-[Pgs]\d|--(?:parent|pgroup|session)\b")  # of pkill: what the caller itself started
_BY_NAME = frozenset({"pkill", "killall", "killall5", "skill", "slay"})
_RAY_STOP = later(r"(?:ray|python[\d.]* (?:.* )?-m ray(?:\.scripts){0,2}) stop(?: |\Z)")
_PATH_KEYS = ("val_print_to_markdown_file_path", "train_print_to_markdown_file_path")


def lint_blueprint(blueprint: Blueprint, read: Callable[[str], ShellReading] = read_shell) -> list[Finding]:
    """Findings in the blueprint itself: its commands with their scripts, swarm notes.

    read: reads one of its commands, whose lines count from 1.
    """
    notes, swarm, name = blueprint.notes, blueprint.notes.swarm, blueprint.name
    launch, notes_line = read(blueprint.launch_command), blueprint.lines.get("notes", 0)
    findings = lint_shell(launch, where=name, line=blueprint.lines.get("exp_launch_command", 1))
    for command in (*notes.prepare, *notes.evaluate, *notes.cleanup):
        if "\n" not in command and not looks_like_command(command):
            message = f"{command[:60]!r} is run by a shell, but reads like a sentence"
            hint = "write `- note:` in front of what is meant for readers"
            report = error if command in notes.evaluate else warning  # it would fail after the training
            findings.append(report(notes_line, "not_a_command", message, hint, name))
    servers = (swarm.server, swarm.debug) if swarm else ()
    for command in (*notes.prepare, *notes.evaluate, *notes.cleanup, *servers):
        found = lint_shell(read(command), where=name)
        findings += [replace(f, line=notes_line) if f.where == name else f for f in found]
    findings += [replace(f, where=name, line=notes_line) for f in (lint_swarm(swarm) if swarm else ())]
    return list(dict.fromkeys(findings))


def lint_shell(shell_reading: ShellReading, *, where: str, line: int = 1) -> list[Finding]:
    """Errors for the words of a shell text and its scripts that end processes of other runs.

    `line` is the line number of the text's beginning in `where`. What a Slurm job ends on its own nodes is a warning.
    """
    facts: dict[tuple[str, str, int], Finding] = {}
    for one in shell_reading.commands:
        report, place = (warning, ", on the nodes of the job") if "sbatch" in one.through else (error, "")
        at = one.line if one.where else one.line + line - 1
        for code, message, applies in _HARMS:
            if applies(one):
                message = f"{message.format(name=one.name)}{place}"
                finding = report(at, code, message, _SPARE, one.where or where)
                facts.setdefault((code, finding.where, at), finding)
    return sorted(facts.values(), key=lambda f: (f.where != where, f.where, f.line))


def lint_recipe(recipe: Mapping[str, object], text: str, *, where: str) -> list[Finding]:
    """Findings in an AgentJet recipe; `text` is its source, for the line numbers."""
    findings: list[Finding] = []

    def line(name: str) -> int:
        match = re.search(rf"^[^#\n]*\b{re.escape(name)}[\"']?\s*:", text, re.MULTILINE)
        return text.count("\n", 0, match.end()) + 1 if match else 0

    for key, value in flatten(recipe).items():
        name = key.rsplit(".", 1)[-1]
        if name == "execute_test" and value not in (False, None, 0, "", {}, "False", "false", "do_not_test"):
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
        lambda one: any(map(_AUTOKILL.match, one.words)),
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
        *("kills_tmux", "tmux kill-server ends every tmux session of this user"),
        lambda one: one.name == "tmux" and "kill-server" in one.argv,
    ),
    (  # from a published skill; argparse rejects it
        *("swarm_wrong_command", "`ajet swarm server` is no command of AgentJet's: write `ajet-swarm start`"),
        lambda one: one.argv[:3] == ["ajet", "swarm", "server"],
    ),
    (  # `python -m ray.scripts.scripts stop` is the same; `ray job stop ID` is not
        *("stops_ray", "ray stop ends every Ray process on this host, other clusters included"),
        lambda one: bool(_RAY_STOP.match(" ".join([one.name, *one.argv[1:]]))),
    ),
)


def _is_ajet(simple: SimpleCommand) -> bool:
    """Whether this is AgentJet's launcher or swarm command, with any interpreter."""
    return simple.name.startswith("ajet") or any(re.search(r"\bajet[./]", word) for word in simple.argv)


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
