"""Event files: what a hand-made encoder wrote is read back, whatever else stands between, wherever it is cut."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from autoresearch.core.run.trainer import Source, SourceFormat
from autoresearch.readers.read import size_of
from autoresearch.readers.tensorboard import event_files, read_tensorboard, size

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
    for place in (0, 8):  # the length itself, and its checksum
        whole = bytearray(encode["scalars"](ROWS))
        whole[place] ^= 1
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
