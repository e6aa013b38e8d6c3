"""Every sample log says the right events to the trainer that printed it, wherever the log is cut."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from autoresearch.core.metrics.signal import Reading, SignalKind
from autoresearch.core.run.trainer import Trainer
from autoresearch.runner.text import logical_lines
from autoresearch.trainers import registry

SAMPLES = Path(__file__).parents[1] / "samples" / "trainer-logs"
Event = tuple[str, int, bytes]

NAMED = {
    "verl_np1.log": "verl",
    "verl_ok_np2_ray.log": "verl",
    "verl_raise_np2_ray.log": "verl",
    "agentjet.log": "agentjet",
    "tinygrpo.log": "tinygrpo",
    "tinygrpo_nan.log": "tinygrpo",
    "tinygrpo_oom.log": "tinygrpo",
}
PAIRS = [*NAMED.items(), *((path.name, "generic") for path in sorted(SAMPLES.glob("*.log")))]


def scan(trainer: Trainer, chunk: bytes, start: int = 0) -> list[Event]:
    """What the trainer's patterns find in a chunk: kind, offset in the log, and the text of all groups."""
    events = []
    for signal in trainer.signals():
        for m in re.finditer(signal.pattern.encode("latin-1"), chunk, re.MULTILINE):
            groups = b"|".join(m[name] or b"" for name in sorted(m.re.groupindex))
            events.append((signal.kind.value, start + m.start(), groups))
    return sorted(events)


def counts(events: list[Event]) -> dict[str, int]:
    kinds = [kind for kind, _, _ in events]
    return {kind: kinds.count(kind) for kind in sorted(set(kinds))}


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("verl_np1.log", {"step": 1, "validation": 1}),
        ("verl_ok_np2_ray.log", {"progress": 4, "step": 3, "validation": 1}),
        ("verl_raise_np2_ray.log", {"error": 4, "progress": 2, "step": 1, "validation": 1}),
        ("agentjet.log", {"step": 1, "validation": 2}),
        ("tinygrpo.log", {"progress": 3, "step": 4, "validation": 3}),
        ("tinygrpo_nan.log", {"error": 1, "nan": 6, "progress": 3, "step": 3, "validation": 2}),
        ("tinygrpo_oom.log", {"error": 2, "progress": 3, "step": 2, "validation": 2}),
    ],
)
def test_signals(name: str, wanted: dict[str, int]) -> None:
    trainer = registry.by_name(NAMED[name])
    assert counts(scan(trainer, (SAMPLES / name).read_bytes())) == wanted


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("nemo_grpo.log", [b""] * 2),
        ("openrlhf.log", [b"1"]),
        ("slime.log", [b"0"]),
        ("trl_v4.log", [b""]),
        ("trl_v5_tqdm.log", [b""] * 6),
        ("verl_np1.log", [b"1"]),
        ("tinygrpo.log", [b"1", b"2", b"3", b"4"]),
    ],
)
def test_the_generic_trainer_sees_every_framework_step(name: str, wanted: list[bytes]) -> None:
    raw = (SAMPLES / name).read_bytes()
    found = {}
    for signal in registry.by_name("generic").signals():
        if signal.kind is SignalKind.STEP:
            for m in re.finditer(signal.pattern.encode("latin-1"), raw, re.MULTILINE):
                found[m.start()] = m["step"] if "step" in m.re.groupindex else b""
    assert [found[at] for at in sorted(found)] == wanted


@pytest.mark.parametrize(("name", "trainer"), PAIRS)
def test_it_does_not_matter_where_the_log_is_cut(name: str, trainer: str) -> None:
    """For every byte position: what a follower yields before and after it says what the whole log says."""
    raw, known = (SAMPLES / name).read_bytes(), registry.by_name(trainer)
    whole = scan(known, raw)
    cuts = {max(raw.rfind(b"\n", 0, at), raw.rfind(b"\r", 0, at)) + 1 for at in range(len(raw) + 1)}
    for cut in cuts:
        assert sorted(scan(known, raw[:cut]) + scan(known, raw[cut:], cut)) == whole, cut


@pytest.mark.parametrize(("name", "trainer"), NAMED.items())
def test_a_line_is_read_where_a_pattern_matches_and_nowhere_else(name: str, trainer: str) -> None:
    known, raw = registry.by_name(trainer), (SAMPLES / name).read_bytes()
    for line in raw.replace(b"\r", b"\n").split(b"\n"):
        kinds = {kind for kind, _, _ in scan(known, line + b"\n")} & {"step", "validation"}
        readings = [known.read_line(text) for text in logical_lines(line)]
        assert {r.kind.value for r in readings if r} <= kinds
        assert bool(kinds) == any(readings)


def readings(name: str, trainer: str) -> list[Reading]:
    raw = (SAMPLES / name).read_bytes()
    found = [registry.by_name(trainer).read_line(line) for line in logical_lines(raw)]
    return [reading for reading in found if reading]


def test_verl_values() -> None:
    validation, *steps = readings("verl_ok_np2_ray.log", "verl")
    assert (validation.kind, validation.step) == (SignalKind.VALIDATION, 0)
    assert validation.metrics["val-core/openai/gsm8k/acc/mean@1"] == 0.508
    assert [s.step for s in steps] == [1, 2, 3]
    assert [s.metrics["actor/kl_loss"] for s in steps] == [0.00074127, 0.00148254, 0.00222381]
    assert steps[0].metrics["training/rollout_probs_diff_max"] == 0.62109375
    assert len(steps[0].metrics) == 17


def test_agentjet_values() -> None:
    found = readings("agentjet.log", "agentjet")
    assert [(r.kind.value, r.step) for r in found] == [("validation", 0), ("validation", 0), ("step", 1)]
    assert found[0].metrics["task_pass_rate@1"] == 0.41
    assert found[0].metrics["num_pass_n_tasks(pass@4)"] == 80
    assert found[2].metrics["actor/kl_loss"] == 0.0009313225746154785


def test_tinygrpo_values() -> None:
    found = readings("tinygrpo.log", "tinygrpo")
    kinds = [(r.kind.value[0], r.step) for r in found]
    assert kinds == [("v", 0), ("s", 1), ("s", 2), ("v", 2), ("s", 3), ("s", 4), ("v", 4)]
    assert found[0].metrics["task_pass_rate@1"] == 0.004883


def test_nan_is_read() -> None:
    last = readings("tinygrpo_nan.log", "tinygrpo")[-1]
    assert last.step == 3
    assert math.isnan(last.metrics["actor/grad_norm"])
    assert math.isfinite(last.metrics["actor/lr"])


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("trl_v4.log", [("step", -1, 0.0), ("validation", -1, None)]),
        ("openrlhf.log", [("step", 1, 0.000213), ("validation", 1, None)]),
        ("slime.log", [("step", 0, None)] * 3 + [("validation", 0, None)]),
    ],
)
def test_the_generic_trainer_reads_dicts(name: str, wanted: list[tuple[str, int, float | None]]) -> None:
    found = [(r.kind.value, r.step, r.metrics.get("kl")) for r in readings(name, "generic")]
    assert found == wanted
