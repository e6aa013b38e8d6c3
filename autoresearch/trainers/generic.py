"""generic: the fallback trainer for unknown frameworks, recognised by their log lines alone.

The first step is the first line that any known framework prints for a training step, or a line that the blueprint
declares. None of its patterns counts as progress: ordinary output does not suspend an explicit first-step limit, but it
restarts the default one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from autoresearch.core.diagnosis import fatal_lines
from autoresearch.core.metrics import metric_keys, step_line
from autoresearch.core.metrics.metric_keys import NO_STEP
from autoresearch.core.metrics.python_values import NUMBER
from autoresearch.core.metrics.signal import Reading, SignalKind, SignalPattern
from autoresearch.core.run.trainer import LogReader, Recipe, Trainer
from autoresearch.runner import metric_lines
from autoresearch.trainers.declared import PADDING, WHOLE, DeclaredLine, declared

_QUOTED_NUMBER = rf"'?{NUMBER}'?"

_STEPS = {  # needle: pattern
    # Hugging Face and TRL: {'loss': 0.1, ..., 'epoch': 0.5}; transformers 5 quotes the numbers
    "{'loss': ": rf"\{{'loss': {_QUOTED_NUMBER}, (?=[^\r\n]{{0,8000}}'epoch': )"
    rf"(?:[^\r\n]{{0,8000}}?'kl': '?(?P<kl>{NUMBER}))?",
    # slime: [time] model.py:918 - step 11: {'train/loss': ..., 'train/kl_loss': ...}
    " - step ": r" - step (?P<step>\d{1,9}): \{'train/"
    rf"(?:[^\r\n]{{0,8000}}?'train/kl_loss': (?:np\.\w{{1,12}}\()?(?P<kl>{NUMBER}))?",
    # OpenRLHF: Global step 1: {'policy_loss': ..., 'kl': ...}
    "Global step ": rf"Global step (?P<step>[1-9]\d{{0,8}}): \{{(?:[^\r\n]{{0,8000}}? 'kl': (?P<kl>{NUMBER}))?",
    # NeMo-RL: a block of bullets follows
    "Training Results:": r"Training Results:(?=[ \t]*(?:[\r\n]|\Z))",
    # a JSON object: {"step": 5, ...}, but not {"warmup_step": 5}
    'step"': r"step\"(?:(?<=\"step\")|(?<=[\"/]global_step\"))"
    rf"{PADDING}:{PADDING}(?P<step>[1-9]\d{{0,9}})\b(?={PADDING}[,}}])",
    # step: 10 | loss: 0.3, the same with =, and both in aligned columns
    **{
        f"step{sign}": rf"step{sign}(?:(?<=^step{sign})|(?<=[\s,|\[(]step{sign})|(?<=global_step{sign}))"
        rf"{PADDING}{f'[:=]{PADDING}' if sign.isspace() else ''}(?!0)(?P<step>{WHOLE})(?:/\d{{1,10}})?(?! - )"
        rf"[ ,|\t][^\r\n]{{0,480}}?loss{PADDING}[:=]{PADDING}[-+.\dn]"
        for sign in ":= \t"
    },
}

_USUAL = {
    SignalKind.STEP: (
        step_line.STEP,
        *(SignalPattern(SignalKind.STEP, pattern, needles=(needle,)) for needle, pattern in _STEPS.items()),
    ),
    SignalKind.VALIDATION: (step_line.VALIDATION,),
}


@dataclass(frozen=True, slots=True)
class Generic(Trainer):
    """Any framework without a module of its own.

    lines: declared by the blueprint, see `trainers.declared`. metrics: the names that its objective needs.
    """

    name: str = "generic"
    named: bool = False
    lines: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()

    @property
    def finds(self) -> bool:
        """Whether steps are found by their spelling: no line is declared."""
        return not self.lines

    @property
    def _declared(self) -> tuple[DeclaredLine, ...]:
        return declared(self.lines)

    @property
    def signals_declared(self) -> tuple[SignalPattern, ...]:
        """The declared patterns, plus the usual step or validation patterns for a kind that is not declared."""
        open_kinds = [kind for kind in (SignalKind.STEP, SignalKind.VALIDATION) if not self.declares(kind)]
        return (*(one.signal for one in self._declared), *(one for kind in open_kinds for one in _USUAL[kind]))

    def declares(self, kind: SignalKind) -> bool:
        """Whether the blueprint declares lines of this kind; if so, no other line counts as one."""
        return any(line.startswith(f"{kind} ") for line in self.lines)

    def recognises(self, command: str) -> bool:
        """Always False: it is the fallback when no other trainer recognises the command."""
        return False

    def signals(self) -> tuple[SignalPattern, ...]:
        """The declared lines, else the training lines of all known frameworks; plus NaN and fatal lines."""
        return (*self.signals_declared, step_line.NAN, fatal_lines.TRACEBACK, fatal_lines.OUT_OF_MEMORY)

    def read_line(self, line: str, unread: dict[str, str] | None = None) -> Reading | None:
        """Read a declared line, a line in verl's format, or any line that names a step and a usual metric.

        Of one line alone, it cannot be known whether the step grows; `readers.console` reads a whole log.
        """
        if found := next((reading for one in self._declared if (reading := one.read(line, unread)) is not None), None):
            return found
        usual = step_line.read(line) or _read(line)
        return None if usual is None or self.declares(usual.kind) else usual

    def seed(self, recipe: Recipe) -> int | None:
        """An integer under `seed` at the top level of the recipe."""
        value = recipe.get("seed")
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    @property
    def seed_key(self) -> str:
        """The most common name of the key; a recipe without it has no seed that can be set."""
        return "seed"


@dataclass(frozen=True, slots=True)
class Declaring(Generic):
    """A generic trainer with declared lines, which are also found behind log prefixes and colours."""

    def reader(self) -> LogReader:
        """A reader that treats each line on its own; see `core.run.trainer.LogReader`."""
        return DeclaredLog(self)


@dataclass(frozen=True, slots=True)
class DeclaredLog:
    """Passes each line of a log to the trainer's `read_line`."""

    trainer: Generic
    unread: dict[str, str] = field(default_factory=dict)  # named groups that matched no number -> the first such text

    @property
    def needles(self) -> tuple[str, ...]:
        """The needles of the declared lines; () if one of them may match any line."""
        found = self.trainer.signals_declared
        return tuple(needle for one in found for needle in one.needles) if all(one.needles for one in found) else ()

    def line(self, text: str) -> Reading | None:
        return self.trainer.read_line(text, self.unread)

    def end(self) -> Reading | None:
        """None: no reading spans several lines."""
        return None


def _read(line: str) -> Reading | None:
    """Read a line that names a step, or one of Hugging Face's dicts, which do not; None without a usual metric."""
    found = metric_lines.parse(metric_lines.body(line))
    if found is None or not (found.bare or found.dump) or not metric_lines.plausible(found.metrics, {}):
        return None
    steps = {name: value for name, (value, _) in found.steps.items()}
    if metric_lines.BAR in steps:  # of one batch perhaps
        return None
    if not steps and not (found.dump and "epoch" in found.metrics):
        return None
    ranks = {name: metric_lines.step_rank(name) for name in steps}
    step = steps[min(steps, key=lambda name: (ranks[name] is None, ranks[name]))] if steps else NO_STEP
    (first, *_) = metric_keys.readings(step, found.metrics)
    return Reading(first.kind, step, found.metrics)
