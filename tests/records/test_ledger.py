"""The ledger as it is written and as people leave it."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from autoresearch.core.run.ledger_row import COLUMNS, NEMO_COLUMNS, LedgerRow
from autoresearch.errors import ConflictError, EnvironmentUnusable
from autoresearch.records import ledger as module
from autoresearch.records.ledger import Ledger, escape, join, split, unescape

MakeRow = Callable[..., LedgerRow]


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "campaign" / "results.tsv")


def test_a_new_ledger_has_a_header_and_is_empty_before(ledger: Ledger, row: MakeRow) -> None:
    assert (list(ledger.rows()), ledger.newest(5), ledger.header(), ledger.next_index()) == ([], ([], 0), (), 1)
    assert ledger.find("sort-aaaaaa") == []
    assert not ledger.path.exists()
    assert ledger.append_once(row()) is True
    assert ledger.path.read_bytes().startswith(b"index\tbranch\tparent_commit\tcommit\trecipe\t")
    assert ledger.header() == COLUMNS
    assert list(ledger.rows()) == [row()]


def test_a_run_has_one_row_however_often_it_is_appended(ledger: Ledger, row: MakeRow) -> None:
    assert [ledger.append_once(row("a-1")), ledger.append_once(row("a-1", status="crash"))] == [True, False]
    assert ledger.append_once(row("a-11")) is True  # not a prefix of another id
    assert ledger.append_once(row("b-2", description="about a-3", command="a-3")) is True
    assert ledger.append_once(row("a-3")) is True  # nor a word in another column
    assert [r.run_id for r in ledger.rows()] == ["a-1", "a-11", "b-2", "a-3"]
    assert [r.status for r in ledger.find("a-1")] == ["keep"]


def test_evil_strings_come_back_and_pandas_agrees(ledger: Ledger, row: MakeRow, evil: tuple[str, ...]) -> None:
    import pandas

    rows = [row(f"r-{n}", description=e, command=e[::-1], failure=e) for n, e in enumerate(evil)]
    assert all(ledger.append_once(r) for r in rows)
    assert list(ledger.rows()) == rows
    assert [*ledger.rows()] == rows
    assert ledger.path.read_bytes().count(b"\n") == len(rows) + 1
    table = pandas.read_csv(ledger.path, sep="\t", dtype=str, quoting=3, keep_default_na=False)
    assert tuple(table.columns) == COLUMNS
    assert len(table) == len(rows)
    assert [unescape(cell) for cell in table["description"]] == list(evil)


# ------------------------------------------------------------------ hands


def moved(whole: list[str]) -> list[str]:
    cells = [line.rstrip("\n").split("\t") for line in whole]
    return ["\t".join([*c[:15], *reversed(c[15:])]) + "\n" for c in cells]


Edit = Callable[[list[str]], list[str]]
HANDS: dict[str, Edit] = {
    "an extra column": lambda ls: [line.rstrip("\n") + f"\tnote{i}\n" for i, line in enumerate(ls)],
    "columns moved behind the fifteen": moved,
    "columns of ours missing": lambda ls: ["\t".join(line.rstrip("\n").split("\t")[:17]) + "\n" for line in ls],
    "Windows": lambda ls: [line.replace("\n", "\r\n") for line in ls],
    "a BOM and blank lines": lambda ls: ["\ufeff" + ls[0], "\n", *ls[1:], "\r\n"],
    "two ledgers joined": lambda ls: [*ls, *ls],
    "a second header, with fewer columns": lambda ls: [ls[0].replace("\n", "\tremark\n"), *ls],
    "a last line that an editor did not end": lambda ls: [*ls[:-1], ls[-1].rstrip("\n")],
}


def write(ledger: Ledger, text: str) -> None:
    ledger.path.parent.mkdir(parents=True, exist_ok=True)
    ledger.path.write_bytes(text.encode())


def edited(ledger: Ledger, row: MakeRow, edit: Edit) -> None:
    ledger.append_once(row("r-1", index=1))
    ledger.append_once(row("r-2", index=2))
    write(ledger, "".join(edit(ledger.path.read_text().splitlines(keepends=True))))


@pytest.mark.parametrize("edit", HANDS.values(), ids=HANDS)
def test_what_people_do_to_a_ledger_loses_nothing(ledger: Ledger, row: MakeRow, edit: Edit) -> None:
    edited(ledger, row, edit)
    runs = [r.run_id for r in ledger.rows()]
    assert list(dict.fromkeys(runs)) == ["r-1", "r-2"]
    assert (ledger.next_index(), len(ledger.find("r-1"))) == (3, runs.count("r-1"))
    assert [ledger.append_once(row(run, index=9)) for run in ("r-2", "r-3")] == [False, True]
    assert [(r.run_id, r.index) for r in ledger.rows()][-1] == ("r-3", 9)
    assert not ledger.path.with_name("results.tsv.torn").exists()


def test_columns_of_others_stay_and_those_that_are_not_there_are_empty(ledger: Ledger, row: MakeRow) -> None:
    edited(ledger, row, HANDS["an extra column"])
    ledger.append_once(row("r-3"))
    assert [r["note0"] for r in ledger.records()] == ["note1", "note2", ""]
    edited(ledger, row, HANDS["columns of ours missing"])
    ledger.append_once(row("r-4"))
    assert ledger.path.read_text().splitlines()[-1].count("\t") == 16
    assert [(r.ending, r.schema) for r in ledger.rows()] == [("", None)] * 4
    write(ledger, ledger.path.read_text() + "9\tb\n")
    assert [*ledger.rows()][-1].index == 9


def test_a_header_that_is_not_ours_is_refused_with_a_sentence(ledger: Ledger, row: MakeRow) -> None:
    for text in ("just a note\n", "no end", "index\tbranches", "\n", "commit\tindex" + "\tx" * 20 + "\n"):
        write(ledger, text)
        with pytest.raises(ConflictError, match=r"tsv is not a ledger of runs: column \d+ should be") as caught:
            ledger.append_once(row())
        assert caught.value.exit_code == 5
        assert ledger.path.read_text() == text


def test_a_ledger_that_cannot_be_read_gives_one_sentence(ledger: Ledger) -> None:
    ledger.path.mkdir(parents=True)
    for look in (
        lambda: list(ledger.rows()),
        lambda: ledger.newest(1),
        ledger.next_index,
        lambda: ledger.find("a"),
    ):
        with pytest.raises(EnvironmentUnusable, match="cannot be read: Is a directory"):
            look()


def test_a_ledger_without_run_ids_is_read_but_not_written(ledger: Ledger, row: MakeRow) -> None:
    write(ledger, "\t".join(NEMO_COLUMNS) + "\n3\tmain" + "\t" * 12 + "keep\tby hand\n")
    assert [(r.index, r.status, r.description) for r in ledger.rows()] == [(3, "keep", "by hand")]
    with pytest.raises(ConflictError, match="no column `run_id`"):
        ledger.append_once(row())


# ------------------------------------------------------------------ torn tails


@pytest.fixture
def no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of them would only tell how fast the disk is."""
    monkeypatch.setattr(module.os, "fsync", lambda fd: None)


def test_every_cut_of_the_last_row_is_mended(ledger: Ledger, row: MakeRow, no_fsync: None) -> None:
    """kill -9 in the middle of a write, at every byte of it."""
    ledger.append_once(row("r-1"))
    ledger.append_once(row("r-2", description="zwei\tübrig"))
    whole = ledger.path.read_bytes()
    start = whole.index(b"\n", whole.index(b"\n") + 1) + 1
    torn = ledger.path.with_name("results.tsv.torn")
    for cut in range(start, len(whole)):
        ledger.path.write_bytes(whole[:cut])
        torn.unlink(missing_ok=True)
        assert [r.run_id for r in ledger.rows()][:1] == ["r-1"]
        ledger.append_once(row("r-2", description="zwei\tübrig"))
        assert ledger.path.read_bytes() == whole, cut
        if start < cut < len(whole) - 1:
            stamp, tail = torn.read_bytes().split(b"\n", 1)
            assert stamp.endswith(b"torn tail of %d bytes" % (cut - start))
            assert tail == whole[start:cut] + b"\n"
        else:
            assert not torn.exists()


def test_a_header_that_was_cut_is_mended(ledger: Ledger, row: MakeRow, no_fsync: None) -> None:
    ledger.append_once(row("r-1"))
    whole = ledger.path.read_bytes()
    for cut in range(0, whole.index(b"\n") + 1, 3):
        ledger.path.write_bytes(whole[:cut])
        assert list(ledger.rows()) == []
        assert ledger.append_once(row("r-1")) is True
        assert ledger.path.read_bytes() == whole, cut


@pytest.mark.parametrize("tail", [b"\0" * 700, b"r\0\0", b"\0\0\n", b"5\tb\tc\0\0\n"])
def test_a_tail_of_nul_bytes_is_set_aside(ledger: Ledger, row: MakeRow, tail: bytes) -> None:
    ledger.append_once(row("r-1"))
    whole = ledger.path.read_bytes()
    ledger.path.write_bytes(whole + tail)
    assert list(ledger.rows()) == [row("r-1")] and ledger.newest(3) == ([*ledger.records()], 1)
    ledger.append_once(row("r-2"))
    assert list(ledger.rows()) == [row("r-1"), row("r-2")]
    assert b"\0" not in ledger.path.read_bytes()
    assert ledger.path.with_name("results.tsv.torn").read_bytes().endswith(tail.removesuffix(b"\n") + b"\n")


def test_an_editor_that_saves_by_renaming_is_followed(
    ledger: Ledger, row: MakeRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.append_once(row("r-1"))
    real, copied = module.hold_lock, []

    def hold(fd: int, path: Path) -> None:
        if not copied:  # the editor saves while we wait for the lock
            copied.append(1)
            saved = ledger.path.with_name("saved")
            saved.write_bytes(ledger.path.read_bytes())
            saved.replace(ledger.path)
        real(fd, path)

    monkeypatch.setattr(module, "hold_lock", hold)
    assert ledger.append_once(row("r-2"))
    assert [r.run_id for r in ledger.rows()] == ["r-1", "r-2"]


def test_a_ledger_from_before_a_column_was_added_goes_on(tmp_path: Path) -> None:
    later = (
        *("run_urls", "agent_usd", "agent_tokens", "agent", "flags", "sandbox", "seed_by", "standing", "constraints"),
        "reason",
    )
    old = tuple(name for name in COLUMNS if name not in later)
    path = tmp_path / "results.tsv"
    first = LedgerRow(index=1, run_id="r-1", metric_value=0.5).cells()
    path.write_bytes(join(old) + join(first[name] for name in old).rstrip(b"\n"))  # an editor took the end off
    ledger = Ledger(path)
    assert ledger.append_once(LedgerRow(index=2, run_id="r-2", run_urls="https://wandb.ai/a/b/runs/c1d2"))
    assert [(row.run_id, row.run_urls, row.schema) for row in ledger.rows()] == [("r-1", "", 1), ("r-2", "", 1)]
    assert ledger.header() == old and not ledger.path.with_name("results.tsv.torn").exists()
    fresh = Ledger(tmp_path / "new.tsv")
    fresh.append_once(LedgerRow(index=1, run_id="r-1", run_urls="https://wandb.ai/a/b/runs/c1d2"))
    assert fresh.header()[-len(later) - 1 :] == (*later, "schema")
    assert next(fresh.rows()).run_urls == "https://wandb.ai/a/b/runs/c1d2"


def test_random_strings_survive() -> None:
    dice = random.Random(7)
    alphabet = "\\\\\\tnr0u\t\n\r\0 d800xé\udc80\ud83d\ude00🎉"
    for _ in range(3000):
        cells = ["".join(dice.choices(alphabet, k=dice.randrange(9))) for _ in range(dice.randrange(1, 5))]
        line = join(cells)
        assert split(line) == cells
        assert line.count(b"\n") == 1


@pytest.mark.parametrize(
    ("text", "cell"),
    [("a\tb", "a\\tb"), ("a\\b", "a\\\\b"), ("a\nb\rc\0", "a\\nb\\rc\\0"), ("\udcff", "\\udcff")],
)
def test_how_cells_look(text: str, cell: str) -> None:
    assert escape(text) == cell


@pytest.mark.parametrize("cell", ["C:\\Users", "50\\%", "\\", "a\\", "\\u00e9", "\\x"])
def test_an_escape_that_is_none_stays(cell: str) -> None:
    assert unescape(cell) == cell


@pytest.mark.parametrize("line", [b"a\tb", b"a\tb\n", b"a\tb\r\n", b"a\tb\r"])
def test_unix_and_windows_line_ends_and_damaged_utf8(line: bytes) -> None:
    assert split(line) == ["a", "b"]
    assert split(b"\xff" + line) == ["\ufffda", "b"]
