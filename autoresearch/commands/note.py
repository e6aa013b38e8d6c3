"""`autoresearch note NAME TEXT`: written into the experiment log of a run, or told to the agent of a campaign."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autoresearch.commands import output
from autoresearch.commands.name_lookup import resolve
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.errors import UsageError
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.rundir import RunDir


def note(
    words: Annotated[list[str] | None, typer.Argument(metavar="RUN|CAMPAIGN TEXT", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> int:
    """Add a line to the experiment log of a run, or tell the agent of a campaign something for its next turn.

    What an agent is told changes neither the objective nor the rules of its campaign.
    """
    name, text = _name_and_text(words or [])
    named = resolve(name, real_parts())
    if isinstance(named, RunDir):
        return _of_run(named, text, as_json=as_json)
    return _to_agent(named, text, as_json=as_json)


def _name_and_text(words: list[str]) -> tuple[str, str]:
    name = words[0] if words else "RUN"
    example = f"autoresearch note {name} 'what was done'"
    if len(words) < 2:
        raise UsageError("a note needs a run or a campaign, and the words", fix=example)
    if len(words) > 2:
        raise UsageError("put the words into quotation marks", fix=example)
    if not words[1].strip():
        raise UsageError("the note is empty", fix=example)
    return name, words[1].strip()


def _of_run(rundir: RunDir, text: str, *, as_json: bool) -> int:
    from autoresearch.lab.runs import sessions
    from autoresearch.records import events, journal

    spec = sessions.spec_of(rundir)
    journal.append(Path(spec.result_dir), f"note: {text}")
    events.append(rundir.events, "note", text=text[:1000])
    path = Path(spec.result_dir) / journal.NAME
    output.emit(
        "note",
        {"run": spec.run, "run_dir": str(rundir.path), "journal": str(path), "next": []},
        as_json=as_json,
        lines=[f"noted of {spec.run} in {rundir.path}: {path}"],
    )
    return 0


def _to_agent(campaign_dir: CampaignDir, text: str, *, as_json: bool) -> int:
    from autoresearch.commands.campaign_control import MOST_CHARACTERS, ask

    if len(text) > MOST_CHARACTERS:
        raise UsageError(f"{len(text):,} characters are too many for a note; {MOST_CHARACTERS:,} are the most")
    return ask(str(campaign_dir.path), "tell", as_json=as_json, command="note", text=text)
