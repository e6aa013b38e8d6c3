"""Ask: what a trainer may know beyond the Trainer protocol, with an answer for those who do not know it.

Everything here takes the recipe as it is written and the launch command, and reads both as the trainer does.
"""

from __future__ import annotations

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.metrics.signal import SignalKind
from autoresearch.core.run.trainer import (
    Circumstances,
    DeclaresLines,
    ExitsWithZero,
    KnowsHarmless,
    NeedsGpus,
    ReadsCircumstances,
    ReadsCommands,
    Recipe,
    Recording,
    Records,
    Resumes,
    SeedsByRecipe,
    StartsCompanions,
    StopsItself,
    Trainer,
)
from autoresearch.core.text.durations import spoken

SAVE_S = 3600.0
"""For the set-up, as NeMo-RL's own limit is counted from the start of training, and for the last step and its save."""

QUIET = {
    "NO_COLOR": "1",
    "LOGURU_COLORIZE": "NO",  # loguru colours even into a file
    "RAY_COLOR_PREFIX": "0",
    "RAY_DEDUP_LOGS": "0",
    "HYDRA_FULL_ERROR": "1",
}
"""For every launch, under what the caller and the blueprint say: no colours, no line of Ray's left out, whole
tracebacks. The Runner adds PYTHONUNBUFFERED."""


def settings(trainer: Trainer, recipe: Recipe, command: str) -> Recipe:
    """The recipe as the command changes it: what every other question wants to be given."""
    return trainer.settings(recipe, command) if isinstance(trainer, ReadsCommands) else recipe


def findings(
    trainer: Trainer, recipe: Recipe, command: str, max_s: float | None = None, here: Circumstances | None = None
) -> tuple[Finding, ...]:
    """What is wrong with recipe and command together, and with a limit that cuts a run before it can save.

    `here`, where it is known already; its limit is then the one that counts.
    """
    whole = settings(trainer, recipe, command)
    own = trainer.lint_command(command) if isinstance(trainer, ReadsCommands) else ()
    local = trainer.lint_here(whole, here) if here and isinstance(trainer, ReadsCircumstances) else ()
    return (*trainer.lint(whole), *own, *local, *_cut_short(time_limit(trainer, whole), here.max_s if here else max_s))


def steps_known(trainer: Trainer) -> bool:
    """Whether somebody knows how a training step looks: a file of ours, or the blueprint's `step_line:`."""
    return trainer.named or (isinstance(trainer, DeclaresLines) and trainer.declares(SignalKind.STEP))


def companions(trainer: Trainer) -> tuple[str, ...]:
    """Patterns of files in which daemons that it started are written down."""
    return trainer.companions() if isinstance(trainer, StartsCompanions) else ()


def confessions(trainer: Trainer) -> tuple[str, ...]:
    """Patterns of lines after which an exit with 0 was a crash all the same."""
    return trainer.confessions() if isinstance(trainer, ExitsWithZero) else ()


def harmless(trainer: Trainer) -> tuple[str, ...]:
    """Patterns of errors that end nothing."""
    return trainer.harmless() if isinstance(trainer, KnowsHarmless) else ()


def time_limit(trainer: Trainer, whole: Recipe) -> float | None:
    """The trainer's own limit in seconds; None for none."""
    return trainer.time_limit(whole) if isinstance(trainer, StopsItself) else None


def tighter(trainer: Trainer, whole: Recipe, max_s: float, save_s: float = SAVE_S) -> float:
    """The limit in all: `max_s`, or sooner where the trainer ends itself sooner, with time for it to save."""
    own = time_limit(trainer, whole)
    return max_s if own is None else min(max_s, own + save_s)


def seed_key(trainer: Trainer, whole: Recipe) -> str:
    """The dotted key of the seed in this recipe; "" where there is none."""
    return trainer.seed_key_in(whole) if isinstance(trainer, SeedsByRecipe) else trainer.seed_key


def resumes(trainer: Trainer, whole: Recipe) -> tuple[str, ...]:
    """Paths and patterns that contaminate a fresh run if they are there at its start."""
    return trainer.resumes(whole) if isinstance(trainer, Resumes) else ()


def gpus(trainer: Trainer, whole: Recipe) -> int | None:
    """GPUs in all; None where that is not known."""
    return trainer.gpus(whole) if isinstance(trainer, NeedsGpus) else None


def recording(trainer: Trainer, whole: Recipe, directory: str) -> Recording | None:
    """How to have metrics written below this directory; None where it cannot be done or need not be."""
    return trainer.recording(whole, directory) if isinstance(trainer, Records) else None


def arguments(trainer: Trainer, overrides: dict[str, object]) -> tuple[str, ...]:
    """Words behind the trainer's command that set these keys; () where only a recipe can."""
    return trainer.arguments(overrides) if isinstance(trainer, ReadsCommands) else ()


def _cut_short(own: float | None, max_s: float | None) -> tuple[Finding, ...]:
    if own is None or max_s is None or max_s > own:
        return ()
    message = f"the run is ended after {spoken(max_s)}, before its own limit of {spoken(own)}"
    hint = "set the trainer's limit below [exp_max_time] by a step and a save, so that it can save what it learnt"
    return (Finding(Severity.WARNING, "ended_before_it_saves", message, hint),)
