"""NeMo-RL: GRPO, PPO, distillation, SFT, DPO and reward models. As of NVIDIA-NeMo/RL 7ea279ab.

Formats: nemo_rl/algorithms/*.py (console), nemo_rl/utils/logger.py (log directories and tags), examples/configs/*.yaml
(recipes; a recipe may name its parent under `defaults:` and then holds only what differs).

Overrides: in the recipe, or `a.b=c` (`++a.b=c` for a new key) at the end of the command. The console never prints the
reference KL; the files have it as train/kl_penalty. A run ends with exit code 0 and a line that says so at
`max_num_steps`, at `checkpoint_must_save_by` (counted from the start of training without set-up, and applied one step
early) and at an early-stop threshold. `Async GRPO training complete!` and `Async PPO training complete!` are printed in
a `finally`, so also after a crash, and prove nothing; the exit code does.

Leaves behind: `<log_dir>/exp_NNN`, a new one for each run; `<checkpoint_dir>/step_N`, from which the next run with the
same directory resumes without being asked, even if it saves no checkpoints itself. `ray.init` joins a cluster that is
already running. Graceful stop: `checkpoint_must_save_by`; a signal saves nothing. Under ray.sub, a file ENDED in its
log directory stops the job.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.metrics.signal import NO_STEP, LineReader, Reading, SignalKind, SignalPattern, numbers
from autoresearch.core.run.recipe_keys import look_up, product, text_of, true_at, whole_number
from autoresearch.core.run.trainer import Continuation, Output, Recipe, Source, SourceFormat
from autoresearch.core.text.regex import later
from autoresearch.runner.metric_lines import object_of, value_of
from autoresearch.trainers.framework import HOLD_S, SILENT_S, CommandFramework, own_directory, words_of

# NeMo-RL's console: blocks of bullets under a heading; the step is on a separate line before them.
#
# Written by nemo_rl/algorithms/{grpo,grpo_sync,ppo,distillation,sft,dpo,rm}.py (NVIDIA-NeMo/RL at 7ea279ab), and by
# xtoken_off_policy_distillation.py, whose bullets have no heading: the one with a mean per micro-batch is the first.
# The step in `== Step i/M ==` restarts in every epoch, while `Starting validation at step N` and the files count on;
# the asynchronous loops never restart. Metrics are renamed as in the files, so that console and TensorBoard agree.
# single_controller.py prints no blocks but `step_metrics={...}` and `train step N/M`.

_HEADING = later(r"\U0001F4CA (?P<kind>Training|Validation) Results(?: for `(?P<set>[^`]{1,200})` set)?:\s*")
_MARK = later(r"={10,} (?P<what>Epoch|Step) (?P<n>\d{1,9})/(?P<of>\d{1,9}) ={10,}\s*")
_BULLET = later(r"\s{1,8}\u2022 (?P<name>[^:]{1,80}): {1,3}(?P<value>\S+)")
_BARE = later(r"\s{1,8}\u2022 Loss: \S{1,24} \(per-MB-mean: ")
_ASIDE = later(r" \([^()]{1,40}\)")  # Avg Trajectory Age (gen-version)
_VALIDATES = later(r"\u25b6 Starting validation at step (?P<n>\d{1,9})\b")
_CONTROLLER = later(r"train step (?P<n>\d{1,9})/\d{1,9} {2}trainer_v=")

_NAMES = {
    "Policy Loss": "loss",
    "Generation KL Error": "gen_kl_error",
    "Avg Reward": "reward",
    "Avg Total Reward": "reward",  # the files' name for all rewards with dynamic sampling
    "Avg Filtered Reward": "filtered_reward",
    "Mean Generation Length": "mean_gen_tokens_per_sample",
    "Critic Loss": "critic/loss",
    "Critic Grad Norm": "critic/grad_norm",
    "Critic LR": "critic/lr",
    "Critic Clip Frac": "critic/vf_clipfrac",
    "Average response length": "avg_length",
    "Samples processed": "num_samples",
    "Validation loss": "val_loss",
    "KL": "kl_loss",  # to the teachers
    "CE": "ce_loss",
    "KL(common)": "kl_common",
    "L1(uncommon)": "l1_uncommon",
    "Acc": "accuracy",
    "ProjAcc": "proj_accuracy",
}


class NemoRlLog(LineReader):
    """Reads NeMo-RL's log."""

    needles = (
        *("\u2022 ", " Results", "===== ", "Starting validation at", "Timing"),
        *("step_metrics={", "train step "),
    )

    def __init__(self) -> None:
        self._epoch = 0
        self._in_epoch = 0  # the last announced step
        self._before = 0  # steps of earlier epochs
        self._until: dict[int, int] = {}  # epoch -> steps before it; a repeated epoch starts again from the same number
        self._validated = NO_STEP  # the step announced for the last validation
        self._kind = SignalKind.STEP
        self._prefix = ""
        self._open: dict[str, float] | None = None
        self._controller: dict[str, float] = {}

    @property
    def step(self) -> int:
        """The last announced step, counted over all epochs."""
        return self._before + self._in_epoch

    def line(self, text: str) -> Reading | None:
        """The reading of the block that this line ends, if any."""
        bullet = _BULLET.match(text)
        if bullet and self._open is None and _BARE.match(text):
            self._open, self._kind, self._prefix = {}, SignalKind.STEP, "train/"
        if bullet:
            self._take(bullet["name"], bullet["value"])
            return None
        done = self._closed()
        heading, mark, validates = _HEADING.fullmatch(text), _MARK.fullmatch(text), _VALIDATES.match(text)
        if heading:
            self._begin(heading)
        elif mark:
            self._announced(mark["what"], int(mark["n"]), int(mark["of"]))
        elif validates:
            self._validates(int(validates["n"]))
        return done or self._of_controller(text)

    def end(self) -> Sequence[Reading]:
        """The reading of the block that is still open."""
        done = self._closed()
        return () if done is None else (done,)

    def _closed(self) -> Reading | None:
        metrics, self._open = self._open, None
        if not metrics:
            return None
        if self._kind is SignalKind.STEP:
            return Reading(self._kind, self.step or NO_STEP, metrics)
        step = self.step if self._validated == NO_STEP else self._validated
        return Reading(self._kind, step, metrics)

    def _begin(self, heading: re.Match[str]) -> None:
        self._open = {}
        self._kind = SignalKind.STEP if heading["kind"] == "Training" else SignalKind.VALIDATION
        self._prefix = f"validation-{heading['set']}/" if heading["set"] else "validation/"
        if self._kind is SignalKind.STEP:
            self._prefix = "train/"

    def _take(self, name: str, text: str) -> None:
        value = value_of(text.rstrip("%,"))
        if self._open is None or value is None:
            return
        if self._prefix.startswith("validation-"):
            name = name.removeprefix("Validation ")
        name = _ASIDE.sub("", name)
        if name in ("Acc", "ProjAcc"):  # percent in the console, a fraction in the files
            value /= 100
        self._open[self._prefix + _NAMES.get(name, name.lower().replace(" ", "_"))] = value

    def _announced(self, what: str, n: int, of: int) -> None:
        if what == "Epoch":
            self._before = self._until.setdefault(n, self._before + self._in_epoch)
            self._epoch, self._in_epoch = n, 0
        else:
            if self._epoch > 1 and not self.step:  # a resumed run: another process ran the earlier epochs
                self._before = self._until[self._epoch] = (self._epoch - 1) * of
            self._in_epoch = n
            self._validated = NO_STEP

    def _validates(self, step: int) -> None:
        self._validated = step
        if self._epoch and step > self._in_epoch > 0:  # this step counts over all epochs and resumed runs
            self._before = self._until[self._epoch] = step - self._in_epoch

    def _of_controller(self, text: str) -> Reading | None:
        if text.startswith("step_metrics={"):
            self._controller = {f"train/{k}": v for k, v in numbers(object_of(text[13:]) or {}).items()}
        elif self._controller and (found := _CONTROLLER.match(text)):
            metrics, self._controller = self._controller, {}
            self._in_epoch = int(found["n"])
            return Reading(SignalKind.STEP, self._in_epoch, metrics)
        return None


_COMMAND = later(
    r"\bnemo_rl\b|\bnrl-k8s\b"
    r"|\bexamples/(?:[\w-]+/)*run_(?:grpo|ppo|distillation|sft|dpo|rm|vlm|xtoken)\w*\.py\b"
)

ALGORITHMS = ("grpo", "ppo", "distillation", "sft", "dpo", "rm")
_USUAL = {
    "sft": Objective("validation/val_loss", Direction.MINIMIZE),
    "dpo": Objective("validation-default/loss", Direction.MINIMIZE),
    "rm": Objective("validation-default/accuracy", Direction.MAXIMIZE),
}  # the others: the accuracy of the validation
_FIELDS = later(
    r"(?P<set>validation-.+?)_(?P<field>sft_loss|preference_loss|rewards_chosen_mean|rewards_rejected_mean"
    r"|num_valid_samples|global_valid_seqs|global_valid_toks|accuracy|loss)"
)

_LINES = (
    # a training step's block; which step it was stands on another line, so that the Runner counts
    SignalPattern(SignalKind.STEP, "\U0001f4ca Training Results:$", needles=(" Training Results:",)),
    # a step of the distillation across tokenizers, whose bullets have no heading
    SignalPattern(SignalKind.STEP, "\u2022 Loss: [^\\r\\n]{1,24} \\(per-MB-mean: ", needles=(" (per-MB-mean: ",)),
    SignalPattern(  # a step of the single controller, which prints no block
        SignalKind.STEP,
        r"^train step (?P<step>[1-9]\d{0,8})/\d{1,9} {2}trainer_v=\d{1,9} {2}lag=",
        needles=("  trainer_v=",),
    ),
    SignalPattern(
        SignalKind.VALIDATION,
        "\U0001f4ca Validation Results(?: for `[^`\\r\\n]{1,200}` set)?:$",
        needles=(" Validation Results",),
    ),
    # after a warned stall the process hangs on
    words_of(SignalKind.ERROR, ("WARNING: rollout stall -- ", "WARNING: environment health -- ", "RolloutStall: ")),
    SignalPattern(
        SignalKind.PROGRESS,
        "SETUP COMPLETE|Loaded configuration from: |Using log directory: |\u25b6 Setting up [a-z ]{3,40}\\.\\.\\."
        r"|\[run --rayjob\] \S+ deployment=(?:Initializing|Waiting|Suspend)",  # nrl-k8s while its cluster starts
        HOLD_S,
        ("SETUP COMPLETE", "[run --rayjob]", "Loaded configuration from", "Using log directory", " Setting up "),
    ),
    # it says nothing more until it is done
    words_of(SignalKind.PROGRESS, ("Running initial validation...", "Starting validation at step 0"), SILENT_S),
)


class NemoRl(CommandFramework):
    """NeMo-RL's console, TensorBoard files and recipe."""

    name = "nemo_rl"
    command = _COMMAND
    imports = later(r"(?m)^\s*(?:from|import)\s+nemo_rl\.algorithms\b")
    lines = _LINES
    hydra = True
    in_full = "logger: {tensorboard_enabled: true, tensorboard: {}}"
    seed_key = "grpo.seed"  # of GRPO; see `seed_key_in`
    space_keys = ("policy.optimizer.kwargs.lr", "loss_fn.reference_policy_kl_penalty")

    def reader(self) -> LineReader:
        """A reader of bullet blocks, which takes the step from the lines before them."""
        return NemoRlLog()

    def objective(self, recipe: Recipe) -> Objective | None:
        """`checkpointing.metric_name`, by which the run ranks its checkpoints, else the algorithm's usual metric."""
        named = text_of(recipe, "checkpointing.metric_name")
        if named:
            falls = look_up(recipe, "checkpointing.higher_is_better") is False
            return Objective(metric_of(named), Direction.MINIMIZE if falls else Direction.MAXIMIZE)
        if isinstance(recipe.get("async_rl"), Mapping):  # the single controller has no validation yet
            return Objective("train/reward")
        kind = algorithm(recipe)
        return _USUAL.get(kind, Objective("validation/accuracy")) if kind else None

    def sources(self, recipe: Recipe) -> tuple[Source, ...]:
        """TensorBoard's files of the last `exp_NNN`, if enabled: each run creates a new one."""
        if not true_at(recipe, "logger.tensorboard_enabled"):
            return ()
        return (Source(SourceFormat.TENSORBOARD, f"{text_of(recipe, 'logger.log_dir') or 'logs'}/exp_*/tensorboard"),)

    def confessions(self) -> tuple[str, ...]:
        """Up to release 0.7.0 async_grpo_train printed the loop's error and returned; 7ea279ab raises it again."""
        return (r"\u274c Error in async (?:PPO )?loop: .*",)

    def resumes(self, recipe: Recipe) -> tuple[str, ...]:
        """Any step_N in the checkpoint directory, even if this run saves no checkpoints."""
        directory = text_of(recipe, "checkpointing.checkpoint_dir")
        return (f"{directory}/step_*",) if directory and "$" not in directory else ()

    def continuation(self, recipe: Recipe) -> Continuation | None:
        """The same checkpoint directory: its last step_N is resumed by itself."""
        directory = own_directory(recipe, "checkpointing.checkpoint_dir")
        return Continuation({"checkpointing.checkpoint_dir": directory}, f"{directory}/step_*") if directory else None

    def gpus(self, recipe: Recipe) -> int | None:
        """GPUs per node times nodes, from the recipe's `cluster`."""
        if look_up(recipe, "cluster.gpus_per_node") is None:
            return None
        return product(recipe, ("cluster.gpus_per_node", 1), ("cluster.num_nodes", 1))

    def seed(self, recipe: Recipe) -> int | None:
        """`<algorithm>.seed`."""
        return whole_number(recipe, self.seed_key_in(recipe))

    def seed_key_in(self, recipe: Recipe) -> str:
        """`grpo.seed`, `sft.seed`, ...: every algorithm keeps it in its own section."""
        return f"{algorithm(recipe) or 'grpo'}.seed"

    def outputs(self, recipe: Recipe) -> tuple[Output, ...]:
        """Logs, checkpoints and tracker names; two runs with one checkpoint directory would resume each other."""
        names = [Output(f"logger.{k}.name") for k in ("wandb", "swanlab") if true_at(recipe, f"logger.{k}_enabled")]
        return (Output("logger.log_dir", "logs"), Output("checkpointing.checkpoint_dir", "checkpoints"), *names)


def algorithm(recipe: Recipe) -> str:
    """The algorithm that a recipe configures; "" if it has no such section."""
    return next((name for name in ALGORITHMS if _section(recipe, name)), "")


def _section(recipe: Recipe, name: str) -> bool:
    return isinstance(recipe.get(name), Mapping) or any(str(key).startswith(f"{name}.") for key in recipe)


def metric_of(name: str) -> str:
    """The name of `val:accuracy` in the files: validation/accuracy; for a named set, validation-default/loss."""
    source, _, metric = name.partition(":")
    if not metric:
        return name
    if source != "val":
        return f"{source}/{metric}"
    found: re.Match[str] | None = _FIELDS.fullmatch(metric)
    return f"{found['set']}/{found['field']}" if found else f"validation/{metric}"
