"""The ledger as it is written and as people leave it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from autoresearch.core.run.ledger_row import COLUMNS, NEMO_COLUMNS, LedgerRow
from autoresearch.errors import ConflictError, EnvironmentUnusable
from autoresearch.records import ledger as module
from autoresearch.records import lines, tsv
from autoresearch.records.ledger import Ledger

MakeRow = Callable[..., LedgerRow]


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "campaign" / "results.tsv")


def test_a_new_ledger_has_a_header_and_is_empty_before(ledger: Ledger, row: MakeRow) -> None:
    assert (list(ledger.rows()), ledger.tail(5), ledger.header(), ledger.next_index()) == ([], [], (), 1)
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


def test_a_row_without_a_run_id_is_refused(ledger: Ledger, row: MakeRow) -> None:
    with pytest.raises(ValueError, match="run id"):
        ledger.append_once(row(""))


def test_evil_strings_come_back_and_pandas_agrees(ledger: Ledger, row: MakeRow, evil: tuple[str, ...]) -> None:
    import pandas

    rows = [row(f"r-{n}", description=e, command=e[::-1], failure=e) for n, e in enumerate(evil)]
    assert all(ledger.append_once(r) for r in rows)
    assert list(ledger.rows()) == rows
    assert ledger.tail(len(rows)) == rows
    assert ledger.path.read_bytes().count(b"\n") == len(rows) + 1
    table = pandas.read_csv(ledger.path, sep="\t", dtype=str, quoting=3, keep_default_na=False)
    assert tuple(table.columns) == COLUMNS
    assert len(table) == len(rows)
    assert [tsv.unescape(cell) for cell in table["description"]] == list(evil)


def test_tail_reads_from_the_end_over_block_edges(
    ledger: Ledger, row: MakeRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [row(f"r-{n}", index=n, description="d" * (n * 7 % 300)) for n in range(1, 60)]
    for r in rows:
        ledger.append_once(r)
    for block in (1, 7, 64, 1000, 1 << 18):
        monkeypatch.setattr(lines, "BLOCK", block)
        for count in (0, 1, 5, 59, 100):
            assert ledger.tail(count) == (rows[-count:] if count else [])
        assert list(ledger.rows()) == rows
        assert ledger.find("r-31") == [rows[30]]
        assert ledger.next_index() == 60


def test_tail_does_not_read_the_whole_file(ledger: Ledger, row: MakeRow, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger.append_once(row("r-0"))
    body = ledger.path.read_bytes().splitlines(keepends=True)[1]
    with ledger.path.open("ab") as file:
        file.write(body * 20_000)
    read = [0]
    real = lines.os.pread

    def counted(fd: int, size: int, offset: int) -> bytes:
        data = real(fd, size, offset)
        read[0] += len(data)
        return data

    monkeypatch.setattr(lines.os, "pread", counted)
    assert len(ledger.tail(50)) == 50
    assert read[0] < 2_000_000 < ledger.path.stat().st_size


def test_the_next_index_is_above_the_highest_not_the_last(ledger: Ledger, row: MakeRow) -> None:
    for n, index in enumerate((1, 7, 2)):
        ledger.append_once(row(f"r-{n}", index=index))
    assert ledger.next_index() == 8


# ------------------------------------------------------------------ hands


def write(ledger: Ledger, text: str) -> None:
    ledger.path.parent.mkdir(parents=True, exist_ok=True)
    ledger.path.write_bytes(text.encode())


def edited(ledger: Ledger, row: MakeRow, edit: Callable[[list[str]], list[str]]) -> None:
    ledger.append_once(row("r-1", index=1))
    ledger.append_once(row("r-2", index=2))
    write(ledger, "".join(edit(ledger.path.read_text().splitlines(keepends=True))))


def test_an_extra_column_is_kept_and_left_empty_in_new_rows(ledger: Ledger, row: MakeRow) -> None:
    edited(ledger, row, lambda ls: [line.rstrip("\n") + f"\tnote{i}\n" for i, line in enumerate(ls)])
    assert ledger.append_once(row("r-3"))
    assert [r["note0"] for r in ledger.records()] == ["note1", "note2", ""]
    assert list(ledger.rows()) == [row("r-1", index=1), row("r-2", index=2), row("r-3")]


def test_a_second_header_with_other_columns_is_no_row(ledger: Ledger, row: MakeRow) -> None:
    ledger.append_once(row("a-1"))
    first, *rest = ledger.path.read_text().splitlines()
    ledger.path.write_text("\n".join([f"{first}\tremark", first, *rest]) + "\n")
    assert [r.run_id for r in ledger.rows()] == [r.run_id for r in ledger.tail(9)] == ["a-1"]


def test_columns_moved_behind_the_fifteen_are_followed(ledger: Ledger, row: MakeRow) -> None:
    def move(ls: list[str]) -> list[str]:
        cells = [line.rstrip("\n").split("\t") for line in ls]
        return ["\t".join([*c[:15], *reversed(c[15:])]) + "\n" for c in cells]

    edited(ledger, row, move)
    assert ledger.append_once(row("r-2")) is False
    assert ledger.append_once(row("r-3")) is True
    assert [r.run_id for r in ledger.rows()] == ["r-1", "r-2", "r-3"]
    assert ledger.tail(1) == [row("r-3")]


def test_missing_columns_of_ours_are_empty(ledger: Ledger, row: MakeRow) -> None:
    edited(ledger, row, lambda ls: ["\t".join(line.rstrip("\n").split("\t")[:17]) + "\n" for line in ls])
    assert ledger.append_once(row("r-3"))
    assert ledger.path.read_text().splitlines()[-1].count("\t") == 16
    assert [(r.run_id, r.ending, r.schema) for r in ledger.rows()] == [(f"r-{n}", "", None) for n in (1, 2, 3)]


def test_windows_line_ends_blank_lines_a_bom_and_short_rows(ledger: Ledger, row: MakeRow) -> None:
    edited(
        ledger,
        row,
        lambda ls: [
            "\ufeff" + ls[0],
            "\n",
            *(line.replace("\n", "\r\n") for line in ls[1:]),
            "\r\n",
            "9\tb\n",
        ],
    )
    assert [r.index for r in ledger.rows()] == [1, 2, 9]
    assert [r.schema for r in ledger.rows()] == [1, 1, None]
    assert ledger.append_once(row("r-2")) is False
    assert ledger.append_once(row("r-3")) is True
    assert ledger.tail(1) == [row("r-3")]


def test_a_windows_header_is_understood(ledger: Ledger, row: MakeRow) -> None:
    edited(ledger, row, lambda ls: [line.replace("\n", "\r\n") for line in ls])
    assert ledger.header() == COLUMNS
    assert ledger.append_once(row("r-3"))
    assert list(ledger.rows())[-1] == row("r-3")


def test_duplicate_ids_and_joined_ledgers_are_read(ledger: Ledger, row: MakeRow) -> None:
    edited(ledger, row, lambda ls: [*ls, *ls])
    assert [r.run_id for r in ledger.rows()] == ["r-1", "r-2", "r-1", "r-2"]
    assert len(ledger.find("r-1")) == 2
    assert ledger.next_index() == 3


def test_a_header_that_is_not_ours_is_refused_with_a_sentence(ledger: Ledger, row: MakeRow) -> None:
    for text in (
        "a\tb\n1\t2\n",
        "just a note\n",
        "no end",
        "index\tbranches",
        "a\tb\n1\t2",
        "\n",
        "index\tcommit\n",
        "commit\tindex" + "\tx" * 20 + "\n",
    ):
        write(ledger, text)
        with pytest.raises(
            ConflictError, match=r"results\.tsv is not a ledger of runs: column \d+ should be"
        ) as caught:
            ledger.append_once(row())
        assert caught.value.exit_code == 5
        assert ledger.path.read_text() == text


def test_a_ledger_that_cannot_be_read_gives_one_sentence(ledger: Ledger) -> None:
    ledger.path.mkdir(parents=True)
    for look in (
        lambda: list(ledger.rows()),
        lambda: ledger.tail(1),
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


def test_a_newer_schema_keeps_its_columns(ledger: Ledger, row: MakeRow) -> None:
    write(ledger, "\t".join([*COLUMNS, "carbon_kg"]) + "\n")
    assert ledger.append_once(row("r-1"))
    assert ledger.header()[-1] == "carbon_kg"
    assert list(ledger.rows()) == [row("r-1")]


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


def test_every_cut_of_the_header_is_mended(ledger: Ledger, row: MakeRow, no_fsync: None) -> None:
    ledger.append_once(row("r-1"))
    whole = ledger.path.read_bytes()
    for cut in range(whole.index(b"\n") + 1):
        ledger.path.write_bytes(whole[:cut])
        assert list(ledger.rows()) == []
        assert ledger.append_once(row("r-1")) is True
        assert ledger.path.read_bytes() == whole, cut


def test_a_last_line_that_an_editor_did_not_end_is_ended_not_lost(ledger: Ledger, row: MakeRow) -> None:
    edited(ledger, row, lambda ls: [*ls[:-1], ls[-1].rstrip("\n")])
    assert [r.run_id for r in ledger.rows()] == ["r-1", "r-2"]
    assert ledger.append_once(row("r-2")) is False
    assert ledger.append_once(row("r-3")) is True
    assert [r.run_id for r in ledger.rows()] == ["r-1", "r-2", "r-3"]
    assert not ledger.path.with_name("results.tsv.torn").exists()


@pytest.mark.parametrize("tail", [b"\0" * 700, b"r\0\0", b"\0\0\n", b"5\tb\tc\0\0\n"])
def test_a_tail_of_nul_bytes_is_set_aside(ledger: Ledger, row: MakeRow, tail: bytes) -> None:
    ledger.append_once(row("r-1"))
    whole = ledger.path.read_bytes()
    ledger.path.write_bytes(whole + tail)
    assert list(ledger.rows()) == ledger.tail(3) == [row("r-1")]
    ledger.append_once(row("r-2"))
    assert list(ledger.rows()) == [row("r-1"), row("r-2")]
    assert b"\0" not in ledger.path.read_bytes()
    assert ledger.path.with_name("results.tsv.torn").read_bytes().endswith(tail.removesuffix(b"\n") + b"\n")


def test_torn_tails_are_collected_never_overwritten(ledger: Ledger, row: MakeRow) -> None:
    for n in range(3):
        ledger.append_once(row(f"r-{n}"))
        with ledger.path.open("ab") as file:
            file.write(b"half %d" % n)
    ledger.append_once(row("r-9"))
    kept = ledger.path.with_name("results.tsv.torn").read_text()
    assert [f"half {n}" in kept for n in range(3)] == [True] * 3


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
    later = ("run_urls", "agent_usd", "agent_tokens", "flags", "sandbox", "seed_by", "standing")
    old = tuple(name for name in COLUMNS if name not in later)
    path = tmp_path / "results.tsv"
    first = LedgerRow(index=1, run_id="r-1", metric_value=0.5).cells()
    path.write_bytes(tsv.join(old) + tsv.join(first[name] for name in old).rstrip(b"\n"))  # an editor took the end off
    ledger = Ledger(path)
    assert ledger.append_once(LedgerRow(index=2, run_id="r-2", run_urls="https://wandb.ai/a/b/runs/c1d2"))
    assert [(row.run_id, row.run_urls, row.schema) for row in ledger.rows()] == [("r-1", "", 1), ("r-2", "", 1)]
    assert ledger.header() == old and not ledger.path.with_name("results.tsv.torn").exists()
    fresh = Ledger(tmp_path / "new.tsv")
    fresh.append_once(LedgerRow(index=1, run_id="r-1", run_urls="https://wandb.ai/a/b/runs/c1d2"))
    assert fresh.header()[-len(later) - 1 :] == (*later, "schema")
    assert next(fresh.rows()).run_urls == "https://wandb.ai/a/b/runs/c1d2"
