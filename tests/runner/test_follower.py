"""LogFollower: every byte of a growing file once, whatever happens to the file."""

from __future__ import annotations

import os
import random
from pathlib import Path

from autoresearch.runner.basics import clock
from autoresearch.runner.listener import OutputCopy
from autoresearch.runner.log_follower import LogFollower


def read(follower: LogFollower) -> bytes:
    return b"".join(follower.poll())


def test_yields_whole_lines_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"one\ntwo\nthr")
    follower = LogFollower(str(log))
    assert read(follower) == b"one\ntwo\n"
    assert follower.offset == 8
    assert follower.partial() == b"thr"
    assert follower.behind() == 3
    with log.open("ab") as more:
        more.write(b"ee\n")
    assert read(follower) == b"three\n"
    assert read(follower) == b""


def test_random_fragments_and_chunk_sizes(tmp_path: Path) -> None:
    dice = random.Random(5)
    lines = [bytes(dice.choices(b"abc \xff", k=dice.randrange(90))) for _ in range(3000)]
    text = b"".join(line + dice.choice([b"\n", b"\r", b"\r\n"]) for line in lines)
    log = tmp_path / "log"
    log.touch()
    follower = LogFollower(str(log))
    follower.CHUNK, follower.LONGEST = 64, 256  # type: ignore[misc]
    got, at = b"", 0
    with log.open("ab", buffering=0) as out:
        while at < len(text):
            size = dice.randrange(1, 400)
            out.write(text[at : at + size])
            at += size
            for chunk in follower.poll():
                assert chunk[-1:] in b"\r\n"
                got += chunk
    assert got == text


def test_truncated_and_grown_past_the_old_offset(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"old line\n")
    follower = LogFollower(str(log))
    read(follower)
    read(follower)
    with log.open("r+b") as again:
        again.truncate()
        again.write(b"another, longer line\n")
    assert read(follower) == b"another, longer line\n"


def test_rotation_loses_neither_end_nor_beginning(tmp_path: Path) -> None:
    log = tmp_path / "log"
    old = log.open("ab", buffering=0)
    old.write(b"a\n")
    follower = LogFollower(str(log))
    assert read(follower) == b"a\n"
    log.rename(tmp_path / "log.1")
    old.write(b"b\n")
    assert read(follower) == b"b\n"  # nothing stands at the path yet
    old.write(b"c\nunfinished")
    old.close()
    log.write_bytes(b"d\n")
    assert read(follower) == b"c\nunfinishedd\n"


def test_a_hole_is_passed_over(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"before\n")
    follower = LogFollower(str(log))
    read(follower)
    with log.open("r+b") as out:
        out.truncate(3_000_000_000)  # reading three gigabytes of nothing would be felt
        out.seek(3_000_000_000)
        out.write(b"\nafter\n")
    assert read(follower).strip(b"\0") == b"\nafter\n"


def test_goes_on_from_an_offset_and_after_close(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"one\ntwo\n")
    follower = LogFollower(str(log), offset=4)
    assert read(follower) == b"two\n"
    follower.close()
    with log.open("ab") as more:
        more.write(b"three\n")
    assert read(follower) == b"three\n"


def test_output_is_copied_into_the_log_unless_a_link_leads_out_of_the_sandbox(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    log, output = tmp_path / "log", tmp_path / "inside/output"
    fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    (tmp_path / "secret").write_text("")
    output.symlink_to("../secret")
    for within in ([str(tmp_path / "inside")], []):
        copy = OutputCopy(str(output), within, fd)
        with (tmp_path / "secret").open("a") as file:
            file.write("one\ntwo")
        copy.finish(clock() + 60.0)
        assert log.read_text() == ("" if within else "one\ntwo")
    os.close(fd)
