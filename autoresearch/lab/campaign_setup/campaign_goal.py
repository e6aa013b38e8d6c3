"""What a campaign is after, and when it stops: the objective and the stop rules."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path

from autoresearch.core.blueprint.model import directed
from autoresearch.core.campaign.spec import CampaignSpec, Rules, parse_target
from autoresearch.core.metrics.constraint import MEMORY, parsed
from autoresearch.core.metrics.objective import Direction, ExpressionError, Objective, steadier, usual_direction
from autoresearch.core.metrics.signal import Reading, nearest_lines
from autoresearch.errors import AutoresearchError, InputMissing, UsageError
from autoresearch.lab.campaign_setup.campaign_keys import CampaignFile
from autoresearch.lab.campaign_setup.read_setup import CampaignSetup
from autoresearch.lab.recipes.likely_objective import PrintedNumber, candidates
from autoresearch.lab.results.measure import numbers_in
from autoresearch.readers.console import tail_lines
from autoresearch.records.recorded_run import RecordedRun
from autoresearch.records.rundir import RunDir
from autoresearch.trainers import registry

UNRULED_IDEAS = 4  # no stop rule given: the baseline and three ideas, then a question

_BY_NAME = "the metric's name"  # the source of a direction that nobody named


def rules_of(setup: CampaignSetup, objective: Objective) -> Rules:
    """The stop rules: those that are given, else the blueprint's time for a campaign, else a few ideas."""
    given = {one.name: setup.file[one.name] for one in fields(Rules)}  # keys of these names
    rules = Rules(**given | {"target": _target(setup.file, objective)})
    campaign_s = setup.blueprint.campaign_time_s
    if rules.deadline is None and campaign_s is not None:
        setup.sources["deadline"] = "blueprint"
        rules = replace(rules, deadline=setup.parts.clock() + campaign_s)
    if rules.count is None and setup.blueprint.campaign_count is not None:
        setup.sources["count"] = "blueprint"
        rules = replace(rules, count=setup.blueprint.campaign_count)
    if not rules.any_set:
        setup.sources["count"] = "no stop rule was given: the baseline and three ideas, then a question"
        rules = replace(rules, count=UNRULED_IDEAS)
    return rules


def _target(campaign_file: CampaignFile, objective: Objective) -> float | None:
    try:
        return parse_target(campaign_file["target"], objective) if campaign_file["target"] else None
    except ValueError as error:
        raise UsageError(f"target: {error}", code="bad_target") from None


def objective_of(setup: CampaignSetup) -> Objective:
    """Flag or campaign file over blueprint over trainer, for the metric and for its direction.

    Where nobody names a metric, it is the best of what the last run of the blueprint printed. It is "" if no run has
    printed anything yet: the first baseline runs will show what there is. InputMissing otherwise.
    """
    notes, trainer, sources = setup.blueprint.notes, setup.trainer_settings.trainer, setup.sources
    usual = trainer.objective(setup.trainer_settings.whole)
    own, given = directed(setup.file["metric"], setup.file["direction"])
    name = own or notes.metric or (usual.metric if usual else "")
    metric = registry.server(trainer).recorded_metric(name, notes)
    if not metric:
        metric, sources["metric"] = _printed_metric(setup)
        if not metric:
            del sources["metric"]
            return Objective("", Direction(given or notes.direction))
    elif not own:
        sources["metric"] = "blueprint" if notes.metric else f"trainer {trainer.name}"
    try:
        direction = usual_direction(metric, usual)
    except ExpressionError as error:
        raise UsageError(f"the metric {error}", code="bad_metric") from None
    if given:
        return Objective(metric, Direction(given))
    if notes.direction and name == notes.metric:
        sources["direction"] = "blueprint"
        return Objective(metric, Direction(notes.direction))
    if not direction:
        raise InputMissing(
            f"are higher or lower values of {metric} better? The name does not say it",
            hint="`--direction maximize`, if higher values are better (in a blueprint: `- direction: maximize`)",
            missing="direction",
            add="- direction: minimize",
            add_to=str(setup.trainer_settings.resolved.path),
            code="no_direction",
        )
    known = usual is not None and usual.metric in (metric, Objective(metric).key)
    sources["direction"] = f"trainer {trainer.name}" if known else _BY_NAME
    return Objective(metric, direction)


def constraints_of(setup: CampaignSetup) -> tuple[str, ...]:
    """Those of flag or campaign file, else the blueprint's; a warning for a metric that its last run did not log."""
    own = setup.file.is_set("constraints")
    found = tuple(setup.file["constraints"]) if own else setup.blueprint.notes.constraint
    if found and not own:
        setup.sources["constraints"] = "blueprint"
    run, logged, _ = _printed(setup) if found else ("", [], ())
    for one in parsed(found):
        if logged and one.key not in (MEMORY, *logged):
            near = nearest_lines([one.key], logged, 1)
            message = f"constraint {one}: {run}, the last run of this blueprint, logged no {one.key}"
            setup.warn("unknown_constraint", message, f"did you mean {near[0]!r}?")
    return found


def what_counts(campaign_spec: CampaignSpec) -> str:
    """Which metric was found or named, and in which direction, in a sentence; "" where the blueprint says it."""
    objective, sources = campaign_spec.objective, campaign_spec.sources
    if not (found := sources.get("metric")):
        return ""
    other = next(one for one in (Direction.MAXIMIZE, Direction.MINIMIZE) if one is not objective.direction)
    guessed = f"; if it is not, --direction {other}" if sources.get("direction") == _BY_NAME else ""
    return f"{objective.metric} counts, {objective.better_words} ({found}){guessed}"


def _printed_metric(setup: CampaignSetup) -> tuple[str, str]:
    """The metric that is an objective, of the last run of the blueprint, and its source.

    "" if the first baseline runs are to show it. Raises InputMissing without one.
    """
    resolved = setup.trainer_settings.resolved
    run, printed, readings = _printed(setup)
    likely = candidates(PrintedNumber(name, math.nan, math.nan) for name in printed)
    if len(likely) == 1 and likely[0].objective:
        return steadier(likely[0].name, readings) or likely[0].name, f"none was named; run {run} printed it"
    if not (printed or setup.file["prove"] or setup.file["target"]):
        return "", ""
    seen = f"{run} printed {', '.join(printed[:8])}" if printed else "no run of this blueprint has printed one yet"
    raise InputMissing(
        f"which number counts? none is named; {seen}",
        hint="--metric names it, by the words that the program prints before it, such as --metric 'val loss' "
        "(in a blueprint: `- metric: val loss` in the notes)" + ("" if printed else "; one run lists what it prints"),
        missing="metric",
        add=f"- metric: {next(iter([one.name for one in likely] or printed), 'NAME')}",
        add_to=str(resolved.path),
        fix=f"autoresearch metrics {run}" if printed else f"autoresearch run {shlex.quote(str(resolved.path))}",
        code="no_metric",
    )


def _printed(setup: CampaignSetup) -> tuple[str, list[str], Sequence[Reading]]:
    """The last run of the blueprint that printed metrics, their names, and the readings; "", [] and () without one.

    What stands only in its last lines is named too, unless an evaluation is what counts.
    """
    from autoresearch.lab.results import readout

    for entry in setup.parts.index.by_blueprint(str(setup.trainer_settings.resolved.path)):
        try:
            recorded = RecordedRun.read(RunDir(Path(entry.run_dir)))
            shown = readout.of_run(recorded).shown
        except (OSError, AutoresearchError):  # it was removed
            continue
        lines = () if recorded.spec.evaluate else tail_lines(recorded.rundir.log)
        numbers = numbers_in((), lines, registry.of_run(recorded.spec))
        printed = (*(name for reading in shown for name in reading.metrics), *(one.name for one in numbers))
        if names := list(dict.fromkeys(printed)):
            return entry.run, names, shown
    return "", [], ()
