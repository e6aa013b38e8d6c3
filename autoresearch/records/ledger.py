r"""The ledger: an append-only TSV of runs that survives kills, full disks, other writers and hand edits.

Writing: the TSV itself is locked (flock), a torn tail is moved to `<ledger>.torn`, and a row is one O_APPEND write
followed by fsync; a short write is truncated again. Only the ledger of a campaign is ever rewritten, where it is not as
the campaign's record has it (`show`), and no line is lost then.
Reading takes no lock and never writes: a last line without a newline is a row that is being written, or whose writer
was killed.

Users edit ledgers: columns may be added or moved, line ends may be Windows', lines may be blank. Rows are written in
the file's own column order; values without a column are only in the run directory.

A line is always one record, whatever its cells contain, so that grep, awk, cut and `read_csv(sep="\t", quoting=3)`
agree about where cells begin: there is no quoting (csv's mangled 19 of 21 malicious strings), but backslash escapes:

    backslash \\    tab \t    newline \n    carriage return \r    NUL \0    lone surrogate \uXXXX

The last stands for a byte of a file name that is not UTF-8; the ledger itself is always UTF-8.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from autoresearch.core.run.ledger_row import COLUMNS, NEMO_COLUMNS, LedgerRow, integer
from autoresearch.core.text.regex import later
from autoresearch.errors import ConflictError
from autoresearch.records.files import append_line, hold_lock, lines_from, reading, sync_directory, unwritable
from autoresearch.records.hostile import write_atomically
from autoresearch.runner.masking import clean_text

HEADER_MAX = 1 << 16  # bytes; a first line without a newline within them is not a header
_ESCAPED = later(r"[\\\t\n\r\0\ud800-\udfff]")
_ESCAPE = later(r"\\(?:u(d[89a-f][0-9a-f]{2})|(.))", re.DOTALL)
_LETTERS = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\0": "\\0"}
_MEANING = {"\\": "\\", "t": "\t", "n": "\n", "r": "\r", "0": "\0"}


class Ledger:
    """The runs recorded in one TSV file, which need not exist yet."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append_once(self, row: LedgerRow) -> bool:
        """Add a row unless its run id has one; returns whether it was added. Safe to repeat after any kill.

        Raises ConflictError if the file is not an autoresearch ledger, EnvironmentUnusable if it cannot be written.
        """
        if not row.run_id:
            raise ValueError("a row without a run id could be written twice")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with _locked(self.path) as fd:
                self._check(fd)
                _mend_tail(fd, self.path)
                header = _header(fd)
                if self.holds(row.run_id):
                    return False
                self._write(fd, header, row)
        except OSError as error:
            raise unwritable(self.path, error) from error
        return True

    def show(self, recorded: Callable[[], Iterable[LedgerRow]]) -> bool:
        """Make these the rows of the ledger; returns whether it had others.

        Where only a last part of them lacks, it is appended. Else the file is written anew, and as it was it goes to
        `<ledger>.edited`. Added columns, and numbers written differently, are no change.
        """
        theirs, ours = self._beside(recorded)
        if theirs != ours[: len(theirs)]:  # where secrets were masked meanwhile: to look for them takes a while
            theirs, ours = ([_masked(cells) for cells in rows] for rows in (theirs, ours))
        if theirs == ours[: len(theirs)]:
            for cells in ours[len(theirs) :]:
                self.append_once(LedgerRow.from_cells(cells))
            return False
        try:
            with _locked(self.path) as fd:
                theirs, ours = ([_masked(cells) for cells in rows] for rows in self._beside(recorded))
                _put_aside(self.path, "edited", b"".join(lines_from(fd)))
                write_atomically(self.path, b"".join([join(COLUMNS), *(_line(COLUMNS, cells) for cells in ours)]))
        except OSError as error:
            raise unwritable(self.path, error) from error
        return len(theirs) > len(ours) or any(cells not in ours for cells in theirs)

    def _beside(self, recorded: Callable[[], Iterable[LedgerRow]]) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
        """The rows of the file and those that it should have; a column that it lacks counts as it should be."""
        header, theirs = self.header(), [row.cells() for row in self.rows()]
        ours = [row.cells() for row in recorded()]  # after them: a row is recorded, without secrets, before it is shown
        if header and (header[: len(NEMO_COLUMNS)] != NEMO_COLUMNS or "run_id" not in header):
            return [{}], ours
        lacking = [name for name in COLUMNS if name not in header]
        for cells, own in zip(theirs, ours, strict=False):
            cells.update((name, own[name]) for name in lacking)
        return theirs, ours

    def _check(self, fd: int) -> None:
        """Raise ConflictError for a file that is not an autoresearch ledger, before anything in it is repaired."""
        header = _header(fd) or _torn_header(fd)
        if not header:
            return
        if header[: len(NEMO_COLUMNS)] != NEMO_COLUMNS:
            wrong = next(i for i, name in enumerate(NEMO_COLUMNS) if header[i : i + 1] != (name,))
            found = f"{header[wrong][:40]!r}" if wrong < len(header) else "nothing"
            raise ConflictError(
                f"{self.path} is not a ledger of runs: column {wrong + 1} should be "
                f"{NEMO_COLUMNS[wrong]!r} and is {found}",
                hint="a ledger begins with NeMo-RL's fifteen columns: move it aside or mend its first line",
                code="foreign_ledger",
            )
        if "run_id" not in header:
            raise ConflictError(
                f"{self.path} has no column `run_id`: a row could be written twice",
                hint="it was written by another program; move it aside, a new ledger is begun in its place",
                code="foreign_ledger",
            )

    def _write(self, fd: int, header: tuple[str, ...], row: LedgerRow) -> None:
        cells = _clean(row)
        data = _line(header, cells) if header else join(COLUMNS) + _line(COLUMNS, cells)
        before = os.fstat(fd).st_size
        try:
            if os.write(fd, data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(fd)
        except OSError:
            os.ftruncate(fd, before)
            raise
        if not header:
            sync_directory(self.path.parent)

    def header(self) -> tuple[str, ...]:
        """The file's own columns; empty if there is no ledger yet."""
        with reading(self.path) as fd:
            return () if fd is None else _header(fd)

    def records(self, needle: bytes = b"") -> Iterator[dict[str, str]]:
        """Yield every row with every column of the file, including unknown ones; surplus cells are left out.

        needle: rows without these bytes are left out.
        """
        with reading(self.path) as fd:
            header = () if fd is None else _header(fd)
            if fd is not None and header:
                near = (line for line in lines_from(fd, _body(fd), needle) if needle in line)
                yield from filter(None, (_record(header, line) for line in near))

    def rows(self) -> Iterator[LedgerRow]:
        """Yield every row, oldest first, reading lazily."""
        return map(LedgerRow.from_cells, self.records())

    def newest(self, last: int) -> tuple[list[dict[str, str]], int]:
        """The records of so many last lines (0: of all), oldest first, and how many there are in all."""
        near, count = deque[bytes](maxlen=last or None), 0
        with reading(self.path) as fd:
            header = () if fd is None else _header(fd)
            for line in filter(bytes.strip, lines_from(fd, _body(fd)) if fd is not None and header else ()):
                near.append(line)
                count += 1
        found = list(filter(None, (_record(header, line) for line in near)))
        return found, count - len(near) + len(found)

    def find(self, run_id: str) -> list[LedgerRow]:
        """The rows of one run: none, one, or several if a line was copied by hand."""
        near = self.records(escape(run_id).encode()) if run_id else ()
        return [LedgerRow.from_cells(one) for one in near if one.get("run_id") == run_id]

    def holds(self, run_id: str) -> bool:
        return bool(self.find(run_id))

    def next_index(self) -> int:
        """One more than the highest index of an idea in the ledger; 1 for a new ledger."""
        return 1 + max((integer(one.get("index", "")) or 0 for one in self.records()), default=0)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[int]:
    """Open the ledger for appending and lock it; reopens it if an editor replaced the file by renaming meanwhile."""
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            hold_lock(fd, path)
            if _is_still(path, fd):
                yield fd
                return
        finally:
            os.close(fd)


def _clean(row: LedgerRow) -> dict[str, str]:
    return _masked(row.cells())


def _masked(cells: Mapping[str, str]) -> dict[str, str]:
    return {name: clean_text(cell) for name, cell in cells.items()}


def _is_still(path: Path, fd: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(fd))
    except FileNotFoundError:
        return False


def _mend_tail(fd: int, path: Path) -> None:
    """Under the lock: add a missing newline to a complete last row, move any other torn tail to `<ledger>.torn`."""
    size = os.fstat(fd).st_size
    if not size:
        return
    *_, line = lines_from(fd)
    if line.endswith(b"\n") and b"\0" not in line:
        return
    start = size - len(line)
    if _is_complete(_header(fd), line, first=start == 0):
        os.write(fd, b"\n")
    else:
        _put_aside(path, "torn", line)
        os.ftruncate(fd, start)
    os.fsync(fd)


def _is_complete(header: tuple[str, ...], line: bytes, *, first: bool) -> bool:
    """Whether a last line lacks only its newline (some editors do not write the last one).

    Only autoresearch's own layout permits to tell: its last column `schema` is never empty, so any other cut shows.
    """
    if b"\0" in line:
        return False
    cells = split(line)
    if first:
        return tuple(cells) == COLUMNS
    return bool(header) and header[-1] == "schema" and len(cells) == len(header) and cells[-1] != ""


def _put_aside(path: Path, word: str, tail: bytes) -> None:
    stamp = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime())
    what = {"torn": "torn tail of"}.get(word, f"{word}:")
    line = f"# {stamp} {what} {len(tail)} bytes\n".encode() + tail.removesuffix(b"\n") + b"\n"
    append_line(path.with_name(f"{path.name}.{word}"), line)


def _header(fd: int) -> tuple[str, ...]:
    """The columns in the first line; empty if that has no newline (yet)."""
    start = os.pread(fd, HEADER_MAX, 0)
    line, end, _ = start.removeprefix(b"\xef\xbb\xbf").partition(b"\n")
    return tuple(split(line)) if end else ()


def _torn_header(fd: int) -> tuple[str, ...]:
    """Cells of an unfinished first line that is not the beginning of autoresearch's header: a foreign file; else ()."""
    start = os.pread(fd, HEADER_MAX, 0)
    return () if not start.strip(b"\0") or join(COLUMNS).startswith(start) else tuple(split(start))


def _line(header: tuple[str, ...], cells: Mapping[str, str]) -> bytes:
    return join(cells.get(name, "") for name in header)


def _body(fd: int) -> int:
    """The byte offset of the second line."""
    return os.pread(fd, HEADER_MAX, 0).find(b"\n") + 1


def _record(header: tuple[str, ...], line: bytes) -> dict[str, str]:
    """Column -> cell; empty for a line that is not a row: blank, damaged, incomplete, or a repeated header."""
    if not line.strip() or b"\0" in line:
        return {}
    cells = split(line)
    if not line.endswith(b"\n") and not _is_complete(header, line, first=False):
        return {}
    if tuple(cells[: len(NEMO_COLUMNS)]) == header[: len(NEMO_COLUMNS)]:
        return {}  # a second header, maybe with other columns behind: two ledgers were joined, or edited as a run ended
    return dict(zip(header, cells + [""] * (len(header) - len(cells)), strict=False))


def escape(text: str) -> str:
    """Escape a text as a cell without tabs and line ends; the empty string stays empty."""
    if text.isascii() and text.isprintable() and "\\" not in text:
        return text
    return _ESCAPED.sub(lambda m: _LETTERS.get(m[0]) or f"\\u{ord(m[0]):04x}", text)


def unescape(cell: str) -> str:
    """Reverse `escape`. An invalid escape (a hand edit such as `C:\\data`) stays as it is."""
    if "\\" not in cell:
        return cell
    return _ESCAPE.sub(lambda m: chr(int(m[1], 16)) if m[1] else _MEANING.get(m[2], m[0]), cell)


def join(cells: Iterable[str]) -> bytes:
    """One line from unescaped cells, with a newline, as UTF-8."""
    return "\t".join(map(escape, cells)).encode() + b"\n"


def split(line: bytes) -> list[str]:
    """The cells of one line, unescaped; the line end (also Windows') is removed, invalid UTF-8 is replaced."""
    whole = line.removesuffix(b"\n").removesuffix(b"\r")  # in cells both are escaped
    return [unescape(cell) for cell in whole.decode("utf-8", "replace").split("\t")]
