"""The byte patterns that hang on `step:`: what they must find, what they must not, what they may cost."""

from __future__ import annotations

import re

import pytest

from autoresearch.core.metrics import step_line
from autoresearch.runner.text import without_escapes

STEP = re.compile(step_line.STEP.pattern.encode("latin-1"), re.MULTILINE)
VALIDATION = re.compile(step_line.VALIDATION.pattern.encode("latin-1"), re.MULTILINE)
NAN = re.compile(step_line.NAN.pattern.encode("latin-1"), re.MULTILINE)

RAY = b"\x1b[36m(TaskRunner pid=512)\x1b[0m "
MANY = b" - ".join(b"timing_s/part_%d/mean:np.float64(0.%017d)" % (i, i) for i in range(90))


def steps(raw: bytes) -> list[tuple[bytes, bytes | None]]:
    return [(m["step"], m["kl"]) for m in STEP.finditer(without_escapes(raw))]


@pytest.mark.parametrize(
    ("raw", "wanted"),
    [
        (b"step:1 - actor/kl_loss:0.000 - actor/ppo_kl:-0.000\n", (b"1", b"0.000")),
        (b"step:1 - actor/kl_loss:4.2e-05 - training/global_step:1\n", (b"1", b"4.2e-05")),
        (b"step:7 - actor/pg_loss:np.float64(0.1) - actor/kl_loss:np.float64(-6e-06)\n", (b"7", b"-6e-06")),
        (RAY + b"step:41 - critic/score/mean:0.5 - actor/kl_loss:nan\n", (b"41", b"nan")),
        (b"(TaskRunner pid=512) step:1 - train/loss:1.25\n", (b"1", None)),
        (b"\x1b[36mstep:1 - train/loss:1.25\n", (b"1", None)),
        (b"[FullyAsyncTrainer] step:3 - actor/lr:1e-06\n", (b"3", None)),
        ("Training: 33%|███▎| 1/3 [00:01<00:02,  1.03s/it]step:2 - train/loss:1.25\n".encode(), (b"2", None)),
        (b"bar\rstep:2 - train/loss:1\r\n", (b"2", None)),
        (b"step:1 - " + MANY + b" - actor/kl_loss:0.5\n", (b"1", b"0.5")),
        (b"step:1 - actor/ppo_kl:0.3 - actor/reward_kl_penalty:0.2 - actor/kl_loss:0.1\n", (b"1", b"0.1")),
        (b"step:1 - actor/ppo_kl:0.3 - actor/reward_kl_penalty:0.2\n", (b"1", b"0.2")),
        (b"step:1 - actor/ppo_kl:0.3 - actor/pg_loss:0.2\n", (b"1", b"0.3")),
        (b"step:1 - data with space:1 - actor/lr:1e-06\n", (b"1", None)),
    ],
)
def test_a_training_step_and_its_kl(raw: bytes, wanted: tuple[bytes, bytes | None]) -> None:
    assert steps(raw) == [wanted]
    assert steps(b"before\n" + raw + b"after\n") == [wanted]


@pytest.mark.parametrize(
    "raw",
    [
        b"step:0 - actor/pg_loss:0.1\n",
        b"step:0 - val-core/gsm8k/acc/mean@1:0.5\n",
        b"step:20 - global_steps:20 - task_pass_rate@1:0.5 - mean_reward:0.5\n",
        b"global_step:1 - actor/kl_loss:0.1\n",
        b"training/global_step:1 - actor/kl_loss:0.1\n",
        b"substep:1 - actor/kl_loss:0.1\n",
        b"step:1 - timing_s/step:3 - perf/mfu/actor:0.3\n",
        b"step:1 - the actor/critic pair is trained\n",
        b"step:1 - actor/kl_loss\n",
        b"step:1 -\nactor/kl_loss:0.1\n",
        b"step:1 - a:1\ractor/kl_loss:0.1 - actor/lr:1\n",
        b" 'actor': {'kl_loss_coef': 0.002, 'use_kl_loss': True}\n",
        b"step: 1 - actor/kl_loss:0.1\n",
    ],
)
def test_no_training_step(raw: bytes) -> None:
    assert steps(raw) == []


def test_the_kl_is_that_of_its_own_line() -> None:
    raw = b"step:1 - actor/lr:1\rstep:2 - actor/kl_loss:0.5\rstep:3 - actor/lr:1 - actor/kl_loss:0.7\n"
    assert steps(raw) == [(b"1", None), (b"2", b"0.5"), (b"3", b"0.7")]


def test_a_line_glued_to_the_next_lends_it_nothing() -> None:
    assert steps(b"step:1 - timing_s/gen:1 step:2 - actor/lr:1 - actor/kl_loss:0.5\n") == [(b"2", b"0.5")]


@pytest.mark.parametrize(
    ("raw", "wanted"),
    [
        (b"step:0 - val-core/openai/gsm8k/acc/mean@1:np.float64(0.508)\n", [b"0"]),
        (b"step:0 - val-aux/a:0.1 - val-core/b:0.2\n", [b"0"]),
        (b"step:20 - actor/pg_loss:0.1 - " + MANY + b" - val-core/b/mean@1:0.2 - training/epoch:0\n", [b"20"]),
        (b"step:3 - val/test_score/gsm8k:0.4\n", [b"3"]),
        (RAY + b"step:0 - global_steps:0 - pass_n:4 - task_pass_rate@1:0.41\n", [b"0"]),
        (b"(\"Initial validation metrics: {'val-core/a': \"\n", []),
        (b"step:1 - actor/pg_loss:0.1 - eval-free:1 - interval/x:2\n", []),
        (b"step:1 - actor/pg_loss:0.1\nstep:2 - val-core/b@1:0.2\n", [b"2"]),
        (b"step:1 - actor/pg_loss:0.1 - user@host/x:1\n", []),
        (b"step:1 - actor/pg_loss:0.1\rstep:2 - a:1 - val-core/b@1:0.2\r", [b"2"]),
        (b"step:1 - actor/pg_loss:0.1\rstep:2 - val-core/b:0.2\r", [b"2"]),
        (b"step:1 - val-core/ is printed here\n", []),
    ],
)
def test_a_validation(raw: bytes, wanted: list[bytes]) -> None:
    assert [m["step"] for m in VALIDATION.finditer(without_escapes(raw))] == wanted


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        (b"step:9 - actor/pg_loss:nan - actor/lr:1\n", True),
        (b"step:9 - actor/lr:1 - actor/grad_norm:np.float64(nan)\n", True),
        (b"step:9 - actor/lr:1 - actor/grad_norm:np.float32(nan) - a:1\n", True),
        (RAY + b"step:9 - actor/kl_loss:0.1 - actor/ppo_kl:nan\n", True),
        (b"step:9 - " + MANY + b" - critic/vf_loss:nan\n", True),
        (b"step:9 - actor/pg_loss:0.1 - response/nanoseconds:3\n", False),
        (b"step:9 - actor/pg_loss:0.1 - critic/score/std:nan\n", False),
        (b"step:9 - actor/pg_loss:0.1 - actor/finance_loss:nano\n", False),
        (b"step:9 - actor/pg_loss:inf\n", False),
        (b"INFO: loss:nan is what we look for\n", False),
        (b"'actor/pg_loss': nan\n", False),
        (b"step:9 - actor/pg_loss:nanx - a:1\n", False),
        (b"step:9 - actor/pg_loss: nan\n", False),
    ],
)
def test_a_loss_that_is_no_number(raw: bytes, found: bool) -> None:
    assert bool(NAN.search(raw)) is found


@pytest.mark.parametrize("pattern", [STEP, VALIDATION, NAN], ids=["step", "validation", "nan"])
@pytest.mark.parametrize(
    "raw",
    [
        b"step:1 - " * 4000,
        b"]step:1 -" * 4000,
        b" step:1 - actor/" * 4000,
        b"step:1 - " + b"actor/kl_loss:" * 20000,
        b"step:1 -" + b" " * 300_000,
        b"step:1 - " + b"x" * 300_000,
        b"step:1 - actor/a:1 " + b"val-" * 50_000 + b"nan" * 50_000,
        (b"step:1 - actor/" + b"loss" * 40 + b":") * 2000,
    ],
    ids=range(8),
)
def test_odd_lines_end_soon(pattern: re.Pattern[bytes], raw: bytes) -> None:
    """A pattern that backtracks would not come back from these within the life of the test run."""
    assert len(list(pattern.finditer(raw))) <= len(raw)
