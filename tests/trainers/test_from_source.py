"""Samples written from the frameworks' sources: the right events, for the Runner's patterns and the full parser."""

from __future__ import annotations

import importlib
import math
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from autoresearch.core.diagnosis.root import classify
from autoresearch.core.metrics.metric_keys import kl_of
from autoresearch.core.metrics.signal import Reading, SignalKind
from autoresearch.core.run.trainer import Source, SourceFormat, Trainer
from autoresearch.readers.read import read_source
from autoresearch.runner.line_patterns import LinePattern, Scanner, group
from autoresearch.runner.log_follower import LogFollower
from autoresearch.runner.text import logical_lines
from autoresearch.trainers import ask, registry

SAMPLES = Path(__file__).parents[1] / "samples" / "trainer-logs" / "from-source"
INDEX: dict[str, dict[str, Any]] = yaml.safe_load((SAMPLES / "index.yaml").read_text(encoding="utf-8"))
TRAINERS = {"agentjet", "verl", "nemo_rl", "slime", "trl", "openrlhf"}
FAMILY = {"agentjet", "verl"}  # who print the same lines
EVENTS = (SignalKind.STEP, SignalKind.VALIDATION)
Seen = tuple[str, str, str, str]  # kind, step, kl, text


def trainer_of(name: str) -> Trainer:
    return registry.by_name(name.split("/", maxsplit=1)[0])


def readings(name: str, trainer: Trainer) -> list[Reading]:
    return list(read_source(Source(SourceFormat.CONSOLE, name), SAMPLES, 0, trainer).readings)


def watched(name: str, trainer: Trainer) -> list[Seen]:
    """What the Runner itself sees, following the file."""
    scanner = Scanner(LinePattern(s.kind.value, s.pattern, s.hold_s, s.needles) for s in trainer.signals())
    follower = LogFollower(str(SAMPLES / name))
    seen: list[Seen] = []
    for chunk in follower.poll():
        for pattern, m, _ in scanner.scan(chunk, follower.offset - len(chunk)):
            groups = [(group(m, key) or b"").decode("utf-8", "replace") for key in ("step", "kl", "text")]
            seen.append((pattern.kind, groups[0], groups[1], groups[2]))
    follower.close()
    return seen


def test_the_index_is_whole() -> None:
    assert set(INDEX) == {path.relative_to(SAMPLES).as_posix() for path in SAMPLES.rglob("*.log")}
    assert {name.split("/", maxsplit=1)[0] for name in INDEX} == TRAINERS
    assert all(entry["about"] and entry["commit"] and entry["printed_by"] for entry in INDEX.values())


@pytest.mark.parametrize("name", INDEX)
def test_what_the_parser_reads(name: str) -> None:
    wanted, found = INDEX[name], readings(name, trainer_of(name))
    steps = {r.step: r.metrics for r in found if r.kind is SignalKind.STEP}
    assert list(steps) == wanted["steps"]
    assert [r.step for r in found if r.kind is SignalKind.VALIDATION] == wanted["validations"]
    first = steps[wanted["steps"][0]] if steps else {}
    assert kl_of(first) == wanted["kl"]
    for step, metrics in wanted["values"].items():
        assert {key: pytest.approx(value) for key, value in metrics.items()}.items() <= steps[step].items()


@pytest.mark.parametrize("name", INDEX)
def test_what_the_runner_sees(name: str) -> None:
    wanted, seen = INDEX[name], watched(name, trainer_of(name))
    kinds = [kind for kind, *_ in seen]
    assert [kinds.count("step"), kinds.count("validation")] == wanted["runner"]
    assert next(([step, kl] for kind, step, kl, _ in seen if kind == "step"), None) == wanted["first"]
    texts = [text for kind, _, _, text in seen if kind == "error" and text]
    assert len(texts) == len(wanted["errors"])
    assert all(text.startswith(start) for text, start in zip(texts, wanted["errors"], strict=True))
    assert ("nan" in kinds) == wanted["nan"]


@pytest.mark.parametrize("name", INDEX)
def test_what_went_wrong(name: str) -> None:
    failure = classify(logical_lines((SAMPLES / name).read_bytes()), ask.harmless(trainer_of(name)))
    assert (failure.family.value if failure else None) == INDEX[name]["failure"]


@pytest.mark.parametrize("name", INDEX)
def test_the_last_words_are_no_event(name: str) -> None:
    """A run ends by its exit code: `training complete` is printed by a crash as well."""
    raw, wanted = (SAMPLES / name).read_bytes(), INDEX[name]
    last = list(logical_lines(raw))[-1]
    assert wanted["last"] in last
    if any(words in last for words in ("training complete", "stopping training", "completed or interrupted")):
        assert trainer_of(name).read_line(last) is None
        hits = [s for s in trainer_of(name).signals() if re.search(s.pattern.encode("latin-1"), last.encode())]
        assert {s.kind for s in hits} <= {SignalKind.PROGRESS}


@pytest.mark.parametrize("name", INDEX)
@pytest.mark.parametrize("other", sorted(TRAINERS))
def test_nobody_claims_the_lines_of_another(name: str, other: str) -> None:
    known = registry.by_name(other)
    names = {known.name, trainer_of(name).name}
    if len(names) == 2 and names != FAMILY:
        assert readings(name, known) == []
        assert not [kind for kind, *_ in watched(name, known) if kind in EVENTS]


@pytest.mark.parametrize("name", INDEX)
def test_it_does_not_matter_where_the_log_is_cut(name: str) -> None:
    raw, signals = (SAMPLES / name).read_bytes(), [s for s in trainer_of(name).signals() if s.kind in EVENTS]

    def scan(chunk: bytes, start: int = 0) -> list[tuple[str, int]]:
        return sorted(
            (s.kind.value, start + m.start())
            for s in signals
            for m in re.finditer(s.pattern.encode("latin-1"), chunk, re.MULTILINE)
        )

    whole = scan(raw)
    for cut in {max(raw.rfind(b"\n", 0, at), raw.rfind(b"\r", 0, at)) + 1 for at in range(0, len(raw) + 1, 11)}:
        assert sorted(scan(raw[:cut]) + scan(raw[cut:], cut)) == whole, cut


def test_validations_of_two_sets_and_of_parts() -> None:
    dpo = readings("nemo_rl/dpo_two_sets.log", registry.by_name("nemo_rl"))
    late = next(r.metrics for r in dpo if r.kind is SignalKind.VALIDATION and r.step == 2)
    assert (late["validation-default/loss"], late["validation-hard/loss"]) == (0.68, 0.69)
    rm = readings("nemo_rl/rm.log", registry.by_name("nemo_rl"))
    assert next(r for r in rm if r.kind is SignalKind.VALIDATION).metrics["validation-default/num_valid_samples"] == 64
    slime = readings("slime/grpo_kl_two_steps_per_rollout.log", registry.by_name("slime"))
    assert [r.metrics["eval/aime"] for r in slime if r.kind is SignalKind.VALIDATION] == [0.1333, 0.15]
    trl = readings("trl/grpo_v5_beta_eval_none.log", registry.by_name("trl"))
    assert math.isnan(next(r for r in trl if r.step == 2).metrics["rewards/format_reward/mean"])


@pytest.mark.parametrize("name", sorted({name.split("/", maxsplit=1)[0] for name in INDEX}))
def test_the_page_about_trainers_says_the_same(name: str) -> None:
    """Repository and commit stand in the trainer's file, in the index and on the page; the seed's key on the page."""
    page = (Path(__file__).parents[2] / "docs" / "trainers.md").read_text(encoding="utf-8")
    head = (importlib.import_module(f"autoresearch.trainers.{name}").__doc__ or "").replace("\n", " ")
    found = re.search(r"As of (\S+) ([0-9a-f]{8})\b", head)
    assert found is not None
    assert f"{found[1]} {found[2]}" in page
    commits = {str(entry["commit"]) for sample, entry in INDEX.items() if sample.startswith(f"{name}/")}
    assert f"{found[1]}@{found[2]}" in commits
    seed = trainer_of(name).seed_key
    assert f"`{seed}`" in page or f"`<algorithm>.{seed.rpartition('.')[2]}`" in page
