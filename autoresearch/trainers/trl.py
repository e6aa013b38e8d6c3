"""TRL, and any script around Hugging Face's Trainer. As of huggingface/trl f2cd5771, transformers 4 and 5.

Formats: transformers/trainer_callback.py (dicts and progress bar; trainer_state.json, see
`readers.trainer_state`), trl/trainer/{base_config,grpo_config}.py (recipe), trl/scripts/utils.py (`--config`: a flat
YAML, overridden by flags). `logging_steps` is 10 and the first step is not logged separately, so for ten steps only the
progress bar shows that training goes on. The KL is printed only if `beta` is not 0; GRPO's default is 0.

Overrides: in the recipe, or `--key value` at the end of the command. Leaves behind: no processes, except a vLLM server
that was started separately (`trl vllm-serve`). Checkpoints go to `output_dir`; only `resume_from_checkpoint` resumes
one, and only in a script that passes it on, which the `trl` commands do not. It has no time limit and saves nothing on
a signal; `max_steps` ends a run cleanly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.diagnosis import fatal_lines
from autoresearch.core.metrics import metric_keys
from autoresearch.core.metrics.metric_keys import NO_STEP
from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.metrics.python_values import NUMBER, numbers, python_dict
from autoresearch.core.metrics.signal import Reading, SignalKind, SignalPattern
from autoresearch.core.run.recipe_keys import around, look_up, real_at, text_of, true_at, whole_number
from autoresearch.core.run.trainer import Continuation, LogReader, Output, Recipe, Source, SourceFormat, Trainer
from autoresearch.core.text.regex import later
from autoresearch.trainers import shared_patterns
from autoresearch.trainers.command_settings import flag_words, with_flags
from autoresearch.trainers.shared_patterns import optional_later

_BAR = later(r"\s*\d{1,3}%\|[^|]{0,640}\| *(?P<n>\d{1,9})/(?P<of>\d{1,9}) \[")  # Trainer's own bar has no description
_KINDS = "grpo|rloo|sft|dpo|kto|reward"
_EXAMPLES = (  # of trl/experimental, in addition to the kinds above
    "async_grpo|gspo|mpo|online_dpo|nash_md|xpo|orpo|cpo|bco|gkd|gold|distillation|sdft|sdpo|ssd|tpo|prm|ppo"
)
_COMMAND = later(
    rf"(?<![\w./-])(?:\S{{0,200}}/)?trl[ \t]+(?:{_KINDS})\b|\btrl[./]scripts[./](?:{_KINDS})\b"
    rf"|\bexamples/scripts/(?:(?:ppo/)?(?:{_KINDS}|{_EXAMPLES})\w*|(?:openenv|openreward|harbor)/\w{{1,60}})\.py\b"
)
_KIND = later(rf"\b(?:trl[ \t]+|scripts[./])(?:async_)?({_KINDS}|gspo)")
_REWARDED = ("num_generations", "reward_funcs", "max_completion_length")  # keys that only GRPO and RLOO have
_SHARED = "trainer_output"  # default output directory, shared by all runs without an output_dir

_QUOTED = rf"'?{NUMBER}'?"
_CLOSED = r"(?=[^\r\n]{0,8000}'epoch': [^{}\r\n]{1,200}\}[ \t]*(?:[\r\n]|\Z))"
"""The dict holds an epoch and ends its line; one that a table of completions quotes does not."""

_KL = optional_later("kl", " '")

STEP = SignalPattern(
    SignalKind.STEP,
    rf"\{{'loss': {_QUOTED}, {_CLOSED}{_KL}': '?(?P<kl>{NUMBER}))?",
    needles=("{'loss': ",),
)
"""A training step's dict; it names no step."""

PPO_STEP = SignalPattern(
    SignalKind.STEP,
    rf"\{{'eps': {_QUOTED}, 'objective/kl': '?(?P<kl>{NUMBER})'?, {_CLOSED}",
    needles=("{'eps': ",),
)
"""trl/experimental/ppo has no Trainer's loop, and another dict."""

VALIDATION = SignalPattern(
    SignalKind.VALIDATION,
    r"\{'eval_[\w/.@-]{1,120}': " + _CLOSED,
    needles=("{'eval_",),
)

_NAN = SignalPattern(
    SignalKind.NAN, r"'(?:loss|grad_norm|kl|entropy)': '?nan'?(?=[,}])", needles=("': nan", "': 'nan'")
)

_NO_SERVER = SignalPattern(
    SignalKind.ERROR,
    r"(?P<text>The vLLM server can't be reached at [^\r\n]{0,160})",
    needles=("The vLLM server can't be reached",),
)


@dataclass(frozen=True, slots=True)
class Trl(Trainer):
    """TRL's console, trainer state and flat recipe."""

    name: str = "trl"

    def recognises(self, command: str) -> bool:
        """`trl grpo ...`, `python -m trl.scripts.grpo` or TRL's examples; other scripts need `trainer: trl`."""
        return _COMMAND.search(command) is not None

    def signals(self) -> tuple[SignalPattern, ...]:
        """Dicts, NaN and fatal lines; a moving progress bar counts as progress, in loading as in training."""
        return (
            *(STEP, PPO_STEP, VALIDATION, _NAN, _NO_SERVER),
            *(fatal_lines.TRACEBACK, fatal_lines.OUT_OF_MEMORY, fatal_lines.NCCL_TIMEOUT),
            shared_patterns.LOADING,
        )

    def reader(self) -> LogReader:
        """A reader that takes the step of a dict from the progress bar after it."""
        return TrlLog()

    def read_line(self, line: str) -> Reading | None:
        """Read a dict; its step is on another line."""
        return read_dict(line)

    def objective(self, recipe: Recipe) -> Objective | None:
        """The evaluation's reward or loss if there is an evaluation, else that of training."""
        prefix = "eval_" if _evaluates(recipe) else ""
        kind = text_of(recipe, "trl_command")
        if kind in ("grpo", "rloo", "gspo") or (not kind and any(key in recipe for key in _REWARDED)):
            return Objective(f"{prefix}reward", Direction.MAXIMIZE)
        return Objective(f"{prefix}loss", Direction.MINIMIZE) if kind or prefix else None

    def sources(self, recipe: Recipe) -> tuple[Source, ...]:
        """The trainer state in the last checkpoint: unrounded, and with the steps that the console does not print.

        TensorBoard's files, if enabled, are written immediately, in single precision.
        """
        saves = look_up(recipe, "save_strategy") not in ("no", False)
        directory = text_of(recipe, "output_dir")
        state = [Source(SourceFormat.TRAINER_STATE, directory)] if directory and saves else []
        events = text_of(recipe, "logging_dir") or (f"{directory}/runs/*" if directory else "")
        board = [Source(SourceFormat.TENSORBOARD, events, 10)] if events and _tracks(recipe, "tensorboard") else []
        return (*state, *board)

    def key_of(self, tag: str) -> str:
        """The console's name of a tag (transformers/integrations/integration_utils.py, rewrite_logs)."""
        group, _, name = tag.partition("/")
        return {"train": name, "eval": f"eval_{name}", "test": f"test_{name}"}.get(group, tag)

    def settings(self, recipe: Recipe, command: str) -> Recipe:
        """The recipe with the command's flags over it; the `trl` subcommand is stored under `trl_command`."""
        kind = _KIND.search(command)
        return {**with_flags(recipe, command), **({"trl_command": kind[1]} if kind else {})}

    def arguments(self, overrides: Mapping[str, object]) -> tuple[str, ...]:
        """`--key value` for each key, with underscores."""
        return flag_words(overrides, dash="_")

    def lint_command(self, command: str) -> tuple[Finding, ...]:
        """(): only the checks for every command apply."""
        return ()

    def lint(self, recipe: Recipe) -> tuple[Finding, ...]:
        """Settings that hide steps or progress, share an output directory, or resume another run."""
        return tuple(_lint(recipe))

    def gpus(self, recipe: Recipe) -> int | None:
        """One per process that accelerate starts (`num_processes`, in flags or recipe); 0 on CPU."""
        if true_at(recipe, "use_cpu") or true_at(recipe, "cpu"):
            return 0
        return whole_number(recipe, "num_processes")

    def seed(self, recipe: Recipe) -> int | None:
        """`seed`, 42 if unset."""
        return 42 if look_up(recipe, "seed") is None else whole_number(recipe, "seed")

    @property
    def seed_key(self) -> str:
        return "seed"

    def continuation(self, recipe: Recipe) -> Continuation | None:
        """The path of the last checkpoint-N, if the recipe names `resume_from_checkpoint`, as its script then reads it.

        transformers leaves that to the script, and TRL's own scripts do not read it (trl/scripts/grpo.py).
        """
        directory = text_of(recipe, "output_dir")
        if look_up(recipe, "resume_from_checkpoint") is None or not directory.startswith("/") or "$" in directory:
            return None
        return Continuation({"output_dir": directory}, f"{directory}/checkpoint-*", "resume_from_checkpoint")

    def outputs(self, recipe: Recipe) -> tuple[Output, ...]:
        """The output directory, TensorBoard's directory and the run's name."""
        logs = [Output("logging_dir", "tensorboard")] if text_of(recipe, "logging_dir") else []
        return (Output("output_dir", "output"), *logs, *([Output("run_name")] if text_of(recipe, "run_name") else []))

    def space(self, recipe: Recipe) -> Mapping[str, object]:
        """Learning rate and, if it is on, the KL coefficient."""
        return around(recipe, "learning_rate", "beta")


def _evaluates(recipe: Recipe) -> bool:
    return any(text_of(recipe, key) in ("steps", "epoch") for key in ("eval_strategy", "evaluation_strategy"))


def _tracks(recipe: Recipe, tracker: str) -> bool:
    asked = look_up(recipe, "report_to")
    names = asked if isinstance(asked, list | tuple) else str(asked or "").split()
    return tracker in names or "all" in names


def _lint(recipe: Recipe) -> Iterator[Finding]:
    every, last = real_at(recipe, "logging_steps"), real_at(recipe, "max_steps")
    every = 10.0 if every is None else every
    if last is not None and 0 < last < every and not true_at(recipe, "logging_first_step"):
        message = f"logging_steps is {every:g}, but the run ends after {last:g} steps: no step is ever printed"
        yield Finding(Severity.WARNING, "no_step_logged", message, "set logging_steps: 1")
    if true_at(recipe, "disable_tqdm"):
        message = "disable_tqdm is true: the console then names no step, and nothing shows progress between two dicts"
        yield Finding(Severity.WARNING, "no_progress_bar", message, "take disable_tqdm out")
    directory = text_of(recipe, "output_dir")
    if recipe and (not directory or directory == _SHARED):
        message = "no output_dir is named: all such runs here share ./trainer_output"
        yield Finding(Severity.WARNING, "shared_output_dir", message, "set output_dir to a directory of this run alone")
    resumes = look_up(recipe, "resume_from_checkpoint")
    if resumes not in (None, False, "false", ""):
        message = f"resume_from_checkpoint is {resumes}: this run begins with the weights of another"
        yield Finding(Severity.WARNING, "resumes", message, "take it out, unless the run goes on with its own work")


def read_dict(line: str) -> Reading | None:
    """Read a line that is, or ends with, a dict printed by the Trainer; its step is unknown.

    The summary at the end is ignored: it has no `loss`.
    """
    start = line.find("{'")
    if start < 0 or not line.endswith("}"):
        return None
    metrics = numbers(python_dict(line[start:]) or {}, strings=True)
    if "epoch" not in metrics:
        return None
    if "loss" not in metrics and not any(map(metric_keys.is_validation, metrics)):
        return None
    return metric_keys.readings(NO_STEP, metrics)[0]


class TrlLog:
    """Reads TRL's log; see `core.run.trainer.LogReader`."""

    needles = ("{'", "%|")

    def __init__(self) -> None:
        self._of = 0  # total steps, from the first bar
        self._held: Reading | None = None

    def line(self, text: str) -> Reading | None:
        """The dict whose step this bar shows, or a previous dict that got no bar before the next one."""
        bar = _BAR.match(text)
        if bar is None:
            reading = read_dict(text)
            if reading is None:
                return None
            done, self._held = self._held, reading
            return done
        n, of = int(bar["n"]), int(bar["of"])
        self._of = self._of or of
        if self._held is None or of != self._of:  # an evaluation has its own bar
            return None
        if n == 0 and self._held.kind is SignalKind.STEP:  # only an evaluation can come before the first step
            return None
        done, self._held = self._held, None
        return Reading(done.kind, n, done.metrics)

    def end(self) -> Reading | None:
        """The last dict, if no bar followed it."""
        done, self._held = self._held, None
        return done
