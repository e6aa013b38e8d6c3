"""slime: Megatron for training, SGLang for rollouts, Ray between them. As of THUDM/slime 624b824a.

Formats: slime/backends/megatron_utils/model.py (`step N`), slime/observability/train_metric_utils.py (`rollout N`,
`perf N`), slime/observability/rollout_metrics.py (`eval N`, another `perf N`),
slime/observability/tensorboard_utils.py, slime/utils/arguments.py. Everything goes to stderr, as a dict after `[time]
file.py:line - `. Steps and rollouts count from 0. For a step, N is rollout * steps per rollout + i; for all others, N
is the rollout. `eval 0` comes before step 0. While only the critic is trained (--num-critic-only-steps), the first
rollouts have a `critic-step` and no step.

`train/kl_loss` is printed only with --use-kl-loss, and is exactly 0 at first. A NaN gradient skips the step and
training goes on. Without evaluation, rollout/raw_reward is the metric. Overrides: flags at the end of the command;
there is no recipe (except for scripts with arrays of flags).

A hung run may keep printing `GET /health 200 OK`: only the dicts and moving bars are progress. Leaves behind: the Ray
cluster that its scripts start, SGLang's servers, and checkpoints below --save, from which the next run resumes if
--load names the same directory. Graceful stop: `ray job stop ID`, then `ray stop` if the run started the cluster
itself. Never use `pkill -9 python` as slime's scripts do: it kills the processes of all users. slime has no time limit,
and a signal saves nothing; `--num-rollout` ends a run cleanly.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.metrics.signal import SignalKind, SignalPattern
from autoresearch.core.run.recipe_keys import around, look_up, product, text_of, true_at, whole_number
from autoresearch.core.run.trainer import Continuation, Output, Recipe, Source, SourceFormat
from autoresearch.core.text.regex import later
from autoresearch.trainers.framework import HOLD_S, CommandFramework, own_directory, words_of

_COMMAND = later(
    r"(?<![\w.-])slime/(?:train|scripts|examples|tests)\b|(?<![\w.-])slime/?(?:[ \t;&|\n]|\Z)"
    r"|\btrain(?:_async)?\.py\b(?=.{0,20000}--(?:rollout-batch-size|num-rollout|actor-num-gpus-per-node|sglang-))",
    re.DOTALL,
)

_HEAD = r"\.py:\d{1,6} - "
_DICT = r": (?=\{.*\}$)"  # a brace ends the line: a sampled answer, in quotation marks or a list, may quote the rest


def _dicts(kind: SignalKind, *names: str, metrics: str = ".", hold_s: float = 0.0) -> SignalPattern:
    head = rf"{_HEAD}(?:{'|'.join(names)}) (?P<step>\d{{1,9}}){_DICT}"
    return SignalPattern(kind, head, hold_s, tuple(f" - {name} " for name in names), metrics)


_LINES = (
    _dicts(SignalKind.STEP, "step", metrics="^train/"),  # of the actor; the critic's own has the same number
    _dicts(SignalKind.VALIDATION, "eval"),
    _dicts(SignalKind.PROGRESS, "rollout", "perf", "critic-step", "passrate", "multi_turn", hold_s=HOLD_S),
    words_of(SignalKind.ERROR, ("Health check failed for rollout engine", "Timeout while flushing cache.")),
)


class Slime(CommandFramework):
    """slime's console, TensorBoard files and flags."""

    name = "slime"
    command = _COMMAND
    imports = later(r"(?m)^\s*(?:from|import)\s+slime\.(?:ray|rollout|backends|utils)\b")
    lines = _LINES
    dash = "-"
    seed_key = "rollout_seed"  # of prompt order and sampling; --seed is Megatron's
    usual_seed = 42

    def objective(self, recipe: Recipe) -> Objective | None:
        """The first data set of --eval-prompt-data if it is evaluated, else the reward of the rollouts."""
        name = text_of(recipe, "eval_prompt_data")
        if "/" in name:  # a path without a name
            name = "aime"
        evaluated = name and whole_number(recipe, "eval_interval")
        return Objective(f"eval/{name}" if evaluated else "rollout/raw_reward", Direction.MAXIMIZE)

    def sources(self, recipe: Recipe) -> tuple[Source, ...]:
        """TensorBoard's files, if enabled and not redirected by TENSORBOARD_DIR."""
        project = text_of(recipe, "tb_project_name")
        if not true_at(recipe, "use_tensorboard") or not project:
            return ()
        experiment = text_of(recipe, "tb_experiment_name") or "*"  # slime names it after the start time
        return (Source(SourceFormat.TENSORBOARD, f"tensorboard_log/{project}/{experiment}"),)

    def resumes(self, recipe: Recipe) -> tuple[str, ...]:
        """The marker file of a checkpoint, if --load and --save name the same directory."""
        save = text_of(recipe, "save")
        return (f"{save}/latest_checkpointed_iteration.txt",) if save and save == text_of(recipe, "load") else ()

    def continuation(self, recipe: Recipe) -> Continuation | None:
        """--load names the directory of --save."""
        save = own_directory(recipe, "save")
        return Continuation({"load": save, "save": save}, f"{save}/latest_checkpointed_iteration.txt") if save else None

    def gpus(self, recipe: Recipe) -> int | None:
        """The actor's GPUs, shared by the critic, plus those of the rollouts; with --colocate the larger of the two."""
        if look_up(recipe, "actor_num_gpus_per_node") is None:
            return None
        actor = product(recipe, ("actor_num_gpus_per_node", 8), ("actor_num_nodes", 1))
        rollout = whole_number(recipe, "rollout_num_gpus") or 0
        if actor is None or true_at(recipe, "debug_train_only"):
            return actor
        if true_at(recipe, "colocate"):
            return max(actor, rollout)
        return actor + rollout if rollout else None  # without --colocate, slime demands it: it is not known here

    def outputs(self, recipe: Recipe) -> tuple[Output, ...]:
        """Checkpoints, dumps and the TensorBoard experiment; a run with the same --load as another resumes it."""
        found = [Output("save", "checkpoints")] if text_of(recipe, "save") else []
        if text_of(recipe, "load") and text_of(recipe, "load") == text_of(recipe, "save"):
            found.append(Output("load", "checkpoints"))
        if text_of(recipe, "save_debug_rollout_data"):
            found.append(Output("save_debug_rollout_data", "rollout_{rollout_id}.pt"))
        return (*found, *([Output("tb_experiment_name")] if text_of(recipe, "tb_experiment_name") else []))

    def space(self, recipe: Recipe) -> Mapping[str, object]:
        """Learning rate and, if used, the KL coefficient, around the values of the flags."""
        return around(recipe, "lr", *(["kl_loss_coef"] if true_at(recipe, "use_kl_loss") else []))
