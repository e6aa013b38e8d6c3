"""OpenRLHF: PPO and its kin on Ray, vLLM and DeepSpeed; SFT, DPO, reward models. As of OpenRLHF/OpenRLHF 3c3be623.

Formats: openrlhf/trainer/ppo_trainer.py and ppo_trainer_async.py (`Global step N: {...}`, from 1 on; `Evaluation
completed in T, global_step N, eval_metrics: {...}`, asynchronously `Eval at step N: {...}`),
openrlhf/utils/logging_utils.py (the prefix; TensorBoard below `<tensorboard_dir>/<run_name>`),
openrlhf/cli/train_ppo_ray.py (flags with dots). Each step prints a sampled answer, which may quote anything, so only
lines with the logger's own prefix count. `kl` is the distance to the reference, `ppo_kl` to the sampling policy; during
--critic.freezing_steps a step's dict has neither. `rollout/reward_mean` is computed before batches are cut, `reward`
after it. SFT, DPO and reward models print only progress bars.

openrlhf/trainer/{sft,dpo,rm}_trainer.py print only a progress bar per micro-batch, followed by its metrics with three
digits. The metrics are set before the bar moves: `3/8 [..., loss=0.7]` shows the result of the fourth micro-batch. The
same metrics are drawn once more as 4/8, which is skipped.

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
from autoresearch.core.metrics.python_values import NUMBER, number, numbers, python_dict
from autoresearch.core.metrics.signal import Reading, SignalKind, SignalPattern
from autoresearch.core.run.recipe_keys import around, look_up, product, text_of, true_at, whole_number
from autoresearch.core.run.trainer import Continuation, Output, Recipe, Recording, Source, SourceFormat, Trainer
from autoresearch.core.text.regex import later
from autoresearch.trainers import ray_job, shared_patterns
from autoresearch.trainers.command_settings import flag_words, with_flags
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

_PPO = "ppo_ray"
_COMMAND_KEY = "openrlhf_command"  # stored beside the recipe's keys
_COMMAND = later(r"\bopenrlhf[./]cli[./]train_(?P<kind>ppo_ray|sft|dpo|rm)\b")

_BAR = r"%\|[^|\r\n]{0,640}\| *"
_TRAIN_BAR = later(
    r"Train step of epoch (?P<epoch>\d{1,6}): {1,4}\d{1,3}"
    + _BAR
    + r"(?P<done>\d{1,9})/(?P<of>\d{1,9}) \[(?P<rest>.*)\]$"
)
_EVAL_BAR = later(
    r"Eval stage of (?:global_)?steps? (?P<at>\d{1,9}): {1,4}100" + _BAR + r"\d{1,9}/\d{1,9} \[(?P<rest>.*)\]$"
)
_PAIR = later(rf", (?P<key>[a-z][a-z_ ]{{0,60}})=(?P<value>{NUMBER})(?=[,\]]|$)")

_BAR_STEP = SignalPattern(
    SignalKind.STEP,
    r"Train step of epoch \d{1,6}: {1,4}\d{1,2}"
    + _BAR
    + r"(?P<step>\d{1,9})/\d{1,9} \[[^\r\n\]]{0,120}, (?:gpt_)?loss=",
    needles=("Train step of epoch ",),
)
"""A micro-batch of SFT, DPO or a reward model; it counts from 0 in each epoch."""

_BAR_VALIDATION = SignalPattern(
    SignalKind.VALIDATION,
    r"Eval stage of (?:global_)?steps? (?P<step>\d{1,9}): {1,4}100" + _BAR + r"\d{1,9}/\d{1,9} \["
    r"[^\r\n\]]{0,120}, eval[_ ](?:gpt_)?loss=",
    needles=("Eval stage of ",),
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
class OpenRlhf(Trainer):
    """OpenRLHF's console, TensorBoard files and flags."""

    name: str = "openrlhf"

    def recognises(self, command: str) -> bool:
        """`python -m openrlhf.cli.train_ppo_ray ...`, mostly after `ray job submit`, or `deepspeed --module ...`."""
        return _COMMAND.search(command) is not None

    def signals(self) -> tuple[SignalPattern, ...]:
        """Steps, evaluations, NaN, fatal lines; a moving bar suspends the first-step limit for two minutes."""
        return (
            *(STEP, VALIDATION, _BAR_STEP, _BAR_VALIDATION, _NAN, _JOB_FAILED),
            *(fatal_lines.TRACEBACK, fatal_lines.OUT_OF_MEMORY, fatal_lines.RAY_EXCEPTION, fatal_lines.NCCL_TIMEOUT),
            shared_patterns.LOADING,
        )

    def read_line(self, line: str) -> Reading | None:
        """Read a line of the trainer's own logger, or a progress bar followed by metrics."""
        return read_event(line) or _read_bar(line)

    def objective(self, recipe: Recipe) -> Objective | None:
        """The rollouts' mean reward, as evaluation metrics are named after data sets; the loss for SFT, DPO and RM."""
        kind = _kind(recipe)
        if kind != _PPO:
            loss = "gpt_loss" if kind == "sft" else "loss"
            return Objective(f"eval_{loss}" if _evaluates(recipe) else loss, Direction.MINIMIZE)
        named = text_of(recipe, "ckpt.best_metric_key")
        return Objective(named if named not in ("", "none") else "rollout/reward_mean", Direction.MAXIMIZE)

    def sources(self, recipe: Recipe) -> tuple[Source, ...]:
        """TensorBoard's files, for PPO with a directory; the other trainers count steps differently there."""
        where = text_of(recipe, "logger.tensorboard_dir")
        if not where or _kind(recipe) != _PPO:
            return ()
        return (Source(SourceFormat.TENSORBOARD, f"{where}/{text_of(recipe, 'logger.wandb.run_name') or '*'}"),)

    def key_of(self, tag: str) -> str:
        """The console's name of a tag: without `train/` or `eval/`."""
        return tag.removeprefix("train/").removeprefix("eval/")

    def recording(self, recipe: Recipe, directory: str) -> Recording | None:
        """Write TensorBoard files into the run's directory; for PPO only, and not for a job on other hosts."""
        if look_up(recipe, "logger.tensorboard_dir") is not None or _kind(recipe) != _PPO:
            return None
        if ray_job.elsewhere(recipe):
            return None
        keys = {"logger.tensorboard_dir": f"{directory}/tensorboard"}
        where = Source(SourceFormat.TENSORBOARD, f"{directory}/tensorboard/*")
        return Recording(where, overrides=keys, arguments=self.arguments(keys))

    def settings(self, recipe: Recipe, command: str) -> Recipe:
        """The recipe with the command's flags over it, plus the kind of training and where its Ray job runs."""
        return {**with_flags(recipe, command), **_of_command(command), **ray_job.beside(command)}

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
        return (f"{_checkpoints(recipe)}/{'_actor' if _kind(recipe) == _PPO else 'latest'}",)

    def continuation(self, recipe: Recipe) -> Continuation | None:
        """--ckpt.load_enable with the same --ckpt.path."""
        path = text_of(recipe, "ckpt.path")
        if not path.startswith("/") or "$" in path:
            return None
        model = "_actor" if _kind(recipe) == _PPO else "latest"
        return Continuation({"ckpt.path": path, "ckpt.load_enable": True}, f"{path}/{model}")

    def gpus(self, recipe: Recipe) -> int | None:
        return _gpus(recipe)

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
    return text_of(recipe, "ckpt.path") or f"./ckpt/checkpoints_{_kind(recipe)}"


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


def _of_command(command: str) -> dict[str, object]:
    """The kind of training, as a key beside those of the recipe."""
    found = _COMMAND.search(command)
    return {_COMMAND_KEY: found["kind"]} if found else {}


def _kind(recipe: Recipe) -> str:
    """`ppo_ray`, `sft`, `dpo` or `rm`; `ppo_ray` if unknown."""
    return text_of(recipe, _COMMAND_KEY) or _PPO


def _read_bar(line: str) -> Reading | None:
    """The metrics of a training bar, at the number of micro-batches over all epochs, or of a complete evaluation."""
    bar = _TRAIN_BAR.search(line)
    if bar:
        done, of = int(bar["done"]), int(bar["of"])
        metrics = _numbers(bar["rest"])
        if done >= of or not any(key.endswith("loss") for key in metrics):
            return None
        return Reading(SignalKind.STEP, int(bar["epoch"]) * of + done + 1, metrics)
    bar = _EVAL_BAR.search(line)
    metrics = _numbers(bar["rest"]) if bar else {}
    return Reading(SignalKind.VALIDATION, int(bar["at"]), metrics) if bar and metrics else None


def _gpus(recipe: Recipe) -> int | None:
    """GPUs of all model groups that do not share GPUs; None if the flags do not determine it."""
    if _kind(recipe) != _PPO:  # deepspeed's
        return None
    if look_up(recipe, "actor.num_gpus_per_node") is None and not true_at(recipe, "train.colocate_all"):
        return None
    together = true_at(recipe, "train.colocate_all")
    groups = ["actor"]
    if not together:
        if look_up(recipe, "algo.kl.init_coef") != 0 and not true_at(recipe, "train.colocate_actor_ref"):
            groups.append("ref")
        groups += _judges(recipe)
    sizes = [product(recipe, (f"{name}.num_gpus_per_node", 8), (f"{name}.num_nodes", 1)) for name in groups]
    if not together or true_at(recipe, "train.async_enable"):
        sizes.append(product(recipe, ("vllm.num_engines", 0), ("vllm.tensor_parallel_size", 1)))
    known_sizes = [size for size in sizes if size is not None]
    return sum(known_sizes) if len(known_sizes) == len(sizes) else None


def _judges(recipe: Recipe) -> list[str]:
    """The critic, which only GAE uses, and the reward model, unless it is remote or replaced by an agent function."""
    critic = (text_of(recipe, "algo.advantage.estimator") or "gae") == "gae"
    reward = not text_of(recipe, "reward.remote_url") and not text_of(recipe, "train.agent_func_path")
    if critic and reward and true_at(recipe, "train.colocate_critic_reward"):
        return ["critic"]
    return [*(["critic"] if critic else []), *(["reward"] if reward else [])]


def _numbers(rest: str) -> dict[str, float]:
    found = {pair["key"].replace(" ", "_"): number(pair["value"]) for pair in _PAIR.finditer(rest)}
    return {key: value for key, value in found.items() if value is not None}
