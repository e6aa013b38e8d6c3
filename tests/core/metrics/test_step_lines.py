"""The full parse of verl's lines: three generations of values, and lines that only look like one."""

from __future__ import annotations

import math
import random
import re

import pytest

from autoresearch.core.metrics import step_line
from autoresearch.core.metrics.signal import SignalKind
from autoresearch.runner.text import clean_line, logical_lines, without_escapes


@pytest.mark.parametrize(
    ("line", "step", "metrics"),
    [
        ("step:1 - actor/kl_loss:0.000 - actor/ppo_kl:-0.000", 1, {"actor/kl_loss": 0.0, "actor/ppo_kl": 0.0}),
        ("step:1 - actor/kl_loss:4.2e-05 - actor/lr:1e-06", 1, {"actor/kl_loss": 4.2e-05, "actor/lr": 1e-06}),
        (
            "step:12 - actor/pg_loss:np.float64(-0.5) - a:np.int64(3) - b:np.float32(1e-3)",
            12,
            {"actor/pg_loss": -0.5, "a": 3.0, "b": 1e-3},
        ),
        ("step:0 - num_pass_n_tasks(pass@4):80 - x:1", 0, {"num_pass_n_tasks(pass@4)": 80.0, "x": 1.0}),
        ("step:2 - a:1 - broken - b:text - c:2", 2, {"a": 1.0, "c": 2.0}),
        ("[FullyAsyncTrainer] step:2 - a:1", 2, {"a": 1.0}),
        ("Progress:  33%|███▎  | 1/3 [00:01<00:02,  1.03s/it]step:2 - a:1.25", 2, {"a": 1.25}),
        ("0: step:2 - a:1", 2, {"a": 1.0}),
    ],
)
def test_parse(line: str, step: int, metrics: dict[str, float]) -> None:
    assert step_line.parse(line) == (step, metrics)


@pytest.mark.parametrize("text", ["nan", "np.float64(nan)", "inf", "-inf", "np.float32(-inf)"])
def test_what_is_not_finite_is_kept(text: str) -> None:
    parsed = step_line.parse(f"step:3 - actor/grad_norm:{text} - actor/lr:1")
    assert parsed is not None
    value = parsed[1]["actor/grad_norm"]
    assert not math.isfinite(value)
    assert math.isnan(value) == ("nan" in text)


@pytest.mark.parametrize(
    "line",
    [
        "Sample: ['the log said step:3 - val-core/acc:1.0']",
        'print("step:3 - val-core/acc:1.0")',
        "global_step:3 - val-core/acc:1.0",
        "step:3 - nothing here is a number",
        "step:3",
        "step:3 - ",
        "{'kl_loss_coef': 0.002}",
        "",
    ],
)
def test_no_step_line(line: str) -> None:
    assert step_line.parse(line) is None


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("step:1 - actor/pg_loss:0.1", SignalKind.STEP),
        ("step:0 - val-core/x/acc/mean@1:0.5", SignalKind.VALIDATION),
        ("step:20 - global_steps:20 - task_pass_rate@1:0.5 - mean_reward:0.5", SignalKind.VALIDATION),
        ("step:20 - actor/pg_loss:0.1 - val-core/x/acc/mean@1:0.5", SignalKind.STEP),
        ("step:0 - actor/pg_loss:0.1", None),
        ("step:5 - timing_s/step:3.1", None),
    ],
)
def test_kind(line: str, kind: SignalKind | None) -> None:
    reading = step_line.read(line)
    assert (reading.kind if reading else None) == kind


BAR = "Training Progress:   6%|██        | 2/30 [00:01<00:02,  1.03s/it]"


@pytest.mark.parametrize(
    "before",
    [
        f"{BAR}(TaskRunner pid=7) ",
        f"{BAR} ",
        f"{BAR}\x1b[36m(TaskRunner pid=7)\x1b[0m ",
        f"{BAR}(TaskRunner pid=7) (Worker[rank=0] pid=8, ip=10.0.0.9) ",
        "2026-01-02 03:04:05.678 | INFO     | verl.trainer:fit:12 - ",
        "WARNING: 'lr' is deprecated ",
    ],
)
def test_what_a_line_is_glued_to(before: str) -> None:
    line = clean_line(f"{before}step:3 - actor/kl_loss:0.1 - critic/rewards/mean:0.5")
    assert step_line.parse(line) == (3, {"actor/kl_loss": 0.1, "critic/rewards/mean": 0.5})


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (
            "step:3 - actor/lr:1 - actor/kl_loss:0.1Training Progress:  10%|█ | 3/30 [00:01<00:02]",
            {"actor/kl_loss": 0.1},
        ),
        ("step:2 - timing_s/gen:1 step:3 - actor/lr:1 - actor/kl_loss:0.1", {"actor/kl_loss": 0.1}),
        (
            "step:3 - val-core/a:b/acc:0.5 - actor/kl_loss:np.float64(0.1)(TaskRunner pid=7) x: 5",
            {"actor/kl_loss": 0.1},
        ),
        ("step:3 - actor/lr:1 - actor/kl_loss:0.1 {'a': 1}", {"actor/kl_loss": 0.1}),
    ],
)
def test_what_is_glued_to_a_line(line: str, wanted: dict[str, float]) -> None:
    step, metrics = step_line.parse(line) or (0, {})
    assert (step, metrics["actor/lr" if "lr" in line else "val-core/a:b/acc"] > 0) == (3, True)
    assert metrics.items() >= wanted.items()
    assert len(metrics) == 2


PATTERNS = [re.compile(s.pattern.encode("latin-1"), re.MULTILINE) for s in (step_line.STEP, step_line.VALIDATION)]
BEFORE = (
    "", " ", "  ", "\t", "\x1b[0m", "\x1b[1;36m", "\x1b[m", "\x1b[36m(TaskRunner pid=7)\x1b[0m ", "(pid=7) ", f"{BAR}",
    "(Worker[rank=0] pid=17, ip=10.0.0.9) ", " 50%|█████     | 5/10 [00:05<00:05]", "\r", "\n", "[prompt]", "x", "`",
    "2026-01-02 03:04:05,678 - INFO - ", "[2026-01-02 03:04:05] ", "INFO:root:", "\x1b[32mINFO \x1b[0m | m:f:1 - ",
    "global_", "solve", "Sample: ['", "don't ", "{'a': 1} ", "it's ", '"', "step:1 - ", "0: ", "é", ")", "]",
    "training/",
)  # fmt: skip
PAIRS = (
    "actor/kl_loss:0.1", "actor/pg_loss:np.float64(-0.5)", "val-core/openai/gsm8k/acc/mean@1:0.25",
    "task_pass_rate@1:1",
    "actor/lr:none", "actor/lr:info", "actor/lr:nan", "train/loss:1e-06", "foo actor/lr:1", "timing_s/gen:1", "text",
    "val/test_score/x:.5", "critic/x:1abc", "actor/a b:1", "val-core/a:b@1:2", "actor/kl_loss:0.1\x1b[0mtail",
)  # fmt: skip
AFTER = (
    "", "", "", "\x1b[0m", "']", "',", '"}', " and don't", BAR, " [repeated 2x across cluster]", "(pid=7) x",
    " {'a': 1}",
)  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_what_the_runner_sees_is_read(seed: int) -> None:
    """Whatever the byte patterns accept, the parser reads: else a run has a step in one place and not in another."""
    rng = random.Random(seed)
    seen = 0
    for _ in range(5000):
        pairs = " - ".join(rng.choices(PAIRS, k=rng.randint(1, 4)))
        before = "".join(rng.choices(BEFORE, k=rng.randint(0, 4)))
        text = f"{before}step:{rng.choice((0, 3, 20))} - {pairs}{rng.choice(AFTER)}"
        for raw in re.split(rb"[\r\n]", text.encode()):
            if any(pattern.search(without_escapes(raw)) for pattern in PATTERNS):
                seen += 1
                assert [step_line.read(line) for line in logical_lines(raw)] != [None], raw
    assert seen > 500


@pytest.mark.parametrize(
    "line",
    [
        "Sample: ['solve step:3 - x']",
        "Sample: ['solve step:3 - actor/kl_loss:0.1']",
        "Sample: ['it doesn\\'t say step:3 - actor/kl_loss:0.1 - but what?', 'no']",
        '{"text": "INFO step:3 - actor/kl_loss:0.1 - val-core/a/acc@1:0.5"}',
        "`echo step:3 - actor/kl_loss:0.1` prints one",
        "[response] step:3 - actor/kl_loss:0.1 - val-core/a/acc@1:0.5",  # as verl shows a sample
        "[prompt] step:3 - actor/kl_loss:0.1",
    ],
)
def test_what_is_quoted_is_no_step(line: str) -> None:
    assert step_line.read(line) is None
    assert not any(pattern.search(line.encode()) for pattern in PATTERNS)
