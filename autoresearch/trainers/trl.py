"""TRL, and any script around Hugging Face's Trainer. As of huggingface/trl f2cd5771, transformers 4 and 5.

Formats: transformers/trainer_callback.py (dicts and progress bar; trainer_state.json, see
`readers.jsonl`), trl/trainer/{base_config,grpo_config}.py (recipe), trl/scripts/utils.py (`--config`: a flat
YAML, overridden by flags). `logging_steps` is 10 and the first step is not logged separately, so for ten steps only the
progress bar shows that training goes on. The KL is printed only if `beta` is not 0; GRPO's default is 0.

Overrides: in the recipe, or `--key value` at the end of the command. Leaves behind: no processes, except a vLLM server
that was started separately (`trl vllm-serve`). Checkpoints go to `output_dir`; only `resume_from_checkpoint` resumes
one, and only in a script that passes it on, which the `trl` commands do not. It has no time limit and saves nothing on
a signal; `max_steps` ends a run cleanly.
"""

from __future__ import annotations

from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.metrics.signal import KnownLines, LineReader, SignalKind, SignalPattern
from autoresearch.core.run.recipe_keys import look_up, text_of, true_at, whole_number
from autoresearch.core.run.trainer import Continuation, Output, Recipe, Source, SourceFormat
from autoresearch.core.text.regex import later
from autoresearch.trainers.framework import CommandFramework, own_directory, words_of

_BAR = later(r"\s*\d{1,3}%\|[^|]{0,640}\| *(?P<n>\d{1,9})/(?P<of>\d{1,9}) \[")  # Trainer's own bar has no description
_KINDS = "grpo|rloo|sft|dpo|kto|reward"
_EXAMPLES = (  # of trl/experimental, in addition to the kinds above
    "async_grpo|gspo|mpo|online_dpo|nash_md|xpo|orpo|cpo|bco|gkd|gold|distillation|sdft|sdpo|ssd|tpo|prm|ppo"
)
_COMMAND = later(
    rf"(?<![\w./-])(?:\S{{0,200}}/)?trl[ \t]+(?:{_KINDS})\b|\btrl[./]scripts[./](?:{_KINDS})\b"
    rf"|\bexamples/scripts/(?:(?:ppo/)?(?:{_KINDS}|{_EXAMPLES})\w*|(?:openenv|openreward|harbor)/\w{{1,60}})\.py\b"
)
_IMPORTS = later(
    r"(?m)^\s*from\s+(?:trl|transformers)[\w.]*\s+import\s+(?:\([^)]{0,4000}?|[^\n]{0,400}?)\b\w{0,40}Trainer\b"
    r"|\b(?:trl|transformers)\.\w{0,40}Trainer\(|\.log_metrics\(\s*[\"'](?:train|eval)\b"
)
_KIND = later(rf"\b(?:trl[ \t]+|scripts[./])(?:async_)?({_KINDS}|gspo)")
_REWARDED = ("num_generations", "reward_funcs", "max_completion_length")  # keys that only GRPO and RLOO have

_CLOSED = r"(?=[^\r\n]{0,8000}'epoch': [^{}\r\n]{1,200}\}$)"  # a table of completions that quotes one ends otherwise
_LINES = (
    # a dict names no step
    SignalPattern(SignalKind.STEP, rf"(?=\{{'loss': ){_CLOSED}", needles=("{'loss': ",), metrics="^loss$"),
    SignalPattern(  # trl/experimental/ppo has no Trainer's loop, and another dict
        SignalKind.STEP, rf"(?=\{{'eps': ){_CLOSED}", needles=("{'eps': ",), metrics="^objective/kl$"
    ),
    SignalPattern(SignalKind.VALIDATION, rf"(?=\{{'eval_){_CLOSED}", needles=("{'eval_",), metrics="^eval_"),
    words_of(SignalKind.ERROR, ("The vLLM server can't be reached at ",)),
)


class Trl(CommandFramework):
    """TRL's console, trainer state and flat recipe."""

    name = "trl"
    command = _COMMAND
    imports = _IMPORTS
    lines = _LINES
    seed_key = "seed"
    usual_seed = 42
    outputs_anyway = (Output("output_dir", "output"),)
    outputs_named = (Output("logging_dir", "tensorboard"), Output("run_name"))
    space_keys = ("learning_rate", "beta")

    def reader(self) -> LineReader:
        """A reader of dicts, each with the step of the bar below it."""
        return KnownLines(self.lines, _BAR)

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
        return {**super().settings(recipe, command), **({"trl_command": kind[1]} if kind else {})}

    def gpus(self, recipe: Recipe) -> int | None:
        """One per process that accelerate starts (`num_processes`, in flags or recipe); 0 on CPU."""
        if true_at(recipe, "use_cpu") or true_at(recipe, "cpu"):
            return 0
        return whole_number(recipe, "num_processes")

    def continuation(self, recipe: Recipe) -> Continuation | None:
        """The path of the last checkpoint-N, if the recipe names `resume_from_checkpoint`, as its script then reads it.

        transformers leaves that to the script, and TRL's own scripts do not read it (trl/scripts/grpo.py).
        """
        directory = own_directory(recipe, "output_dir")
        if look_up(recipe, "resume_from_checkpoint") is None or not directory:
            return None
        return Continuation({"output_dir": directory}, f"{directory}/checkpoint-*", "resume_from_checkpoint")


def _evaluates(recipe: Recipe) -> bool:
    return any(text_of(recipe, key) in ("steps", "epoch") for key in ("eval_strategy", "evaluation_strategy"))


def _tracks(recipe: Recipe, tracker: str) -> bool:
    asked = look_up(recipe, "report_to")
    names = asked if isinstance(asked, list | tuple) else str(asked or "").split()
    return tracker in names or "all" in names
