"""What commands say about a run that is over."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autoresearch.commands import output
from autoresearch.core.run.ending import NOTHING_MEASURED, Ending
from autoresearch.core.run.spec import RunSpec
from autoresearch.errors import AutoresearchError
from autoresearch.lab.runs.outcome import Outcome, as_payload, where_now
from autoresearch.records.campaign_records import CampaignDir

WHAT = "what was repaired"  # stands in a line to type for the words of whoever repaired it


def show_outcome(command: str, outcome: Outcome, *, as_json: bool, more: Mapping[str, Any] | None = None) -> None:
    """The table of what happened and where the records are, or its JSON object with `more` keys."""
    spec, end, rundir = outcome.spec, outcome.exit, outcome.rundir
    payload = {**as_payload(outcome), "exit_code": outcome.exit_code, "next": _next(outcome), **(more or {})}
    if as_json:
        output.emit(command, payload, as_json=True)
        return
    rows = [
        ["run", f"{spec.run} in {output.near(rundir.path)}"],
        [
            "ended",
            f"{end.ending.wording}, return code {'unknown' if end.returncode is None else end.returncode}, "
            f"after {output.duration(end.duration_s)}",
        ],
        ["verdict", outcome.standing],
        ["first step", "never" if end.first_step_s is None else f"after {output.duration(end.first_step_s)}"],
    ]
    if spec.objective:
        best = f" (best {output.number(outcome.best_value)})" if outcome.best_value is not None else ""
        value = output.number(outcome.metric_value) if outcome.measured else "could not be read"
        rows.append(["metric", f"{spec.objective.metric} = {value}{best}"])
    else:
        named = "one of those below" if outcome.steps_read else "a metric"
        none = f"{NOTHING_MEASURED}: name {named} in the notes (`- metric: NAME`), then the run can be judged by it"
        rows.append(["metric", none])
    if outcome.steps_read:
        rows.append(["steps", outcome.steps_read])
    if outcome.failure:
        rows.append(["failure", f"{outcome.failure}: {outcome.failure_line or end.reason}"[:800]])
    rows += [
        ["branch", f"{spec.branch} at {spec.commit[:12]}" if spec.commit else "none"],
        ["results", output.near(outcome.results)],
        ["records", output.near(where_now(spec, Path(spec.result_dir) / "experiment_log.md"))],
        ["log", output.near(rundir.log)],
        ["ledger", output.near(spec.ledger)],
        *(["tracker", url] for url in outcome.run_urls),
        *(["warning", text] for text in outcome.warnings[:3]),
    ]
    output.table(rows)
    for line in payload["next"]:
        output.prose(f"next: {line}")


def repair_line(spec: RunSpec) -> str:
    """What is typed to run it once more when its trouble is repaired: where it was, or by its campaign."""
    campaign_dir = CampaignDir(Path(spec.run_dir).parent)
    if campaign_dir.spec.is_file():
        return _repair_in_campaign(campaign_dir, spec)
    target = spec.launcher.replace("/", ":")
    where = "" if target in ("", "tmux") else f" --launcher {shlex.quote(target)}"
    return f"autoresearch run {shlex.quote(spec.blueprint)}{where} --fix-of {spec.run} --note {shlex.quote(WHAT)}"


def _repair_in_campaign(campaign_dir: CampaignDir, spec: RunSpec) -> str:
    """Its worktree is another idea's by now: the campaign makes the repair a commit on the idea's branch."""
    from autoresearch.commands.campaign_status import state_of
    from autoresearch.core.campaign.spec import CampaignPhase

    status = f"autoresearch campaign status {campaign_dir.path.name} --full"
    try:
        state = state_of(campaign_dir)
    except AutoresearchError:
        return status
    idea = next((one for one in state.ideas if one.index == spec.index), None)
    if idea is None or idea.hypothesis.is_baseline:
        return status
    if state.phase is CampaignPhase.ENDED:
        return f"autoresearch campaign set {state.spec.name} count={state.attempted + 1}"
    return f"autoresearch campaign fix {idea.slug} --set KEY=VALUE --campaign {state.spec.name}"


def _next(outcome: Outcome) -> list[str]:
    spec = outcome.spec
    if outcome.exit.ending is Ending.FINISHED and not (outcome.measured or outcome.crashed):
        return [
            f"autoresearch metrics {spec.run}",  # the names that there are
            f"autoresearch logs {spec.run} --tail 40",
            f"autoresearch blueprint check {spec.blueprint}",
        ]
    if outcome.verdict.value == "crash":
        return [
            f"autoresearch explain {spec.run}",
            f"autoresearch logs {spec.run} --tail 40",
            repair_line(spec),
        ]
    return [f"autoresearch ledger show {spec.run}", f"autoresearch metrics {spec.run}"]
