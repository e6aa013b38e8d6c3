"""OpenRLHF: PPO and its kin on Ray, vLLM and DeepSpeed (OpenRLHF/OpenRLHF at 3c3be623).

Formats: openrlhf/trainer/ppo_trainer.py and ppo_trainer_async.py (`Global step N: {...}`, from 1 on; `Evaluation
completed in T, global_step N, eval_metrics: {...}`, asynchronously `Eval at step N: {...}`),
openrlhf/utils/logging_utils.py (the prefix; TensorBoard below `<tensorboard_dir>/<run_name>`),
openrlhf/cli/train_ppo_ray.py (flags with dots). It prints a sampled answer each step, which may quote anything:
only lines with the logger's own prefix count. `kl` is the distance to the reference, `ppo_kl` to the sampling policy.

Overrides: flags behind the command; there is no recipe. Leaves behind: the Ray job, which goes on without its client,
and checkpoints below --ckpt.path, resumed only with --ckpt.load_enable. To stop it gracefully: `ray job stop ID`. A
signal saves nothing. The NCCL timeout may be two hours: a hung run stays silent for so long.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from autoresearch.core.finding import Finding, Severity
from autoresearch.core.objective import Direction, Objective
from autoresearch.core.regex import later
from autoresearch.core.signal import Reading, SignalKind, SignalPattern
from autoresearch.core.trainer import Output, Recipe, Recording, Source, SourceFormat
from autoresearch.core.values import NUMBER, numbers, python_dict
from autoresearch.trainers import fatal, ray_job, shared_patterns
from autoresearch.trainers.command_settings import flag_words, with_flags
from autoresearch.trainers.recipe_keys import around, look_up, product, text_of, true_at, whole_number
from autoresearch.trainers.shared_patterns import optional_later

_COMMAND = later(r"\bopenrlhf[./]cli[./]train_ppo_ray\b")  # SFT, DPO and RM print a bar and no line

_CHECKPOINTS = "./ckpt/checkpoints_ppo_ray"

_LINE = later(
    r"(?:[A-Z]{4,8} \d\d-\d\d \d\d:\d\d:\d\d )?ppo_trainer\w*\.py:\d{1,6}\] \W{0,4}"
    r"(?:Global step (?P<step>\d{1,9})|Evaluation completed in .{1,40}, global_step (?P<after>\d{1,9}), eval_metrics"
    r"|Eval at step (?P<at>\d{1,9})): (?P<dict>\{.*\})"
)
_HEAD = r"ppo_trainer\w{0,20}\.py:\d{1,6}\] [^\w\r\n]{0,8}"

_KL = optional_later("kl", " '")

STEP = SignalPattern(
    SignalKind.STEP,
    _HEAD + rf"Global step (?P<step>[1-9]\d{{0,8}}): \{{{_KL}': (?P<kl>{NUMBER}))?",
    needles=("Global step ",),
)

VALIDATION = SignalPattern(
    SignalKind.VALIDATION,
    _HEAD + r"(?:Evaluation completed in [^\r\n]{1,40}, global_step \d{1,9}, eval_metrics|Eval at step \d{1,9}): \{",
    needles=("Evaluation completed in ", "Eval at step "),
)

_NAN = SignalPattern(
    SignalKind.NAN,
    r"'(?:policy_loss|critic_loss|kl|ppo_kl|actor_grad_norm|critic_grad_norm)': nan(?=[,}])",
    needles=("': nan",),
)

_JOB_FAILED = SignalPattern(
    SignalKind.ERROR,
    r"(?P<text>Job entrypoint command failed with exit code[^\r\n]{0,80})",
    needles=("Job entrypoint command failed",),
)


def read_event(line: str) -> Reading | None:
    """A step's or an evaluation's dict; None for any other line, a quoted one among them."""
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
        """`python -m openrlhf.cli.train_ppo_ray ...`, mostly behind `ray job submit`."""
        return _COMMAND.search(command) is not None

    def signals(self) -> tuple[SignalPattern, ...]:
        """Steps, evaluations, NaN, fatal lines; any bar that moves holds for two minutes."""
        return (
            *(STEP, VALIDATION, _NAN, _JOB_FAILED),
            *(fatal.TRACEBACK, fatal.OUT_OF_MEMORY, fatal.RAY_EXCEPTION, fatal.NCCL_TIMEOUT),
            shared_patterns.LOADING,
        )

    def read_line(self, line: str) -> Reading | None:
        """A line of the trainer's own logger."""
        return read_event(line)

    def objective(self, recipe: Recipe) -> Objective | None:
        """The mean reward of the training batches: an evaluation's name holds that of its data set."""
        named = text_of(recipe, "ckpt.best_metric_key")
        return Objective(named if named not in ("", "none") else "reward", Direction.MAXIMIZE)

    def sources(self, recipe: Recipe) -> tuple[Source, ...]:
        """None: TensorBoard's tags (train/reward, eval/...) are others than the console's; see `recording`."""
        return ()

    def recording(self, recipe: Recipe, directory: str) -> Recording | None:
        """TensorBoard, whose tags have train/ and eval/ before the console's names."""
        if look_up(recipe, "logger.tensorboard_dir") is not None:
            return None
        keys = {"logger.tensorboard_dir": f"{directory}/tensorboard"}
        where = Source(SourceFormat.TENSORBOARD, f"{directory}/tensorboard/*")
        return Recording(where, overrides=keys, arguments=self.arguments(keys))

    def settings(self, recipe: Recipe, command: str) -> Recipe:
        """The command's flags."""
        return with_flags(recipe, command)

    def arguments(self, overrides: Mapping[str, object]) -> tuple[str, ...]:
        """`--a.b_c value`."""
        return flag_words(overrides, dash="_")

    def lint_command(self, command: str) -> tuple[Finding, ...]:
        """A Ray job that nobody waits for, or without a name."""
        return ray_job.lint(command)

    def lint(self, recipe: Recipe) -> tuple[Finding, ...]:
        """What is resumed silently, or never evaluated."""
        return tuple(_lint(recipe))

    def resumes(self, recipe: Recipe) -> tuple[str, ...]:
        """The actor's checkpoint, where --ckpt.load_enable is given."""
        where = text_of(recipe, "ckpt.path") or _CHECKPOINTS
        return (f"{where}/_actor",) if true_at(recipe, "ckpt.load_enable") else ()

    def gpus(self, recipe: Recipe) -> int | None:
        """The actor's, where --train.colocate_all puts everything on them."""
        if not true_at(recipe, "train.colocate_all"):
            return None
        return product(recipe, ("actor.num_gpus_per_node", 8), ("actor.num_nodes", 1))

    def seed(self, recipe: Recipe) -> int | None:
        """`--train.seed`, which is 42 where nothing is said."""
        return 42 if look_up(recipe, "train.seed") is None else whole_number(recipe, "train.seed")

    @property
    def seed_key(self) -> str:
        """See `seed`."""
        return "train.seed"

    def outputs(self, recipe: Recipe) -> tuple[Output, ...]:
        """Both directories have defaults below the checkout, which all runs would share."""
        found = [Output("ckpt.output_dir", "model"), Output("ckpt.path", "checkpoints")]
        if text_of(recipe, "logger.tensorboard_dir"):
            found.append(Output("logger.tensorboard_dir", "tensorboard"))
        return (*found, *([Output("logger.wandb.run_name")] if text_of(recipe, "logger.wandb.run_name") else []))

    def space(self, recipe: Recipe) -> Mapping[str, object]:
        """Learning rate and KL coefficient, around what the flags say."""
        return around(recipe, "actor.adam.lr", "algo.kl.init_coef")


def _lint(recipe: Recipe) -> Iterator[Finding]:
    if true_at(recipe, "ckpt.load_enable"):
        where = text_of(recipe, "ckpt.path") or _CHECKPOINTS
        message = f"--ckpt.load_enable resumes whatever an earlier run left in {where}"
        hint = "take it out, or name a --ckpt.path of this run alone"
        yield Finding(Severity.WARNING, "silent_resume", message, hint)
    if text_of(recipe, "eval.dataset") and (whole_number(recipe, "eval.steps") or -1) <= 0:
        message = "--eval.dataset is given, but --eval.steps is not: it is never evaluated"
        yield Finding(Severity.WARNING, "no_evaluation", message, "add --eval.steps 20")
