"""Compare two runs: differences in configuration, code, environment and limits, and their results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from autoresearch.core.campaign.overrides import flatten
from autoresearch.core.campaign.recipe_edits import ABSENT, RecipeChange, diff_recipes
from autoresearch.core.metrics.objective import Objective
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.core.statistics.comparable import Measured, why_not
from autoresearch.errors import AutoresearchError
from autoresearch.git_repo.checkout import Checkout
from autoresearch.git_repo.comparison import diff, diffstat
from autoresearch.lab.campaign_report import formatting
from autoresearch.lab.recipes import recipe_of_run as recipes
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
    command: Pair | None
    code: str  # "2 files, +3 -1", "the same", or why it is unknown
    diff: str  # bounded, secrets masked
    environment: Mapping[str, Pair]
    limits: Mapping[str, Pair]
    git: str  # the command that shows the whole diff

    @property
    def metric(self) -> str:
        """The objective's name; A's, if they have two."""
        return next((m for side in (self.a, self.b) if (m := metric_of(side))), "")

    @property
    def objective(self) -> Objective | None:
        """The objective with its direction; None if it is not recorded."""
        found = [side.campaign or side.spec for side in (self.a, self.b) if side.campaign or side.spec]
        return found[0].objective if found and found[0] else None

    @property
    def refused(self) -> str:
        """Why the metrics of the two must not be compared; "" if they may be."""
        return why_not(measured_by(self.a), measured_by(self.b))

    @property
    def difference(self) -> float | None:
        """B's mean minus A's; None if they measure different metrics, or one has no value."""
        if self.refused or self.a.mean is None or self.b.mean is None:
            return None
        return self.b.mean - self.a.mean


def compare(match: LedgerMatch, other_match: LedgerMatch) -> Comparison:
    """Read both sides; what cannot be read is left out, and the code's line says why."""
    at_a, at_b = match.checkout(), other_match.checkout()
    config, per_run = _config(match, other_match, at_a, at_b)
    code, text, git = _code(match, other_match, at_a, at_b)
    commands = _command(match), _command(other_match)
    return Comparison(
        a=match,
        b=other_match,
        config=config,
        per_run=per_run,
        command=commands if commands[0] != commands[1] else None,
        code=code,
        diff=text,
        environment=_apart(_environment(match), _environment(other_match)),
        limits=_apart(_limits(match), _limits(other_match)),
        git=git,
    )


def metric_of(match: LedgerMatch) -> str:
    """The name of the objective of a run."""
    if match.row and match.row.metric_name:
        return match.row.metric_name
    return match.spec.objective.metric if match.spec and match.spec.objective else ""


def measured_by(match: LedgerMatch) -> Measured:
    """The metric of a run and the trainer that produces it."""
    trainer = match.row.trainer if match.row else match.spec.trainer if match.spec else ""
    return Measured(trainer, metric_of(match))


def metrics_of(match: LedgerMatch) -> dict[str, Any]:
    """The measured values of a run, and its idea."""
    row: LedgerRow | None = match.row
    return {
        "run": match.run,
        "status": (row.shown_status if row else "") or None,
        "ending": (row.ending if row else "") or None,
        "last": row.metric_value if row else None,
        "best": row.best_value if row else None,
        "mean": match.mean,
        "sd": match.sd,
        "n": len(match.values),
        "shown": match.shown.to_json() if match.shown else None,
        "steps": row.steps if row else None,
        "elapsed_min": row.elapsed_min if row else None,
        "memory_gb": row.memory_gb if row else None,
        "seed": row.seed if row else match.spec.seed if match.spec else None,
    }


def _config(
    match: LedgerMatch, other_match: LedgerMatch, at_a: Checkout | None, at_b: Checkout | None
) -> tuple[dict[str, Pair], dict[str, Pair]]:
    """Differing keys of recipe and command: (chosen ones, ones that always differ between runs)."""
    apart: set[str] = set()
    wholes = []
    for side, checkout in ((match, at_a), (other_match, at_b)):
        name = side.spec.trainer if side.spec else side.row.trainer if side.row else ""
        trainer = registry.by_name(name if name in registry.NAMES else registry.NAMES[-1])
        wholes.append(flatten(recipes.whole(side, checkout, trainer)))
        apart |= recipes.per_run(trainer, wholes[-1]) if name in registry.NAMES else set()
    chosen: dict[str, Pair] = {}
    anyway: dict[str, Pair] = {}
    for change in diff_recipes(*wholes):
        (anyway if change.key in apart else chosen)[change.key] = _pair(change)
    return chosen, anyway


def _pair(recipe_change: RecipeChange) -> Pair:
    return tuple("(absent)" if value is ABSENT else value for value in (recipe_change.old, recipe_change.new))  # type: ignore[return-value]


def _code(
    match: LedgerMatch, other_match: LedgerMatch, at_a: Checkout | None, at_b: Checkout | None
) -> tuple[str, str, str]:
    """(a summary, the bounded diff, the command for the whole diff); recipes are compared by key, not here."""
    if not (match.commit and other_match.commit):
        return "unknown: a commit is not recorded", "", ""
    if match.commit == other_match.commit:
        return "the same commit", "", ""
    if at_a is None or at_b is None or at_a.common_dir != at_b.common_dir:
        return "unknown: the commits are not in one repository", "", ""
    ours = {recipes.OURS, recipes.recipe_path(match, at_a), recipes.recipe_path(other_match, at_b)} - {""}
    try:
        stat = diffstat(at_a, match.commit, other_match.commit, ignoring=ours)
        text = diff(at_a, match.commit, other_match.commit, ignoring=ours)
    except AutoresearchError as failure:
        return f"unknown: {formatting.plain(failure.message)}", "", ""
    command = f"git -C {at_a.root} diff {match.commit[:12]} {other_match.commit[:12]} -- . ':!{recipes.OURS}'"
    return (str(stat) if stat.files else "the same"), formatting.block(text.rstrip("\n"), DIFF_LINES), command


def _command(match: LedgerMatch) -> str:
    return match.row.command if match.row else match.spec.command if match.spec else ""


def _environment(match: LedgerMatch) -> dict[str, Any]:
    """Host, programs and recorded variables of a run; secrets stay masked."""
    spec = match.spec
    if spec is None:
        return {"trainer": match.row.trainer, "launcher": match.row.launcher} if match.row else {}
    known: dict[str, Any] = {
        "trainer": spec.trainer,
        "interpreter": spec.interpreter,
        "launcher": spec.launcher,
        "host": match.host,
        "gpus": len(spec.gpus),
        "prepare": "; ".join(spec.prepare),
        "evaluate": "; ".join(spec.evaluate),
        "cleanup": "; ".join(spec.cleanup),
    }
    return known | {f"${name}": value for name, value in spec.environment.items()}


def _limits(match: LedgerMatch) -> dict[str, Any]:
    return asdict(match.spec.limits) if match.spec else {}


def _apart(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, Pair]:
    """The differences; empty if a side's run directory is gone."""
    if not (a and b):
        return {}
    return {key: (a.get(key), b.get(key)) for key in {**a, **b} if a.get(key) != b.get(key)}
