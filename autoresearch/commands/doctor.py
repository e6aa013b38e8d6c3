"""`autoresearch doctor`: is this machine fit, and the targets that runs may go to; if not, what is the remedy."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from autoresearch.commands import Option, Positional, output
from autoresearch.commands.layout import table_lines
from autoresearch.commands.name_lookup import target_named
from autoresearch.commands.output import CommandResult, TableRows
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.errors import AutoresearchError, EnvironmentUnusable
from autoresearch.lab.notices.run_notices import project_recipients
from autoresearch.lab.notices.sending import try_each

if TYPE_CHECKING:
    from autoresearch.core.run.targets import Target
    from autoresearch.lab.remote.inspect import Inspected
    from autoresearch.lab.settings import Settings

WIDTH = 80
LOW_DISK_BYTES = 1 << 30


def doctor(
    path: Annotated[str, Positional(metavar="PATH", help="The project's directory, or a blueprint.")] = ".",
    launcher: Annotated[
        str,
        Option(metavar="TARGETS", help="Ask these targets: slurm, ssh:gpu1 ...", checked=target_named),
    ] = "",
    notify: Annotated[
        bool, Option("--notify", help="Send a test to everyone in `notify:`; 6 if one failed.")
    ] = False,
) -> CommandResult:
    """Check tmux, git, disk, GPUs and sandboxes on this host. Exits 6 where a run could not start."""
    from autoresearch.git_repo import checkout as repository
    from autoresearch.lab import settings as project
    from autoresearch.lab.disk.usage import free_bytes, gb
    from autoresearch.launchers import gpus, host_sandbox_check, program
    from autoresearch.launchers.tmux import TmuxLauncher
    from autoresearch.plugins import installed
    from autoresearch.records.index import state_home

    blueprint = Path(path).absolute() if Path(path).is_file() else None
    here = blueprint.parent if blueprint else Path(path).absolute()
    settings = project.load(here, environ=os.environ, flags={"launcher": launcher})
    located = repository.locate(here)
    repo = located if isinstance(located, repository.Checkout) else None
    inspections = _inspected(settings, blueprint) if launcher else []
    system, python = f"{platform.system()} {platform.release()} {platform.machine()}", platform.python_version()
    tmux, git, cards = program.version("tmux", "-V"), program.version("git", "--version"), gpus.find()
    disks = {directory: free_bytes(directory) for directory in (here, state_home())}
    found = [*TmuxLauncher(settings.text("tmux_socket")).preflight(), *machine_findings(git, disks)]
    if repo and not host_sandbox_check.can_write(repo.git_dir):
        found.append(host_sandbox_check.git_is_read_only())
    plugins = {one: one.fault() for one in installed()}
    errors = [f for f in found if f.severity is Severity.ERROR]
    notice_rows, notices, told = recipients_shown(here, send=notify)
    fit = not errors and all(one.latency_s is not None for one in inspections)
    rows = [
        ["system", system],
        ["python", f"{python} ({sys.executable})"],
        ["tmux", tmux or "missing"],
        ["git", git or "missing"],
        ["repository", str(repo.root if repo else located)],
        ["GPUs", ", ".join(f"{one.index}: {one.name} {one.uuid}" for one in cards) or "none"],
        ["driven by", host_sandbox_check.driven_by(os.environ) or "a person"],
        *(["disk", f"{gb(free)} free for {directory}"] for directory, (_, free) in disks.items()),
        *(["plug-in", f"{one.name} ({one.group}), {one.origin}: {fault or 'ok'}"] for one, fault in plugins.items()),
        *([f.severity.value, str(f)] for f in found),
        *notice_rows,
        ["after a reboot", again := _after_reboot()],
        ["verdict", "a run could not start here" if errors else "fit"],
    ]
    payload = {
        "fit": fit,
        "system": system,
        "python": python,
        "tmux": tmux,
        "git": git,
        "repository": str(repo.root) if repo else None,
        "gpus": [{"index": g.index, "uuid": g.uuid, "name": g.name} for g in cards],
        "plugins": [
            {"group": one.group, "name": one.name, "origin": one.origin, "fault": fault or None}
            for one, fault in plugins.items()
        ],
        "findings": [asdict(f) for f in found],
        "places": [_payload(one) for one in inspections],
        "after_reboot": again,
        **notices,
        "next": ["autoresearch run BLUEPRINT"] if fit else [],
    }
    code = 0 if fit and (told or not notify) else EnvironmentUnusable.exit_code
    lines = [TableRows(rows), *(line for one in inspections for line in _target_lines(one))]
    return CommandResult(payload, lines, exit_code=code, next_shown=0)


def machine_findings(git: str, disks: Mapping[Path, tuple[Path, int]]) -> Iterator[Finding]:
    """What would surprise a person: no git (its version is ""), and where nothing can be written, or little is free.

    disks: directory -> the nearest one that exists, and its free bytes.
    """
    from autoresearch.launchers import host_sandbox_check

    if not git:
        hint = "runs go on without branches; install git to have them"
        yield Finding(Severity.WARNING, "no_git", "git is not installed, or does not run", hint)
    for directory, (existing, free) in disks.items():
        if not host_sandbox_check.can_write(existing):
            message = f"{existing} cannot be written"
            yield Finding(Severity.ERROR, "not_writable", message, "choose another result directory", str(directory))
        elif free < LOW_DISK_BYTES:
            message = f"only {free / (1 << 20):.0f} MiB are free on the disk of {existing}"
            yield Finding(Severity.WARNING, "low_disk", message, "make room before a long run", str(directory))


def _after_reboot() -> str:
    """How campaigns go on by themselves when the machine is started anew, in the environment of a login shell."""
    python = shlex.quote(os.path.abspath(sys.executable))  # noqa: PTH100 - not that to which a venv links
    again = f'at={python}; "$at" -m autoresearch campaign resume --all'  # behind `=`, no path is shortened on a screen
    line = f"/bin/bash -lc {shlex.quote(again)}"
    return f"crontab -e, and this line: @reboot {line}" if shutil.which("crontab") else f"at its start, run: {line}"


def recipients_shown(directory: Path, *, send: bool = False) -> tuple[list[list[str]], dict[str, Any], bool]:
    """Rows and JSON about whom a project tells, and whether all is well; `send`: each gets a test, one by one."""
    recipients = project_recipients(directory)
    if send and not (recipients.shown or recipients.problems):
        output.remark("no test was sent: `notify:` of autoresearch.yaml is empty")
    reasons = list(try_each(recipients)) if send else [None] * len(recipients.shown)
    pairs = list(zip(recipients.shown, reasons, strict=True))
    rows = [["notify", to if why is None else f"{to}: {why or 'a test was delivered'}"] for to, why in pairs]
    rows += [["warning", problem] for problem in recipients.problems]
    listed = [{"to": to, **({} if why is None else {"sent": not why, "error": why or None})} for to, why in pairs]
    payload = {"notify": listed, "notify_problems": list(recipients.problems)}
    return rows, payload, not (recipients.problems or any(reasons))


def _inspected(settings: Settings, blueprint: Path | None) -> list[Inspected]:
    """Every target that was named but this machine, which the rest of the command is about.

    One that cannot be asked at all takes no run, and is told of beside the others.
    """
    from autoresearch.lab.remote.inspect import Inspected, inspect
    from autoresearch.lab.resolve.resolve_blueprint import read_blueprint

    def inspected(target: Target) -> Inspected:
        try:
            return inspect(target, real_parts())
        except AutoresearchError as error:
            wrong = Finding(Severity.ERROR, error.code, f"{target.name}: {error.message}", error.hint)
            return Inspected(target, None, (), (wrong,))

    note = read_blueprint(blueprint).blueprint.notes.launcher if blueprint else ""
    return [inspected(target) for target in settings.targets(note) if not target.is_local]


def _target_lines(inspected: Inspected) -> list[str | TableRows]:
    """A target, in lines of 80 columns."""
    answers = "no" if inspected.latency_s is None else f"yes, in {inspected.latency_s:.2f} s"
    rows = [
        ("answers", answers),
        *inspected.rows,
        *((f.severity.value, f.message + (f" ({f.hint})" if f.hint else "")) for f in inspected.findings),
    ]
    fit = "fit" if inspected.latency_s is not None else "a run could not be sent there"
    return ["", f"{inspected.target}: {fit}", *(f"  {line}" for line in table_lines(rows, WIDTH - 2))]


def _payload(inspected: Inspected) -> dict[str, Any]:
    return {
        **asdict(inspected.target),
        "fit": inspected.latency_s is not None,
        "latency_s": inspected.latency_s,
        "facts": [{"name": name, "value": value} for name, value in inspected.rows],
        "findings": [asdict(f) for f in inspected.findings],
    }
