"""Prepares the next run up to the point of starting it, or records why it cannot be made."""

from __future__ import annotations

import functools
import gc
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from autoresearch.core.campaign.state import CampaignState, IdeaRun
from autoresearch.core.controller.scheduler import RunRequest
from autoresearch.errors import AutoresearchError
from autoresearch.git_repo.worktrees import Slot
from autoresearch.lab.campaign_report import progress
from autoresearch.lab.campaigns.context import CampaignContext
from autoresearch.lab.campaigns.trouble import is_trouble
from autoresearch.lab.ideas.idea_run import Ready, SharedOutputError, get_ready
from autoresearch.lab.resolve.run_names import new_token
from autoresearch.lab.results.collected import charged
from autoresearch.records import evidence, journal
from autoresearch.records.failpoint import failpoint


def prepare_run(context: CampaignContext, run_request: RunRequest, slot: Slot, busy: Mapping[str, str]) -> Ready | None:
    """Get a run ready to start; None if that failed because of its idea, which then has a row that says why.

    `busy`: output files of live runs -> the run that writes each. Raises SharedOutputError if it would write one of
    these, and the error itself if the machine failed.
    """
    try:
        return get_ready(context.builder, run_request, slot, context.parts, busy)
    except SharedOutputError:
        raise
    except (AutoresearchError, OSError) as error:
        if is_trouble(error):
            raise
        record_unmade(context, run_request, str(error))
        return None


def note_prepared(context: CampaignContext, run_request: RunRequest, idea_run: IdeaRun) -> None:
    """Record a prepared run in the journal."""
    state = context.state
    ongoing = state.open_round
    number = ongoing.number if ongoing and run_request.why == "confirm" else 0
    context.note(
        "prepared",
        index=run_request.idea.index,
        run=idea_run.run,
        run_dir=idea_run.run_dir,
        replicate=idea_run.replicate,
        why=idea_run.why,
        commit=idea_run.commit,
        seed=idea_run.seed,
        round=number,
        turns=list(_turns(state, run_request)),
    )


def keep_fix_story(state: CampaignState, ready: Ready) -> None:
    """Write the story of a fix into the experiment log; the log of the run that crashed is put aside."""
    if ready.request.why == "fix":
        for text in state.research.fix_story.get(ready.request.idea.index, ()):
            journal.append(Path(ready.prepared.spec.result_dir), text)


def _turns(state: CampaignState, run_request: RunRequest) -> tuple[str, ...]:
    """The agent's turns that led to this run: its row is charged with them."""
    if run_request.why == "fix":
        return state.research.fix_turns.get(run_request.idea.index, ())
    return run_request.idea.hypothesis.turns if run_request.why == "first" else ()


def record_hypothesis_unmade(context: CampaignContext, run_request: RunRequest) -> None:
    """Record an idea that the coding agent could not make: it counts as attempted, but never runs."""
    hypothesis = run_request.idea.hypothesis
    record_unmade(context, run_request, hypothesis.why_unmade, failure=hypothesis.unmade)


def record_unmade(context: CampaignContext, run_request: RunRequest, reason: str, *, failure: str = "") -> None:
    """A run that could not be made is an attempt as any other: it has a row, which says why."""
    name = f"{run_request.experiment}-{run_request.why}-unmade-{new_token()}"
    run = IdeaRun(name, str(context.campaign_dir.path / name), run_request.replicate, run_request.why)
    note_prepared(context, run_request, run)
    text = reason if failure else f"could not be launched: {reason}"
    row = progress.unmade_row(context.builder, run_request.idea, run, text, context.parts.clock())
    row = replace(row, failure=failure or row.failure)
    evidence.record(context.campaign_dir.ledger, charged(row, context.state))
    failpoint("campaign.unmade")  # the row first: a started run without a row is taken for a lost one
    context.note("started", run=run.run)
    context.say(f"{run_request.idea.name}: {'not tried' if failure else 'could not be started'}: {reason}")
    context.write_documents()


@functools.cache
def be_quick() -> None:
    """Import modules and compile templates once, while a run trains, to handle its end quickly."""
    import autoresearch.lab.results.collect  # noqa: F401 - the import is what it is for
    from autoresearch.lab.render import compile_ahead

    compile_ahead("results.md.j2")
    gc.collect()
    gc.freeze()  # keep thousands of ideas out of garbage collection
