"""What a campaign is after, and when it stops: the objective and the stop rules."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from autoresearch.core.campaign.spec import Rules, parse_target
from autoresearch.core.metrics.expression import EXPRESSIONS, ExpressionError
from autoresearch.core.metrics.objective import Direction, Objective, usual_direction
from autoresearch.core.text.regex import later
from autoresearch.errors import InputMissing, NotFoundError, UsageError
from autoresearch.lab.campaign_setup.campaign_file import CampaignFile
from autoresearch.lab.campaign_setup.first_blueprint import metric_candidates
from autoresearch.lab.resolve.trainer_settings import TrainerSettings
from autoresearch.records.index import Index
from autoresearch.records.recorded_run import RecordedRun
from autoresearch.records.rundir import RunDir
from autoresearch.runner.metric_lines import is_validation
from autoresearch.trainers import ask

_SCORE = later(r"(?i)reward|return|score|acc(?:uracy)?(?![a-z])|fitness|success|win_?rate")
UNRULED_IDEAS = 4  # no stop rule given: the baseline and three ideas, then a question


@dataclass(frozen=True, slots=True)
class CampaignGoal:
    """Objective and stop rules, with the origin of what the campaign file does not give."""

    objective: Objective
    rules: Rules
    sources: Mapping[str, str] = field(default_factory=dict)


def resolve_goal(
    campaign_file: CampaignFile, trainer_settings: TrainerSettings, now: float, index: Index
) -> CampaignGoal:
    """The goal of a campaign. UsageError without a metric, or for an impossible rule.

    index: runs of the blueprint before this campaign. Where nobody names a metric, it is the one that the last of them
    printed, if only one of its metrics was measured on held-out data, or else only one is a score.
    """
    objective, sources = _objective(campaign_file, trainer_settings, index)
    rules = _rules(campaign_file, objective)
    campaign_s = trainer_settings.resolved.blueprint.campaign_time_s
    if rules.deadline is None and campaign_s is not None:
        rules = replace(rules, deadline=now + campaign_s)
        sources["deadline"] = "blueprint"
    if not rules.any_set:
        rules = replace(rules, count=UNRULED_IDEAS)
        sources["count"] = "no stop rule was given: the baseline and three ideas, then a question"
    return CampaignGoal(objective, rules, sources)


def _objective(
    campaign_file: CampaignFile, trainer_settings: TrainerSettings, index: Index
) -> tuple[Objective, dict[str, str]]:
    """Flag or campaign file over blueprint over trainer, for the metric and for its direction."""
    notes, trainer = trainer_settings.resolved.blueprint.notes, trainer_settings.trainer
    usual = trainer.objective(trainer_settings.whole)
    own = campaign_file["metric"].strip()
    sources = {} if own else {"metric": "blueprint" if notes.metric else f"trainer {trainer.name}"}
    name = own or notes.metric or (usual.metric if usual else "")
    metric = ask.server(trainer).recorded_metric(name, notes)
    if not metric:
        run, printed = _printed(trainer_settings.resolved.path, index)
        held_out = [key for key in printed if is_validation(key)]
        likely = held_out or [key for key in printed if _SCORE.search(key)]
        if len(likely) != 1:
            start = f"autoresearch run {shlex.quote(str(trainer_settings.resolved.path))}"
            names = f"{run} printed {', '.join(printed[:8])}" if printed else f"one run lists what it prints: {start}"
            resolved = trainer_settings.resolved
            text = metric_candidates(resolved.blueprint.launch_command, resolved.codebase)
            guess = next(iter(likely or printed or text), "")
            raise InputMissing(
                f"the trainer {trainer.name} has no usual metric and none is named",
                hint=f"--metric NAME, or `- metric: NAME` in the notes of the blueprint; {names}",
                missing="metric",
                add=f"- metric: {guess or 'NAME'}",
                add_to=str(resolved.path),
                fix=f"autoresearch metrics {run}" if printed else start,
                code="no_metric",
            )
        metric = likely[0]
        sources["metric"] = f"none was named; run {run} printed it"
    try:
        direction = usual_direction(metric, usual)
    except ExpressionError as error:
        raise UsageError(f"the metric {error}", hint=EXPRESSIONS, code="bad_metric") from None
    if campaign_file["direction"]:
        return Objective(metric, Direction(campaign_file["direction"])), sources
    if notes.direction and name == notes.metric:
        return Objective(metric, Direction(notes.direction)), {**sources, "direction": "blueprint"}
    if direction is None:
        raise UsageError(
            f"no direction is known for {metric}",
            hint="`--set direction=maximize` or minimize: an expression of several metrics has no default",
            code="no_direction",
        )
    known = usual is not None and usual.metric in (metric, *Objective(metric).keys)
    source = f"trainer {trainer.name}" if known else "the metric's name"
    return Objective(metric, direction), {**sources, "direction": source}


def _printed(blueprint: Path, index: Index) -> tuple[str, list[str]]:
    """The last run of a blueprint that printed metrics, and their names; "" and [] if there is none."""
    from autoresearch.lab.results import readout

    for entry in index.by_blueprint(str(blueprint)):
        try:
            shown = readout.of_run(RecordedRun.read(RunDir(Path(entry.run_dir)))).shown
        except (OSError, NotFoundError):  # it was removed
            continue
        if names := list(dict.fromkeys(name for reading in shown for name in reading.metrics)):
            return entry.run, names
    return "", []


def _rules(campaign_file: CampaignFile, objective: Objective) -> Rules:
    """The stop rules that are given."""
    target = None
    if campaign_file["target"]:
        try:
            target = parse_target(campaign_file["target"], objective)
        except ValueError as error:
            raise UsageError(f"target: {error}", code="bad_target") from None
    return Rules(
        campaign_file["count"],
        campaign_file["deadline"],
        campaign_file["budget_gpu_hours"],
        target,
        campaign_file["budget_usd"],
        campaign_file["budget_tokens"],
        campaign_file["confirm_runs"],
    )
