"""The parts of a log that matter: the end, what stands behind the last steps, the beginning of one without."""

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


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of kilobytes, so that a log of megabytes is a large one."""
    monkeypatch.setattr(module, "CHUNK", 1 << 12)
    monkeypatch.setattr(module, "TAIL", 1 << 13)
    monkeypatch.setattr(module, "HEAD", 1 << 13)
    monkeypatch.setattr(module, "BACK", 1 << 19)


def log(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "run.log"
    path.write_text(text)
    return path


def found(tmp_path: Path, text: str, *signals: SignalPattern) -> list[tuple[str, int, int]]:
    path = log(tmp_path, text)
    words = last_words(path, signals or (STEP, NAN))
    assert last_words(path, signals or (STEP, NAN), survived=False).failures == words.failures
    return [(f.family.value, f.position.number, f.position.offset) for f in words.failures]


def test_number_and_offset(tmp_path: Path) -> None:
    text = "hello\n" + OOM + "bye\n"
    assert found(tmp_path, text) == [("gpu_memory", 2, 6)]
    assert found(tmp_path, OOM.strip()) == [("gpu_memory", 1, 0)]  # torn
    bar = "\r 10%|#   | 1/10 [00:01<00:09]"
    assert found(tmp_path, f"x\n{bar}\n{bar}\r{OOM}") == [("gpu_memory", 3, len(f"x\n{bar}\n{bar}\r".encode()))]


def test_nothing_to_read(tmp_path: Path) -> None:
    assert last_words(tmp_path / "none", (STEP,)).failures == ()
    assert found(tmp_path, "") == []


@pytest.mark.parametrize("chat", [10, 200, 2000, 8000])
def test_behind_the_last_steps_however_much_was_printed(tmp_path: Path, chat: int) -> None:
    before = "step 1\nstep 2\n" + CHAT * chat
    assert found(tmp_path, before + OOM + CHAT * chat) == [("gpu_memory", 3 + chat, len(before))]
    assert found(tmp_path, OOM + before) == []


def test_what_failed_at_the_beginning_of_a_log_without_steps(tmp_path: Path) -> None:
    booting = CHAT * 20 + "Traceback (most recent call last):\nModuleNotFoundError: No module named 'verl'\n"
    assert found(tmp_path, booting + CHAT * 40_000) == [("environment", 22, len(CHAT) * 20 + 35)]


def test_no_line_is_shown_twice_or_lost_between_parts(tmp_path: Path) -> None:
    """A trouble in every part of a log, with lines of all lengths."""
    for length in (3, 50, 4095, 4096, 5000):
        lines = [OOM if n % 7 == 0 else "x" * length + "\n" for n in range(40)]
        words = last_words(log(tmp_path, "".join(lines)), (STEP,))
        assert [(f.position.number, f.times) for f in words.failures] == [(1, 6)]


def test_a_pattern_without_needles_sees_every_line(tmp_path: Path) -> None:
    declared = SignalPattern(SignalKind.STEP, r"^round \d+ done")
    assert found(tmp_path, OOM + "round 1 done\nround 2 done\n", declared) == []
    assert found(tmp_path, OOM + "round 1 done\nwell\n", declared) == [("gpu_memory", 1, 0)]


def test_nan_in_a_step(tmp_path: Path) -> None:
    assert found(tmp_path, "step 1 loss 0.1\nstep 2 loss nan\n") == [("diverged", 2, 16)]
    assert found(tmp_path, "step 1 loss nan\nstep 2 loss 0.1\n") == []


def test_what_was_overcome_is_believed_of_a_run_that_ended_badly(tmp_path: Path) -> None:
    words = last_words(log(tmp_path, OOM + "step 1\nstep 2\n"), (STEP,))
    assert words.cause(ended_badly=False) is None
    cause = words.cause(ended_badly=True)
    assert cause is not None
    assert cause.family.value == "gpu_memory"


def test_quoted_lines_are_followed_to_their_end(tmp_path: Path) -> None:
    quote = "[response] so\n" + "prose\n" * 5 + "ValueError: quoted\n" + "prose\n" * 5 + "[score] 0.0\n"
    assert found(tmp_path, quote) == []
    assert found(tmp_path, quote + OOM)[0][0] == "gpu_memory"


def test_a_traceback_with_a_harmless_frame(tmp_path: Path) -> None:
    frame = '  File "/v/hermes_tool_parser.py", line 110, in extract'
    parser = f"Traceback (most recent call last):\n{frame}\n    go()\nJSONDecodeError: Expecting value\n"
    path = log(tmp_path, parser)
    assert last_words(path, (STEP,), (r"hermes_tool_parser",)).failures == ()
    assert last_words(path, (STEP,)).failures != ()
    both = last_words(log(tmp_path, parser + parser.replace("hermes", "other")), (STEP,), (r"hermes_tool_parser",))
    assert [f.position.number for f in both.failures] == [8]


def test_steps_in_the_middle_answer_for_the_beginning(tmp_path: Path) -> None:
    """What stands before them is not even read, the beginning included."""
    text = OOM + CHAT * 1000 + "step 1\nstep 2\n" + CHAT * 4000
    assert found(tmp_path, text) == []


def test_a_part_does_not_begin_in_the_middle_of_a_line(tmp_path: Path) -> None:
    end = "ValueError: bad\n"
    after = "y" * ((1 << 13) - len(end) - 1) + "\n"
    before = "step 1\nstep 2\n" + CHAT * 1000
    assert found(tmp_path, f"{before}quoted {end}{after}") == []
    assert [kind for kind, _, _ in found(tmp_path, f"{before}{end}{after}")] == ["unknown"]
