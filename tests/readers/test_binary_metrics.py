"""Event files of TensorBoard and runs of W&B: whole, cut, damaged and killed."""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import struct
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from autoresearch.core.metrics.signal import Reading, SignalKind
from autoresearch.core.run.trainer import Source, SourceFormat
from autoresearch.readers.binary_metrics import HEAD, event_files, read_tensorboard, read_wandb, records, size
from autoresearch.readers.read import read_source, size_of
from autoresearch.readers.tracker_dirs import newest
from autoresearch.trainers import registry

Encode = dict[str, Callable[..., bytes]]
ROWS = [
    (0, "validation/accuracy", 0.25),
    (1, "train/loss", 0.5),
    (1, "train/reward", -0.125),
    (2, "train/loss", float("nan")),
    (300, "validation/accuracy", 0.75),
]


def put(directory: Path, data: bytes, name: str = "events.out.tfevents.1771000000.host.1.0") -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / name).write_bytes(data)
    return directory


def found(where: Path, offset: int = 0) -> list[tuple[str, int, dict[str, float]]]:
    return [(r.kind.value, r.step, dict(r.metrics)) for r in read_tensorboard(where, offset)]


def test_scalars(tmp_path: Path, encode: Encode) -> None:
    first, step, broken, last = found(put(tmp_path, encode["scalars"](ROWS)))
    assert first == ("validation", 0, {"validation/accuracy": 0.25})
    assert step == ("step", 1, {"train/loss": 0.5, "train/reward": -0.125})
    assert broken[:2] == ("step", 2)
    assert math.isnan(broken[2]["train/loss"])
    assert last == ("validation", 300, {"validation/accuracy": 0.75})


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b"\x08\x01" + b"\x12\x00" + b"\x22\x04" + struct.pack("<f", 0.5), 0.5),  # tensor_content, a float
        (b"\x08\x02" + b"\x22\x08" + struct.pack("<d", 0.3), 0.3),  # a double
        (b"\x08\x09" + b"\x22\x08" + struct.pack("<q", -7), -7.0),  # an int64
        (b"\x08\x01" + b"\x2a\x04" + struct.pack("<f", 0.5), 0.5),  # float_val, packed
        (b"\x08\x01" + b"\x2d" + struct.pack("<f", 0.5), 0.5),  # float_val, not packed
        (b"\x08\x02" + b"\x32\x08" + struct.pack("<d", 0.3), 0.3),  # double_val
        (b"\x08\x01" + b"\x22\x08" + struct.pack("<ff", 1, 2), None),  # two floats
        (b"\x08\x07" + b"\x42\x02hi", None),  # a text
    ],
)
def test_tensors(tmp_path: Path, encode: Encode, body: bytes, value: float | None) -> None:
    data = encode["event"](4, encode["tensor"]("train/loss", body))
    wanted = [] if value is None else [("step", 4, {"train/loss": value})]
    assert found(put(tmp_path, data)) == wanted


def test_it_does_not_matter_where_the_file_is_cut(tmp_path: Path, encode: Encode) -> None:
    whole = encode["scalars"](ROWS)
    ends = [len(encode["scalars"](ROWS[:n])) for n in range(len(ROWS) + 1)]
    for cut in range(len(whole)):
        seen = sum(len(metrics) for _, _, metrics in found(put(tmp_path, whole[:cut])))
        assert seen == sum(cut >= end for end in ends[1:]), cut


def test_what_is_no_scalar_is_passed_over(tmp_path: Path, encode: Encode) -> None:
    picture = encode["field"](1, b"image") + encode["field"](4, b"\x01\x02")
    noise = encode["event"](1, picture) + encode["record"](b"\xff\xff\xff") + encode["record"](b"")
    data = noise + encode["event"](1, encode["simple"]("a/b", 2.0), picture) + b"no record at all"
    assert found(put(tmp_path, data)) == [("step", 1, {"a/b": 2.0})]


def test_samples_of_another_clock_are_no_steps(tmp_path: Path, encode: Encode) -> None:
    rows = [(1, "train/loss", 0.5), (1, "ray/node.0.gpu.0.util", 9.0), (70, "ray/node.0.gpu.0.util", 9.0)]
    assert [step for _, step, _ in found(put(tmp_path, encode["scalars"](rows)))] == [1]


def test_a_length_that_is_wrong_ends_the_file(tmp_path: Path, encode: Encode) -> None:
    whole = bytearray(encode["scalars"](ROWS))
    whole[0] ^= 1
    assert found(put(tmp_path, bytes(whole))) == []


def test_several_files_and_what_was_there_before(tmp_path: Path, encode: Encode) -> None:
    put(tmp_path, encode["scalars"]([(1, "train/loss", 9.0), (2, "train/loss", 9.0)]))
    put(tmp_path, encode["scalars"]([(7, "train/loss", 9.0)]), "events.out.tfevents.1771000004.host.1.0")
    held = size(tmp_path)
    put(tmp_path, encode["scalars"]([(2, "train/loss", 1.0)]), "events.out.tfevents.1771000009.host.1.0")
    assert [step[2]["train/loss"] for step in found(tmp_path)] == [9.0, 1.0, 9.0]
    assert found(tmp_path, held) == [("step", 2, {"train/loss": 1.0})]
    assert size_of(Source(SourceFormat.TENSORBOARD, "."), tmp_path) == size(tmp_path) > held
    put(tmp_path, b"none", "hparams.txt")
    assert size_of(Source(SourceFormat.JSONL, "hparams.txt"), tmp_path) == 4
    assert size_of(Source(SourceFormat.JSONL, "none"), tmp_path) == 0
    assert size_of(Source(SourceFormat.TRAINER_STATE, "."), tmp_path) == 0
    assert len(event_files(tmp_path)) == 3


def test_the_last_of_the_numbered_directories(tmp_path: Path, encode: Encode) -> None:
    for name in ("exp_002", "exp_999", "exp_1000"):
        put(tmp_path / name / "tensorboard", encode["scalars"]([(int(name[4:]), "train/loss", 1.0)]))
    pattern = tmp_path / "exp_*" / "tensorboard"
    assert [step for _, step, _ in found(pattern)] == [1000]
    assert size(pattern) == 0
    assert found(tmp_path / "none" / "exp_*") == []
    assert found(tmp_path / "none") == []


SAMPLES = Path(__file__).parents[1] / "samples" / "metrics"
WANDB = next((SAMPLES / "wandb").iterdir())
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


def test_tensorboard_as_tensorboardx_writes_it() -> None:
    check(list(read_tensorboard(SAMPLES / "tensorboard")), "val-core/openai/gsm8k/acc/mean_1")  # it renames tags


def test_cut_anywhere_it_reads_the_whole_records_before_the_cut(tmp_path: Path) -> None:
    whole = next(WANDB.glob("*.wandb"))
    data, last = whole.read_bytes(), 0
    cut = tmp_path / whole.name
    for end in [*range(12), *range(12, len(data), 37), len(data)]:
        cut.write_bytes(data[:end])
        count = sum(len(reading.metrics) for reading in read_wandb(cut))
        assert count >= last, end
        last = count
    assert last == sum(len(reading.metrics) for reading in read_wandb(whole)) > 30


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


def test_what_is_no_store_is_read_as_nothing(tmp_path: Path) -> None:
    store = tmp_path / "run-x.wandb"
    noise = random.Random(0).randbytes(70_000)
    for data in (b"", b"\x00" * 70_000, b":W&B", noise, b":W&B\xe1\xbe\x00" + noise):
        store.write_bytes(data)
        assert list(read_wandb(store)) == []


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
    read = read_source(Source(SourceFormat.WANDB, "."), tmp_path, 0, registry.by_name("verl")).readings
    check(read)
