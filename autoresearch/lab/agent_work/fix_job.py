"""The fix of an idea whose last run failed, by a coding agent: the fourth of its jobs."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from autoresearch.core.agents.agent import Edit, NotMade, TurnRole
from autoresearch.core.agents.turns import AGENT
from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.campaign.state import Idea
from autoresearch.errors import AutoresearchError, ConflictError
from autoresearch.lab.agent_work.agent_jobs import NO_ATTEMPT, JobAtWork, JobOutcome
from autoresearch.lab.agent_work.edit import EDIT_FILE, make_fix
from autoresearch.lab.ideas.commit_builder import IdeaRefused
from autoresearch.lab.ideas.run_commit import repair
from autoresearch.lab.results.explain import Explanation, explain_run
from autoresearch.records import exit_record, journal
from autoresearch.records.recorded_run import RecordedRun
from autoresearch.records.rundir import RunDir, read_json
from autoresearch.runner.basics import failpoint
from autoresearch.trainers import registry as trainers

TAIL = 40  # lines of the log that a fixing agent is shown


def fix(at_work: JobAtWork, idea: Idea) -> JobOutcome:
    """Let the agent mend what made the last run of an idea fail. Raises Pending, JobEnded."""
    late = at_work.state.research.late(idea.slug, TurnRole.FIX)
    try:
        failure = explained(idea)
    except ConflictError as gone:
        edit = Edit(unmade=NotMade.RESEARCHER, why=gone.message)
    else:
        session = _session(at_work, idea)
        edit = make_fix(at_work.workspace, idea.hypothesis, idea.commit, failure, at_work.turns.ask, session)
        if edit.fault in NO_ATTEMPT and not late:
            return at_work.overran(edit, JobOutcome())
    return _fixed(at_work, idea, edit, (*late, *at_work.turn_names()))


def _session(at_work: JobAtWork, idea: Idea) -> str:
    """The session in which the idea was edited or mended last, if it can be gone on with."""
    if not (at_work.job.resumes and at_work.turns.researcher.traits.resumes):
        return ""
    turns = (*idea.hypothesis.turns, *at_work.state.research.fix_turns.get(idea.index, ()))
    edits = (read_json(at_work.context.campaign_dir.turns / name / EDIT_FILE) for name in reversed(turns))
    return next((str(edit["session"]) for edit in edits if edit is not None), "")


def _fixed(at_work: JobAtWork, idea: Idea, edit: Edit, turns: Sequence[str]) -> JobOutcome:
    """Commit a fix, or say why there is none; both go into the log of the experiment."""
    number, most = at_work.state.research.fixes.get(idea.index, 0), at_work.workspace.spec.max_fixes
    why, commit = edit.why, ""
    if edit.unmade is None:
        change = Hypothesis(idea.slug, edit.summary, patches=(edit.patch,), proposer=AGENT)
        try:
            commit = repair(at_work.context.builder, idea, change, edit.summary or "mended by the agent")
            failpoint("research.mended")
        except IdeaRefused as refused:
            why = refused.message
    story = f"fix {number} of {most} by {at_work.job.agent}"
    fields = {"index": idea.index, "turns": list(turns)}
    if commit:
        text = " ".join(edit.summary.split())[:300] or "mended"
        story += f": {text}; files: {', '.join(edit.paths)}"
        fields |= {"slug": idea.slug, "commit": commit, "note": text, "flags": list(edit.flags)}
    else:
        story += f" came to nothing: {' '.join(why.split())[:500]}"
        fields |= {"why": why}
    if idea.rows and idea.rows[-1].result_dir:
        with contextlib.suppress(AutoresearchError, OSError):
            journal.append(Path(idea.rows[-1].result_dir), story)
    done = ("fixed" if commit else "fix_failed", {**fields, "told": story})
    return JobOutcome([done], [f"{idea.name}: {story}"])


def explained(idea: Idea) -> Explanation:
    """Why the last run of an idea failed. ConflictError where its records are gone."""
    row = idea.rows[-1]
    rundir = RunDir(Path(row.run_dir))
    if not rundir.spec.exists():
        raise ConflictError(f"the records of {row.run_id} are gone: {rundir.path}", code="no_records")
    recorded = RecordedRun.read(rundir)
    return explain_run(recorded, exit_record.read(rundir), trainers.of_run(recorded.spec), TAIL)
