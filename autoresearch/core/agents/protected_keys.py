"""Protected recipe keys: validation, what is measured, seeds, step counts, recognised by the words of a key.

The words are from the recipes of the supported trainers: `data.val_files`, `trainer.test_freq`, `eval_interval`,
`grpo.max_num_steps`, `num_train_epochs`, `num_rollout`, `total_training_steps`, `ajet.task_judge`, `data.seed`. Not
protected are similar keys: `critic.value_loss_coef`, `gradient_clip_val`, `ppo_epochs`, `warmup_steps`,
`multi_turn.max_steps` (of an episode), `num_iterations` (of TRL: over one batch).
"""

from __future__ import annotations

from autoresearch.core.text.regex import later


def _set_of(words: str) -> frozenset[str]:
    return frozenset(words.split())


_WORDS = later(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_VALIDATION = _set_of("valid validation validate validating eval evals evaluation evaluate evaluator")
_TEST = _set_of("test tests heldout holdout")
_VALUE = _set_of("init max min clip default grad gradient loss")  # `clip_val` is a value
_MEASURED = _set_of("judge grader metric metrics")
_AMOUNT = _set_of("max total num n number train training")
_UNIT = _set_of(
    "step steps epoch epochs iteration iterations iter iters episode episodes rollout rollouts update updates batches"
)
_OTHER_STEPS = _set_of(
    "warmup lr decay accumulation accum logging log save saving ppo inner minibatch mini grad gradient critic per "
    "interval every freq frequency ema sync offset env environment turn turns tool agent denoising diffusion sampling"
)
_OF_EPISODES = _set_of("agent env environment tool turn multi rollout scheduler optim optimizer")
_ALONE = frozenset(("steps", "epochs", "iterations", "iters", "max_time", "exit_duration_in_mins"))
_REWARD = frozenset(("custom_reward_function", "reward_manager"))


def why_protected(key: str) -> str:
    """Why a dotted key is protected, as a phrase for what it decides; "" for any other key."""
    parts = [part for part in key.split(".") if not part.isdigit()]
    words = [[word.lower() for word in _WORDS.findall(part)] for part in parts]
    if any("seed" in part or "seeds" in part for part in words):
        return "a seed"
    if any(_validates(part) for part in words):
        return "validation"
    if any(_MEASURED & set(part) for part in words) or _REWARD & {part.lower() for part in parts}:
        return "what is measured"
    if parts and _counts_steps(parts[-1].lower(), words):
        return "how long it trains"
    return ""


def _validates(words: list[str]) -> bool:
    if (_VALIDATION | _TEST) & set(words):
        return True
    if "val" not in words:
        return False
    return words[-1] != "val" or not _VALUE & set(words)


def _counts_steps(last: str, words: list[list[str]]) -> bool:
    own, above = set(words[-1]), {word for part in words[:-1] for word in part}
    if last == "num_iterations" or above & _OF_EPISODES:
        return False
    return last in _ALONE or bool(own & _AMOUNT and own & _UNIT and not own & _OTHER_STEPS)
