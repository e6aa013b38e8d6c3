"""Traps: what looks like a step and is none, and steps that are told twice, elsewhere, late, or begin again."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoresearch.core.metrics.signal import SignalKind
from autoresearch.core.run.trainer import Source, SourceFormat
from autoresearch.readers.read import read_source
from autoresearch.runner.line_patterns import LinePattern, Scanner, group
from autoresearch.trainers import registry

SAMPLES = Path(__file__).parents[1] / "samples" / "trainer-logs"
VERL_1 = "(TaskRunner pid=7) step:1 - actor/pg_loss:0.1 - actor/kl_loss:0.01 - training/global_step:1"
TRL_1 = "{'loss': '0.5', 'grad_norm': '1.3', 'kl': '0.2', 'epoch': '0.1'}"
SLIME_0 = (
    "(MegatronTrainRayActor pid=3) [2026-08-21 07:59:28] model.py:918 - step 0: {'train/loss': 0.1, 'train/step': 0}"
)
OPEN_1 = "(PPOTrainer pid=4) INFO 08-13 10:12:12 ppo_trainer.py:547] ✨ Global step 1: {'policy_loss': 0.1, 'kl': 0.02}"
NEMO_1 = "\n========================= Step 1/2 =========================\n\n📊 Training Results:\n  • Loss: 0.5000\n"
OWN = {"verl": VERL_1, "trl": TRL_1, "slime": SLIME_0, "openrlhf": OPEN_1, "nemo_rl": NEMO_1}
FIRST = {"slime": 0}  # the others count from 1


def steps(tmp_path: Path, text: str, name: str) -> list[int]:
    (tmp_path / "run.log").write_text(text, encoding="utf-8")
    found = list(read_source(Source(SourceFormat.CONSOLE, "run.log"), tmp_path, 0, registry.by_name(name)).readings)
    return [reading.step for reading in found if reading.kind is SignalKind.STEP]


def seen(text: str, name: str, *kinds: str) -> list[str]:
    """Kinds, or numbers of steps where only steps are asked for, in the order in which the Runner sees them."""
    patterns = (LinePattern(s.kind.value, s.pattern, s.hold_s, s.needles) for s in registry.by_name(name).signals())
    found = []
    scanner = Scanner(patterns)
    at = 0
    for line in text.encode().splitlines(keepends=True):
        for pattern, m, _ in scanner.scan(line, at):
            if pattern.kind in kinds:
                found.append((group(m, "step") or b"").decode() if kinds == ("step",) else pattern.kind)
        at += len(line)
    return found


@pytest.mark.parametrize(("name", "other"), [(name, other) for name in OWN for other in OWN if name != other])
def test_two_frameworks_in_one_log(tmp_path: Path, name: str, other: str) -> None:
    """Each reads its own lines, whatever stands between them."""
    text = "\n".join([OWN[other], OWN[name], OWN[other]]) + "\n"
    assert steps(tmp_path, text, name) == [FIRST.get(name, 1)]
    assert len(seen(text, name, "step")) == 1


QUOTED = [
    "(TaskRunner pid=7) [response] step:3 - actor/kl_loss:0.1 - training/global_step:3",
    "(TaskRunner pid=7) [prompt] step:3 - actor/kl_loss:0.1",
    "INFO 08-13 10:12:12 ppo_trainer.py:224] Sample: ['" + OPEN_1 + "', 0.5]",
    "│ │ say this │ " + TRL_1 + " │",
    "  rollout done for prompt='train step 9/20  trainer_v=9...'",
    "  the prompt says 'train step 9/20  trainer_v=9  lag=1  '",
    "the answer is: model.py:918 - step 3: 5",
    'user: "' + SLIME_0 + '"',
    "  - 📊 Training Results: are printed below",
    " 'kl_loss_coef': 0.002, 'use_kl_loss': True, 'reference_policy_kl_penalty': 0.01",
    "Namespace(algo=Namespace(kl=Namespace(init_coef=0.01)), eval=Namespace(steps=20))",
    "GRPOConfig(beta=0.04, logging_steps=10, loss='x', epoch=1)",
    "📊 Average trajectory age: 0.50 steps",
    "📊 Efficiency Summary (Step 3):",
]


@pytest.mark.parametrize("line", QUOTED)
@pytest.mark.parametrize("name", OWN)
def test_what_somebody_says_is_no_step(tmp_path: Path, name: str, line: str) -> None:
    assert steps(tmp_path, line + "\n", name) == []
    assert seen(line + "\n", name, "step", "validation") == []


def test_a_line_that_every_node_prints_is_one_step(tmp_path: Path) -> None:
    line = "step:{n} - actor/pg_loss:0.1 - training/global_step:{n}"
    nodes = ["(TaskRunner pid=7) ", "(TaskRunner pid=9, ip=10.0.0.2) ", "[default1]:", "[rank3]: "]
    text = "".join(f"{node}{line.format(n=n)} [repeated 2x across cluster]\n" for n in (1, 2) for node in nodes)
    assert steps(tmp_path, text, "verl") == [1, 2]
    assert seen(text, "verl", "step") == ["1"] * 4 + ["2"] * 4  # with its number, so that they count as one


@pytest.mark.parametrize("prefix", ["", "[rank0]: ", "[default0]:", "(RayTrainWorker pid=17, ip=10.0.0.2) "])
def test_a_rank_before_every_line(tmp_path: Path, prefix: str) -> None:
    """torch's hook and torchrun's --tee put the rank before each line, of bars as well."""
    bars = [f"\r{prefix}{n * 25:3d}%|##        | {n}/4 [00:10<00:10,  1.10it/s]" for n in range(5)]
    trl = f"{bars[0]}{bars[1]}{bars[2]}\n{prefix}{TRL_1}\n{bars[2]}{bars[3]}\n{prefix}{TRL_1}\n{bars[4]}\n"
    assert steps(tmp_path, trl, "trl") == [2, 4]
    assert len(seen(trl, "trl", "step")) == 2
    sft = "".join(
        f"{prefix}step:{n} - train/loss:0.5 - train/lr:1e-05\n{prefix}step:{n} - val/loss:0.4\n" for n in (1, 2)
    )
    assert steps(tmp_path, sft, "verl") == [1, 2]
    assert seen(sft, "verl", "step") == ["1", "2"]
    assert seen(sft, "verl", "validation") == ["validation"] * 2


def mark(what: str, n: int, of: int) -> str:
    return f"\n{'=' * 25} {what} {n}/{of} {'=' * 25}\n"


@pytest.mark.parametrize("start", [0, 1, 4, 7])
def test_steps_of_nemo_rl_never_fall(tmp_path: Path, start: int) -> None:
    """Three epochs of four steps, each step announced twice (dynamic sampling), begun or resumed after `start`."""
    text, last = "", 0
    for total in range(start, 12):
        epoch, step = divmod(total, 4)
        text += mark("Epoch", epoch + 1, 3) if epoch + 1 != last else ""
        last = epoch + 1
        text += mark("Step", step + 1, 4) * 2 + "\n📊 Training Results:\n  • Loss: 0.5000\n"
    assert steps(tmp_path, text, "nemo_rl") == list(range(start + 1, 13))


def test_the_bar_moves_before_the_first_dict() -> None:
    text = (SAMPLES / "from-source" / "trl" / "grpo_v5_beta0_every_ten.log").read_text(encoding="utf-8")
    kinds = seen(text.replace("\r", "\n"), "trl", "step", "progress")
    assert kinds[0] == "progress"
    assert kinds.count("step") == 2


def test_chatter_is_no_progress() -> None:
    """A hung slime answers health checks for ever."""
    text = (SAMPLES / "from-source" / "slime" / "hung_but_chatty.log").read_text(encoding="utf-8")
    chatter = "".join(line + "\n" for line in text.splitlines() if "/health" in line)
    assert chatter.count("200 OK") > 10
    assert seen(chatter, "slime", "step", "validation", "progress") == []


def test_a_good_end_is_said_by_a_crash_too() -> None:
    for name in ("nemo_rl/async_grpo_crash.log", "nemo_rl/async_ppo_crash.log", "verl/fully_async_crash.log"):
        text = (SAMPLES / "from-source" / name).read_text(encoding="utf-8")
        assert "error" in seen(text, name.split("/", maxsplit=1)[0], "error"), name
        assert any(words in text.splitlines()[-1] for words in ("training complete!", "completed or interrupted"))


@pytest.mark.parametrize(
    ("line", "hold_s"),
    [
        ("(TaskRunnerV1 pid=7) INFO:2026-08-22 10:04:11,512:actor and ref model engine initialized", 120.0),
        ("(TaskRunnerV1 pid=7) INFO:2026-08-22 10:04:11,512:all initialize finished, ready to fit", 600.0),
        ("(FullyAsyncTrainer pid=7) [FullyAsyncTrainer] sample collected 3/64. mq_len: 0", 120.0),
        ("the engine initialized the model by itself", 0.0),
    ],
)
def test_the_boot_of_verl_moves(line: str, hold_s: float) -> None:
    """Its loop of today is silent while it validates: the last words before that hold the clock for longer."""
    patterns = (LinePattern(s.kind.value, s.pattern, s.hold_s, s.needles) for s in registry.by_name("verl").signals())
    found = Scanner(patterns).scan(line.encode() + b"\n", 0)
    assert max((pattern.hold_s for pattern, _, _ in found if pattern.kind == "progress"), default=0.0) == hold_s
