"""OpenRLHF: PPO and its kin on Ray, vLLM and DeepSpeed; SFT, DPO, reward models. As of OpenRLHF/OpenRLHF 3c3be623.

Formats: openrlhf/trainer/ppo_trainer.py and ppo_trainer_async.py (`Global step N: {...}`, from 1 on; `Evaluation
completed in T, global_step N, eval_metrics: {...}`, asynchronously `Eval at step N: {...}`),
openrlhf/utils/logging_utils.py (the prefix; TensorBoard below `<tensorboard_dir>/<run_name>`),
openrlhf/cli/train_ppo_ray.py (flags with dots). Each step prints a sampled answer, which may quote anything, so only
lines with the logger's own prefix count. `kl` is the distance to the reference, `ppo_kl` to the sampling policy; during
--critic.freezing_steps a step's dict has neither. `rollout/reward_mean` is computed before batches are cut, `reward`
after it. SFT, DPO and reward models print only progress bars, see `openrlhf_commands`.

Overrides: flags at the end of the command; there is no recipe. Leaves behind: the Ray job, which outlives its client,
and checkpoints below --ckpt.path, resumed only with --ckpt.load_enable. Graceful stop: `ray job stop ID`. It has no
time limit, and a signal saves nothing. The NCCL timeout may be two hours, during which a hung run prints nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.diagnosis import fatal_lines
from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.metrics.python_values import NUMBER, numbers, python_dict
from autoresearch.core.metrics.signal import Reading, SignalKind, SignalPattern
from autoresearch.core.run.recipe_keys import around, look_up, text_of, true_at, whole_number
from autoresearch.core.run.trainer import Continuation, Output, Recipe, Recording, Source, SourceFormat
from autoresearch.core.text.regex import later
from autoresearch.trainers import openrlhf_commands, ray_job, shared_patterns
from autoresearch.trainers.command_settings import flag_words, with_flags
from autoresearch.trainers.openrlhf_commands import BAR_STEP, BAR_VALIDATION, PPO
from autoresearch.trainers.shared_patterns import CLOSED, optional_later

_GROUPED = ("rloo", "reinforce_baseline", "group_norm", "dr_grpo")  # estimators that compare a prompt's samples

_LINE = later(
    r"(?:[A-Z]{4,8} \d\d-\d\d \d\d:\d\d:\d\d )?ppo_trainer\w*\.py:\d{1,6}\] \W{0,4}"
    r"(?:Global step (?P<step>\d{1,9})|Evaluation completed in .{1,40}, global_step (?P<after>\d{1,9}), eval_metrics"
    r"|Eval at step (?P<at>\d{1,9})): (?P<dict>\{.*\})"
)
# Only a prefix or a colour may precede the logger's line, and its dict ends the line. The pattern begins with a
# literal, which re searches for quickly.
_STAMP = r"INFO \d\d-\d\d \d\d:\d\d:\d\d ppo_trainer"
_BEFORE = "|".join(rf"(?<={before}{_STAMP})" for before in ("^", r"[\r\n]", "[)m] ", r"\dm", r"\]:", r"\]: "))
_HEAD = rf"ppo_trainer(?:{_BEFORE})\w{{0,20}}\.py:\d{{1,6}}\] [^\w\r\n]{{0,8}}"

_KL = optional_later("kl", " '")

STEP = SignalPattern(
    SignalKind.STEP,
    _HEAD + rf"Global step (?P<step>[1-9]\d{{0,8}}): \{{{CLOSED}{_KL}': (?P<kl>{NUMBER}))?",
    needles=("Global step ",),
)

VALIDATION = SignalPattern(
    SignalKind.VALIDATION,
    _HEAD
    + r"(?:Evaluation completed in [^\r\n]{1,40}, global_step \d{1,9}, eval_metrics|Eval at step \d{1,9}): \{"
    + CLOSED,
    needles=("Evaluation completed in ", "Eval at step "),
)

_NAN = SignalPattern(
    SignalKind.NAN,
    r"'(?:policy_loss|critic_loss|kl|ppo_kl|actor_grad_norm|critic_grad_norm)': nan(?=[,}])"
    r"|, (?:gpt_|act_)?loss=nan(?=[,\]])",
    needles=("': nan", "loss=nan"),
)

_JOB_FAILED = SignalPattern(
    SignalKind.ERROR,
    r"(?P<text>Job entrypoint command failed with exit code[^\r\n]{0,80})",
    needles=("Job entrypoint command failed",),
)


def read_event(line: str) -> Reading | None:
    """Read a step's or an evaluation's dict; None for any other line, including quoted ones."""
    found = _LINE.match(line) if line.endswith("}") else None
    if found is None:
        return None
    metrics = numbers(python_dict(found["dict"]) or {})
    if not metrics:
        return None
    if found["step"]:
        return Reading(SignalKind.STEP, int(found["step"]), metrics)
    return Reading(SignalKind.VALIDATION, int(found["after"] or found["at"]), metrics)


@dataclass(frozen=True, slots=True)
class OpenRlhf:
    """OpenRLHF's console, TensorBoard files and flags."""

    name: str = "openrlhf"
    named: bool = True

    def recognises(self, command: str) -> bool:
        """`python -m openrlhf.cli.train_ppo_ray ...`, mostly after `ray job submit`, or `deepspeed --module ...`."""
        return openrlhf_commands.COMMAND.search(command) is not None

    def signals(self) -> tuple[SignalPattern, ...]:
        """Steps, evaluations, NaN, fatal lines; a moving bar suspends the first-step limit for two minutes."""
        return (
            *(STEP, VALIDATION, BAR_STEP, BAR_VALIDATION, _NAN, _JOB_FAILED),
            *(fatal_lines.TRACEBACK, fatal_lines.OUT_OF_MEMORY, fatal_lines.RAY_EXCEPTION, fatal_lines.NCCL_TIMEOUT),
            shared_patterns.LOADING,
        )

    def read_line(self, line: str) -> Reading | None:
        """Read a line of the trainer's own logger, or a progress bar followed by metrics."""
        return read_event(line) or openrlhf_commands.read_bar(line)

    def objective(self, recipe: Recipe) -> Objective | None:
        """The rollouts' mean reward, as evaluation metrics are named after data sets; the loss for SFT, DPO and RM."""
        kind = openrlhf_commands.kind(recipe)
        if kind != PPO:
            loss = "gpt_loss" if kind == "sft" else "loss"
            return Objective(f"eval_{loss}" if _evaluates(recipe) else loss, Direction.MINIMIZE)
        named = text_of(recipe, "ckpt.best_metric_key")
        return Objective(named if named not in ("", "none") else "rollout/reward_mean", Direction.MAXIMIZE)

    def sources(self, recipe: Recipe) -> tuple[Source, ...]:
        """TensorBoard's files, for PPO with a directory; the other trainers count steps differently there."""
        where = text_of(recipe, "logger.tensorboard_dir")
        if not where or openrlhf_commands.kind(recipe) != PPO:
            return ()
        return (Source(SourceFormat.TENSORBOARD, f"{where}/{text_of(recipe, 'logger.wandb.run_name') or '*'}"),)

    def key_of(self, tag: str) -> str:
        """The console's name of a tag: without `train/` or `eval/`."""
        return tag.removeprefix("train/").removeprefix("eval/")

    def recording(self, recipe: Recipe, directory: str) -> Recording | None:
        """Write TensorBoard files into the run's directory; for PPO only, and not for a job on other hosts."""
        if look_up(recipe, "logger.tensorboard_dir") is not None or openrlhf_commands.kind(recipe) != PPO:
            return None
        if ray_job.elsewhere(recipe):
            return None
        keys = {"logger.tensorboard_dir": f"{directory}/tensorboard"}
        where = Source(SourceFormat.TENSORBOARD, f"{directory}/tensorboard/*")
        return Recording(where, overrides=keys, arguments=self.arguments(keys))

    def settings(self, recipe: Recipe, command: str) -> Recipe:
        """The recipe with the command's flags over it, plus the kind of training and where its Ray job runs."""
        return {**with_flags(recipe, command), **openrlhf_commands.of_command(command), **ray_job.beside(command)}

    def arguments(self, overrides: Mapping[str, object]) -> tuple[str, ...]:
        """`--a.b_c value` for each key."""
        return flag_words(overrides, dash="_")

    def lint_command(self, command: str) -> tuple[Finding, ...]:
        """A Ray job that is not waited for, or has no submission id."""
        return ray_job.lint(command)

    def lint(self, recipe: Recipe) -> tuple[Finding, ...]:
        """Silent resumption, missing evaluation, and a group estimator with one sample per prompt."""
        return tuple(_lint(recipe))

    def resumes(self, recipe: Recipe) -> tuple[str, ...]:
        """The checkpoint of the actor, or of the only model, if --ckpt.load_enable is given."""
        if not true_at(recipe, "ckpt.load_enable"):
            return ()
        return (f"{_checkpoints(recipe)}/{'_actor' if openrlhf_commands.kind(recipe) == PPO else 'latest'}",)

    def continuation(self, recipe: Recipe) -> Continuation | None:
        """--ckpt.load_enable with the same --ckpt.path."""
        path = text_of(recipe, "ckpt.path")
        if not path.startswith("/") or "$" in path:
            return None
        model = "_actor" if openrlhf_commands.kind(recipe) == PPO else "latest"
        return Continuation({"ckpt.path": path, "ckpt.load_enable": True}, f"{path}/{model}")

    def gpus(self, recipe: Recipe) -> int | None:
        return openrlhf_commands.gpus(recipe)

    def seed(self, recipe: Recipe) -> int | None:
        """`--train.seed`, 42 if unset."""
        return 42 if look_up(recipe, "train.seed") is None else whole_number(recipe, "train.seed")

    @property
    def seed_key(self) -> str:
        return "train.seed"

    def outputs(self, recipe: Recipe) -> tuple[Output, ...]:
        """Model, checkpoints and trackers; without a value, all runs would share the defaults of the first two."""
        found = [Output("ckpt.output_dir", "model"), Output("ckpt.path", "checkpoints")]
        if text_of(recipe, "logger.tensorboard_dir"):
            found.append(Output("logger.tensorboard_dir", "tensorboard"))
        return (*found, *([Output("logger.wandb.run_name")] if text_of(recipe, "logger.wandb.run_name") else []))

    def space(self, recipe: Recipe) -> Mapping[str, object]:
        """Learning rate and KL coefficient, around the values of the flags."""
        return around(recipe, "actor.adam.lr", "algo.kl.init_coef", "adam.lr")


def _evaluates(recipe: Recipe) -> bool:
    return bool(text_of(recipe, "eval.dataset")) and (whole_number(recipe, "eval.steps") or -1) > 0


def _checkpoints(recipe: Recipe) -> str:
    return text_of(recipe, "ckpt.path") or f"./ckpt/checkpoints_{openrlhf_commands.kind(recipe)}"


def _lint(recipe: Recipe) -> Iterator[Finding]:
    if true_at(recipe, "ckpt.load_enable"):
        message = f"--ckpt.load_enable resumes whatever an earlier run left in {_checkpoints(recipe)}"
        hint = "take it out, or name a --ckpt.path of this run alone"
        yield Finding(Severity.WARNING, "silent_resume", message, hint)
    if text_of(recipe, "eval.dataset") and not _evaluates(recipe):
        message = "--eval.dataset is given, but --eval.steps is not: it is never evaluated"
        yield Finding(Severity.WARNING, "no_evaluation", message, "add --eval.steps 20")
    estimator = text_of(recipe, "algo.advantage.estimator")
    if estimator in _GROUPED and (whole_number(recipe, "rollout.n_samples_per_prompt") or 2) < 2:
        message = f"--algo.advantage.estimator {estimator} compares the samples of a prompt, but there is only one"
        yield Finding(Severity.ERROR, "one_sample", message, "set --rollout.n_samples_per_prompt to 2 or more")
