"""The report of a campaign: report.md, one self-contained report.html, and progress.png; and all that they show.

`write_report` writes them into the campaign's directory, each atomically. It may be called at any time, also while the
campaign runs; it reads run directories and asks git, so it takes a second or more. The page is one file with its data,
its style, its script and plotly, and fetches nothing.

`page_data` is one JSON object, of which report.md, the page and the live page are made. The page leaves out each part
whose key is missing or empty:

    name, subtitle, goal, phase, stand, written    what it is and how it stands, in words
    outcome, cautions                              what came of it; what may not be claimed, or not without a word
    progress          the plot of the objective over ideas (`progress_plot.Progress`)
    ideas             one object for each attempt, see `_idea`
    constraints       [{metric, sign, bound, words}]; the ideas have their values in `limited`
    curves            [{run, index, name, seed, standing, series: {metric: {x, y}}}], and `metric`, the objective's name
    unread            how many runs' curves were not read yet
    tree              which ideas were built on which, where one was built on another than the baseline
    setup             what it ran on: [[what, how it was]] (`how_it_ran`)
    diffs, claims, skipped, cost, rules, agent, places, remarks, next

Strings are on one line (but for diffs), cut, without control characters and with secrets masked; numbers have six
digits and are finite.
"""

from __future__ import annotations

import base64
import functools
import gzip
import json
import math
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from autoresearch.core.campaign.hypothesis import idea_name
from autoresearch.core.campaign.spec import Stand
from autoresearch.core.campaign.state import CampaignState
from autoresearch.core.metrics.constraint import parsed
from autoresearch.lab.campaign_report import curves_and_diffs, formatting, run_outputs, summary
from autoresearch.lab.campaign_report.curves_and_diffs import CurveReader
from autoresearch.lab.campaign_report.formatting import plain
from autoresearch.lab.campaign_report.how_it_ran import how_it_ran
from autoresearch.lab.campaign_report.memory import FINDINGS
from autoresearch.lab.campaign_report.progress_plot import progress_of, write_png
from autoresearch.lab.campaign_report.summary import IdeaLine, agent_words, campaign_words, cost
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.hostile import write_atomically
from autoresearch.runner.masking import clean_text

MARKDOWN, PAGE, PICTURE = "report.md", "report.html", "progress.png"


@dataclass(frozen=True, slots=True)
class CampaignReport:
    """What was written, to be iterated over; `remarks` say what could not be had (run directories that are gone)."""

    markdown: Path
    page: Path
    picture: Path
    remarks: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Path]:
        return iter([self.markdown, self.page, self.picture])


def write_report(
    campaign_dir: CampaignDir, state: CampaignState, stand: Stand, *, now: float | None = None
) -> CampaignReport:
    """Write report.md, report.html and progress.png.

    Raises OSError where the directory cannot be written, and leaves the files of before as they were; everything else
    that is missing becomes a remark.
    """
    from autoresearch.lab.render import render

    lines = summary.idea_lines(state)
    data = page_data(campaign_dir, state, stand, time.time() if now is None else now, idea_lines=lines)
    markdown, page, picture = (campaign_dir.path / name for name in (MARKDOWN, PAGE, PICTURE))
    write_png(picture, progress_of(state, lines))
    text = render(f"{MARKDOWN}.j2", **data, picture=PICTURE, cell=formatting.cell, code=formatting.code)
    # the data are masked already, and base64 must not be
    write_atomically(markdown, text.encode("utf-8", "backslashreplace"), durable=False)
    write_atomically(page, page_html(data).encode(), durable=False)
    return CampaignReport(markdown, page, picture, tuple(data["remarks"]))


def page_html(data: Mapping[str, Any], live: bool = False) -> str:
    """The page that shows `page_data`; `live`: it asks its server for `data.json` every few seconds.

    The data are JSON in a script element and become text nodes, so nothing in them is ever read as markup.
    """
    from autoresearch.lab.render import render

    text = json.dumps({**data, "live": live}, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    first = {"name": data["name"], "subtitle": data.get("subtitle", ""), "outcome": data.get("outcome", [])}
    script = {"json": text, "plotly": _plotly(), "live": live, "nonce": secrets.token_urlsafe(12)}
    return render("report.html.j2", **first, **script)


@functools.cache
def _plotly() -> str:
    """plotly.js as base64 of its gzip: 2.3 MB in place of 4.8 MB. A level above 1 takes four times as long for 2 MB."""
    script = resources.files("plotly").joinpath("package_data", "plotly.min.js").read_bytes()
    return base64.b64encode(gzip.compress(script, 1, mtime=0)).decode()


MOST_SKIPPED = 200


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
    spec, idea_lines = state.spec, summary.idea_lines(state) if idea_lines is None else idea_lines
    curves = (curve_reader or CurveReader()).read(state, idea_lines)
    progress = progress_of(state, idea_lines)
    built = [f"{line[: -len(line.lstrip())]}{plain(line)}" for line in summary.tree(idea_lines)]
    gone = f"{curves.missing} runs have no curve: their directories cannot be read, or hold no metric"
    data = {
        "schema": 1,
        **campaign_words(campaign_dir, state, stand, idea_lines),
        "better": spec.objective.better_words,
        "subtitle": progress.title,
        "written": formatting.stamp(now),
        "progress": asdict(progress),
        "ideas": [_idea(line, spec.prefix) for line in idea_lines],
        "constraints": [asdict(one) | {"words": str(one)} for one in parsed(spec.constraints)],
        "unread": curves.unread,
        "diffs": [_diff(line, diff) for line, diff in reversed(curves_and_diffs.diffs_of(state, idea_lines))],
        "claims": [
            [*map(plain, (one.name, one.confirmed)), plain(one.claim.reason.removeprefix(f"{one.confirmed}: "), 400)]
            for one in state.ideas
            if one.confirmed
        ],
        "tree": built if any(line.startswith("    ") for line in built) else [],
        "skipped": [[plain(idea_name(0, idea)), plain(why, 400)] for idea, why in state.skipped[-MOST_SKIPPED:]],
        "cost": cost(state),
        "setup": [[what, plain(words, 1200)] for what, words in how_it_ran(state)],
        "agent": [plain(words, 600) for words in agent_words(state)],
        "outputs": [plain(words, 1200) for words in run_outputs.words(state)],
        "places": {
            **({"findings": str(found)} if (found := campaign_dir.path / FINDINGS).is_file() else {}),
            **{"campaign": str(campaign_dir.path), "branches": f"{spec.prefix}/*", "repository": spec.repository},
        },
        "remarks": [gone] if curves.missing else [],
    }
    text = functools.cache(clean_text)  # many texts are there several times
    masked: dict[str, Any] = _shown(data, text)
    return masked | {"curves": [_curves(curve, text) for curve in curves.runs]}


def _idea(idea_line: IdeaLine, prefix: str) -> dict[str, Any]:
    """One row of the table: how it stands, and what it is.

    `text` are numbers as people read them: a script rounds halves another way.
    """
    one, idea = idea_line.stands, idea_line.idea
    own = one.to_json() | {
        "words": one.words,
        "what": idea.hypothesis.sentence,
        "parent": idea_line.parent,
        "changes": idea_line.changes,
        "unsaid": idea_line.unsaid,
        "time": formatting.minutes(idea_line.minutes),
        "minutes": idea_line.minutes,
        "limited": idea_line.limited,
        "branch": idea.branch.removeprefix(f"{prefix}/"),
        "commit": idea_line.commit[:12],
        "text": {
            "value": formatting.number(one.value),
            "limited": {metric: formatting.number(value) for metric, value in idea_line.limited.items()},
        },
    }
    return {name: plain(value, 600) if isinstance(value, str) else value for name, value in own.items()}


def _curves(run_curves: curves_and_diffs.RunCurves, text: Callable[[str], str]) -> dict[str, Any]:
    """Its numbers are finite and short already, and too many to be looked at again."""
    series = {key: dict(zip("xy", zip(*points, strict=True), strict=True)) for key, points in run_curves.series.items()}
    words = {"run": text(run_curves.run), "index": run_curves.index, "name": text(plain(run_curves.name))}
    return {**words, "seed": run_curves.seed, "standing": str(run_curves.standing), "series": series}


def _diff(idea_line: IdeaLine, kept_diff: curves_and_diffs.Diff) -> dict[str, Any]:
    named = {"name": plain(idea_line.idea.name), "parent": plain(idea_line.parent)}
    return {**named, "stat": kept_diff.stat, "lines": kept_diff.lines, "missing": plain(kept_diff.missing)}


def _shown(value: Any, text: Callable[[str], str]) -> Any:
    """The same with its strings masked, and finite numbers of six digits, None for others; tuples as lists."""
    if isinstance(value, str):
        return text(value)
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _shown(item, text) for key, item in value.items()}
    return [_shown(item, text) for item in value] if isinstance(value, list | tuple) else value
