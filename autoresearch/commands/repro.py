"""`autoresearch repro ROW [--run]`: the code, recipe and seed of a row in a worktree, ready to be run again."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autoresearch.commands import output
from autoresearch.commands.layout import Whole
from autoresearch.commands.name_lookup import target_named
from autoresearch.commands.wiring import parts as real_parts

if TYPE_CHECKING:
    from autoresearch.lab.results.repro import Redone

SHOWN = 9  # caveats, for people


def repro(
    row: Annotated[str, typer.Argument(metavar="ROW", show_default=False, help="Run id, slug, CAMPAIGN:INDEX[.N].")],
    run: Annotated[bool, typer.Option("--run", help="Launch it as a new run.")] = False,
    launcher: Annotated[
        str, typer.Option(metavar="TARGET", help="Where it goes with --run.", callback=target_named)
    ] = "",
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> int:
    """Check a row's commit out again and print what to type; with --run, launch it."""
    from autoresearch.lab import settings as project
    from autoresearch.lab.results import row_lookup
    from autoresearch.lab.results.repro import redo
    from autoresearch.lab.results.rerun import run_again

    parts = real_parts()
    redone = redo(row_lookup.find(row, parts), parts)
    payload = _payload(redone)
    if not run:
        payload["next"] = [f"autoresearch repro {row} --run"]
        output.emit("repro", payload, as_json=as_json, lines=_lines(redone))
        return 0
    flags = _socket(redone) | {"launcher": launcher}
    assert redone.match.ran.checkout is not None
    settings = project.load(redone.match.ran.checkout.root, environ=os.environ, flags=flags)
    with output.interruption_reported():
        launched = run_again(redone, settings, parts)
    spec = launched.spec
    payload |= {"run": spec.run, "session": spec.session, "attach": launched.attach, "branch": spec.branch}
    payload |= {"run_dir": spec.run_dir, "ledger": spec.ledger, "state": "running"}
    payload["next"] = [f"autoresearch wait {spec.run} --for 100s", f"autoresearch compare {row} {spec.run}"]
    lines = [f"{spec.run} in {spec.run_dir} runs in {spec.session}", f"attach: {launched.attach}", *_caveats(redone)]
    output.emit("repro", payload, as_json=as_json, lines=lines)
    return 0


def _socket(redone: Redone) -> dict[str, str]:
    campaign = redone.match.ran.campaign
    return {"tmux_socket": campaign.tmux_socket} if campaign and campaign.tmux_socket else {}


def _payload(redone: Redone) -> dict[str, Any]:
    row = redone.match.row
    return {
        "row": row.run_id,
        "row_dir": row.run_dir,
        "run": None,
        "worktree": redone.worktree,
        "commit": row.commit,
        "checked_out": redone.follow_up,
        "blueprint": redone.blueprint,
        "cwd": redone.cwd,
        "command_line": redone.command,
        "seed": row.seed,
        "metric_name": row.metric_name or None,
        "value": row.metric_value,
        "result_dir": redone.result_dir,
        "lines": redone.lines,
        "caveats": redone.caveats,
    }


def _lines(redone: Redone) -> list[str]:
    row = redone.match.row
    told = f", {row.metric_name} = {output.number(row.metric_value)}, seed {row.seed}" if row.status else ""
    head = [
        f"{row.run_id} in {row.run_dir} (commit {row.commit[:12]}{told})",
        f"worktree: {redone.worktree}",
        f"results:  {redone.result_dir}",
        "to run it by hand:",
    ]
    return [*head, *(Whole(f"  {line}") for line in redone.lines[:12]), *_caveats(redone)]


def _caveats(redone: Redone) -> list[str]:
    shown = [f"  - {text}" for text in redone.caveats[:SHOWN]]
    left = [f"  - and {len(redone.caveats) - SHOWN} more: --json"] if len(redone.caveats) > SHOWN else []
    return ["what differs, or may differ:", *shown, *left] if redone.caveats else []
