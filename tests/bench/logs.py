"""Logs as verl writes them (Ray, vLLM, numpy 2), of any size.

The shapes are those of real output: step lines of 3,000 characters behind a coloured Ray prefix, bars that
are redrawn with carriage returns, engines that report, sampled answers, a warning now and then.
"""

from __future__ import annotations

import random
from pathlib import Path

_RAY = "\x1b[36m(TaskRunner pid=12420)\x1b[0m "
_WORKER = "\x1b[36m(WorkerDict pid=13077)\x1b[0m "
_GROUPS = ("actor", "critic", "perf", "response_length", "prompt_length", "timing_s", "timing_per_token_ms", "training")
_WORDS = (
    "the",
    "answer",
    "is",
    "so",
    "we",
    "compute",
    "then",
    "add",
    "both",
    "sides",
    "and",
    "check",
    "that",
    "step",
    "two",
)


def write(path: Path, size: int, piece: bytes) -> None:
    """A log of about this many bytes; it ends where a line ends."""
    with path.open("wb") as file:
        for _ in range(max(1, round(size / len(piece)))):
            file.write(piece)


def write_distinct(path: Path, steps: int, *, alone: bool) -> None:
    """A verl log of which no two lines of steps are the same. `alone`: with nothing between them."""
    dice = random.Random(7)
    with path.open("w") as file:
        for step in range(1, steps + 1):
            file.write(f"{_RAY}step:{step} - {_pairs(dice, step)}\n" if alone else _verl(dice, step))


def _verl(dice: random.Random, step: int) -> str:
    lines = [f"{_RAY}{_bar('Training Progress', step, 300)}\n"]
    for number in range(1, 21):
        lines.append(f"{_WORKER}\r{_bar('Processed prompts', number * 12, 256)}")
    lines.append("\n")
    lines += [_engine(dice) for _ in range(6)]
    lines.append(f"{_WORKER}[prompt] {_talk(dice, 90)}\n{_WORKER}[response] {_talk(dice, 220)}\n{_WORKER}[score] 0.0\n")
    if step % 20 == 0:
        lines.append(f"{_RAY}test_gen_batch meta info: {{'eos_token_id': 151645, 'do_sample': False}}\n")
        lines.append(f"{_RAY}validation generation end\n")
        lines.append(f"{_RAY}(\"Final validation metrics: {{'val-core/openai/gsm8k/acc/mean@1': \"\n")
    if step % 50 == 0:
        lines.append(f"{_WORKER}/opt/venv/lib/python3.11/site-packages/torch/utils/checkpoint.py:87: UserWarning\n")
    lines.append(f"{_RAY}step:{step} - {_pairs(dice, step)}\n")
    return "".join(lines)


def _engine(dice: random.Random) -> str:
    return (
        f"{_WORKER}INFO 11-21 07:{dice.randrange(60):02d}:{dice.randrange(60):02d} [loggers.py:118] Engine 000: "
        f"Avg prompt throughput: {dice.uniform(100, 9000):.1f} tokens/s, Avg generation throughput: "
        f"{dice.uniform(100, 9000):.1f} tokens/s, Running: {dice.randrange(256)} reqs, Waiting: "
        f"{dice.randrange(64)} reqs, GPU KV cache usage: {dice.uniform(0, 99):.1f}%\n"
    )


def _pairs(dice: random.Random, step: int) -> str:
    pairs = [f"actor/kl_loss:np.float64({dice.uniform(0, 0.1):.17g})", f"critic/rewards/mean:{dice.random():.17g}"]
    for number in range(60):
        group = _GROUPS[number % len(_GROUPS)]
        value = f"{dice.uniform(-5, 5):.17g}"
        pairs.append(f"{group}/quantity_{number}/mean:{f'np.float64({value})' if number % 3 else value}")
    if step % 20 == 0:
        pairs.append(f"val-core/openai/gsm8k/acc/mean@1:np.float64({dice.random():.6g})")
    return " - ".join(pairs)


def _bar(name: str, done: int, total: int) -> str:
    full = min(10, 10 * done // total)
    head = f"{name}: " if name else ""
    bar = "█" * full + " " * (10 - full)
    return f"{head}{100 * done // total:3d}%|{bar}| {done}/{total} [00:41<{done % 60:02d}:12,  1.07s/it]"


def _talk(dice: random.Random, words: int) -> str:
    return " ".join(dice.choices(_WORDS, k=words))
