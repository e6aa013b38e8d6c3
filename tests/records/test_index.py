"""The index: any run, from anywhere, by any of its names; and names are only compared."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from autoresearch.errors import EnvironmentUnusable
from autoresearch.records import index as module
from autoresearch.records.index import Index, IndexEntry, state_home


def entry(n: int = 1, *, slug: str = "sort", **values: str) -> IndexEntry:
    token = f"{n:06d}"
    made = IndexEntry(
        run=f"{slug}-{token}",
        slug=slug,
        session=f"ajet_{slug}_{token}",
        run_dir=f"/repo/reports/{slug}-{n}",
        result_dir=f"/out/{slug}",
        blueprint=f"/b/{slug}.md",
        blueprint_sha="sha",
        created=1000.0 + n,
        project="/repo",
    )
    return replace(made, **values)  # type: ignore[arg-type]


@pytest.fixture
def index(tmp_path: Path) -> Index:
    return Index(tmp_path / "state")


def test_an_index_that_is_not_there_is_empty_and_stays_so(index: Index) -> None:
    assert (index.live(), index.by_slug("x"), index.by_directory("x"), index.recent(5)) == ([], [], [], [])
    assert index.by_id("x-000001") is None
    index.discard_live("sort-000001")
    assert index.find_live_by_blueprint("/b/sort.md", "sha") == []
    assert not index.directory.exists()


def test_a_run_answers_to_all_its_names(index: Index, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    out = tmp_path / "some" / "out put ü"
    out.mkdir(parents=True)
    (tmp_path / "link").symlink_to(out)
    run = entry(2, result_dir=str(out), run_dir=str(tmp_path / "runs" / "sort"))
    for one in (entry(1), run, entry(3, slug="other")):
        index.add(one)
    monkeypatch.chdir(tmp_path)
    for name in (
        str(out),
        str(out) + "/",
        "some/out put ü",
        "./some/../some/out put ü",
        "link",
        run.run_dir,
        "runs/sort",
    ):
        assert index.by_directory(name) == [run], name
    assert index.by_id(run.run) == index.by_id(run.session) == run
    assert index.by_slug("sort") == [run, entry(1)]
    assert index.recent(2) == [entry(3, slug="other"), run]
    monkeypatch.chdir(out)
    assert index.by_directory(".") == [run]


def test_a_slug_and_the_newest_are_those_of_a_project(index: Index) -> None:
    ours, theirs, typed = entry(1), entry(2, project="/other"), entry(3, project="/other", started_in="/repo")
    old = entry(4, project="")  # of an older version
    for one in (ours, theirs, typed, old):
        index.add(one)
    assert index.by_slug("sort", "/repo") == index.recent(9, "/repo") == [typed, ours]
    assert index.recent(1, "/other") == [typed]
    assert index.by_slug("sort", "/nowhere") == index.recent(9, "/rep") == []
    assert [index.by_id(one.run) for one in (theirs, old)] == [theirs, old]


NOBODY = ("", "..", "../x", "a\nb", "a\0b", "x" * 10_000, "ort-0", '","run":"', "sort\n", "\udcff", "last ", "/repo")


@pytest.mark.parametrize("name", NOBODY)
def test_a_name_that_nothing_answers_to_is_plainly_not_found(index: Index, name: str) -> None:
    for n in range(3):
        index.add(entry(n))
    before = sorted(str(p) for p in index.directory.rglob("*"))
    assert (index.by_id(name), index.by_slug(name), index.by_directory(name)) == (None, [], [])
    index.discard_live(name)
    assert sorted(str(p) for p in index.directory.rglob("*")) == before
    assert len(index.live()) == 3


def test_a_run_id_that_is_none_is_never_entered(index: Index) -> None:
    for run in ("../x", "", "a/b", "A", "x\n"):
        with pytest.raises(ValueError, match="not a run id"):
            index.add(entry(run=run))
    assert not index.directory.exists()


def test_living_runs_live_until_they_are_collected_and_are_found_by_their_blueprint(index: Index) -> None:
    for one in (entry(3), entry(1), entry(2, blueprint_sha="edited"), entry(4, slug="other")):
        index.add(one)
    assert [e.created for e in index.live()] == [1001.0, 1002.0, 1003.0, 1004.0]
    assert index.find_live_by_blueprint("/b/sort.md", "sha") == [entry(3), entry(1)]
    for _ in range(2):
        index.discard_live("sort-000003")
    assert index.find_live_by_blueprint("/b/sort.md", "sha") == [entry(1)]
    assert index.find_live_by_blueprint("/b/sort.md", "else") == []
    assert index.by_id("sort-000003") == entry(3)


def test_what_is_no_entry_is_passed_over(index: Index) -> None:
    index.add(entry(1))
    with index.runs.open("ab") as file:
        file.write(b'\n[]\nnull\n{"run": "sort-x"}\n\xff\0\n{"run": "sort-000009", "sl')
    index.add(entry(2))
    for name, data in (("sort-x", b"{"), (".sort-y.1.tmp", b"x"), ("UPPER", b"{}")):
        (index.directory / "live" / name).write_bytes(data)
    assert index.recent(9) == index.by_slug("sort") == [entry(2), entry(1)]
    assert index.live() == [entry(1), entry(2)]
    assert index.by_id("sort-x") is None


def test_a_run_that_was_entered_twice_is_one_and_newer_keys_are_ignored(index: Index) -> None:
    index.add(entry(1, project="/old"))
    index.add(entry(1))
    assert index.by_slug("sort") == index.recent(5) == index.live() == [index.by_id("sort-000001")] == [entry(1)]
    index.runs.write_bytes(index.runs.read_bytes().replace(b'{"run"', b'{"new": 1, "run"'))
    (index.directory / "live" / "sort-000001").unlink()
    assert index.by_id("sort-000001") == entry(1)


@pytest.mark.system
@pytest.mark.parametrize("after", [False, True])
def test_killed_at_every_call_a_launched_run_is_never_lost(
    index: Index,
    forked: Callable[[Callable[[], object]], int],
    dying: Callable[[Callable[[], object], int, bool], Callable[[], None]],
    after: bool,
) -> None:
    """A run that `find` knows is one that `live` knew first: all that is listed can be adopted."""
    points = 0
    for n in range(1, 60):
        code = forked(dying(lambda n=n: index.add(entry(n)), n, after))
        if code == 0:
            break
        assert code == -signal.SIGKILL
        points += 1
        assert {e.run for e in index.recent(100)} <= {e.run for e in index.live()}
    assert points >= 6


def test_an_unusable_place_says_what_to_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    index = Index(tmp_path / "file" / "state")
    for work in (
        lambda: index.add(entry()),
        lambda: index.launch_lock("k").__enter__(),
        index.live,
        lambda: index.by_slug("x"),
    ):
        with pytest.raises(EnvironmentUnusable, match=r"file/state cannot be used: Not a directory") as caught:
            work()
        assert "XDG_STATE_HOME" in caught.value.hint

    with pytest.raises(EnvironmentUnusable, match="No space") as caught, module.state_usable(tmp_path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert caught.value.hint.startswith("free some space, or set XDG_STATE_HOME")

    def denied(*_: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "read_bytes", denied)
    with pytest.raises(EnvironmentUnusable, match="Permission denied"):
        Index(tmp_path / "state").by_slug("x")  # a sandbox must not look like an account without runs


@pytest.mark.parametrize(
    ("environ", "path"),
    [
        ({"XDG_STATE_HOME": "/s", "HOME": "/h"}, "/s/autoresearch"),
        ({"XDG_STATE_HOME": "relative", "HOME": "/h"}, "/h/.local/state/autoresearch"),
        ({"XDG_STATE_HOME": "", "HOME": "/h"}, "/h/.local/state/autoresearch"),
        ({"HOME": "/h"}, "/h/.local/state/autoresearch"),
    ],
)
def test_where_it_lies(environ: dict[str, str], path: str) -> None:
    assert str(state_home(environ)) == path and str(Index(environ=environ).directory) == path
