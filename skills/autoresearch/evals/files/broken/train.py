"""A tiny trainer: adds numbers, learns a little, and prints its steps as verl does."""

import random
import sys
import time
from pathlib import Path


def read(path):
    """`key: value` lines of a recipe."""
    lines = [line.partition(":") for line in Path(path).read_text().splitlines() if line[:1] != "#"]
    return {key.strip(): value.strip() for key, _, value in lines}


def main():
    recipe = read(sys.argv[sys.argv.index("--conf") + 1])
    rate, steps, pause = float(recipe["learning_rate"]), int(recipe["steps"]), float(recipe["pause"])
    noise = random.Random(recipe.get("data.seed", "0"))
    for step in range(1, steps + 1):
        time.sleep(pause)
        kept = f"actor/kl_loss:{0.001 * step:.4f} - actor/pg_loss:0.1 - critic/rewards/mean:{0.5 * step / steps:.3f}"
        print(f"step:{step} - {kept}", flush=True)
    accuracy = 0.62 - abs(rate - 0.2) + 0.002 * noise.random()
    print(f"step:{steps} - val-core/sums/acc/mean@1:{accuracy:.4f}", flush=True)


main()
