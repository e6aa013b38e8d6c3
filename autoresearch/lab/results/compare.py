"""Compare two runs: differences in configuration, code, environment and limits, and their results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from autoresearch.core.campaign.overrides import flatten
from autoresearch.core.campaign.recipe_edits import ABSENT, diff_recipes
from autoresearch.core.metrics.objective import Objective
from autoresearch.core.statistics.comparable import why_not
from autoresearch.errors import AutoresearchError
from autoresearch.git_repo.comparison import diff, diffstat
from autoresearch.lab.campaign_report import formatting
from autoresearch.lab.recipes.recipe_of_run import OURS, CommittedRun, per_run
from autoresearch.lab.results.row_lookup import LedgerMatch
from autoresearch.trainers import registry

DIFF_LINES = 200
Pair = tuple[Any, Any]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The differences; each mapping holds (of A, of B), and only what differs."""

    a: LedgerMatch
    b: LedgerMatch
    config: Mapping[str, Pair]  # recipe keys
    per_run: Mapping[str, Pair]  # recipe keys that always differ between runs: seed, output paths
    code: str  # "2 files, +3 -1", "the same", or why it is unknown
    diff: str = ""  # bounded, secrets masked
    git: str = ""  # the command that shows the whole diff

    @property
    def command(self) -> Pair | None:
        """Their commands, if they differ."""
        commands = self.a.row.command, self.b.row.command
        return commands if commands[0] != commands[1] else None

    @property
    def environment(self) -> Mapping[str, Pair]:
        """Host, programs and variables."""
        return _apart(self.a.environment, self.b.environment)

    @property
    def limits(self) -> Mapping[str, Pair]:
        """Of time."""
        a, b = (asdict(side.spec.limits) if side.spec else {} for side in (self.a, self.b))
        return _apart(a, b)

    @property
    def metric(self) -> str:
        """The objective's name; A's, if they have two."""
        return self.a.row.metric_name or self.b.row.metric_name

    @property
    def objective(self) -> Objective | None:
        """The objective with its direction; None if it is not recorded."""
        found = [one for side in (self.a, self.b) if (one := side.campaign or side.spec)]
        return found[0].objective if found else None

    @property
    def refused(self) -> str:
        """Why the metrics of the two must not be compared; "" if they may be."""
        return why_not(self.a.measured_by, self.b.measured_by)

    @property
    def difference(self) -> float | None:
        """B's mean minus A's; None if they measure different metrics, or one has no value."""
        if self.refused or self.a.mean is None or self.b.mean is None:
            return None
        return self.b.mean - self.a.mean


def compare(match: LedgerMatch, other_match: LedgerMatch) -> Comparison:
    """Read both sides; what cannot be read is left out, and the code's line says why."""
    apart, wholes = set[str](), []
    for ran in (match, other_match):
        known = ran.row.trainer in registry.NAMES
        trainer = registry.by_name(ran.row.trainer if known else registry.NAMES[-1])
        wholes.append(flatten(ran.settings(trainer)))
        apart |= per_run(trainer, wholes[-1]) if known else set()
    chosen: dict[str, Pair] = {}
    anyway: dict[str, Pair] = {}
    for change in diff_recipes(*wholes):
        old, new = ("(absent)" if value is ABSENT else value for value in (change.old, change.new))
        (anyway if change.key in apart else chosen)[change.key] = old, new
    return Comparison(match, other_match, chosen, anyway, *_code(match, other_match))


def _code(committed_run: CommittedRun, other_run: CommittedRun) -> tuple[str, str, str]:
    """(a summary, the bounded diff, the command for the whole diff); recipes are compared by key, not here."""
    a, here = committed_run.row.commit, committed_run.checkout
    b, there = other_run.row.commit, other_run.checkout
    if not (a and b):
        return "unknown: a commit is not recorded", "", ""
    if a == b:
        return "the same commit", "", ""
    if here is None or there is None or here.common_dir != there.common_dir:
        return "unknown: the commits are not in one repository", "", ""
    ours = {OURS, committed_run.recipe_path(), other_run.recipe_path()} - {""}
    try:
        stat = diffstat(here, a, b, ignoring=ours)
        text = diff(here, a, b, ignoring=ours)
    except AutoresearchError as failure:
        return f"unknown: {formatting.plain(failure.message)}", "", ""
    command = f"git -C {here.root} diff {a[:12]} {b[:12]} -- . ':!{OURS}'"
    return (str(stat) if stat.files else "the same"), formatting.block(text.rstrip("\n"), DIFF_LINES), command


def _apart(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, Pair]:
    """The differences; empty if a side's run directory is gone."""
    return {key: (a.get(key), b.get(key)) for key in {**a, **b} if a.get(key) != b.get(key)} if a and b else {}
