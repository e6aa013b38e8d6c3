"""`metrics FILE --source KIND`, as it is typed: 100,000 steps of five metrics, against a program with another reader.

Both print a table, and are measured in seconds of CPU of whole processes. The references are pandas for JSON lines,
`ast.literal_eval` and pandas for AgentJet's dicts, one plain expression for verl's lines on the console, TensorBoard's
own EventAccumulator, and the protobuf classes of wandb and swanlab with a plain loop over their blocks. `make
bench-tools` installs those that are no dependencies of ours; what is missing is said and left out.
"""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.bench.result import Result
from tests.bench.yard import COMMAND, OTHERS, spent_ms

STEPS = 100_000
KEYS = ("actor/kl_loss", "actor/pg_loss", "actor/entropy", "critic/rewards/mean", "timing_s/step")
BLOCKS = """
def records(path):
    at, parts = 7, b""
    with open(path, "rb") as file:
        while block := file.read(32768):
            while at + 7 <= len(block):
                check, length, kind = struct.unpack_from("<IHB", block, at)
                part = block[at + 7 : at + 7 + length]
                at += 7 + length
                parts = part if kind in (1, 2) else parts + part
                if kind in (1, 4):
                    yield parts
            at = 0
"""
THEIRS = {
    "jsonl": "import pandas",
    "dict_lines": "import ast, pandas",
    "console": "import pandas, re",
    "tensorboard": "from tensorboard.backend.event_processing.event_accumulator import EventAccumulator",
    "wandb": "import json, struct, pandas\nfrom wandb.proto import wandb_internal_pb2 as pb" + BLOCKS,
    "swanlab": "import struct, pandas\nfrom swanlab.proto.swanlab.record.v1 import record_pb2 as pb" + BLOCKS,
}
READ = {
    "jsonl": "pandas.read_json(path, lines=True)",
    "dict_lines": "pandas.DataFrame(list(map(ast.literal_eval, open(path))))",
    "console": "pandas.DataFrame([dict((k, float(v)) for k, v in re.findall(r'([^\\s:]+):([-+.\\de]+)(?: |$)', line)) "
    "for line in open(path)])",
    "tensorboard": "tensorboard(path)",
    "wandb": "pandas.DataFrame([{i.nested_key[0]: json.loads(i.value_json) for i in r.history.item} "
    "for r in map(pb.Record.FromString, records(path)) if r.HasField('history')])",
    "swanlab": "pandas.DataFrame([(r.scalar.step, r.scalar.key, r.scalar.value.number) "
    "for r in map(pb.Record.FromString, records(path)) if r.HasField('scalar')])",
}
TENSORBOARD = """
def tensorboard(path):
    found = EventAccumulator(path, size_guidance={"scalars": 0})
    found.Reload()
    return [(e.step, tag, e.value) for tag in found.Tags()["scalars"] for e in found.Scalars(tag)]
"""
NAMES = {
    "jsonl": "pandas.read_json(lines=True)",
    "dict_lines": "ast.literal_eval, pandas.DataFrame",
    "console": "re.findall, pandas.DataFrame",
    "tensorboard": "TensorBoard's EventAccumulator",
    "wandb": "wandb's protobuf classes, pandas.DataFrame",
    "swanlab": "swanlab's protobuf classes, pandas.DataFrame",
}
GOALS = {"jsonl": 2.0, "dict_lines": 0.5, "console": 3.0, "tensorboard": 1.0, "wandb": 5.0, "swanlab": 5.0}
REACHED = {"jsonl": 1.7, "dict_lines": 0.47, "console": 2.9, "tensorboard": 0.36, "wandb": 1.6, "swanlab": 1.5}


def run(repeats: int = 5) -> Iterator[Result]:
    """Seconds of CPU."""
    with tempfile.TemporaryDirectory() as scratch:
        for kind, write in WRITERS.items():
            path = Path(scratch) / f"{kind}.{NAMES_OF_FILES.get(kind, kind)}"
            write(path)
            yield from _compare(kind, path, repeats)
            path.unlink()


def _compare(kind: str, path: Path, repeats: int) -> Iterator[Result]:
    other = str(OTHERS if OTHERS.exists() else sys.executable)
    if subprocess.run([other, "-c", THEIRS[kind]], capture_output=True).returncode:
        print(f"   {NAMES[kind]} is missing: make bench-tools", flush=True)
        return
    place = str(path.parent if kind == "tensorboard" else path)
    program = f"{THEIRS[kind]}{TENSORBOARD if kind == 'tensorboard' else ''}\nimport sys\npath = sys.argv[1]\n"
    program += f"table = {READ[kind]}\nprint(table[-5:])\n"
    ours, theirs = [], []
    for _ in range(repeats):
        ours.append(spent_ms([str(COMMAND), "metrics", place, "--source", kind]) / 1000)
        theirs.append(spent_ms([other, "-c", program, place]) / 1000)
    what = f"`metrics` of {STEPS} steps of {len(KEYS)} metrics from {kind}"
    yield Result(what, NAMES[kind], ours, theirs, GOALS[kind], "s", reached=REACHED.get(kind))


def _rows() -> Iterator[tuple[int, dict[str, float]]]:
    for step in range(1, STEPS + 1):
        yield step, {key: (step * 7 + n) % 1000 / 1000 for n, key in enumerate(KEYS)}


def _jsonl(path: Path) -> None:
    path.write_text("".join(json.dumps({"step": step, **metrics}) + "\n" for step, metrics in _rows()))


def _dict_lines(path: Path) -> None:
    path.write_text("".join(f"{ {'training/global_step': step, **metrics} }\n" for step, metrics in _rows()))


def _console(path: Path) -> None:
    with path.open("w") as file:
        for step, metrics in _rows():
            file.write(f"(TaskRunner pid=7) step:{step} - {' - '.join(f'{k}:{v}' for k, v in metrics.items())}\n")


def _tensorboard(path: Path) -> None:
    """As SummaryWriter writes it: an event for each scalar; the checksums are right, as its reader looks at them."""
    from autoresearch.readers.tensorboard import masked_crc

    with path.open("wb") as file:
        for step, metrics in _rows():
            for key, value in metrics.items():
                inner = _field(1, key.encode()) + b"\x15" + struct.pack("<f", value)
                event = b"\x09" + struct.pack("<d", 1.77e9) + b"\x10" + _varint(step) + _field(5, _field(1, inner))
                head = struct.pack("<Q", len(event))
                file.write(head + struct.pack("<I", masked_crc(head)) + event + struct.pack("<I", masked_crc(event)))


def _wandb(path: Path) -> None:
    def record(step: int, metrics: dict[str, float]) -> bytes:
        items = {**metrics, "_step": step}.items()
        history = b"".join(_field(1, _field(2, k.encode()) + _field(16, json.dumps(v).encode())) for k, v in items)
        return b"\x08" + _varint(step) + _field(2, history + _field(2, b"\x08" + _varint(step)))

    _blocks(path, b":W&B\xe1\xbe\x00", (record(step, metrics) for step, metrics in _rows()))


def _swanlab(path: Path) -> None:
    def scalar(step: int, key: str, value: float) -> bytes:
        number = _field(5, b"\x09" + struct.pack("<d", value))
        return (
            b"\x08"
            + _varint(step)
            + _field(13, _field(1, key.encode()) + b"\x10" + _varint(step) + b"\x18\x01" + number)
        )

    found = (scalar(step, key, value) for step, metrics in _rows() for key, value in metrics.items())
    _blocks(path, b":SWL\xd6\xe1\x02", found)


def _blocks(path: Path, head: bytes, records: Iterator[bytes]) -> None:
    """LevelDB's log format."""
    block = 1 << 15
    with path.open("wb") as file:
        at = file.write(head)
        for record in records:
            first, left = True, record
            while left or first:
                room = block - at % block - 7
                if room < 0:
                    at += file.write(bytes(room + 7))
                    continue
                part, left = left[:room], left[room:]
                kind = {(True, True): 1, (True, False): 2, (False, False): 3, (False, True): 4}[first, not left]
                check = zlib.crc32(part, zlib.crc32(bytes([kind])))
                at += file.write(struct.pack("<IHB", check, len(part), kind) + part)
                first = False


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


WRITERS: dict[str, Callable[[Path], None]] = {
    "jsonl": _jsonl,
    "dict_lines": _dict_lines,
    "console": _console,
    "tensorboard": _tensorboard,
    "wandb": _wandb,
    "swanlab": _swanlab,
}
NAMES_OF_FILES = {"tensorboard": "tfevents.1", "console": "log", "dict_lines": "md"}
