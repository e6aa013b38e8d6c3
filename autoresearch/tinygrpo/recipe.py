"""The recipe: every key with its default, its range and its meaning, and how it is read from YAML and `key=value`.

The dataclass is the only list of keys; the reader, its error messages and the table in `docs/tinygrpo.md` are derived
from it.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import yaml

Value = bool | int | float | str

TASKS = ("countdown", "sort")
FAULTS = ("none", "oom", "crash", "nan", "hang", "ignore_term", "kill", "slow")
LOSS_AGGREGATIONS = ("token-mean", "seq-mean-token-mean")


class RecipeError(ValueError):
    """The recipe is invalid (exit code 2). The message is one sentence for the author of the recipe."""


@dataclass(frozen=True, slots=True)
class RecipeRule:
    """What one key accepts. Bounds are inclusive, except `above`."""

    kind: type
    meaning: str
    at_least: float = -math.inf
    above: float = -math.inf
    at_most: float = math.inf
    one_of: tuple[str, ...] = ()

    def accepted(self) -> str:
        """The accepted values as text, such as `a number above 0`."""
        if self.one_of:
            return "one of " + ", ".join(self.one_of)
        noun = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}[self.kind]
        bounds = (("at least", self.at_least), ("above", self.above), ("at most", self.at_most))
        return f"{noun} {' and '.join(f'{word} {bound:g}' for word, bound in bounds if math.isfinite(bound))}".strip()

    def read(self, value: object) -> Value | None:
        """The value as this key's kind; None if it is not allowed or does not convert without a change of meaning."""
        if isinstance(value, bool) or self.kind is bool:
            return value if isinstance(value, bool) and self.kind is bool else None
        if self.kind is str:
            # A number such as `2026` or an empty value is also accepted as text.
            text = "" if value is None else value
            allowed = isinstance(text, (str, int, float)) and (not self.one_of or text in self.one_of)
            return str(text) if allowed else None
        if self.kind is float and isinstance(value, str):  # YAML 1.1 parses `1e-3` (no dot) as text
            try:
                value = float(value)
            except ValueError:
                return None
        if not isinstance(value, (int, float) if self.kind is float else int) or not math.isfinite(value):
            return None
        allowed = self.at_least <= value <= self.at_most and value > self.above
        return (float(value) if self.kind is float else value) if allowed else None


def _key(default: Any, meaning: str, **accepted: Any) -> Any:
    return field(default=default, metadata={"rule": RecipeRule(type(default), meaning, **accepted)})


@dataclass(frozen=True, slots=True)
class Recipe:
    """A validated recipe. Times are in seconds, rates and probabilities in [0, 1]."""

    experiment_name: str = _key("tinygrpo", "name repeated in the last line")
    task: str = _key("countdown", "what the policy learns", one_of=TASKS)
    seed: int = _key(0, "seed of the RL phase: prompts drawn, answers sampled, mini-batches", at_least=0)
    data_seed: int = _key(0, "seed of the data split, the base model and the validation draws", at_least=0)

    total_steps: int = _key(150, "training steps", at_least=1)
    total_time: float = _key(0.0, "stop after the step that passes so many seconds of training; 0: never", at_least=0)
    batch_size: int = _key(32, "prompts per step", at_least=1)
    group_size: int = _key(8, "answers per prompt, the group of GRPO", at_least=2)
    mini_batches: int = _key(2, "optimiser updates per epoch over the batch", at_least=1)
    ppo_epochs: int = _key(1, "passes over the batch before new answers are sampled", at_least=1)
    lr: float = _key(3e-3, "Adam learning rate", above=0)
    lr_warmup_steps: int = _key(5, "steps over which the learning rate rises linearly", at_least=0)
    kl_coef: float = _key(0.002, "weight of the k3 KL to the frozen base model", at_least=0)
    clip_low: float = _key(0.2, "ratio clipped below 1 - clip_low", above=0, at_most=1)
    clip_high: float = _key(0.28, "ratio clipped above 1 + clip_high", above=0)
    entropy_coef: float = _key(0.0, "weight of the entropy bonus")
    temperature: float = _key(1.0, "sampling temperature of training; it divides the logits of the loss too", above=0)
    norm_adv_by_std: bool = _key(True, "divide the advantages by the group's standard deviation")
    loss_agg: str = _key("token-mean", "how token losses are averaged", one_of=LOSS_AGGREGATIONS)
    grad_clip: float = _key(1.0, "largest norm of a gradient", above=0)
    format_reward: float = _key(0.1, "reward of a well-formed wrong answer; a right one earns 1", at_least=0, at_most=1)

    hidden: int = _key(96, "width of both hidden layers", at_least=1, at_most=4096)
    sft_steps: int = _key(800, "supervised steps that make the base model", at_least=0)
    sft_noise: float = _key(0.3, "share of wrong tokens in the supervised answers", at_least=0, at_most=1)
    train_prompts: int = _key(1500, "distinct training prompts", at_least=1)

    test_freq: int = _key(25, "validate every so many steps; 0: only after the last", at_least=0)
    val_before_train: bool = _key(True, "validate the base model first")
    val_tasks: int = _key(128, "held-out prompts of the validation", at_least=1)
    val_pass_n: int = _key(8, "answers per validation prompt, the n of pass@k", at_least=1)
    val_temperature: float = _key(1.0, "sampling temperature of validation", above=0)

    val_print_to_markdown_file_path: str = _key("", "validation file, one Python dict per line; empty: none")
    train_print_to_markdown_file_path: str = _key("", "training metrics, one Python dict per line; empty: none")
    metrics_jsonl_path: str = _key("", "all metrics, one JSON object per line; empty: none")

    fault: str = _key("none", "failure on demand, for tests of whatever watches the trainer", one_of=FAULTS)
    fault_step: int = _key(1, "step at which the fault strikes; 0: before the first validation", at_least=0)
    on_nan: str = _key("raise", "after a line with NaN or infinity: stop or go on", one_of=("raise", "continue"))
    step_sleep: float = _key(0.0, "seconds of sleep in each step (`fault: slow`: from `fault_step` on)", at_least=0)
    val_sleep: float = _key(0.0, "seconds of sleep after every 64 validation tasks", at_least=0)

    def __post_init__(self) -> None:
        """Reject combinations that the range of a single key cannot exclude."""
        samples = self.batch_size * self.group_size
        if self.mini_batches > samples:
            raise RecipeError(f"'mini_batches' is {self.mini_batches}, but batch_size x group_size is only {samples}.")
        if self.fault == "slow" and self.step_sleep == 0:
            raise RecipeError("'fault: slow' needs 'step_sleep' above 0.")


RULES: dict[str, RecipeRule] = {f.name: f.metadata["rule"] for f in fields(Recipe)}
"""The rule of every key, in the order of the dataclass."""


def keys_as_markdown() -> str:
    """A markdown table of all keys, as printed by `--keys` and shown by the site."""
    defaults = Recipe()
    rows = ["| key | default | accepts | meaning |", "|---|---|---|---|"]
    for key, rule in RULES.items():
        value = getattr(defaults, key)
        text = str(value).lower() if isinstance(value, bool) else str(value) or '""'
        rows.append(f"| `{key}` | `{text}` | {rule.accepted()} | {rule.meaning} |")
    return "\n".join(rows)


def read_recipe(path: Path | None, overrides: Iterable[str] = ()) -> Recipe:
    """The recipe of a YAML file, or all defaults without one, with `key=value` overrides on top.

    Raises RecipeError for anything invalid, in one sentence that names file, line and key.
    """
    values: dict[str, Value] = {}
    for key, value, where in _file_entries(path) if path else ():
        if key in values:
            raise RecipeError(f"{where}: key '{key}' is given twice.")
        values[key] = _checked(key, value, where)
    for word in overrides:
        key, equals, text = word.partition("=")
        if not equals:
            raise RecipeError(f"--set: '{word}' is not of the form key=value.")
        try:
            value = yaml.safe_load(text) if text else ""
        except yaml.YAMLError:
            value = text
        values[key.strip()] = _checked(key.strip(), value, "--set")
    return Recipe(**values)  # type: ignore[arg-type]  # every value was checked against its key's rule


def _file_entries(path: Path) -> Iterator[tuple[str, object, str]]:
    """Each key and value of a recipe file, with its `file:line`."""
    try:
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except OSError as error:
        raise RecipeError(f"{path}: cannot read the recipe: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise RecipeError(f"{path}: the recipe is not UTF-8 text.") from None
    except yaml.YAMLError as error:
        raise RecipeError(f"{path}: not valid YAML: {' '.join(str(error).split())}.") from None
    if root is None:
        return
    if not isinstance(root, yaml.MappingNode):
        raise RecipeError(f"{path}:{root.start_mark.line + 1}: a recipe is a list of 'key: value' lines.")
    build = yaml.SafeLoader("")
    for key, value in root.value:
        where = f"{path}:{key.start_mark.line + 1}"
        yield str(build.construct_object(key)), build.construct_object(value, deep=True), where


def _checked(key: str, value: object, where: str) -> Value:
    """The value as the key's kind; raises RecipeError if the key is unknown or refuses it."""
    if key not in RULES:
        nearest = max(RULES, key=lambda valid: (key in valid, difflib.SequenceMatcher(None, key, valid).ratio()))
        raise RecipeError(f"{where}: unknown key '{key}'; the nearest valid key is '{nearest}'.")
    read = RULES[key].read(value)
    if read is None:
        raise RecipeError(f"{where}: '{key}' must be {RULES[key].accepted()}, not {value!r}.")
    return read
