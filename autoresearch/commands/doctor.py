"""`autoresearch doctor`: is this machine fit, and the targets that runs may go to; if not, what is the remedy."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from autoresearch.commands import Option, Positional
from autoresearch.commands.layout import table_lines
from autoresearch.commands.name_lookup import target_named
from autoresearch.commands.notice_checks import recipients_shown
from autoresearch.commands.output import CommandResult, TableRows
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.core.blueprint.finding import Severity
from autoresearch.errors import EnvironmentUnusable

if TYPE_CHECKING:
    from autoresearch.lab.remote.inspect import Inspected
    from autoresearch.lab.settings import Settings
    from autoresearch.plugins import Plugin

WIDTH = 80


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
    from autoresearch.launchers import host, host_sandbox_check
    from autoresearch.launchers.tmux import TmuxLauncher
    from autoresearch.plugins import installed
    from autoresearch.records.index import state_home

    blueprint = Path(path).absolute() if Path(path).is_file() else None
    here = blueprint.parent if blueprint else Path(path).absolute()
    settings = project.load(here, environ=os.environ, flags={"launcher": launcher})
    located = repository.locate(here)
    repo = located if isinstance(located, repository.Checkout) else None
    inspections = _inspected(settings, blueprint) if launcher else []
    around = host.look([here, state_home()], git_directory=repo.git_dir if repo else None)
    found = host.findings(around, TmuxLauncher(settings.text("tmux_socket")))
    plugins = {one: one.fault() for one in installed()}
    big = host.find(settings.text("big_volume"), os.environ)
    errors = [f for f in found if f.severity is Severity.ERROR]
    gpus = ", ".join(f"{g.index}: {g.name} {g.uuid}" for g in around.gpus) or "none"
    notice_rows, notices, told = recipients_shown(here, send=notify)
    fit = not errors and all(one.fit for one in inspections)
    rows = [
        ["system", around.system],
        ["python", f"{around.python} ({around.interpreter})"],
        ["tmux", around.tmux or "missing"],
        ["git", around.git or "missing"],
        ["repository", str(repo.root if repo else located)],
        ["GPUs", gpus],
        ["driven by", host_sandbox_check.driven_by(os.environ) or "a person"],
        *(["disk", f"{d.free_bytes / 1e9:.1f} GB free for {d.directory}"] for d in around.disks),
        ["big volume", big.sentence],
        *(["plug-in", f"{one.name} ({one.group}), {one.origin}: {fault or 'ok'}"] for one, fault in plugins.items()),
        *([f.severity.value, str(f)] for f in found),
        *notice_rows,
        *([["after a reboot", again]] if (again := _after_reboot()) else []),
        ["verdict", "a run could not start here" if errors else "fit"],
    ]
    payload = {
        "fit": fit,
        "system": around.system,
        "python": around.python,
        "tmux": around.tmux,
        "git": around.git,
        "repository": str(repo.root) if repo else None,
        "gpus": [{"index": g.index, "uuid": g.uuid, "name": g.name} for g in around.gpus],
        "big_volume": {"path": big.path or None, "why": big.why or None, "variables": dict(big.variables)},
        "plugins": [_plugin(one, fault) for one, fault in plugins.items()],
        "findings": [asdict(f) for f in found],
        "places": [_payload(one) for one in inspections],
        "after_reboot": again or None,
        **notices,
        "next": ["autoresearch run BLUEPRINT"] if fit else [],
    }
    code = 0 if fit and (told or not notify) else EnvironmentUnusable.exit_code
    lines = [TableRows(rows), *(line for one in inspections for line in _target_lines(one))]
    return CommandResult(payload, lines, exit_code=code, next_shown=0)


def _after_reboot() -> str:
    """How campaigns go on by themselves when the machine is started anew, in the environment of a login shell."""
    python = shlex.quote(os.path.abspath(sys.executable))  # noqa: PTH100 - not that to which a venv links
    again = f'at={python}; "$at" -m autoresearch campaign resume --all'  # behind `=`, no path is shortened on a screen
    line = f"/bin/bash -lc {shlex.quote(again)}"
    if shutil.which("crontab"):
        return f"crontab -e, and this line: @reboot {line}"
    if not shutil.which("systemctl"):
        return ""
    start = line.replace("$", "$$")  # systemd has variables of its own
    unit = f"[Service], Type=oneshot, RemainAfterExit=yes, ExecStart={start}, [Install], WantedBy=default.target"
    edit = "systemctl --user edit --full --force autoresearch.service"
    return f"{edit}, with a line for each of: {unit}; then systemctl --user enable autoresearch; loginctl enable-linger"


def _inspected(settings: Settings, blueprint: Path | None) -> list[Inspected]:
    """Every target that was named but this machine, which the rest of the command is about."""
    from autoresearch.lab.remote.inspect import inspect
    from autoresearch.lab.resolve.resolve_blueprint import read_blueprint

    note = read_blueprint(blueprint).blueprint.notes.launcher if blueprint else ""
    return [inspect(target, real_parts()) for target in settings.targets(note) if not target.is_local]


def _target_lines(inspected: Inspected) -> list[str | TableRows]:
    """A target, in lines of 80 columns."""
    answers = "no" if inspected.latency_s is None else f"yes, in {inspected.latency_s:.2f} s"
    offset = inspected.clock_offset_s
    clock = "" if offset is None else "as here" if abs(offset) < 1 else f"{offset:+.0f} s from ours"
    rows = [
        ("answers", answers),
        *([("clock", clock)] if clock else []),
        *inspected.rows,
        *((f.severity.value, f.message + (f" ({f.hint})" if f.hint else "")) for f in inspected.findings),
    ]
    fit = "fit" if inspected.fit else "a run could not be sent there"
    return ["", f"{inspected.target}: {fit}", *(f"  {line}" for line in table_lines(rows, WIDTH - 2))]


def _payload(inspected: Inspected) -> dict[str, Any]:
    return {
        **asdict(inspected.target),
        "fit": inspected.fit,
        "answers": inspected.answers,
        "latency_s": inspected.latency_s,
        "clock_offset_s": inspected.clock_offset_s,
        "facts": [{"name": name, "value": value} for name, value in inspected.rows],
        "findings": [asdict(f) for f in inspected.findings],
    }


def _plugin(plugin: Plugin, fault: str) -> dict[str, str | None]:
    names = {"group": plugin.group, "name": plugin.name}
    return {**names, "distribution": plugin.distribution, "version": plugin.version, "fault": fault or None}
