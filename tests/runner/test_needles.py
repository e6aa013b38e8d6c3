"""Needles may make a scan faster, never different: for every pattern that a trainer gives to the Runner."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from autoresearch.core.metrics.signal import SignalPattern
from autoresearch.runner.line_patterns import LinePattern
from autoresearch.runner.text import clean
from autoresearch.trainers import registry

SAMPLES = Path(__file__).parents[1] / "samples" / "trainer-logs"
MORE = b"""\
step:20 - actor/pg_loss:nan - val-core/openai/gsm8k/acc/mean@1:0.5
step:3 - val/test_score/gsm8k:0.4
step:0 - global_steps:0 - pass_n:4 - task_pass_rate@1:0.41
{'loss': '0.25', 'grad_norm': '1.5', 'kl': '0.5', 'epoch': '0.1'}
[2026-01-01 00:00:00] model.py:918 - step 11: {'train/loss': 0.1, 'train/kl_loss': 0.2}
INFO Global step 1: {'policy_loss': 0.1, 'kl': 0.01}
Training Results:
{"step": 5, "loss": 0.25}
step=4, loss=0.1
step: 10 | loss: 0.3
iter 100 | loss 0.52
Epoch 3 | loss 0.52
Episode 4 reward 0.52
update 5 loss 0.5
{'loss': 0.5, 'other': 1}
[2026-01-01 00:00:00] train_metric_utils.py:139 - passrate 2: {'passrate/pass@4': 0.25}
[2026-01-01 00:00:00] train_metric_utils.py:139 - multi_turn 2: {'multi_turn/turns': 2.5}
step   : 10 | loss   : 0.3
step\t: 10\tloss\t: 0.3
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
RuntimeError: CUDA error: out of memory
ray.exceptions.RayTaskError(RuntimeError): it broke
[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1)
Traceback (most recent call last):
\x1b[36m(TaskRunner pid=5)\x1b[0m step:7 - actor/kl_loss:0.1
 12%|##        | 12/100 [00:01<00:10,  1.03s/it]
Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:01<00:01]
EVAL aime @ step 0:  33%
Starting validate rollout
test_gen_batch meta info: {'eos_token_id': 1}
Training from scratch
config {'seed': 1}
validating: 3/8 tasks
train step 3/20  trainer_v=3  lag=1
Error in async loop: boom
WARNING: rollout stall -- no rollout committed
nemo_rl.single_controller.RolloutStall: no rollout committed
{'policy_loss': nan, 'ppo_kl': 0.1}
{'loss': nan, 'epoch': 0.1}
{'loss': '0', 'grad_norm': 'nan', 'epoch': '0.1'}
INFO 03-02 10:12:12 ppo_trainer_async.py:214] Eval at step 20: {'eval_aime_pass1': 0.5}
Job entrypoint command failed with exit code 1, last available logs
Health check failed for rollout engine 3
Timeout while flushing cache.
The vLLM server can't be reached at http://h:8000 after 240.0 seconds.
[swarm] step 3 kl 0.0004
[swarm] engine ENGINE.BOOTING
[swarm] the engine has booted, in 93 s
[swarm] engine ENGINE.ROLLING global_step 1
[swarm] error boot_failed: the engine went from BOOTING to OFFLINE
[swarm] nan: step:3 - actor/grad_norm:nan
[EVAL @ step 10] AIME-2025  mean_reward=0.2167
Error running subprocess: Command '['python']' returned non-zero exit status 1.
GPU memory check failed: all GPUs must have >= 95% free.
SWANLAB_API_KEY is not set in the environment.
Python environment does not match current backbone 'verl'.
We found a configuration conflict between AgentJet and Verl!
\xe2\x96\xb6 Setting up compute cluster...
[run --rayjob] lr-7k2m9x deployment=Initializing job=None
==========start validate rollout==========
==========Start validate rollout==========
Rollout progress (1234.56 tokens/s): [0-5]:60 threads  //  [finished]:4 threads
Waiting for process launch [PGID 4711, PID 4711]... 597s remaining
==========end validate rollout==========
Completed validate rollout
Training from scratch
EVAL @ step 0:  49% 1882/3840
"""
GIVEN = list({(s.pattern, s.metrics): s for trainer in registry.every() for s in trainer.signals()}.values())
LINES = [
    clean(line)
    for text in (MORE, *(path.read_bytes() for path in sorted(SAMPLES.rglob("*.log"))))
    for line in re.split(rb"[\r\n]", text)
    if line
]


def matches(signal: SignalPattern, line: bytes) -> bool:
    """Whether the pattern tells anything of the line, were there no needles."""
    return bool(LinePattern.of(replace(signal, needles=())).read(line))


@pytest.mark.parametrize("signal", GIVEN, ids=lambda s: f"{s.kind}-{s.pattern[:20]}")
def test_needles_make_a_scan_faster_never_different(signal: SignalPattern) -> None:
    matching = [line for line in LINES if matches(signal, line)]
    assert matching, "no sample shows that this pattern finds anything"
    assert signal.needles, "without a needle every line of a log costs"
    needles = [needle.encode() for needle in signal.needles]
    for line in matching:
        assert any(needle in line for needle in needles), line
    for needle in needles:
        others = [other for other in needles if other != needle]
        alone = (line for line in matching if needle in line and not any(other in line for other in others))
        assert any(alone), needle
