"""What is recorded of the next run when it is prepared, or when it cannot be made."""

from __future__ import annotations

import functools
import gc
from dataclasses import replace

from autoresearch.core.campaign.state import IdeaRun
from autoresearch.core.controller.scheduler import RunRequest
from autoresearch.lab.campaign_report import progress
from autoresearch.lab.campaigns.context import CampaignContext
from autoresearch.lab.resolve.run_names import new_token
from autoresearch.lab.results.collected import charged
from autoresearch.records import campaign_records
from autoresearch.runner.basics import failpoint


def note_prepared(context: CampaignContext, run_request: RunRequest, idea_run: IdeaRun) -> None:
    """Record a prepared run."""
    state, why = context.state, run_request.why
    ongoing = state.open_round if why == "confirm" else None
    turns: tuple[str, ...] = ()  # of the agent, that led to this run: its row is charged with them
    if why == "fix":
        turns = state.research.fix_turns.get(run_request.idea.index, ())
    elif why == "first":
        turns = run_request.idea.hypothesis.turns
    context.note(
        "prepared",
        index=run_request.idea.index,
        run=idea_run.run,
        run_dir=idea_run.run_dir,
        replicate=idea_run.replicate,
        why=idea_run.why,
        commit=idea_run.commit,
        seed=idea_run.seed,
        round=ongoing.number if ongoing else 0,
        turns=list(turns),
    )


def record_unmade(context: CampaignContext, run_request: RunRequest, reason: str, *, failure: str = "") -> None:
    """Record a run that could not be made. It is an attempt as any other: it has a row, which says why.

    failure: of the coding agent, which could not make the idea; "" if the launch failed.
    """
    name = f"{run_request.experiment}-{run_request.why}-unmade-{new_token()}"
    run = IdeaRun(name, str(context.campaign_dir.path / name), run_request.replicate, run_request.why)
    note_prepared(context, run_request, run)
    text = reason if failure else f"could not be launched: {reason}"
    row = progress.unmade_row(context.builder, run_request.idea, run, text, context.parts.clock())
    row = replace(row, failure=failure or row.failure)
    campaign_records.append_row(context.campaign_dir, charged(row, context.state))
    failpoint("campaign.unmade")  # the row first: a started run without a row is taken for a lost one
    context.note("started", run=run.run)
    context.say(f"{run_request.idea.name}: {'not tried' if failure else 'could not be started'}: {reason}")
    context.write_documents()


@functools.cache
def spare_garbage_collection() -> None:
    """Keep thousands of ideas out of garbage collection."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(700)  # a command that is soon over collects later (`cli.main`): here that is memory
