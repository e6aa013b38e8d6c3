"""All that the report of a campaign shows, as one JSON object: report.md, the page and the live page are made of it.

    page_data(campaign_dir, state, stand, now) -> dict

The page leaves out each part whose key is missing, so an object with only `name`, `ideas` or `curves` is a page, too:

    name, subtitle, goal, phase, stand, written    what it is and how it stands, in words
    outcome, honest                                the outcome in three sentences; all that may be said, and may not
    progress          the plot of the objective over ideas (`plot_data.Progress`)
    ideas             one object for each attempt, see `_idea`
    constraints       [{metric, sign, bound, words}]; the ideas have their values in `limited`, and `front`
    curves            [{run, index, name, standing, series: {metric: {x, y}}}], and `metric`, the objective's name
    unread            how many runs' curves were not read yet
    parallel, importance   what is drawn of the settings (`plots.figures`), or {missing: why there is nothing}
    diffs, claims, worth, tried, skipped, cost, rules, agent, rows, places, remarks

Strings are on one line (but for diffs), cut, without control characters and with secrets masked; numbers have six
digits and are finite.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from autoresearch.core.campaign.idea_name import idea_name
from autoresearch.core.campaign.state import CampaignState, measured
from autoresearch.core.campaign.stop_rules import Stand
from autoresearch.core.metrics.constraint import parsed
from autoresearch.core.run.ledger_row import shown_statuses
from autoresearch.lab.campaign_report import curves_and_diffs, formatting, memory, plot_data, run_outputs, summary
from autoresearch.lab.campaign_report.campaign_words import agent_words, campaign_words, cost, outcome
from autoresearch.lab.campaign_report.curves_and_diffs import CurveReader
from autoresearch.lab.campaign_report.formatting import plain
from autoresearch.lab.campaign_report.summary import IdeaLine, IdeaStatus
from autoresearch.proposers import plots
from autoresearch.records.campaign_records import CampaignDir, entries
from autoresearch.runner.masking import clean_text

MOST_SKIPPED = 200
MOST_ROWS = 2000  # that are told how to be reproduced


def page_data(
    campaign_dir: CampaignDir,
    state: CampaignState,
    stand: Stand,
    now: float,
    curve_reader: CurveReader | None = None,
    idea_lines: Sequence[IdeaLine] | None = None,
) -> dict[str, Any]:
    """The report at this moment; `now` in seconds since the epoch. What cannot be read becomes a remark.

    `curve_reader`: one that has read some runs already, and may leave others to the next call (`unread`).
    `idea_lines`: where they are known.
    """
    spec, lines = state.spec, summary.idea_lines(state) if idea_lines is None else idea_lines
    curves = (curve_reader or CurveReader()).read(state, lines)
    progress = plot_data.progress_of(state, lines)
    parallel, importance = plots.figures(spec.objective, *plot_data.settings_of(state, lines))
    data = {
        "schema": 1,
        **campaign_words(campaign_dir, state, stand, lines),
        "better": spec.objective.better_words,
        "subtitle": progress.title,
        "written": formatting.stamp(now),
        "outcome": outcome(state, lines),
        "progress": asdict(progress),
        "ideas": [_idea(line, spec.prefix) for line in lines],
        "constraints": [asdict(one) | {"words": str(one)} for one in parsed(spec.constraints)],
        "unread": curves.unread,
        "parallel": parallel,
        "importance": importance,
        "diffs": [_diff(line, diff) for line, diff in reversed(curves_and_diffs.diffs_of(state, lines))],
        "claims": [
            [formatting.stamp(one.t), *(plain(words, 400) for words in (one.name, one.word, one.detail))]
            for one in summary.claims(state, list(entries(campaign_dir.verdicts)))
        ],
        "skipped": [[plain(idea_name(0, idea)), plain(why, 400)] for idea, why in state.skipped[-MOST_SKIPPED:]],
        "cost": cost(state),
        "agent": [plain(words, 600) for words in agent_words(state)],
        "rows": [row for line in lines for row in _rows(state, line)][:MOST_ROWS],
        "outputs": [plain(words, 1200) for words in run_outputs.words(state)],
        "findings": memory.FINDINGS if state.research.findings else "",
        "places": {"campaign": str(campaign_dir.path), "branches": f"{spec.prefix}/*", "repository": spec.repository},
        "remarks": [f"{curves.missing} runs have no curve: their directories cannot be read, or hold no metric"]
        if curves.missing
        else [],
    }
    text = functools.cache(clean_text)  # many texts are there several times
    masked: dict[str, Any] = _shown(data, text)
    return masked | {"curves": [_curves(curve, text) for curve in curves.runs]}


OF_AN_IDEA = ("index", "slug", "name", "sentence", "changes", "unsaid", "why", "standing", "note", "fresh", "mean",
              "delta", "gain", "noise", "minutes")  # fmt: skip


def _idea(idea_line: IdeaLine, prefix: str) -> dict[str, Any]:
    """One row of the table; `value` is the number to show of it, `low` and `high` its interval.

    `text` are numbers as people read them: a script rounds halves another way.
    """
    line, shown = idea_line, idea_line.shown
    value = shown.value if line.standing is not IdeaStatus.SMOKE else line.mean
    numbers = {"value": value, "mean": line.mean, "noise": line.noise}
    own = {name: getattr(line, name) for name in OF_AN_IDEA} | {
        "parent": line.parent_name,
        "words": shown.words,
        "value": value,
        "low": shown.low,
        "high": shown.high,
        "runs": shown.runs,
        "time": formatting.minutes(line.minutes),
        "limited": line.limited,
        "front": line.on_front,
        "branch": line.branch.removeprefix(f"{prefix}/"),
        "commit": line.commit[:12],
    }
    texts: dict[str, Any] = {key: formatting.number(one) for key, one in numbers.items()}
    texts["limited"] = {metric: formatting.number(one) for metric, one in line.limited.items()}
    texts["delta"] = formatting.signed(line.delta)
    return {name: plain(one, 400) if isinstance(one, str) else one for name, one in own.items()} | {"text": texts}


def _curves(run_curves: curves_and_diffs.RunCurves, text: Callable[[str], str]) -> dict[str, Any]:
    """Its numbers are finite and short already, and too many to be looked at again."""
    series = {key: dict(zip("xy", zip(*points, strict=True), strict=True)) for key, points in run_curves.series.items()}
    words = {"run": text(run_curves.run), "index": run_curves.index, "name": text(plain(run_curves.name))}
    return {**words, "standing": str(run_curves.standing), "series": series}


def _diff(idea_line: IdeaLine, kept_diff: curves_and_diffs.Diff) -> dict[str, Any]:
    named = {"name": plain(idea_line.name), "parent": plain(idea_line.parent_name)}
    return {**named, "stat": kept_diff.stat, "lines": kept_diff.lines, "missing": plain(kept_diff.missing)}


def _rows(state: CampaignState, idea_line: summary.IdeaLine) -> Iterator[list[Any]]:
    """Of each run its own name, its idea's, status, ending, value, seed."""
    for row, status in zip(idea_line.rows, shown_statuses(idea_line.rows), strict=True):
        words = [summary.row_name(state, row), idea_line.name, status, row.ending]
        yield [*map(plain, words), formatting.number(measured(row)), "" if row.seed is None else row.seed]


def _shown(value: Any, text: Callable[[str], str]) -> Any:
    """The same with its strings masked, and finite numbers of six digits, None for others; tuples as lists."""
    if isinstance(value, str):
        return text(value)
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _shown(item, text) for key, item in value.items()}
    return [_shown(item, text) for item in value] if isinstance(value, list | tuple) else value
