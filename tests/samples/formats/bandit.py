"""REINFORCE with a baseline on a bandit of eight arms, in numpy: a real training of seconds that prints in many styles.

python bandit.py STYLE [--first 0] [--steps 300] [--every 10] [--seed 0]

It wrote the logs beside it that name it as their source. `train` yields what is true, the style only prints it.
"""

from __future__ import annotations

import argparse
import csv
import json
import logging
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy

Row = dict[str, float]
_BEGUN: list[bool] = []  # whether the header of the CSV was written
_BARS: dict[int, Any] = {}


def train(first: int, steps: int, seed: int) -> Iterator[tuple[int, Row]]:
    """Step number and metrics, from step `first` on; the state before it is the same as if it had run there."""
    dice = numpy.random.default_rng(seed)
    arms, logits, baseline = dice.normal(0.5, 0.5, 8), numpy.zeros(8), 0.0
    for step in range(first + steps):
        policy = numpy.exp(logits - logits.max())
        policy /= policy.sum()
        pulled = dice.choice(8, 32, p=policy)
        rewards = arms[pulled] + dice.normal(0, 0.3, 32)
        advantages = rewards - baseline
        chosen = -numpy.log(policy[pulled])
        gradient = (advantages[:, None] * (numpy.eye(8)[pulled] - policy)).mean(0)
        row = {
            "loss": float((chosen * advantages).mean()),
            "reward": float(rewards.mean()),
            "entropy": float(-(policy * numpy.log(policy)).sum()),
            "grad_norm": float(numpy.linalg.norm(gradient)),
            "lr": 0.3 * 0.999**step,
        }
        logits += row["lr"] * gradient
        baseline = 0.9 * baseline + 0.1 * float(rewards.mean())
        if step >= first:
            yield step, row


def _iter_pipes(step: int, row: Row, last: int) -> None:
    print(f"iter {step} | loss {row['loss']:.4f} | reward {row['reward']:.4f} | lr {row['lr']:.2e}")


def _equals(step: int, row: Row, last: int) -> None:
    print(f"step={step} reward={row['reward']:.4f} loss={row['loss']:.6f} entropy={row['entropy']:.3f}")


def _brackets(step: int, row: Row, last: int) -> None:
    print(f"[step {step}/{last}] loss: {row['loss']:.4f} reward: {row['reward']:.4f} grad_norm: {row['grad_norm']:.4f}")


def _dashes(step: int, row: Row, last: int) -> None:
    print(f"Epoch {step}/{last} - loss: {row['loss']:.4f} - val_loss: {row['loss'] * 0.9:.4f} - lr: {row['lr']:.3g}")


def _colours(step: int, row: Row, last: int) -> None:
    loss, reward = f"\x1b[32mloss:\x1b[0m {row['loss']:8.5f}", f"\x1b[33mreward: {row['reward']:7.4f}\x1b[0m"
    print(f"\x1b[1;34mstep:\x1b[0m {step:>5}  {loss}  {reward}")


def _json(step: int, row: Row, last: int) -> None:
    print(json.dumps({"type": "train", "iteration": step, **row}))


def _logfmt(step: int, row: Row, last: int) -> None:
    print(f'ts=2026-11-24T21:{step // 60 % 60:02}:{step % 60:02}Z level=info msg="train step" step={step} ', end="")
    print(" ".join(f"{key}={value:.6g}" for key, value in row.items()))


def _csv(step: int, row: Row, last: int) -> None:
    writer = csv.DictWriter(sys.stdout, ["iteration", *row], lineterminator="\n")
    if not _BEGUN:
        writer.writeheader()
        _BEGUN.append(True)
    writer.writerow({"iteration": step, **{key: round(value, 6) for key, value in row.items()}})


def _logging(step: int, row: Row, last: int) -> None:
    line = "%(asctime)s - %(name)s - %(levelname)s - %(message)s"
    logging.basicConfig(format=line, level=logging.INFO)
    logging.getLogger("bandit").info("step %d, loss = %.4f, reward = %.4f", step, row["loss"], row["reward"])


def _loguru(step: int, row: Row, last: int) -> None:
    from loguru import logger

    line = "step: <cyan>{}</cyan> | loss: {:.4f} | reward: {:.4f}"
    logger.opt(colors=True).info(line, step, row["loss"], row["reward"])


def _episode(step: int, row: Row, last: int) -> None:
    print({"episode": step * 32, "mean_reward": round(row["reward"], 4), "objective/entropy": round(row["entropy"], 4)})


def _tqdm(step: int, row: Row, last: int) -> None:
    from tqdm import tqdm

    bar = _BARS.setdefault(last, None) or tqdm(total=last, initial=step, desc="train", mininterval=0)
    _BARS[last] = bar
    bar.set_postfix(loss=f"{row['loss']:.4f}", reward=f"{row['reward']:.4f}", refresh=False)
    bar.update(step - bar.n)
    if step == last:
        bar.close()


def _validated(step: int, row: Row, last: int) -> None:
    print(f"  step {step:6d} | train loss {row['loss']:.4f} | reward {row['reward']:.4f}")
    if step % 50 == 0:
        print(f">>> Validation at step {step}: ", end="")
        print(f"greedy_reward={row['reward'] + 0.05:.4f}, regret={1 - row['reward']:.4f}")


STYLES: dict[str, Callable[[int, Row, int], None]] = {
    "iter-pipes": _iter_pipes,
    "equals": _equals,
    "brackets": _brackets,
    "dashes": _dashes,
    "colours": _colours,
    "json": _json,
    "logfmt": _logfmt,
    "csv": _csv,
    "logging": _logging,
    "loguru": _loguru,
    "episode": _episode,
    "tqdm": _tqdm,
    "validated": _validated,
}


def main() -> None:
    """Train and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("style", choices=list(STYLES))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    last = options.first + options.steps - 1
    for step, row in train(options.first, options.steps, options.seed):
        if step % options.every == 0 or step == last:
            STYLES[options.style](step, row, last)


if __name__ == "__main__":
    main()
