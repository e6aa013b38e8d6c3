"""NeMo-RL's console: blocks of bullets under a heading; the step is on a separate line before them.

Written by nemo_rl/algorithms/{grpo,grpo_sync,ppo,distillation,sft,dpo,rm}.py (NVIDIA-NeMo/RL at 7ea279ab), and by
xtoken_off_policy_distillation.py, whose bullets have no heading: the one with a mean per micro-batch is the first. The
step in `== Step i/M ==` restarts in every epoch, while `Starting validation at step N` and the files count on; the
asynchronous loops never restart. Metrics are renamed as in the files, so that console and TensorBoard agree.
single_controller.py prints no blocks but `step_metrics={...}` and `train step N/M`.
"""

from __future__ import annotations

import re

from autoresearch.core.metrics.metric_keys import NO_STEP
from autoresearch.core.metrics.python_values import number, numbers, python_dict
from autoresearch.core.metrics.signal import Reading, SignalKind
from autoresearch.core.text.regex import later

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


class NemoRlLog:
    """Reads NeMo-RL's log; see `core.run.trainer.LogReader`."""

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
        done = self.end()
        heading, mark, validates = _HEADING.fullmatch(text), _MARK.fullmatch(text), _VALIDATES.match(text)
        if heading:
            self._begin(heading)
        elif mark:
            self._announced(mark["what"], int(mark["n"]), int(mark["of"]))
        elif validates:
            self._validates(int(validates["n"]))
        return done or self._of_controller(text)

    def end(self) -> Reading | None:
        """The reading of the block that is still open."""
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
        value = number(text.rstrip("%,"))
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
            self._controller = {f"train/{k}": v for k, v in numbers(python_dict(text[13:]) or {}).items()}
        elif self._controller and (found := _CONTROLLER.match(text)):
            metrics, self._controller = self._controller, {}
            self._in_epoch = int(found["n"])
            return Reading(SignalKind.STEP, self._in_epoch, metrics)
        return None
