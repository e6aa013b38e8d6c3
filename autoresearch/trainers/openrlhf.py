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

from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.metrics.signal import SignalKind, SignalPattern
from autoresearch.core.run.recipe_keys import look_up, product, text_of, true_at, whole_number
from autoresearch.core.run.trainer import Continuation, Output, Recipe, Source, SourceFormat
from autoresearch.core.text.regex import later
from autoresearch.trainers.framework import CommandFramework, own_directory

_PPO = "ppo_ray"
_COMMAND_KEY = "openrlhf_command"  # stored beside the recipe's keys
_COMMAND = later(r"\bopenrlhf[./]cli[./]train_(?P<kind>ppo_ray|sft|dpo|rm)\b")


# Only the logger's prefix may precede a dict, and the dict ends the line. The literal comes first, as re searches for
# it quickly.
_TIME = r"INFO \d\d-\d\d \d\d:\d\d:\d\d ppo_trainer"
_HEAD = rf"ppo_trainer(?<={_TIME})(?<![\w'\"]{_TIME})\w{{0,20}}\.py:\d{{1,6}}\] [^\w\r\n]{{0,8}}"
_DICT = r": (?=\{.*\}$)"
_BAR = r"%\|[^|\r\n]{0,640}\| *"
_LINES = (
    SignalPattern(
        SignalKind.STEP, rf"{_HEAD}Global step (?P<step>[1-9]\d{{0,8}}){_DICT}", needles=("Global step ",), metrics="."
    ),
    SignalPattern(
        SignalKind.VALIDATION,
        rf"{_HEAD}(?:Evaluation completed in [^\r\n]{{1,40}}, global_step|Eval at step) "
        rf"(?P<step>\d{{1,9}})(?:, eval_metrics)?{_DICT}",
        needles=("Evaluation completed in ", "Eval at step "),
        metrics=".",
    ),
    SignalPattern(  # a micro-batch of SFT, DPO or a reward model; it counts from 0 in each epoch
        SignalKind.STEP,
        rf"Train step of epoch (?P<epoch>\d{{1,6}}): {{1,4}}"
        rf"(?=\d{{1,2}}{_BAR}(?P<step>\d{{1,9}})/(?!(?P=step) )(?P<of>\d{{1,9}}) \[.*\]$)",
        needles=("Train step of epoch ",),
        metrics="loss$",
    ),
    SignalPattern(
        SignalKind.VALIDATION,
        rf"Eval stage of (?:global_)?steps? (?P<step>\d{{1,9}}): {{1,4}}(?=100{_BAR}\d{{1,9}}/\d{{1,9}} \[.*\]$)",
        needles=("Eval stage of ",),
        metrics="^eval_(?:gpt_)?loss",
    ),
)


class OpenRlhf(CommandFramework):
    """OpenRLHF's console, TensorBoard files and flags."""

    name = "openrlhf"
    command = _COMMAND
    imports = later(r"(?m)^\s*(?:from|import)\s+openrlhf\.(?:trainer|cli)\b")
    lines = _LINES
    seed_key = "train.seed"
    usual_seed = 42
    # without a value, all runs would share the defaults of the first two
    outputs_anyway = (Output("ckpt.output_dir", "model"), Output("ckpt.path", "checkpoints"))
    outputs_named = (Output("logger.tensorboard_dir", "tensorboard"), Output("logger.wandb.run_name"))
    space_keys = ("actor.adam.lr", "algo.kl.init_coef", "adam.lr")

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

    def settings(self, recipe: Recipe, command: str) -> Recipe:
        """The recipe with the command's flags over it, plus the kind of training."""
        found = self.command.search(command)
        return {**super().settings(recipe, command), **({_COMMAND_KEY: found["kind"]} if found else {})}

    def resumes(self, recipe: Recipe) -> tuple[str, ...]:
        """The checkpoint of the actor, or of the only model, if --ckpt.load_enable is given."""
        if not true_at(recipe, "ckpt.load_enable"):
            return ()
        return (f"{_checkpoints(recipe)}/{'_actor' if _kind(recipe) == _PPO else 'latest'}",)

    def continuation(self, recipe: Recipe) -> Continuation | None:
        """--ckpt.load_enable with the same --ckpt.path."""
        path, model = own_directory(recipe, "ckpt.path"), "_actor" if _kind(recipe) == _PPO else "latest"
        return Continuation({"ckpt.path": path, "ckpt.load_enable": True}, f"{path}/{model}") if path else None

    def gpus(self, recipe: Recipe) -> int | None:
        return _gpus(recipe)


def _evaluates(recipe: Recipe) -> bool:
    return bool(text_of(recipe, "eval.dataset")) and (whole_number(recipe, "eval.steps") or -1) > 0


def _checkpoints(recipe: Recipe) -> str:
    return text_of(recipe, "ckpt.path") or f"./ckpt/checkpoints_{_kind(recipe)}"


def _kind(recipe: Recipe) -> str:
    """`ppo_ray`, `sft`, `dpo` or `rm`; `ppo_ray` if unknown."""
    return text_of(recipe, _COMMAND_KEY) or _PPO


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
