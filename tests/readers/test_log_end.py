"""The part of a log that matters: the last megabytes, and of them what stands behind the last steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoresearch.core.metrics.signal import SignalKind, SignalPattern
from autoresearch.readers import log_end as module
from autoresearch.readers.log_end import last_words

STEP = SignalPattern(SignalKind.STEP, r"^step (?P<step>\d+)", needles=("step ",))
NAN = SignalPattern(SignalKind.NAN, r"loss nan", needles=("nan",))
OOM = "CUDA out of memory. Tried to allocate 2.00 GiB\n"
CHAT = 'INFO: "GET /health HTTP/1.1" 200 OK\n'


def log(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "run.log"
    path.write_text(text)
    return path


def found(tmp_path: Path, text: str, *signals: SignalPattern) -> list[tuple[str, int, int]]:
    failures, _ = last_words(log(tmp_path, text), signals or (STEP, NAN))
    return [(f.kind.value, f.position.number, f.position.offset) for f in failures]


def test_number_and_offset(tmp_path: Path) -> None:
    text = "hello\n" + OOM + "bye\n"
    assert found(tmp_path, text) == [("memory", 2, 6)]
    assert found(tmp_path, OOM.strip()) == [("memory", 1, 0)]  # torn
    bar = "\r 10%|#   | 1/10 [00:01<00:09]"
    assert found(tmp_path, f"x\n{bar}\n{bar}\r{OOM}") == [("memory", 3, len(f"x\n{bar}\n{bar}\r".encode()))]


def test_what_stands_behind_the_last_two_steps(tmp_path: Path) -> None:
    before = "step 1\nstep 2\n" + CHAT * 200
    assert found(tmp_path, before + OOM + CHAT * 200) == [("memory", 203, len(before))]
    assert found(tmp_path, OOM + before) == []


def test_only_the_end_is_read_from_a_whole_line_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    end = "ValueError: bad\n"
    monkeypatch.setattr(module, "TAIL", 1 << 13)
    after = "y" * ((1 << 13) - len(end) - 1) + "\n"
    assert found(tmp_path, f"{CHAT * 100}quoted {end}{after}") == []
    assert found(tmp_path, f"{CHAT * 100}{end}{after}") == []
    ((kind, number, offset),) = found(tmp_path, f"{CHAT * 1000}{end}")
    assert (kind, number, offset) == ("program", 1001, 1000 * len(CHAT))


def test_a_pattern_without_needles_sees_every_line(tmp_path: Path) -> None:
    declared = SignalPattern(SignalKind.STEP, r"^round \d+ done")
    assert found(tmp_path, OOM + "round 1 done\nround 2 done\n", declared) == []
    assert found(tmp_path, OOM + "round 1 done\nwell\n", declared) == [("memory", 1, 0)]


def test_of_an_unknown_trainer_a_line_that_names_a_step_and_a_metric_is_a_step(tmp_path: Path) -> None:
    path = log(tmp_path, OOM + "iter 1 | loss 0.5\niter 2 | loss 0.4\n")
    assert last_words(path, (), spelled=True)[1].cause is None
    assert last_words(path, ())[1].cause is not None
    failed = log(tmp_path, OOM + "iter 1 | loss 0.5\nFloatingPointError: step 3: loss is inf\n")
    assert [one.kind.value for one in last_words(failed, (), spelled=True)[0]] == ["memory", "diverged"]


def test_nan_in_a_step(tmp_path: Path) -> None:
    assert found(tmp_path, "step 1 loss 0.1\nstep 2 loss nan\n") == [("diverged", 2, 16)]
    assert found(tmp_path, "step 1 loss nan\nstep 2 loss 0.1\n") == []


def test_a_traceback_with_a_harmless_frame(tmp_path: Path) -> None:
    frame = '  File "/v/hermes_tool_parser.py", line 110, in extract'
    parser = f"Traceback (most recent call last):\n{frame}\n    go()\nJSONDecodeError: Expecting value\n"
    path = log(tmp_path, parser)
    assert last_words(path, (STEP,), (r"hermes_tool_parser",))[0] == ()
    assert last_words(path, (STEP,))[0] != ()
    both, _ = last_words(log(tmp_path, parser + parser.replace("hermes", "other")), (STEP,), (r"hermes_tool_parser",))
    assert [f.position.number for f in both] == [8]
