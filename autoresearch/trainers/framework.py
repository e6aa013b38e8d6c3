"""What the trainers of frameworks share: a subclass declares names and lines, and has code for what they cannot say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from autoresearch.core.metrics.signal import SignalKind, SignalPattern
from autoresearch.core.run.recipe_keys import around, look_up, text_of, whole_number
from autoresearch.core.run.trainer import Output, Recipe, Trainer
from autoresearch.core.shell_settings import flag_words, hydra_words, with_flags, with_hydra

HOLD_S = 120.0  # loading a shard, capturing a graph, a batch: each prints something this often
SILENT_S = 600.0  # initial validation by a loop that prints nothing while it validates

BAR = r"%\|[^|\r\n]{0,640}\| *[1-9]\d{0,8}/\d{1,9} \["  # a tqdm bar that has moved; one at 0 proves nothing
_LOADING = SignalPattern(
    SignalKind.PROGRESS,
    rf"{BAR}|% Completed \| *[1-9]",  # the second: vLLM and SGLang load the shards of a checkpoint
    HOLD_S,
    ("%|", "% Completed |"),
)


def words_of(kind: SignalKind, words: tuple[str, ...], hold_s: float = 0.0) -> SignalPattern:
    """Lines that hold one of these words; an error tells them with what follows."""
    either = "|".join(map(re.escape, words))
    text = rf"(?P<text>(?:{either})[^\r\n]{{0,160}})" if kind is SignalKind.ERROR else either
    return SignalPattern(kind, text, hold_s, words)


def own_directory(recipe: Recipe, key: str) -> str:
    """The absolute directory that a recipe names; "" for any that is relative, or known only to the shell."""
    directory = text_of(recipe, key)
    return directory if directory.startswith("/") and "$" not in directory else ""


class Framework(Trainer):
    """One framework, by what its class declares."""

    named = True
    command: ClassVar[re.Pattern[str]]  # found in commands that start it
    lines: ClassVar[tuple[SignalPattern, ...]]
    imports: ClassVar[re.Pattern[str] | None] = None  # found in the text of a Python program that trains with it
    seed_key = ""
    usual_seed: ClassVar[int | None] = None  # if the recipe sets none
    outputs_anyway: ClassVar[tuple[Output, ...]] = ()  # also if the recipe does not name them
    outputs_named: ClassVar[tuple[Output, ...]] = ()
    space_keys: ClassVar[tuple[str, ...]] = ()  # a factor of 3 both ways around their values is safe

    def recognises(self, command: str) -> bool:
        return self.command.search(command) is not None

    def trains(self, program: str) -> bool:
        """Whether the text of a Python program, whose command does not show it, trains with this framework."""
        return self.imports is not None and self.imports.search(program) is not None

    def signals(self) -> tuple[SignalPattern, ...]:
        return (*self.lines, _LOADING)

    def seed(self, recipe: Recipe) -> int | None:
        key = self.seed_key
        return self.usual_seed if look_up(recipe, key) is None else whole_number(recipe, key)

    def outputs(self, recipe: Recipe) -> tuple[Output, ...]:
        return (*self.outputs_anyway, *(one for one in self.outputs_named if text_of(recipe, one.key)))

    def space(self, recipe: Recipe) -> Mapping[str, object]:
        return around(recipe, *self.space_keys)


class CommandFramework(Framework):
    """One whose command sets keys: by hydra's `a.b=c`, or by flags, with `dash` in place of underscores."""

    dash: ClassVar[str] = "_"
    hydra: ClassVar[bool] = False
    in_full = ""

    def settings(self, recipe: Recipe, command: str) -> Recipe:
        """The recipe with the command's settings over it."""
        return with_hydra(recipe, command) if self.hydra else with_flags(recipe, command)

    def arguments(self, overrides: Mapping[str, object]) -> tuple[str, ...]:
        return hydra_words(overrides) if self.hydra else flag_words(overrides, dash=self.dash)
