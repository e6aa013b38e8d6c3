"""What verl, slime and OpenRLHF print, printed by real Ray actors: colours, prefixes and repeat marks are Ray's.

    python ray_talk.py verl|slime|openrlhf [--fail | --hold]

Run with the Python of an environment that has Ray. `--fail`: the last actor raises, and so does the driver; `--hold`:
it never comes back.
"""

from __future__ import annotations

import logging
import os
import sys
import time

import ray

STEPS = 3


def verl(n: int) -> None:
    """verl/utils/logger/aggregate_logger.py: stdout; a bar on stderr."""
    said = f"actor/entropy:0.3 - actor/kl_loss:np.float64(0.00{n}) - critic/rewards/mean:0.{n}"
    print(f"step:{n} - {said} - training/global_step:{n}")
    if n == STEPS:
        print(f"step:{n} - val-core/openai/gsm8k/acc/mean@1:np.float64(0.5{n})")
    print(f"\rTraining Progress:  {33 * n}%|###   | {n}/{STEPS} [00:0{n}<00:0{n}, 1.03s/it]", file=sys.stderr)


def slime(n: int) -> None:
    """slime/backends/megatron_utils/model.py: logging, which goes to stderr; steps from 0."""
    log = logging.getLogger("slime")
    log.info("rollout %d: {'rollout/raw_reward': %.2f, 'rollout/response_lengths': 512.0}", n - 1, 0.1 * n)
    said = f"'train/ppo_kl': 0.0, 'train/kl_loss': 0.00{n - 1}, 'train/grad_norm': 0.0798, 'train/step': {n - 1}"
    log.info("step %d: {'train/loss': -6.05e-09, %s}", n - 1, said)
    if n == STEPS:
        log.info("eval %d: {'eval/aime': 0.1333, 'eval/aime-pass@8': np.float64(0.4)}", n - 1)


def openrlhf(n: int) -> None:
    """openrlhf/trainer/ppo_trainer.py: its logger on stdout, a bar with its own numbers before."""
    rest = "[00:10<00:10, 2.6s/it, act_loss=0.01, kl=0.0002]"
    print(f"\rTrain epoch [1/1]:  50%|#####     | {n}/8 {rest}", file=sys.stderr)
    head = "INFO 03-02 10:12:12 ppo_trainer.py:547] "
    print(f"{head}✨ Global step {n}: {{'policy_loss': 0.0123, 'ppo_kl': 0.0, 'kl': 0.00{n}, 'reward': 0.{n}}}")
    if n == STEPS:
        said = f"global_step {n}, eval_metrics: {{'eval_aime_pass4': 0.3, 'eval_aime_pass1': 0.12}}"
        print(f"{head}✨ Evaluation completed in 0:01:11, {said}")


TALK = {"verl": verl, "slime": slime, "openrlhf": openrlhf}
ACTORS = {"verl": "TaskRunner", "slime": "MegatronTrainRayActor", "openrlhf": "PPOTrainer"}


class Speaker:
    """The actor that trains."""

    def train(self, framework: str, fail: bool) -> None:
        form = "[%(asctime)s] %(filename)s:%(lineno)d - %(message)s"
        logging.basicConfig(level=logging.INFO, format=form, datefmt="%Y-%m-%d %H:%M:%S", force=True)
        for n in range(1, STEPS + 1):
            TALK[framework](n)
            sys.stdout.flush()
            time.sleep(0.3)
        if fail:
            raise RuntimeError("CUDA error: out of memory" if framework == "verl" else "the data is gone")


class Worker:
    """One of several that say the same: Ray shows it once, and how often it was said."""

    def load(self) -> int:
        """A line of its own, a line of a child with a prefix of its own (as vLLM's), and one that all say."""
        print("INFO 03-02 10:11:09 loading weights took 1.53 seconds", flush=True)
        own = f"(EngineCore_DP0 pid={os.getpid() + 7}) (RayWorkerWrapper pid={os.getpid() + 9})"
        print(f"{own} WARNING graph captured", flush=True)
        print("INFO rendezvous done", file=sys.stderr, flush=True)
        return os.getpid()


def main() -> None:
    framework, fail, hold = sys.argv[1], "--fail" in sys.argv, "--hold" in sys.argv
    ray.init()  # a cluster of its own, or the one that runs this as a job
    workers = [ray.remote(num_cpus=0)(Worker).remote() for _ in range(3)]
    ray.get([worker.load.remote() for worker in workers])
    time.sleep(1)
    speaker = ray.remote(num_cpus=1)(type(ACTORS[framework], (Speaker,), {})).remote()
    ray.get(speaker.train.remote(framework, fail))
    while hold:
        time.sleep(1)
    time.sleep(1)  # what actors print reaches the driver later


if __name__ == "__main__":
    main()
