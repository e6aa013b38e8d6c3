"""Runs of W&B and SwanLab, read from files that they wrote themselves: whole, cut, damaged and killed.

tests/samples/metrics holds what wandb 0.31.0, swanlab 0.10.3 and tensorboardX 2.6.5 wrote for one
little program: twelve steps, a NaN at step 7, a validation every four.
"""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path

import pytest

from autoresearch.core.metrics.signal import Reading, SignalKind
from autoresearch.core.run.trainer import Source, SourceFormat
from autoresearch.readers.binary_records import HEAD, records
from autoresearch.readers.read import read_source
from autoresearch.readers.tensorboard import read_tensorboard
from autoresearch.readers.tracker_dirs import newest
from autoresearch.readers.tracker_runs import read_swanlab, read_wandb
from autoresearch.trainers import registry

SAMPLES = Path(__file__).parents[1] / "samples" / "metrics"
WANDB = next((SAMPLES / "wandb").iterdir())
SWANLAB = next((SAMPLES / "swanlab").iterdir())
ACCURACY = "val-core/openai/gsm8k/acc/mean@1"


def table(readings: Iterable[Reading], key: str) -> dict[int, float]:
    return {r.step: r.metrics[key] for r in readings if key in r.metrics}


def check(readings: list[Reading], accuracy: str = ACCURACY) -> None:
    steps = [r for r in readings if r.kind is SignalKind.STEP]
    assert [r.step for r in steps] == list(range(1, 13))
    assert table(steps, "actor/kl_loss") == pytest.approx({n: 0.001 * n for n in range(1, 13)})
    rewards = table(steps, "critic/rewards/mean")
    assert math.isnan(rewards.pop(7))
    assert rewards == {n: n / 16 for n in range(1, 13) if n != 7}
    validations = [r for r in readings if r.kind is SignalKind.VALIDATION]
    assert table(validations, accuracy) == pytest.approx({4: 0.04, 8: 0.08, 12: 0.12})


def test_wandb_offline() -> None:
    found = list(read_wandb(WANDB))
    check(found)
    assert found == list(read_wandb(next(WANDB.glob("*.wandb"))))
    first = found[0].metrics
    assert first["nested.a"] == 1 and first["nested.b.c"] == 2
    assert math.isinf(first["inf"])
    assert not {"flag", "text", "_step", "_timestamp", "_runtime"} & first.keys()


def test_swanlab() -> None:
    found = list(read_swanlab(SWANLAB))
    check(found)
    assert found[0].metrics.keys() == {"actor/kl_loss", "critic/rewards/mean", "training/global_step"}


def test_tensorboard_as_tensorboardx_writes_it() -> None:
    check(list(read_tensorboard(SAMPLES / "tensorboard")), "val-core/openai/gsm8k/acc/mean_1")  # it renames tags


@pytest.mark.parametrize("run", [WANDB, SWANLAB])
def test_cut_anywhere_it_reads_the_whole_records_before_the_cut(tmp_path: Path, run: Path) -> None:
    whole = next(path for path in run.iterdir() if path.is_file())
    read = read_wandb if run is WANDB else read_swanlab
    data, last = whole.read_bytes(), 0
    cut = tmp_path / whole.name
    for end in [*range(12), *range(12, len(data), 37), len(data)]:
        cut.write_bytes(data[:end])
        count = sum(len(reading.metrics) for reading in read(cut))
        assert count >= last, end
        last = count
    assert last == sum(len(reading.metrics) for reading in read(whole)) > 30


def fragment(content: bytes, kind: int) -> bytes:
    return struct.pack("<IHB", zlib.crc32(content, zlib.crc32(bytes([kind]))), len(content), kind) + content


def test_damage_costs_the_rest_of_its_block_and_no_more(tmp_path: Path) -> None:
    block = 1 << 15
    first = b":W&B\xe1\xbe\x00" + fragment(b"one", 1) + fragment(b"two", 1)
    start = fragment(b"A" * (block - len(first) - 7), 2)
    middle = fragment(b"B" * (block - 7), 3)
    end = fragment(b"C", 4) + fragment(b"last", 1)
    whole = tmp_path / "x.wandb"
    whole.write_bytes(first + start + middle + end)
    found = list(records(whole))
    assert [r[:1] + r[-1:] for r in found] == [b"oe", b"to", b"AC", b"lt"] and len(found[2]) > block
    at = len(first) + 100
    whole.write_bytes((first + start)[:at] + b"x" + (first + start)[at + 1 :] + middle + end)
    assert list(records(whole)) == [b"one", b"two", b"last"]
    assert list(records(tmp_path / "none")) == []


def test_a_record_may_begin_with_the_last_seven_bytes_of_a_block(tmp_path: Path) -> None:
    block = 1 << 15
    for left in range(7, -1, -1):  # the end of a block of six bytes and less is empty, of seven a head without content
        start = b":W&B\xe1\xbe\x00"
        start += fragment(b"x" * (block - len(start) - 7 - left), 1)
        rest = fragment(b"", 2) + fragment(b"next", 4) if left == 7 else bytes(left) + fragment(b"next", 1)
        (tmp_path / "x.wandb").write_bytes(start + rest)
        assert [r[-4:] for r in records(tmp_path / "x.wandb")] == [b"xxxx", b"next"], left


def test_a_run_that_was_killed_hard_has_no_history(tmp_path: Path) -> None:
    run = tmp_path / "offline-run-20260101_000000-k"
    run.mkdir()
    store = run / "run-k.wandb"
    store.write_bytes(next(WANDB.glob("*.wandb")).read_bytes()[:HEAD])  # what wandb 0.31 leaves of a run after -9
    assert list(read_wandb(run)) == []
    store.write_bytes(b"")
    assert list(read_wandb(run)) == []
    (run / "files").mkdir()
    (run / "files" / "wandb-summary.json").write_text(json.dumps({"_step": 9, "reward": 0.5, "_wandb": {"x": 1}}))
    assert [(r.step, r.metrics["reward"]) for r in read_wandb(run)] == [(9, 0.5)]
    (run / "files" / "wandb-history.jsonl").write_text('{"_step": 1, "reward": 0.25}\n{"_step": 2, "rew')
    assert [(r.step, r.metrics["reward"]) for r in read_wandb(run)] == [(1, 0.25)]


def test_what_is_no_store_is_read_as_nothing(tmp_path: Path) -> None:
    store = tmp_path / "run-x.wandb"
    noise = random.Random(0).randbytes(70_000)
    for data in (b"", b"\x00" * 70_000, b":W&B", noise, b":W&B\xe1\xbe\x00" + noise):
        store.write_bytes(data)
        assert list(read_wandb(store)) == []
        other = store.with_suffix(".swanlab")
        other.write_bytes(data.replace(b":W&B", b":SWL"))
        assert list(read_swanlab(other)) == []


def test_the_newest_run_counts_and_none_from_before(tmp_path: Path) -> None:
    home = tmp_path / "wandb"
    for name, at in (("offline-run-20260101_000000-a", 1000.0), ("run-20250101_000000-b", 2000.0)):
        shutil.copytree(WANDB, home / name)
        for path in (home / name).iterdir():
            os.utime(path, (at, at))
    (home / "latest-run").symlink_to("offline-run-20260101_000000-a")
    run_b = home / "run-20250101_000000-b"
    for where in (tmp_path, home, run_b, next(run_b.iterdir())):
        found = newest(SourceFormat.WANDB, where)
        assert found is not None and run_b in (found, found.parent), where
    assert newest(SourceFormat.WANDB, tmp_path, since=1500.0) == run_b
    assert newest(SourceFormat.WANDB, tmp_path, since=3000.0) is None
    assert newest(SourceFormat.WANDB, run_b, since=3000.0) is None
    assert newest(SourceFormat.SWANLAB, tmp_path) is None
    read = read_source(Source(SourceFormat.WANDB, "."), tmp_path, 0, registry.by_name("verl")).readings
    check(read)
