"""`autoresearch status [RUN]`: what is going on, from files alone."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from autoresearch.commands import output
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.errors import EnvironmentUnusable, NotFoundError
from autoresearch.lab.parts import Parts


def status(
    run: Annotated[str, typer.Argument(metavar="RUN", show_default=False)] = "",
    as_json: Annotated[bool, typer.Option("--json")] = False,
    as_exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit 6 if a run cannot be recorded.")] = False,
) -> int:
    """What a run, or every living run, is doing right now; after a crash or a reboot, the dead are recorded first."""
    parts = real_parts()
    return _one(run, parts, as_json=as_json) if run else _all(parts, as_json=as_json, as_exit_code=as_exit_code)


def _one(run: str, parts: Parts, *, as_json: bool) -> int:
    from autoresearch.commands.name_lookup import campaign_instead
    from autoresearch.commands.wait import _living, elsewhere
    from autoresearch.lab.runs import sessions
    from autoresearch.lab.runs.settled import settled

    try:
        recorded = sessions.recorded(run, parts)
    except NotFoundError as error:
        raise campaign_instead(run, parts, error, "campaign status") from None
    rundir, spec = recorded.rundir, recorded.spec
    state, outcome = settled(rundir, parts)
    if outcome is not None:
        from autoresearch.commands.outcome import show_outcome

        show_outcome("status", outcome, as_json=as_json)
        return 0
    info, server = sessions.session_info(rundir), sessions.server_session_info(rundir)
    payload = {
        **_living(recorded, 5),
        "attach": info.attach if info else None,
        **({"server_session": server.session, "server_attach": server.attach} if server else {}),
        "next": [f"autoresearch wait {spec.run} --for 100s"],
    }
    lines = [
        f"{spec.run}: {state.value}, step {payload['step']}, elapsed {output.duration(payload['elapsed_s'])}, "
        f"limit in {output.duration(payload['deadline_s'])}",
        *elsewhere(payload, state),
        f"attach: {payload['attach']}",
        *([f"server: {server.attach}"] if server else []),
        *(f"  | {line}" for line in payload["tail"]),
    ]
    output.emit("status", payload, as_json=as_json, lines=lines)
    return 0


def _all(parts: Parts, *, as_json: bool, as_exit_code: bool) -> int:
    from pathlib import Path

    from autoresearch.commands.campaign_status import headline, unfinished_campaigns
    from autoresearch.commands.wait import elsewhere
    from autoresearch.lab.runs import run_status
    from autoresearch.lab.runs.adopt import adopt_all
    from autoresearch.lab.runs.sessions import server_session_info, session_info
    from autoresearch.records.rundir import RunDir

    living: list[dict[str, Any]] = []
    lines: list[str] = []
    for found in adopt_all(parts):
        entry = found.entry
        ending = found.outcome.exit.ending.value if found.outcome else "lost" if found.deleted else None
        rundir = RunDir(Path(entry.run_dir))
        server, where = server_session_info(rundir), run_status.elsewhere(rundir)
        living.append(
            {
                "run": entry.run,
                "state": found.state.value,
                "ending": ending,
                "trouble": found.trouble or None,
                "session": entry.session,
                "attach": info.attach if (info := session_info(rundir)) else None,
                "result_dir": entry.result_dir,
                "run_dir": entry.run_dir,
                **({"server_session": server.session} if server else {}),
                **where,
            }
        )
        word = f"{found.state.value} {ending or ''}".rstrip()
        beside = f"  with {server.session}" if server else ""
        beside += "".join(f"  {line}" for line in elsewhere(where, found.state)) if ending is None else ""
        lines.append(f"{entry.run}  {word}  {found.trouble or output.near(entry.result_dir)}{beside}")
    shown = living[: output.MAX_LINES]
    recent = (
        []
        if living
        else [
            {"run": e.run, "session": e.session, "result_dir": e.result_dir, "run_dir": e.run_dir}
            for e in parts.index.recent(5)
        ]
    )
    if not living:
        lines = ["nothing runs", *(f"{e['run']}  over  {output.near(e['result_dir'])}" for e in recent)]
    first = living[0]["run"] if living else recent[0]["run"] if recent else ""
    campaigns = unfinished_campaigns()
    counts = [f"{one['attempted']}{'/' + str(one['count']) if one['count'] else ''} ideas" for one in campaigns]
    lines[:0] = [f"campaign {headline(one)}, {count}" for one, count in zip(campaigns, counts, strict=True)]
    payload = {
        "campaigns": [{key: value for key, value in one.items() if key != "next"} for one in campaigns],
        "runs": shown,
        "recent": recent,
        "count": len(living),
        "living": sum(one["ending"] is None and not one["trouble"] for one in living),
        "recorded": sum(one["ending"] is not None and not one["trouble"] for one in living),
        "next": [
            *(line for one in campaigns for line in one["next"][:1]),
            *([f"autoresearch status {first}"] if first else [] if campaigns else ["autoresearch run BLUEPRINT"]),
        ],
    }
    stuck = as_exit_code and any(one["trouble"] for one in living)
    code = EnvironmentUnusable.exit_code if stuck else 0
    payload["exit_code"] = code
    output.emit("status", payload, as_json=as_json, lines=lines[: output.MAX_LINES])
    return code
