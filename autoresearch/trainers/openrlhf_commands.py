"""OpenRLHF's four commands: kind of training, progress bars and number of GPUs (OpenRLHF/OpenRLHF at 3c3be623).

openrlhf/trainer/{sft,dpo,rm}_trainer.py print only a progress bar per micro-batch, followed by its metrics with three
digits. The metrics are set before the bar moves: `3/8 [..., loss=0.7]` shows the result of the fourth micro-batch. The
same metrics are drawn once more as 4/8, which is skipped.
"""

from __future__ import annotations

from autoresearch.core.metrics.python_values import NUMBER, number
from autoresearch.core.metrics.signal import Reading, SignalKind, SignalPattern
from autoresearch.core.run.recipe_keys import look_up, product, text_of, true_at
from autoresearch.core.run.trainer import Recipe
from autoresearch.core.text.regex import later

PPO = "ppo_ray"
_KIND = "openrlhf_command"  # stored beside the recipe's keys
COMMAND = later(r"\bopenrlhf[./]cli[./]train_(?P<kind>ppo_ray|sft|dpo|rm)\b")

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

BAR_STEP = SignalPattern(
    SignalKind.STEP,
    r"Train step of epoch \d{1,6}: {1,4}\d{1,2}"
    + _BAR
    + r"(?P<step>\d{1,9})/\d{1,9} \[[^\r\n\]]{0,120}, (?:gpt_)?loss=",
    needles=("Train step of epoch ",),
)
"""A micro-batch of SFT, DPO or a reward model; it counts from 0 in each epoch."""

BAR_VALIDATION = SignalPattern(
    SignalKind.VALIDATION,
    r"Eval stage of (?:global_)?steps? (?P<step>\d{1,9}): {1,4}100" + _BAR + r"\d{1,9}/\d{1,9} \["
    r"[^\r\n\]]{0,120}, eval[_ ](?:gpt_)?loss=",
    needles=("Eval stage of ",),
)


def of_command(command: str) -> dict[str, object]:
    """The kind of training, as a key beside those of the recipe."""
    found = COMMAND.search(command)
    return {_KIND: found["kind"]} if found else {}


def kind(recipe: Recipe) -> str:
    """`ppo_ray`, `sft`, `dpo` or `rm`; `ppo_ray` if unknown."""
    return text_of(recipe, _KIND) or PPO


def read_bar(line: str) -> Reading | None:
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


def gpus(recipe: Recipe) -> int | None:
    """GPUs of all model groups that do not share GPUs; None if the flags do not determine it."""
    if kind(recipe) != PPO:  # deepspeed's
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
