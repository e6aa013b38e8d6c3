"""experiment_log.md, what is moved aside for it, whose result directory it is; and finish.flag: whole, and ours."""

from __future__ import annotations

import json
import math
import os
import re
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autoresearch.core.run.spec import RunSpec
from autoresearch.errors import ConflictError, EnvironmentUnusable
from autoresearch.records import journal

Forked = Callable[[Callable[[], object]], int]
Dying = Callable[[Callable[[], object], int, bool], Callable[[], None]]


def flag(run: str) -> dict[str, object]:
    return {"schema": 1, "run": run, "ending": "finished"}


def tree(directory: Path) -> dict[str, str]:
    return {str(p.relative_to(directory)): p.read_text() for p in sorted(directory.rglob("*")) if p.is_file()}


# ------------------------------------------------------------------ the log


def test_the_command_comes_first_and_secrets_do_not_come_at_all(tmp_path: Path, spec: RunSpec) -> None:
    path = journal.create(tmp_path / "new" / "dir", spec)
    text = path.read_text()
    command = "python train.py \\\n  --api-key *** --lr 1e-6"
    assert text.startswith(
        f"# Experiment log: sort-aaaaaa\n\nCommand:\n\n```bash\n{command}\n```\n\nPurpose:\n\n> Does a\n"
    )
    assert "hunter2" not in text
    for name, value in journal.facts(spec).items():
        assert f"- {name}: {value}\n" in text or name == "metrics files", name  # the sample's are no UTF-8
    for known in ("first step 12s (strict)", "stall 1m", "loss, minimize", "HF_TOKEN=***, A=1", "rerun of: sort-"):
        assert known in text, known
    assert text.endswith("\n## What happened\n\n")


def test_a_command_with_a_fence_in_it_does_not_get_out_of_its_own(tmp_path: Path, spec: RunSpec) -> None:
    text = journal.create(tmp_path, replace(spec, command="echo '````\n# Not a title'")).read_text()
    assert "\n`````bash\necho '````\n# Not a title'\n`````\n" in text


def test_lines_have_the_runners_format(tmp_path: Path) -> None:
    journal.append(tmp_path, "first step", s=12.34, t=1790000000.9)
    journal.append(tmp_path, "note: several\nlines\tand \x1b[31mcolour\x1b[0m\0, --token abcdef")
    first, second = (tmp_path / journal.NAME).read_text().splitlines()
    assert first == "- 2026-09-21 14:13:20Z +12.3s first step"
    assert re.fullmatch(r"- \d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ note: several lines and colour , --token \*\*\*", second)


def test_a_log_that_is_there_is_never_overwritten(tmp_path: Path, spec: RunSpec) -> None:
    journal.create(tmp_path, spec)
    with pytest.raises(ConflictError, match="sort-aaaaaa"):
        journal.create(tmp_path, replace(spec, run="sort-bbbbbb"))
    assert journal.owner(tmp_path) == "sort-aaaaaa"


@pytest.mark.parametrize("text", ["", "# Experiment log\n", "my own notes\n", "# Experiment log: a b\n"])
def test_a_strangers_log_has_no_owner(tmp_path: Path, text: str) -> None:
    assert journal.owner(tmp_path) == ""
    (tmp_path / journal.NAME).write_text(text)
    assert journal.owner(tmp_path) == ""


def test_what_cannot_be_written_gives_one_sentence(tmp_path: Path, spec: RunSpec) -> None:
    (tmp_path / "file").write_text("")
    for work in (
        lambda: journal.append(tmp_path / "file", "x"),
        lambda: journal.create(tmp_path / "file", spec),
        lambda: journal.claim(tmp_path / "file", "a", lambda run: False),
    ):
        with pytest.raises(EnvironmentUnusable, match="cannot be written"):
            work()


# ------------------------------------------------------------------ set aside


def earlier_run(directory: Path, run: str = "sort-zzzzzz") -> None:
    directory.mkdir(exist_ok=True)
    (directory / journal.NAME).write_text(f"# Experiment log: {run}\n")
    (directory / "results.md").write_text(f"results of {run}")
    (directory / "metrics").mkdir(exist_ok=True)
    (directory / "metrics" / "m.jsonl").write_text(f"metrics of {run}")
    (directory / "keep.bin").write_text("not ours")
    journal.write_flag(directory, flag(run))


def test_earlier_records_are_moved_by_their_runs_name(tmp_path: Path) -> None:
    earlier_run(tmp_path)
    before = tree(tmp_path)
    moved = journal.set_aside(tmp_path, [tmp_path / "metrics" / "m.jsonl", tmp_path / "absent"])
    assert sorted(str(p.relative_to(tmp_path)) for p in moved) == sorted(
        f"earlier/sort-zzzzzz/{name}" for name in before if name != "keep.bin"
    )
    assert tree(tmp_path) == {"keep.bin": "not ours"} | {
        f"earlier/sort-zzzzzz/{name}": text for name, text in before.items() if name != "keep.bin"
    }
    assert journal.set_aside(tmp_path) == []


def test_records_without_a_name_are_numbered_and_nothing_is_overwritten(tmp_path: Path) -> None:
    for n in range(3):
        (tmp_path / "finish.flag").write_text(f"Training completed at {n}\n")
        journal.set_aside(tmp_path)
    for _ in range(2):
        earlier_run(tmp_path)
        journal.set_aside(tmp_path)
    earlier = tmp_path / "earlier"
    assert sorted(p.name for p in earlier.iterdir()) == ["1", "2", "3", "sort-zzzzzz", "sort-zzzzzz-2"]
    assert [(earlier / str(n + 1) / "finish.flag").read_text()[-2] for n in range(3)] == ["0", "1", "2"]


def test_a_flag_that_names_a_path_stays_inside(tmp_path: Path) -> None:
    journal.write_flag(tmp_path, flag("../../evil"))
    journal.set_aside(tmp_path)
    assert [p.name for p in (tmp_path / "earlier").iterdir()] == ["1"]


@pytest.mark.system
@pytest.mark.parametrize("after", [False, True])
def test_killed_at_every_call_nothing_is_lost_or_split(
    tmp_path: Path, spec: RunSpec, forked: Forked, dying: Dying, after: bool
) -> None:
    points = 0
    for n in range(1, 60):
        out = tmp_path / str(n)
        earlier_run(out)
        before = tree(out)
        more = [out / "metrics" / "m.jsonl"]
        code = forked(dying(lambda out=out, more=more: journal.begin(out, spec, more), n, after))
        if code == 0:
            break
        assert code == -signal.SIGKILL
        points += 1
        journal.begin(out, spec, more)
        found = tree(out)
        assert found.pop(journal.NAME).startswith("# Experiment log: sort-aaaaaa\n"), n
        found.pop("earlier/1/experiment_log.md", None)  # of our own killed attempt: created, still empty
        assert found == {"keep.bin": "not ours"} | {
            f"earlier/sort-zzzzzz/{name}": text for name, text in before.items() if name != "keep.bin"
        }, n
    assert points >= 9


def test_a_run_that_has_begun_keeps_its_log(tmp_path: Path, spec: RunSpec) -> None:
    earlier_run(tmp_path)
    assert len(journal.begin(tmp_path, spec)) == 3
    journal.append(tmp_path, "one line")
    assert journal.begin(tmp_path, spec) == []
    assert (tmp_path / journal.NAME).read_text().endswith("one line\n")


# ------------------------------------------------------------------ whose directory


def test_a_directory_is_claimed_again_once_its_run_is_over(tmp_path: Path) -> None:
    living = {"a-1"}
    journal.claim(tmp_path, "a-1", lambda run: run in living)
    journal.claim(tmp_path, "a-1", lambda run: run in living)  # by itself: repeating is fine
    with pytest.raises(ConflictError, match="belongs to the run a-1, which is still alive") as caught:
        journal.claim(tmp_path, "b-2", lambda run: run in living)
    assert (caught.value.exit_code, caught.value.fix) == (5, "autoresearch wait a-1")
    living.clear()
    journal.claim(tmp_path, "b-2", lambda run: run in living)
    living.add("b-2")
    with pytest.raises(ConflictError, match="b-2"):
        journal.claim(tmp_path, "a-1", lambda run: run in living)


@pytest.mark.parametrize("text", ["", "{", "null", "nonsense", '{"run": "x"}'])
def test_a_damaged_claim_holds_nobody_off(tmp_path: Path, text: str) -> None:
    (tmp_path / journal.OWNER).write_text(text)
    journal.claim(tmp_path, "a-1", lambda run: True)
    assert '"a-1"' in (tmp_path / journal.OWNER).read_text()


@pytest.mark.system
def test_a_run_that_nobody_knows_yet_is_alive_while_its_launcher_is(tmp_path: Path) -> None:
    done, go_on = os.pipe()
    ready, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(go_on)
            journal.claim(tmp_path, "a-1", lambda run: None)
            os.write(tell, b"x")
            os.read(done, 1)
        finally:
            os._exit(0)
    os.read(ready, 1)
    try:
        with pytest.raises(ConflictError, match="a-1"):
            journal.claim(tmp_path, "b-2", lambda run: None)
        os.write(go_on, b"x")
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        journal.claim(tmp_path, "b-2", lambda run: None)  # dead, though nobody has reaped it yet
    finally:
        for fd in (go_on, done, ready, tell):  # the end of the pipe lets it go as a byte does
            os.close(fd)
        os.waitpid(pid, 0)
    journal.claim(tmp_path, "c-3", lambda run: None)  # the same process launches one after the other


# ------------------------------------------------------------------ finish.flag

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
    forked: Forked,
    dying: Dying,
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
