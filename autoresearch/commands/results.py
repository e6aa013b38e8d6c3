"""`autoresearch report|compare|repro`: what a campaign came to, how two runs differ, and a run made again."""

from __future__ import annotations

import getpass
import os
import signal
import socket
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Annotated, Any

from autoresearch.commands import Option, Positional, output
from autoresearch.commands.layout import Column, Whole, grid, width_of
from autoresearch.commands.output import CommandResult, LogLine
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.core.text.numbers import span
from autoresearch.errors import UsageError

DIFFERING = 6  # keys of a kind, for people
WIDE = 36


def report(
    name: Annotated[str, Positional(metavar="CAMPAIGN", show_default=False)] = "",
    serve: Annotated[bool, Option("--serve", help="Serve the page, which then follows the campaign.")] = False,
    port: Annotated[int, Option(min=0, max=65535, help="Of --serve, on 127.0.0.1; by default a free one.")] = 0,
) -> CommandResult | int:
    """Write the report of a campaign: report.md, report.html, progress.png.

    With --serve, nothing is written: report.html is served and shows what comes, until Ctrl-C.
    """
    from autoresearch.commands.campaign_view import state_of
    from autoresearch.core.controller.rules import stand_at
    from autoresearch.lab.campaign_report.report import write_report
    from autoresearch.lab.campaign_setup import campaign_registry
    from autoresearch.lab.campaigns.campaign_status import proof_now

    if port and not serve:
        words = ["autoresearch report", *([name] if name else []), f"--serve --port {port}"]
        raise UsageError("--port is an option of --serve", fix=" ".join(words))
    if serve:
        return _serve(name, port)
    parts = real_parts()
    campaign_dir = campaign_registry.find(name, parts)
    state = state_of(campaign_dir)
    written = write_report(campaign_dir, state, stand_at(state, parts.clock()))
    files = list(written)
    for remark in written.remarks:
        output.remark(remark)
    payload: dict[str, Any] = {"campaign": state.spec.name, "directory": str(campaign_dir.path)}
    payload |= {"files": [*map(str, files)], "remarks": list(written.remarks), "next": []}
    names = ", ".join(path.name for path in files)
    lines = [f"wrote {names} in {campaign_dir.path}"]
    if state.spec.prove:
        payload |= asdict(proof_now(campaign_dir, state))
        lines.append(payload["sentence"])
    return CommandResult(payload, lines)


def _serve(name: str, port: int) -> int:
    """Serve a campaign's page until Ctrl-C or SIGTERM; 0. Writes nothing."""
    from autoresearch.lab.campaign_report.live import LiveReport, LiveServer
    from autoresearch.lab.campaign_setup import campaign_registry

    parts = real_parts()
    campaign_dir = campaign_registry.find(name, parts)
    with LiveServer(LiveReport(campaign_dir, parts), port) as server:
        url, number = server.url, server.server_port
        tunnel = f"ssh -N -L {number}:127.0.0.1:{number} {getpass.getuser()}@{socket.gethostname()}"
        payload: dict[str, Any] = {
            "state": "serving",
            "url": url,
            "port": number,
            "ssh": tunnel,
            "campaign": campaign_dir.path.name,
            "next": [],
        }
        lines = [
            f"{campaign_dir.path}: live at",
            f"  {url}",
            "from another machine, with this line there and the same address in its browser:",
            f"  {tunnel}",
            "whoever has the address can read it; Ctrl-C ends it",
        ]
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            output.show(CommandResult(payload, lines))
            server.serve_forever()
        except KeyboardInterrupt:
            output.remark("ended; the address is no longer valid")
    return 0


# ------------------------------------------------------------------------------------------ compare


def compare(
    a: Annotated[str, Positional(metavar="A", show_default=False, help="Run id, slug, CAMPAIGN:INDEX[.N].")],
    b: Annotated[str, Positional(metavar="B", show_default=False)],
) -> CommandResult:
    """Compare two runs: metrics, recipe by key, code, environment, limits."""
    from autoresearch.lab.results import row_lookup
    from autoresearch.lab.results.compare import compare as compared

    parts = real_parts()
    payload = compared(row_lookup.find(a, parts), row_lookup.find(b, parts))
    lines = [*_compared_rows(payload), *_differences(payload)][: output.MAX_LINES - 1]
    room, diff = max(0, output.MAX_LINES - len(lines) - 1), payload["diff"].splitlines()
    lines += (LogLine(f"  | {line[:200]}") for line in diff[:room])
    return CommandResult(payload, lines, next_shown=1 if len(payload["next"]) > 1 and len(diff) > room else 0)


def _compared_rows(payload: Mapping[str, Any]) -> list[str]:
    """The results of both, side by side."""
    name = payload["metric_name"] or "metric"
    names = ["run", "status", f"{name}, last", "best", "mean of the idea's search runs", "steps, seed", "took"]
    cells = [
        [
            side["run"],
            f"{side['status']} ({side['ending']})" if side["status"] else "not over",
            output.number(side["last"]),
            output.number(side["best"]),
            output.number(side["mean"])
            + (f" ± {output.number(side['sd'])}" if side["sd"] is not None else "")
            + f" (n={side['n']})",
            f"{_or(side['steps'])}, {_or(side['seed'])}",
            span(None if side["elapsed_min"] is None else side["elapsed_min"] * 60),
        ]
        for side in (payload["metrics"]["a"], payload["metrics"]["b"])
    ]
    both = [Column(letter, least=10, most=WIDE, middle=True) for letter in "AB"]
    shown = grid([Column(""), *both], list(zip(names, *cells, strict=True)), width_of(sys.stdout))
    return [shown.header, *shown.rows]


def _differences(payload: Mapping[str, Any]) -> Iterator[str]:
    metrics = payload["metrics"]
    if metrics["difference"] is not None:
        better = f", {payload['better']}" if payload["better"] else ""
        difference = f"difference of the search means (B - A): {metrics['difference']:+.4g}{better}"
        yield f"{difference}; a comparison, not a confirmation"
    elif payload["not_comparable"]:
        yield f"not compared: {payload['not_comparable']}"[:300]
    for letter in "ab":
        if shown := metrics[letter]["shown"]:
            yield f"{letter.upper()} is of {shown['sentence']}"[:400]
    yield from _section("config", payload["config"])
    yield from _section("per run", payload["per_run"], 3)
    if payload["command_line"]:
        yield "command:"
        yield from (f"  {letter} {words[:160]!r}" for letter, words in zip("AB", payload["command_line"], strict=True))
    yield from _section("environment", payload["environment"], 4)
    yield from _section("limits", payload["limits"], 4)
    yield f"code: {payload['code']}"


def _section(title: str, pairs: Mapping[str, tuple[Any, Any]], most: int = DIFFERING) -> Iterator[str]:
    from autoresearch.lab.campaign_report.formatting import plain

    yield f"{title}:" if pairs else f"{title}: the same"
    for key, (x, y) in list(pairs.items())[:most]:
        yield f"  {plain(key, 60)}: {plain(_or(x), 60)} -> {plain(_or(y), 60)}"
    if len(pairs) > most:
        yield f"  and {len(pairs) - most} more: --json"


def _or(value: object) -> str:
    return "-" if value is None or value == "" else str(value)


# ------------------------------------------------------------------------------------------ repro


def repro(
    row: Annotated[str, Positional(metavar="ROW", show_default=False, help="Run id, slug, CAMPAIGN:INDEX[.N].")],
) -> CommandResult:
    """Print a row's commit, and what to type to run it by hand."""
    from autoresearch.lab.results import row_lookup
    from autoresearch.lab.results.repro import read_original

    match = row_lookup.find(row, real_parts())
    original, known = read_original(match, os.environ), match.row
    payload: dict[str, Any] = {
        "row": known.run_id,
        "row_dir": known.run_dir,
        "commit": known.commit,
        "command_line": original.blueprint.launch_command,
        "seed": known.seed,
        "metric_name": known.metric_name or None,
        "value": known.metric_value,
        "lines": list(original.lines()),
    }
    value = f", {known.metric_name} = {output.number(known.metric_value)}" if known.status else ""
    seed = "" if known.seed is None else f", seed {known.seed}"
    lines = [
        f"{known.run_id} in {known.run_dir} (commit {known.commit[:12]}{value}{seed})",
        f"to run it by hand, where it writes what it wrote, such as {original.spec.result_dir}; `autoresearch run --` "
        "before the last line has it watched and recorded:",
        *(Whole(f"  {line}") for line in payload["lines"]),
    ]
    return CommandResult(payload, lines)
