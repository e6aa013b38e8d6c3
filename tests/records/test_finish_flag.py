"""finish.flag: always written, never half, and ours."""

from __future__ import annotations

import json
import math
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autoresearch.records import journal

TRAINERS = "Training completed at 1737000000.5\n"
CONTENT: dict[str, Any] = {
    "schema": 1,
    "run": "sort-aaaaaa",
    "ending": "crashed",
    "verdict": "crash",
    "returncode": 1,
    "reason": "it exited with 1",
    "metric": {"name": "val/pass@1", "value": 0.5, "step": 10, "best": 0.6},
    "branch": "autoresearch/c/sort",
    "started": 1790000000.25,
}


def flag_of(directory: Path) -> dict[str, Any]:
    found = json.loads((directory / "finish.flag").read_text(), parse_constant=pytest.fail)
    assert isinstance(found, dict)
    return found


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_a_flag_is_written_read_and_leaves_nothing_else(tmp_path: Path) -> None:
    out = tmp_path / "not" / "yet"
    assert journal.read_flag(out) is None
    journal.write_flag(out, {**CONTENT, "metric": {"value": math.nan}, "log": "/x\udcff"})
    assert flag_of(out) == {**CONTENT, "metric": {"value": None}, "log": "/x\udcff"}
    assert names(out) == ["finish.flag"]
    assert (journal.read_flag(out) or {})["run"] == "sort-aaaaaa"


@pytest.mark.parametrize("text", [TRAINERS, "", "{}", "[1]", "done", '{"run": "x"}', "\xff\0", "null", "[" * 60_000])
def test_what_a_trainer_wrote_there_is_replaced(tmp_path: Path, text: str) -> None:
    (tmp_path / "finish.flag").write_bytes(text.encode("latin-1"))
    assert journal.read_flag(tmp_path) == {}
    for _ in range(2):
        journal.write_flag(tmp_path, CONTENT)
        assert flag_of(tmp_path) == CONTENT


def test_reading_never_raises(tmp_path: Path) -> None:
    assert journal.read_flag(tmp_path / "a") is None
    for name in ("directory", "loop"):
        (tmp_path / name).mkdir()
    (tmp_path / "directory/finish.flag").mkdir()
    (tmp_path / "loop/finish.flag").symlink_to("finish.flag")
    assert journal.read_flag(tmp_path / "directory") == journal.read_flag(tmp_path / "loop") == {}


@pytest.mark.system
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("before", ["nothing", "trainer", "another"])
def test_killed_at_every_call_it_is_whole_or_missing_and_whole_when_repeated(
    tmp_path: Path,
    forked: Callable[[Callable[[], object]], int],
    dying: Callable[[Callable[[], object], int, bool], Callable[[], None]],
    before: str,
    after: bool,
) -> None:
    points = 0
    for n in range(1, 60):
        out = tmp_path / str(n)
        out.mkdir()
        if before == "trainer":
            (out / "finish.flag").write_text(TRAINERS)
        if before == "another":
            journal.write_flag(out, {**CONTENT, "run": "sort-zzzzzz"})
        code = forked(dying(lambda out=out: journal.write_flag(out, CONTENT), n, after))
        if code == 0:
            break
        assert code == -signal.SIGKILL
        points += 1
        text = (out / "finish.flag").read_text() if (out / "finish.flag").exists() else TRAINERS
        assert text == TRAINERS or json.loads(text)["run"], n
        journal.write_flag(out, CONTENT)
        assert flag_of(out) == CONTENT
        moved = ["earlier"] if before == "another" else []
        if moved:
            assert flag_of(out / "earlier" / "sort-zzzzzz")["run"] == "sort-zzzzzz", n
        assert [x for x in names(out) if not x.endswith(".tmp")] == [*moved, "finish.flag"]
    assert points >= 5
