"""Ask: queries for what only some trainers implement beyond the Trainer protocol, with a default for the others.

Settings, findings and the like take the recipe as written and the launch command, and interpret both as the trainer
does.
"""

from __future__ import annotations

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.run.server import HasServer, NoServer
from autoresearch.core.run.trainer import Recipe, Trainer
from autoresearch.core.text.durations import spoken

SAVE_S = 3600.0
"""For the set-up, as NeMo-RL's own limit is counted from the start of training, and for the last step and its save."""

QUIET = {
    "NO_COLOR": "1",
    "LOGURU_COLORIZE": "NO",  # loguru uses colours even when writing to a file
    "RAY_COLOR_PREFIX": "0",
    "RAY_DEDUP_LOGS": "0",
    "HYDRA_FULL_ERROR": "1",
}
"""For every launch, under what the caller and the blueprint say: no colours, no line of Ray's left out, whole
tracebacks. The Runner adds PYTHONUNBUFFERED."""


def findings(
    trainer: Trainer, whole: Recipe, command: str, max_s: float | None = None, cwd: str = "", result_dir: str = ""
) -> tuple[Finding, ...]:
    """Findings for recipe and command together, including a time limit that ends a run before it can save."""
    own = (*trainer.lint(whole, cwd, result_dir), *trainer.lint_command(command))
    return (*own, *_cut_short(trainer.time_limit(whole), max_s))


def server(trainer: Trainer) -> HasServer:
    """The hooks of a server beside the run; those of a trainer that needs none do nothing."""
    return trainer if isinstance(trainer, HasServer) else NoServer(trainer.name)


def tighter(trainer: Trainer, whole: Recipe, max_s: float, save_s: float = SAVE_S) -> float:
    """The effective limit in seconds: `max_s`, or the trainer's own limit plus `save_s` for its last save if sooner."""
    own = trainer.time_limit(whole)
    return max_s if own is None else min(max_s, own + save_s)


def _cut_short(own: float | None, max_s: float | None) -> tuple[Finding, ...]:
    if own is None or max_s is None or max_s > own:
        return ()
    message = f"the run is ended after {spoken(max_s)}, before its own limit of {spoken(own)}"
    hint = "set the trainer's limit below [exp_max_time] by a step and a save, so that it can save what it learnt"
    return (Finding(Severity.WARNING, "ended_before_it_saves", message, hint),)
