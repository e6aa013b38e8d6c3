"""What trainers print: the right events of every sample, for the Runner and for the readers, and nobody else's lines.

tests/samples/trainer-logs/from-source holds logs written line by line from the frameworks' sources; its index says what
has to be read from them, and which file prints it.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from autoresearch.core.diagnosis.root import classify
from autoresearch.core.metrics.signal import Reading, SignalKind
from autoresearch.core.run.trainer import Source, SourceFormat, Trainer
from autoresearch.readers.read import read_source
from autoresearch.runner.line_patterns import LinePattern, LineSignal, LogReader, kl_of
from autoresearch.runner.log_follower import LogFollower
from autoresearch.runner.text import clean, logical_lines
from autoresearch.trainers import registry
from tests.line_signals import EVENTS, count, kinds_of, told

SAMPLES = Path(__file__).parents[1] / "samples" / "trainer-logs"
INDEX: dict[str, dict[str, Any]] = yaml.safe_load((SAMPLES / "from-source" / "index.yaml").read_text(encoding="utf-8"))
TRAINERS = ("agentjet", "nemo_rl", "openrlhf", "slime", "trl", "verl")
FAMILY = {"agentjet", "verl", "tinygrpo", ""}  # who print the same lines
OWN = {  # sample: its trainer, the events in it, and the first step that the Runner sees with its KL
    "verl_np1.log": ("verl", {"step": 1, "validation": 1}, (1, 0.000741)),
    "verl_ok_np2_ray.log": ("verl", {"step": 3, "validation": 1}, (1, 0.00074127)),
    "verl_raise_np2_ray.log": ("verl", {"step": 1, "validation": 1}, (1, 0.00074127)),
    "verl_ray_260.log": ("verl", {"step": 3, "validation": 1}, (1, 0.001)),
    "verl_raise_ray_260.log": ("verl", {"step": 3, "validation": 1}, (1, 0.001)),
    "openrlhf_ray_260.log": ("openrlhf", {"step": 3, "validation": 1}, (1, 0.001)),
    "slime_ray_260.log": ("slime", {"step": 3, "validation": 1}, (0, 0.0)),
    "agentjet.log": ("agentjet", {"step": 1, "validation": 2}, (1, 0.0009313225746154785)),
    "nemo_grpo.log": ("nemo_rl", {"step": 2, "validation": 2}, (None, None)),
    "trl_v4.log": ("trl", {"step": 1, "validation": 1}, (None, 0.0)),
    "trl_v5_tqdm.log": ("trl", {"step": 6, "validation": 2}, (None, 0.0)),
    "trl_v5_grpo.log": ("trl", {"step": 6, "validation": 3}, (None, 0.0)),
    "trl_v5_beta0.log": ("trl", {"step": 6, "validation": 3}, (None, None)),
    "trl_v5_no_bar.log": ("trl", {"step": 6, "validation": 3}, (None, 0.0)),
    "openrlhf.log": ("openrlhf", {"step": 1, "validation": 1}, (1, 0.000213)),
    "slime.log": ("slime", {"step": 1, "validation": 1}, (0, 0.0)),
    "tinygrpo.log": ("tinygrpo", {"step": 4, "validation": 3}, (1, 7.40309e-06)),
    "tinygrpo_nan.log": ("tinygrpo", {"step": 3, "validation": 2}, (1, 7.40309e-06)),
    "tinygrpo_oom.log": ("tinygrpo", {"step": 2, "validation": 2}, (1, 7.40309e-06)),
}
EVERY = [*((name, own[0]) for name, own in OWN.items()), *((f"from-source/{n}", n.split("/")[0]) for n in INDEX)]


def readings(name: str, trainer: str) -> list[Reading]:
    return list(read_source(Source(SourceFormat.CONSOLE, name), SAMPLES, 0, registry.by_name(trainer)).readings)


def followed(path: Path, trainer: Trainer) -> list[LineSignal]:
    """What the Runner itself sees, following the file."""
    reader, follower = LogReader(map(LinePattern.of, trainer.signals())), LogFollower(str(path))
    found = [one for chunk in follower.poll() for one in reader.feed(chunk)]
    follower.close()
    return found


@pytest.mark.parametrize("name", OWN)
def test_the_events_of_a_sample(name: str) -> None:
    trainer, wanted, first = OWN[name]
    signals = told(registry.by_name(trainer), (SAMPLES / name).read_bytes(), *EVENTS)
    assert count(signals) == wanted
    assert count(s for s in followed(SAMPLES / name, registry.by_name(trainer)) if s.kind in EVENTS) == wanted
    assert next((one.step, one.kl) for one in signals if one.kind == "step") == first


def test_the_index_is_whole() -> None:
    logs = (SAMPLES / "from-source").rglob("*.log")
    assert set(INDEX) == {path.relative_to(SAMPLES / "from-source").as_posix() for path in logs}
    assert {name.split("/", maxsplit=1)[0] for name in INDEX} == set(TRAINERS)
    assert all(entry["about"] and entry["commit"] and entry["printed_by"] for entry in INDEX.values())


@pytest.mark.parametrize("name", INDEX)
def test_a_log_written_from_the_source(name: str) -> None:
    wanted, trainer = INDEX[name], name.split("/", maxsplit=1)[0]
    found, raw = readings(f"from-source/{name}", trainer), (SAMPLES / "from-source" / name).read_bytes()
    steps = {r.step: r.metrics for r in found if r.kind is SignalKind.STEP}
    assert list(steps) == wanted["steps"]
    assert [r.step for r in found if r.kind is SignalKind.VALIDATION] == wanted["validations"]
    assert kl_of(steps[wanted["steps"][0]] if steps else {}) == wanted["kl"]
    for step, metrics in wanted["values"].items():
        assert {key: pytest.approx(value) for key, value in metrics.items()}.items() <= steps[step].items()

    signals = followed(SAMPLES / "from-source" / name, registry.by_name(trainer))
    kinds = [one.kind for one in signals]
    assert [kinds.count("step"), kinds.count("validation")] == wanted["runner"]
    assert next(([one.step, one.kl] for one in signals if one.kind == "step"), None) == wanted["first"]
    texts = [bytes(one.text).decode("utf-8", "replace") for one in signals if one.kind == "error" and one.text]
    assert bool(texts) == bool(wanted["errors"])
    assert all(any(text.startswith(start) for text in texts) for start in wanted["errors"])
    assert ("nan" in kinds) == wanted["nan"]

    lines = list(logical_lines(raw))
    failure = classify(lines, registry.by_name(trainer).harmless())
    assert (failure.kind.value if failure else None) == wanted["failure"]
    assert wanted["last"] in lines[-1]
    if any(words in lines[-1] for words in ("training complete", "stopping training", "completed or interrupted")):
        assert kinds_of(registry.by_name(trainer), lines[-1]) <= {"progress"}  # a crash prints it as well


@pytest.mark.parametrize(("name", "own"), EVERY, ids=[name for name, _ in EVERY])
def test_nobody_claims_the_lines_of_another(name: str, own: str) -> None:
    for other in TRAINERS:
        if own != other and not {own, other} <= FAMILY:
            assert not told(registry.by_name(other), (SAMPLES / name).read_bytes(), *EVENTS), other
            assert readings(name, other) == [], other


@pytest.mark.parametrize(("name", "own"), EVERY, ids=[name for name, _ in EVERY])
def test_it_does_not_matter_where_the_log_is_cut(name: str, own: str) -> None:
    raw, trainer = (SAMPLES / name).read_bytes(), registry.by_name(own)
    patterns = [LinePattern.of(signal) for signal in trainer.signals() if signal.kind in EVENTS]

    def scan(*chunks: bytes) -> list[tuple[str, int | None]]:
        reader = LogReader(patterns)
        return sorted(((one.kind, one.step) for chunk in chunks for one in reader.feed(chunk)), key=str)

    whole = scan(raw)
    ends = [match.end() for match in re.finditer(rb"[\r\n]", raw)]
    for cut in ends[:: max(1, len(ends) // 25)]:
        assert scan(raw[:cut], raw[cut:]) == whole, cut


VALUES = [  # sample, its trainer, kind and number of the event, some of its values
    ("verl_ok_np2_ray.log", "verl", "validation", 0, {"val-core/openai/gsm8k/acc/mean@1": 0.508}),
    ("verl_ok_np2_ray.log", "verl", "step", 3, {"actor/kl_loss": 0.00222381}),
    ("agentjet.log", "agentjet", "validation", 0, {"num_pass_n_tasks(pass@4)": 80}),
    ("tinygrpo_nan.log", "tinygrpo", "step", 3, {"actor/grad_norm": math.nan}),
    ("nemo_grpo.log", "nemo_rl", "validation", 0, {"validation/accuracy": 0.2031, "validation/num_samples": 256}),
    ("nemo_grpo.log", "nemo_rl", "validation", 2, {"validation/accuracy": 0.3125}),
    ("nemo_grpo.log", "nemo_rl", "step", 1, {"train/loss": -0.0022, "train/gen_kl_error": 0.0009}),
    ("nemo_grpo.log", "nemo_rl", "step", 2, {"train/reward": 0.25}),
    ("openrlhf.log", "openrlhf", "step", 1, {"kl": 0.000213, "ppo_kl": 0.0, "reward": 0.5}),
    ("openrlhf.log", "openrlhf", "validation", 1, {"eval_aime_pass4": 0.3, "eval_aime_pass1": 0.12}),
    ("slime.log", "slime", "step", 0, {"rollout/raw_reward": 0.421875, "train/critic-value_loss": 0.51}),
    ("slime.log", "slime", "step", 0, {"perf/step_time": 460.2, "train/grad_norm": math.nan}),
    ("slime.log", "slime", "validation", 0, {"eval/aime": 0.1333, "eval/aime-pass@8": 0.4}),
    ("trl_v4.log", "trl", "step", 1, {"reward": 0.10131250045378692, "kl": 0.0}),
    ("trl_v4.log", "trl", "validation", 1, {"eval_reward": 0.31}),
    ("trl_v5_tqdm.log", "trl", "step", 1, {"loss": 7.451e-08, "kl": 0.0, "reward": 0.04573}),
    ("trl_v5_tqdm.log", "trl", "step", 6, {"reward": 0.07217}),
    ("trl_v5_tqdm.log", "trl", "validation", 6, {"eval_reward": 0.0375}),
    ("trl_v5_grpo.log", "trl", "validation", 0, {"eval_reward": 0.3211}),  # before the first step
    ("trl_v5_no_bar.log", "trl", "step", 6, {"kl": 0.02656}),
]


def test_values() -> None:
    for name, trainer, kind, step, wanted in VALUES:
        found = next(r.metrics for r in readings(name, trainer) if (r.kind.value, r.step) == (kind, step))
        assert {key: found.get(key) for key in wanted} == pytest.approx(wanted, nan_ok=True), (name, kind, step)


VERL_1 = "(TaskRunner pid=7) step:1 - actor/pg_loss:0.1 - actor/kl_loss:0.01 - training/global_step:1"
TRL_1 = "{'loss': '0.5', 'grad_norm': '1.3', 'kl': '0.2', 'epoch': '0.1'}"
SLIME_0 = (
    "(MegatronTrainRayActor pid=3) [2026-08-21 07:59:28] model.py:918 - step 0: {'train/loss': 0.1, 'train/step': 0}"
)
OPEN_1 = "(PPOTrainer pid=4) INFO 08-13 10:12:12 ppo_trainer.py:547] ✨ Global step 1: {'policy_loss': 0.1, 'kl': 0.02}"
NEMO_1 = "\n========================= Step 1/2 =========================\n\n📊 Training Results:\n  • Loss: 0.5000\n"
LINES = {"verl": VERL_1, "trl": TRL_1, "slime": SLIME_0, "openrlhf": OPEN_1, "nemo_rl": NEMO_1}


def steps(tmp_path: Path, text: str, name: str) -> list[int]:
    (tmp_path / "run.log").write_text(text, encoding="utf-8")
    found = read_source(Source(SourceFormat.CONSOLE, "run.log"), tmp_path, 0, registry.by_name(name)).readings
    return [reading.step for reading in found if reading.kind is SignalKind.STEP]


@pytest.mark.parametrize("name", LINES)
def test_several_frameworks_in_one_log(tmp_path: Path, name: str) -> None:
    text = "\n".join([*LINES.values(), ""])
    assert steps(tmp_path, text, name) == [0 if name == "slime" else 1]
    assert len(told(registry.by_name(name), text, "step")) == 1


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


@pytest.mark.parametrize("name", LINES)
def test_what_somebody_says_is_no_step(tmp_path: Path, name: str) -> None:
    for line in QUOTED:
        assert steps(tmp_path, line + "\n", name) == [], line
        assert told(registry.by_name(name), line, *EVENTS) == [], line


def test_a_line_that_every_node_prints_is_one_step(tmp_path: Path) -> None:
    line = "step:{n} - actor/pg_loss:0.1 - training/global_step:{n}"
    nodes = ["(TaskRunner pid=7) ", "(TaskRunner pid=9, ip=10.0.0.2) ", "[default1]:", "[rank3]: "]
    text = "".join(f"{node}{line.format(n=n)} [repeated 2x across cluster]\n" for n in (1, 2) for node in nodes)
    assert steps(tmp_path, text, "verl") == [1, 2]
    assert [one.step for one in told(registry.by_name("verl"), text, "step")] == [1] * 4 + [2] * 4


@pytest.mark.parametrize("prefix", ["", "[rank0]: ", "[default0]:", "(RayTrainWorker pid=17, ip=10.0.0.2) "])
def test_a_rank_before_every_line(tmp_path: Path, prefix: str) -> None:
    """torch's hook and torchrun's --tee put the rank before each line, of bars as well."""
    bars = [f"\r{prefix}{n * 25:3d}%|##        | {n}/4 [00:10<00:10,  1.10it/s]" for n in range(5)]
    trl = f"{bars[0]}{bars[1]}{bars[2]}\n{prefix}{TRL_1}\n{bars[2]}{bars[3]}\n{prefix}{TRL_1}\n{bars[4]}\n"
    assert steps(tmp_path, trl, "trl") == [2, 4]
    assert len(told(registry.by_name("trl"), trl, "step")) == 2
    sft = "".join(f"{prefix}step:{n} - train/loss:0.5\n{prefix}step:{n} - val/loss:0.4\n" for n in (1, 2))
    assert steps(tmp_path, sft, "verl") == [1, 2]
    assert count(told(registry.by_name("verl"), sft)) == {"step": 2, "validation": 2}


@pytest.mark.parametrize("start", [0, 1, 4, 7])
def test_steps_of_nemo_rl_never_fall(tmp_path: Path, start: int) -> None:
    """Three epochs of four steps, each step announced twice (dynamic sampling), begun or resumed after `start`."""
    text, last = "", 0
    for total in range(start, 12):
        epoch, step = divmod(total, 4)
        text += f"\n{'=' * 25} Epoch {epoch + 1}/3 {'=' * 25}\n" if epoch + 1 != last else ""
        last = epoch + 1
        text += f"\n{'=' * 25} Step {step + 1}/4 {'=' * 25}\n" * 2 + "\n📊 Training Results:\n  • Loss: 0.5000\n"
    assert steps(tmp_path, text, "nemo_rl") == list(range(start + 1, 13))


def test_the_bar_moves_before_the_first_dict() -> None:
    raw = (SAMPLES / "from-source" / "trl" / "grpo_v5_beta0_every_ten.log").read_bytes()
    kinds = [one.kind for one in told(registry.by_name("trl"), raw, "step", "progress")]
    assert kinds[0] == "progress"
    assert kinds.count("step") == 2


def test_chatter_is_no_progress() -> None:
    """A hung slime answers health checks for ever."""
    text = (SAMPLES / "from-source" / "slime" / "hung_but_chatty.log").read_text(encoding="utf-8")
    chatter = "".join(line + "\n" for line in text.splitlines() if "/health" in line)
    assert chatter.count("200 OK") > 10
    assert told(registry.by_name("slime"), chatter, "step", "validation", "progress") == []


@pytest.mark.parametrize(
    ("name", "line", "hold_s"),
    [
        ("verl", "(TaskRunnerV1 pid=7) INFO:2026-08-22 10:04:11,512:actor and ref model engine initialized", 120.0),
        ("verl", "(TaskRunnerV1 pid=7) INFO:2026-08-22 10:04:11,512:all initialize finished, ready to fit", 600.0),
        ("verl", "(FullyAsyncTrainer pid=7) [FullyAsyncTrainer] sample collected 3/64. mq_len: 0", 120.0),
        ("verl", "the engine initialized the model by itself", 0.0),
        ("verl", "Training Progress:  10%|█         | 3/30 [00:10<01:30,  3.0s/it]", 120.0),
        ("verl", "Training Progress:   0%|          | 0/30 [00:00<?, ?it/s]", 0.0),
        ("verl", "Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:01<00:01]", 120.0),
        ("verl", "Loading safetensors checkpoint shards:   0% Completed | 0/2 [00:00<?]", 0.0),
        ("verl", "test_gen_batch meta info: {'eos_token_id': 1}", 120.0),
        ("verl", "[ASYNC MAIN] starting", 120.0),
        ("tinygrpo", "config {'seed': 1}", 120.0),
        ("tinygrpo", "validating: 3/8 tasks", 120.0),
        ("tinygrpo", "the config {x}", 0.0),
    ],
)
def test_what_holds_the_clock(name: str, line: str, hold_s: float) -> None:
    """verl's loop of today is silent while it validates: its last words before that hold the clock for longer."""
    found = told(registry.by_name(name), line, "progress")
    assert max((one.hold_s for one in found), default=0.0) == hold_s


LOGGED = "INFO 03-02 10:12:12 ppo_trainer.py:547] "
TOLD = [  # trainer, line, what the Runner sees in it and with which KL
    ("slime", "model.py:9 - step 0: {'train/loss': 0.1, 'train/ppo_kl': 0.002}", {"step": 0.002}),
    ("slime", "model.py:9 - step 4: {'train/loss': 0.1, 'train/grad_norm': nan}", {"step": None, "nan": None}),
    ("slime", "model.py:9 - critic-step 0: {'train/critic-value_loss': 0.5}", {"progress": None}),
    ("slime", "Timeout while flushing cache.", {"error": None}),
    ("openrlhf", LOGGED + "✨ Global step 1: {'policy_loss': 0.1, 'ppo_kl': 0.5, 'kl': 0.002}", {"step": 0.002}),
    ("openrlhf", LOGGED + "✨ Global step 2: {'policy_loss': nan, 'kl': 0.1}", {"step": 0.1, "nan": None}),
    ("openrlhf", LOGGED + "✨ Global step 0: {'policy_loss': 0.1}", {}),
    ("trl", "{'loss': '0', 'grad_norm': 'nan', 'epoch': '0.1'}", {"step": None, "nan": None}),
    ("trl", "  0%|          | 0/6 [00:00<?, ?it/s]", {}),
    ("trl", "The vLLM server can't be reached at http://h:8000 after 240.0 seconds.", {"error": None}),
    ("trl", "{'train_runtime': '0.34', 'train_loss': '0.01', 'epoch': '0.1'}", {}),
    ("nemo_rl", "train step 3/20  trainer_v=3  lag=1  ", {"step": None}),
    ("nemo_rl", "train step 0/20  trainer_v=0  lag=0", {}),
    ("nemo_rl", "▶ Starting validation at step 0...", {"progress": None}),
    ("nemo_rl", "▶ Starting validation at step 20...", {}),
    ("nemo_rl", "WARNING: rollout stall -- no rollout committed in 900s", {"error": None}),
    ("nemo_rl", "📊 Training Results: none yet", {}),
]


@pytest.mark.parametrize(("name", "line", "wanted"), TOLD)
def test_what_the_runner_sees(name: str, line: str, wanted: dict[str, float | None]) -> None:
    assert {one.kind: one.kl for one in told(registry.by_name(name), line)} == wanted


SAMPLE_LINES = [
    clean(line) for path in SAMPLES.rglob("*.log") for line in re.split(rb"[\r\n]", path.read_bytes()) if line
]


@pytest.mark.parametrize("trainer", registry.every(), ids=lambda t: t.name)
def test_every_pattern_is_fit_for_the_runner(trainer: Trainer) -> None:
    """Its needles pass over no line, it matches no empty one, and no repeats are possessive: Python before 3.11.5."""
    for signal in trainer.signals():
        assert signal.needles, signal.pattern
        assert not re.search(r"\)[*+?}]\+|\)\{[\d,]+\}\+", signal.pattern)
        assert LinePattern.of(signal).read(b"") == []
        blind = LinePattern.of(replace(signal, needles=()))
        for line in filter(blind.read, SAMPLE_LINES):
            assert any(needle.encode() in line for needle in signal.needles), line
