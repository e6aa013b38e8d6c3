"""finish.flag: always written, never half, and honest about strangers'."""

from __future__ import annotations

import errno
import json
import math
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autoresearch.errors import EnvironmentUnusable
from autoresearch.records import finish_flag

FOREIGN = "Training completed at 1737000000.5\n"
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


def test_a_reserved_flag_is_written_read_and_leaves_nothing_else(tmp_path: Path) -> None:
    out = tmp_path / "not" / "yet"
    finish_flag.reserve(out)
    assert (out / finish_flag.RESERVE).stat().st_size == 4096
    assert not finish_flag.read(out / "finish.flag").exists
    finish_flag.write(out, CONTENT)
    assert flag_of(out) == CONTENT
    assert names(out) == ["finish.flag"]
    flag = finish_flag.read(out / "finish.flag")
    assert (flag.exists, flag.ours, flag.run) == (True, True, "sort-aaaaaa")
    assert flag.content == CONTENT
    assert flag.written


@pytest.mark.parametrize("text", [FOREIGN, "", "{}", "[1]", "done", '{"run": "x"}', "\xff\0", "null"])
def test_a_strangers_flag_is_recorded_in_ours_and_replaced(tmp_path: Path, text: str) -> None:
    (tmp_path / "finish.flag").write_bytes(text.encode("latin-1"))
    found = finish_flag.read(tmp_path / "finish.flag")
    assert (found.exists, found.ours, found.run) == (True, False, "")
    finish_flag.reserve(tmp_path)
    for _ in range(2):  # the second time it is ours already, and still says what was there
        finish_flag.write(tmp_path, CONTENT)
        flag = flag_of(tmp_path)
        assert flag.pop("foreign")["text"] == text.replace("\xff", "\ufffd")
        assert flag == CONTENT


def test_another_runs_flag_is_moved_aside(tmp_path: Path) -> None:
    finish_flag.write(tmp_path, {**CONTENT, "run": "sort-zzzzzz"})
    finish_flag.write(tmp_path, CONTENT)
    assert flag_of(tmp_path) == CONTENT
    assert flag_of(tmp_path / "earlier" / "sort-zzzzzz")["run"] == "sort-zzzzzz"


def test_reading_never_raises(tmp_path: Path) -> None:
    assert not finish_flag.read(tmp_path / "a" / "finish.flag").exists
    (tmp_path / "finish.flag").mkdir()
    assert finish_flag.read(tmp_path / "finish.flag").exists
    assert not finish_flag.read(tmp_path / "finish.flag").ours
    deep = tmp_path / "deep"
    deep.write_text("[" * 60_000)
    assert not finish_flag.read(deep).ours
    (tmp_path / "loop").symlink_to("loop")
    assert not finish_flag.read(tmp_path / "loop").ours


def test_it_fits_the_reserve_and_holds_no_nan(tmp_path: Path) -> None:
    finish_flag.reserve(tmp_path)
    long = {f"text{n}": "é" * 2000 for n in range(8)}
    finish_flag.write(tmp_path, {**CONTENT, **long, "metric": {"value": math.nan}, "log": "/x\udcff"})
    flag = flag_of(tmp_path)
    assert (tmp_path / "finish.flag").stat().st_size <= finish_flag.RESERVED_BYTES
    assert flag["metric"] == {"value": None}
    assert flag["text7"].startswith("éé")
    assert flag["log"] == "/x\udcff"


def test_more_than_the_reserve_holds_is_written_the_ordinary_way(tmp_path: Path) -> None:
    finish_flag.reserve(tmp_path)
    finish_flag.write(tmp_path, {**CONTENT, **{f"text{n}": "x" * 200 for n in range(60)}})
    assert len(flag_of(tmp_path)) == len(CONTENT) + 60
    assert names(tmp_path) == ["finish.flag"]


def test_a_full_disk_does_not_prevent_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finish_flag.reserve(tmp_path)
    (tmp_path / "finish.flag").write_text(FOREIGN)
    real = os.open

    def full(path: Any, flags: int, *rest: Any, **options: Any) -> int:
        if flags & os.O_CREAT:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(path, flags, *rest, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", full)
        finish_flag.write(tmp_path, CONTENT)
        with pytest.raises(EnvironmentUnusable, match="No space left") as caught:
            finish_flag.reserve(tmp_path)
    assert caught.value.code == "disk_full"
    assert flag_of(tmp_path)["foreign"]["text"] == FOREIGN


@pytest.mark.system
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("before", ["nothing", "reserve", "foreign", "another"])
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
        if before != "nothing":
            finish_flag.reserve(out)
        if before == "foreign":
            (out / "finish.flag").write_text(FOREIGN)
        if before == "another":
            finish_flag.write(out, {**CONTENT, "run": "sort-zzzzzz"})
            finish_flag.reserve(out)
        code = forked(dying(lambda out=out: finish_flag.write(out, CONTENT), n, after))
        if code == 0:
            break
        assert code == -signal.SIGKILL
        points += 1
        found = finish_flag.read(out / "finish.flag")
        assert not found.exists or found.ours or found.text == FOREIGN, n
        finish_flag.write(out, CONTENT)
        flag = flag_of(out)
        assert flag.pop("foreign", {}).get("text") == (FOREIGN if before == "foreign" else None)
        assert flag == CONTENT
        if before == "another":
            assert flag_of(out / "earlier" / "sort-zzzzzz")["run"] == "sort-zzzzzz", n
        assert [x for x in names(out) if not x.endswith(".tmp")] in (
            ["finish.flag"],
            ["earlier", "finish.flag"],
        )
    assert points >= 5


@pytest.mark.real
def test_a_really_full_disk(disk: Any, tmp_path: Path) -> None:
    out = disk(tmp_path / "small", "64k")
    finish_flag.reserve(out)
    with pytest.raises(OSError, match="No space left"):
        (out / "filler").write_bytes(b"x" * 100_000)
    with pytest.raises(OSError, match="No space left"):
        (out / "more").write_bytes(b"x" * 4096)
    finish_flag.write(out, CONTENT)
    assert flag_of(out) == CONTENT
