"""The Runner: starts one trainer, keeps its log, limits and exit code, and leaves no process behind.

    python -S -E -s runner.py RUN_DIR

It is the trainer's parent on whatever machine the run lives, needs Linux and Python 3.9 and nothing else,
and is alone in enforcing the run's limits, so that they hold when everything else of ours is dead.
It reads RUN_DIR/spec.json and RUN_DIR/environment; the other files of the run directory are its own:

    lock           flock'd as long as the Runner lives; its mtime is the heartbeat
    runner.json    pid, start_ticks, trainer_pid, trainer_start_ticks, boot_id, host, started (wall),
                   started_boot and trainer_started_boot (CLOCK_BOOTTIME)
    run.log        stdout and stderr of prepare commands, trainer and cleanup commands
    events.jsonl   {"t": wall, "s": seconds since the Runner's start, "event": ..., "text": ..., ...} a line
    inbox.jsonl    {"kind": "step"|..., "step": 3, "kl": 0.01, "hold_s": 60} a line: signals from elsewhere
    stop           {"how": "now"|"drain", "reason": ...}
    exit.json      the exit record, by renaming exit.rec, which was reserved before the start

Exit status: the trainer's, 1 where that would read as a success and is none, 4 without a readable
spec.json, 5 where the run has a Runner already, is over, or was started by one that died.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import re
import select
import signal
import sys
import termios
import time

TYPE_CHECKING = False  # importing typing would cost memory in every Runner
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    Found = tuple[tuple[bytes, ...], int, int]

SCHEMA = 1
RUN_ID = "AUTORESEARCH_RUN_ID"
PULSE_S = 15.0  # heartbeat and, at the latest, the next look at everything
PACE_S = 0.1  # log scans and pane writes are at least this far apart
SCAN_BUDGET_S = 0.03  # ... and a scan that takes longer goes on at the next one: bounded CPU in a flood
FINAL_SCAN_S = 10.0  # what a dead trainer left unread is scanned for so long, then only its end
HANGUP_S = 0.5  # a tmux server that is being killed needs a moment to be dead
STALL_FLOOR_S = 60.0
STALL_FACTOR = 10.0
LEFTOVER_GRACE_S = 10.0  # for what a trainer that ended by itself left behind
STUCK_S = 10.0  # alive so long after SIGKILL: uninterruptible, reported and left
KILL_CAP_S = 60.0
LEASE_WAIT_S = 1.0  # the run before may be about to let go
GPU_RETURN_S = 30.0
GPU_ASK_S = 5.0
ERROR_EVERY_S = 60.0
RECORD_BYTES = 8192
TEXT_CHARS = 300
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.memmem.restype = ctypes.c_void_p
_LIBC.memmem.argtypes = (ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t)


def clock() -> float:
    """Seconds for durations and limits; no clock change moves it, and it goes on while a machine sleeps."""
    return time.clock_gettime(_CLOCK)


def wall() -> float:
    """Seconds since 1970, for stamps only."""
    return time.time()


def failpoint(name: str) -> None:
    """Die here if a fault test asked for it: AUTORESEARCH_FAILPOINT="name:kill"."""
    if os.environ.get("AUTORESEARCH_FAILPOINT") == name + ":kill":
        os.kill(os.getpid(), signal.SIGKILL)


def read_file(path: str) -> bytes:
    """All bytes of a file, b"" where it cannot be read (a process that is gone, a file not yet there)."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    parts = []
    try:
        while part := os.read(fd, 65536):
            parts.append(part)
    except OSError:
        pass  # ESRCH: it died while being read
    finally:
        os.close(fd)
    return b"".join(parts)


def write_all(fd: int, data: bytes) -> None:
    """os.write until everything is out."""
    while data:
        data = data[os.write(fd, data) :]


# ----------------------------------------------------------------------------- following a log


class LogFollower:
    """Reads a growing file by (inode, offset), in chunks that end where a line ends.

    A line ends with a newline or a carriage return. The offset only ever rests at the start of a line, so it
    is all there is to remember; an unfinished line is read again, by `poll` or, as it is, by `partial`.
    Lines longer than `LONGEST` are cut. Truncation, replacement by another file and holes are survived.
    """

    CHUNK = 1 << 18  # fits a second-level cache; larger is not faster
    LONGEST = 1 << 20
    HEAD = 64

    def __init__(self, path: str, offset: int = 0) -> None:
        self.path = path
        self.offset = offset  # of the first byte that was not yielded
        self.generation = 0  # grows when the file starts again from its beginning
        self._fd = -1
        self._inode = (0, 0)
        self._head = b""

    def poll(self) -> Iterator[bytes]:
        """What was appended since, up to the last line's end; `offset` is the end of the chunk just given."""
        if self._fd >= 0:
            replaced = self._replaced()
            yield from self._chunks(to_the_end=replaced)
            if not replaced:
                return
            self.close()
        if self._open():
            yield from self._chunks(to_the_end=False)

    def partial(self) -> bytes:
        """The line that has no end yet, from `offset` on, without moving on; at most `LONGEST` bytes."""
        return os.pread(self._fd, self.LONGEST, self.offset) if self._fd >= 0 else b""

    def behind(self) -> int:
        """Bytes that are there and were not yielded."""
        return max(0, os.fstat(self._fd).st_size - self.offset) if self._fd >= 0 else 0

    def skip(self, count: int) -> None:
        """Leave out so many bytes."""
        self.offset += count

    def close(self) -> None:
        """Let go of the file; the next poll opens it again and goes on."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def _chunks(self, *, to_the_end: bool) -> Iterator[bytes]:
        size = self.CHUNK
        while data := os.pread(self._fd, size, self.offset):
            end = data.rfind(b"\n") + 1
            end = max(end, data.rfind(b"\r", end) + 1)
            if end == 0 and len(data) == size < self.LONGEST:
                size = self.LONGEST
                continue
            if end == 0 and (len(data) == size or to_the_end):
                end = len(data)
            if end == 0:
                return
            size = self.CHUNK
            if data[0] == 0 and not data.strip(b"\0"):
                self._skip_hole(end)
                continue
            self.offset += end
            yield data if end == len(data) else data[:end]

    def _skip_hole(self, seen: int) -> None:
        """A file that was truncated under its writer starts with a hole, perhaps of gigabytes."""
        try:
            self.offset = max(self.offset + seen, os.lseek(self._fd, self.offset + seen, os.SEEK_DATA))
        except OSError:
            self.offset += seen

    def _open(self) -> bool:
        try:
            self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        there = os.fstat(self._fd)
        if self._inode not in ((0, 0), (there.st_dev, there.st_ino)) or there.st_size < self.offset:
            self._start_again()
        self._inode = (there.st_dev, there.st_ino)
        return True

    def _start_again(self) -> None:
        self.offset = 0
        self.generation += 1
        self._head = b""

    def _replaced(self) -> bool:
        """Whether another file stands at the path; a truncated one is started again in place."""
        size = os.fstat(self._fd).st_size
        head = os.pread(self._fd, self.HEAD, 0)
        if size < self.offset or not head.startswith(self._head):  # truncated, perhaps grown past us again
            self._start_again()
        self._head = head
        try:
            there = os.stat(self.path)
        except OSError:
            return False  # renamed away: what we hold still grows
        return (there.st_dev, there.st_ino) != self._inode


# ----------------------------------------------------------------------------- patterns

_ANSI = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_NUMBER = re.compile(rb"[-+]?(?:nan|inf(?:inity)?|\d+\.?\d*(?:e[-+]?\d+)?|\.\d+(?:e[-+]?\d+)?)", re.I)


def without_escapes(line: bytes) -> bytes:
    """A line without terminal escape sequences; Ray's own two are so common that they have a fast way."""
    if b"\x1b" not in line:
        return line
    line = line.replace(b"\x1b[36m", b"").replace(b"\x1b[0m", b"")
    return _ANSI.sub(b"", line) if b"\x1b" in line else line


def plain(text: bytes, limit: int = TEXT_CHARS) -> str:
    """A log line as a record may hold it: no escape sequence, no control character, bounded."""
    decoded = without_escapes(text[: 8 * limit]).decode("utf-8", "replace")
    words = "".join(c if c.isprintable() else " " for c in decoded).split()
    return " ".join(words)[:limit]


def required_literals(pattern: re.Pattern[bytes]) -> list[Found]:
    """What a match must hold: of each tuple of literals at least one, and how far from the match's start.

    The cheapest to search for comes first; [] where nothing can be said. bytes.find passes over a log up to
    a hundred times faster than a regex, so only the lines that it finds are shown to the regex. This reads
    the parse tree of `re`, which is no public API: what is not understood is left out.
    """
    parser = getattr(re, "_parser", None) or getattr(re, "sre_parse", None)
    if parser is None:
        return []
    found = _literals(parser.parse(pattern.pattern, pattern.flags))
    return sorted((one for one in found if min(map(len, one[0])) > 1), key=_search_cost)


def _search_cost(found: Found) -> float:
    return sum(1.0 / len(literal) if literal else 9.0 for literal in found[0])


def _literals(sequence: Any) -> list[Found]:
    """All parts of a parsed sequence that are literals or alternatives of literals."""
    found: list[Found] = []
    run, began = b"", 0
    for index, (op, value) in enumerate(sequence):
        if str(op) == "LITERAL" and value != 10:
            began = began if run else index
            run += bytes((value,))
            continue
        if run:
            found.append(((run,), *sequence[:began].getwidth()))
        run = b""
        low, high = sequence[:index].getwidth()
        found += [(literals, low + least, high + most) for literals, least, most in _literals_in(str(op), value)]
    if run:
        found.append(((run,), *sequence[:began].getwidth()))
    return found


def _literals_in(name: str, value: Any) -> list[Found]:
    if name == "SUBPATTERN" and not (value[1] or value[2]):  # no flags changed inside
        return _literals(value[3])
    if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT") and value[0] > 0:
        return _literals(value[2])
    if name == "ATOMIC_GROUP":
        return _literals(value)
    if name == "ASSERT" and value[0] > 0:  # what is looked for ahead is in the line too
        return _literals(value[1])
    if name == "BRANCH":
        branches = [_literals(branch) for branch in value[1]]
        if all(branches):
            best = [min(branch, key=_search_cost)[0] for branch in branches]
            return [(tuple(dict.fromkeys(literal for one in best for literal in one)), 0, 1 << 30)]
    return []


class Pattern:
    """One signal's regex and where in the log it matched last.

    It sees one line at a time, without escape sequences; a carriage return ends a line as a newline does.
    """

    def __init__(self, kind: str, text: str, hold_s: float = 0.0) -> None:
        try:
            raw = text.encode("latin-1")
        except UnicodeEncodeError:
            raw = text.encode()
        self.kind = kind
        self.hold_s = hold_s
        try:
            self.regex = re.compile(raw, re.MULTILINE)
        except re.error:  # Python before 3.11 knows no possessive repeats; they only save time
            self.regex = re.compile(re.sub(rb"(?<!\\)([*+?}])\+", rb"\1", raw), re.MULTILINE)
        self.fold = bool(self.regex.flags & re.IGNORECASE)
        found = [] if self.fold and not raw.isascii() else required_literals(self.regex)
        choices = [tuple(x.lower() for x in one[0]) if self.fold else one[0] for one in found]
        self.literals = choices[0] if choices else ()
        self.others = [one for one in dict.fromkeys(choices[1:]) if min(map(len, one)) > 2]
        self.reach: tuple[int, int] | None = None  # where a match can begin: so far before its literal
        if len(self.literals) == 1 and found[0][2] - found[0][1] <= 16:
            self.reach = found[0][2], found[0][1]
        self.once_per_chunk = kind in ("error", "nan")
        self.quiet_until = 0.0
        self.seen = (-1, -1)  # (offset of the line, offset in it) of the last match

    def matches(self, line: bytes) -> Iterator[re.Match[bytes]]:
        """All matches in one line."""
        where = line.lower() if self.fold else line
        for choice in self.others:
            for literal in choice:
                if literal in where:
                    break
            else:
                return
        if self.reach is None:
            yield from self.regex.finditer(line)
            return
        literal, far, near, begin = self.literals[0], self.reach[0], self.reach[1], 0
        at = where.find(literal)
        while at >= 0:  # the regex is tried only where it can begin
            begin = max(begin, at - far)
            while begin <= at - near:
                match = self.regex.match(line, begin)
                begin = max(begin + 1, match.end() if match else 0)
                if match:
                    yield match
            at = where.find(literal, max(at + 1, begin + near))


def _lines(chunk: bytes) -> Iterator[tuple[int, int]]:
    flat = chunk.replace(b"\r", b"\n")
    low = 0
    while (high := flat.find(b"\n", low)) >= 0:
        if high > low:
            yield low, high
        low = high + 1
    if low < len(flat):
        yield low, len(flat)


def _lines_with(chunk: bytes, literal: bytes) -> Iterator[tuple[int, int]]:
    """(start, end) of every line that holds a literal. Each byte is looked at a bounded number of times."""
    at, newline, size = 0, -1, len(chunk)
    while (hit := chunk.find(literal, at)) >= 0:
        low = max(at, chunk.rfind(b"\n", at, hit) + 1)
        low = max(low, chunk.rfind(b"\r", low, hit) + 1, chunk.rfind(b"\0", low, hit) + 1)
        if newline < hit:
            newline = chunk.find(b"\n", hit)
            newline = size if newline < 0 else newline
        high = chunk.find(b"\r", hit, newline)
        high = newline if high < 0 else high
        yield low, high
        at = high


def _holds(chunk: bytes, literal: bytes) -> bool:
    """`literal in chunk`, but at 5 to 9 GB/s instead of 2 to 4: most literals are in no chunk at all."""
    return _LIBC.memmem(chunk, len(chunk), literal, len(literal)) is not None


class Scanner:
    """All patterns over one log."""

    ORDER = ("validation", "progress", "step", "error", "nan")

    def __init__(self, patterns: Iterable[Pattern]) -> None:
        known = sorted((p for p in patterns if p.kind in self.ORDER), key=lambda p: self.ORDER.index(p.kind))
        groups: dict[tuple[tuple[bytes, ...], bool], list[Pattern]] = {}
        for pattern in known:  # a line that one literal finds is prepared once for all who want it
            groups.setdefault((pattern.literals, pattern.fold), []).append(pattern)
        self.groups = list(groups.items())
        self.patterns = known
        self.generation = 0

    def scan(self, chunk: bytes, start: int) -> Iterator[tuple[Pattern, re.Match[bytes], bytes]]:
        """Every new match, with its line, in a chunk that begins at a line's start.

        `start`: the chunk's offset in the log; what was seen there before is not told again.
        """
        now = clock()
        lowered = b""
        for (literals, fold), patterns in self.groups:
            awake = [p for p in patterns if p.quiet_until <= now]
            if awake and fold and not lowered:
                lowered = chunk.lower()
            for low, high in self._candidates(literals, lowered if fold else chunk) if awake else ():
                line = without_escapes(chunk[low:high])
                for pattern in tuple(awake):
                    for match in pattern.matches(line):
                        place = (start + low, match.start())
                        if place <= pattern.seen:
                            continue
                        pattern.seen = place
                        if pattern.kind == "progress":
                            self._rest(pattern, now, awake)
                        yield pattern, match, line
                        if pattern.kind == "progress":
                            break
                        if pattern.once_per_chunk:
                            awake.remove(pattern)
                            break
                if not awake:
                    break

    def _rest(self, seen: Pattern, now: float, awake: list[Pattern]) -> None:
        """That something moves is worth knowing once a second, from whichever pattern holds longest."""
        for pattern in self.patterns:
            if pattern.kind == "progress" and pattern.hold_s <= seen.hold_s:
                pattern.quiet_until = now + 1.0
                if pattern in awake:
                    awake.remove(pattern)

    @staticmethod
    def _candidates(literals: tuple[bytes, ...], chunk: bytes) -> Iterable[tuple[int, int]]:
        if not literals:
            return _lines(chunk)
        there = [literal for literal in literals if _holds(chunk, literal)]
        if len(there) > 1:
            return sorted({span for literal in there for span in _lines_with(chunk, literal)})
        return _lines_with(chunk, there[0]) if there else ()

    def restart(self, generation: int) -> None:
        """The log began again: offsets start from 0."""
        if generation != self.generation:
            self.generation = generation
            for pattern in self.patterns:
                pattern.seen = (-1, -1)


def group(match: re.Match[bytes], name: str) -> bytes:
    """A named group's bytes; b"" where the pattern has none or it did not take part."""
    return (match[name] or b"") if name in match.re.groupindex else b""


def number(text: bytes) -> float | None:
    """The first number in a text such as b"np.float64(3e-4)"."""
    bare = text.split(b"(", 1)[-1]
    found = _NUMBER.search(bare)
    return float(found[0]) if found else None


# ----------------------------------------------------------------------------- first step and stall


class Pace:
    """What the Signals said so far, and until when the next one must come. All times by `clock`."""

    def __init__(self, limits: Mapping[str, Any], rule: str) -> None:
        self.first_limit = seconds(limits.get("first_step_s"))
        self.cap = seconds(limits.get("first_step_cap_s")) or 0.0
        self.strict = bool(limits.get("strict_first_step"))
        self.stall_limit = seconds(limits.get("stall_s"))
        self.needs_kl = rule == "kl"
        self.started = 0.0
        self.held = 0.0  # seconds that the first-step clock was suspended
        self.hold_until = 0.0
        self.first_s: float | None = None
        self.first_step: int | None = None
        self.kl: float | None = None
        self.last_step: int | None = None
        self.steps = 0
        self.validations = 0
        self.nan = False
        self.last_at = 0.0
        self.last_step_at = 0.0
        self.gaps: list[float] = []
        self.stalled = False

    def step(self, now: float, step: int | None, kl: float | None) -> bool:
        """A training-metric event; True if it is the first step."""
        if kl is not None and kl != kl:
            self.nan, kl = True, None
        if kl is not None and abs(kl) == float("inf"):
            kl = None
        if self.kl is None:
            self.kl = kl
        self.last_at = now
        if step is None or step != self.last_step:  # `ray job submit` prints the log's tail twice
            if self.steps:
                self.gaps = [*self.gaps[-19:], now - self.last_step_at]
            self.steps += 1
            self.last_step_at = now
            self.last_step = self.steps if step is None else step
        if self.first_s is not None or (self.needs_kl and kl is None):
            return False
        self.first_s = now - self.started
        self.first_step = self.last_step
        return True

    def moved(self, now: float, hold_s: float) -> None:
        """Boot or validation made progress: the first-step clock stands still for `hold_s` from now."""
        self.last_at = now
        if self.first_s is None and not self.strict:
            more = now + hold_s - max(now, self.hold_until)
            self.held = min(self.cap, self.held + max(0.0, more))
            self.hold_until = max(self.hold_until, now + hold_s)

    def first_deadline(self) -> float:
        """When the first step is too late; infinite once it was seen."""
        if self.first_s is not None or self.first_limit is None:
            return float("inf")
        return self.started + self.first_limit + self.held

    def stall_deadline(self) -> float:
        """When silence ends the run; before the first step its own limit rules."""
        if self.first_s is None or self.stall_limit is None:
            return float("inf")
        return self.last_at + self.stall_limit

    def report_deadline(self) -> float:
        """When silence is reported as a stall."""
        if self.steps < 3 or self.stalled:
            return float("inf")
        return self.last_at + max(STALL_FLOOR_S, STALL_FACTOR * self.median_gap())

    def next_deadline(self) -> float:
        """The nearest of the three."""
        return min(self.first_deadline(), self.stall_deadline(), self.report_deadline())

    def median_gap(self) -> float:
        """The median of the last 20 intervals between steps, 0.0 without any."""
        return sorted(self.gaps)[len(self.gaps) // 2] if self.gaps else 0.0


def seconds(value: Any) -> float | None:
    """A limit from the spec; None where there is none."""
    return float(value) if isinstance(value, (int, float)) and value > 0 else None


# ----------------------------------------------------------------------------- records


class Chronicle:
    """Events, the journal for people, and the exit record. No failing write ever stops the Runner."""

    def __init__(self, run_dir: str, journal: str) -> None:
        self.dir = run_dir
        self.origin = clock()
        self._events = self._appending(os.path.join(run_dir, "events.jsonl"))
        self._journal = self._appending(journal) if journal else -1
        self._torn: set[int] = set()
        self._reserve = -1
        self._reserved = 0  # bytes that the disk cannot take back

    @staticmethod
    def _appending(path: str) -> int:
        try:
            return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except OSError:
            return -1

    def emit(self, event: str, text: str, **fields: Any) -> None:
        """One line of JSON for programs and one sentence for people."""
        t, s = wall(), clock() - self.origin
        line = {"t": round(t, 3), "s": round(s, 3), "event": event, "text": text, **fields}
        self._append(self._events, json.dumps(line).encode() + b"\n")
        stamp = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(t))
        sentence = f"- {stamp} +{s:.1f}s {' '.join(text.split())}\n"
        self._append(self._journal, sentence.encode("utf-8", "replace"))

    def _append(self, fd: int, line: bytes) -> None:
        if fd < 0:
            return
        if fd in self._torn:  # the disk was full in the middle of a line: this one must not be glued to it
            line = b"\n" + line
        try:
            whole = os.write(fd, line) == len(line)
        except OSError:
            return
        (self._torn.discard if whole else self._torn.add)(fd)

    def reserve(self) -> None:
        """Real bytes on the disk for the exit record, while there are any. Raises OSError."""
        path = os.path.join(self.dir, "exit.rec")
        self._reserve = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        write_all(self._reserve, b" " * RECORD_BYTES)
        os.fsync(self._reserve)
        self._reserved = RECORD_BYTES

    def record_exit(self, record: dict[str, Any]) -> None:
        """Write the exit record into the reserve and give it its name: works on a full disk."""
        data = json.dumps(record).encode()
        while len(data) >= RECORD_BYTES:  # too long: the end of the longest text goes
            key = max((k for k in record), key=lambda k: len(json.dumps(record[k])))
            record[key] = record[key][: len(record[key]) // 2]
            data = json.dumps(record).encode()
        if self._reserve < 0:
            return
        data = data.ljust(self._reserved - 1) + b"\n"
        offset = 0
        while offset < len(data):
            offset += os.pwrite(self._reserve, data[offset:], offset)
        os.fsync(self._reserve)
        os.rename(os.path.join(self.dir, "exit.rec"), os.path.join(self.dir, "exit.json"))
        fd = os.open(self.dir, os.O_RDONLY | os.O_CLOEXEC)
        os.fsync(fd)
        os.close(fd)

    def write_json(self, name: str, value: dict[str, Any]) -> None:
        """A small file of the run directory, whole or not at all."""
        path = os.path.join(self.dir, name)
        try:
            fd = os.open(path + ".tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
            try:
                write_all(fd, json.dumps(value, indent=1).encode() + b"\n")
            finally:
                os.close(fd)
            os.rename(path + ".tmp", path)
        except OSError as error:
            self.emit("warning", f"{name} could not be written: {error.strerror}")


# ----------------------------------------------------------------------------- waking up


class Wakeups:
    """One place to sleep: woken by signals, by growth of the log, and by files put into the run directory."""

    _MODIFY, _CLOSE_WRITE, _MOVED_TO = 0x2, 0x8, 0x80

    def __init__(self, run_dir: str, log: str) -> None:
        self._signals, writer = os.pipe()
        os.set_blocking(self._signals, False)
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number_ in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGUSR1):
            signal.signal(number_, _noted)
        signal.signal(signal.SIGCHLD, _noted)
        for number_ in (signal.SIGPIPE, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGUSR2):
            signal.signal(number_, signal.SIG_IGN)
        self._only_signals = select.poll()
        self._only_signals.register(self._signals, select.POLLIN)
        self._all = select.poll()
        self._all.register(self._signals, select.POLLIN)
        self._log = log
        self._inotify = self._watch(run_dir)
        self.trusted = self._inotify >= 0  # False: look every second

    def _watch(self, run_dir: str) -> int:
        try:
            fd = int(_LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
            events = self._CLOSE_WRITE | self._MOVED_TO
            if fd < 0 or _LIBC.inotify_add_watch(fd, os.fsencode(run_dir), events) < 0:
                return -1
        except AttributeError:  # a libc without inotify
            return -1
        self._all.register(fd, select.POLLIN)
        return fd

    def watch_log(self) -> None:
        """Watch the file that is the log now; again after it was replaced."""
        if self.trusted:
            self.trusted = _LIBC.inotify_add_watch(self._inotify, os.fsencode(self._log), self._MODIFY) >= 0

    def wait(self, timeout: float, *, only_signals: bool) -> tuple[list[int], bool]:
        """Sleep; returns the signals that came, in order, and whether a file moved."""
        poll = self._only_signals if only_signals else self._all
        milliseconds = int(min(max(timeout, 0.0), 3600.0) * 1000) + 1 if timeout > 0 else 0
        ready = {fd for fd, _ in poll.poll(milliseconds)}
        moved = self._inotify in ready
        if moved:
            drain(self._inotify)
        return (list(drain(self._signals)) if self._signals in ready else []), moved


def _noted(_signal: int, _frame: object) -> None:
    """The signal's number is in the wake-up pipe; nothing may be done in a handler."""


def drain(fd: int) -> bytes:
    """What a non-blocking descriptor holds, 64 KiB at most."""
    try:
        return os.read(fd, 65536)
    except OSError:
        return b""


class Mirror:
    """Shows the log on the terminal that we were started in: never blocks, leaves out what is too much.

    The terminal is opened again, so that O_NONBLOCK is ours alone; after Ctrl-S its writes fail at once.
    """

    BURST = 1 << 16
    FAR = 1 << 18

    def __init__(self, log: str) -> None:
        self.log = log
        self.next_at = float("inf")
        self._at = 0
        self._pause = PACE_S
        self._source = -1
        self._tty = -1
        if os.isatty(1):
            try:
                flags = os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC
                self._tty = os.open(os.ttyname(1), flags)
            except OSError:
                pass  # no terminal to show anything on

    def say(self, text: str) -> None:
        """A line of our own."""
        self._write(text.encode("utf-8", "replace") + b"\n")

    def wake(self, now: float) -> None:
        """There may be more to show."""
        if self._tty >= 0:
            self.next_at = min(self.next_at, now + self._pause)

    def pump(self, now: float) -> None:
        """Show what is new, as much as the terminal takes."""
        if self._tty < 0 or now < self.next_at:
            return
        self.next_at = float("inf")
        if self._source < 0:
            try:
                self._source = os.open(self.log, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                return
        behind = os.fstat(self._source).st_size - self._at
        if behind < 0:
            self._at, behind = 0, behind + self._at
        if behind > self.FAR:
            self._leave_out(behind - self.BURST // 2)
        data = os.pread(self._source, self.BURST, self._at)
        written = self._write(data)
        self._at += written
        self._pause = PACE_S if written or not data else min(1.0, 2 * self._pause)
        if written < len(data) or len(data) == self.BURST:
            self.next_at = now + self._pause

    def _leave_out(self, count: int) -> None:
        mark = f"\n[... {count} bytes skipped; full log: {self.log} ...]\n"
        if self._write(mark.encode("utf-8", "replace")):
            self._at += count

    def _write(self, data: bytes) -> int:
        if self._tty < 0 or not data:
            return 0
        try:
            return os.write(self._tty, data)
        except BlockingIOError:
            return 0
        except OSError:  # the terminal is gone
            os.close(self._tty)
            self._tty = -1
            self.next_at = float("inf")
            return 0


# ----------------------------------------------------------------------------- processes


def process_table() -> dict[int, tuple[bytes, str, int]]:
    """(name, state, parent) of every process."""
    table = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            raw = read_file(f"/proc/{entry}/stat")
            if raw:
                name, _, rest = raw.partition(b"(")[2].rpartition(b")")
                fields = rest.split()
                table[int(entry)] = (name, fields[0].decode(), int(fields[1]))
    return table


def start_ticks(pid: int) -> int | None:
    """Start time of a process in clock ticks since boot: with pid and boot id, its identity."""
    raw = read_file(f"/proc/{pid}/stat")
    return int(raw.rpartition(b")")[2].split()[19]) if raw else None


def run_id_of(pid: int) -> str:
    """The run that a process says it belongs to, "" for none (or a process that is not ours to read)."""
    found = (b"\0" + read_file(f"/proc/{pid}/environ")).partition(b"\0" + RUN_ID.encode() + b"=")[2]
    return found.partition(b"\0")[0].decode("utf-8", "replace")


def is_dead(pid: int, state: str) -> bool:
    """Zombies are dead, unless only their first thread is."""
    if state not in "ZXx":
        return False
    try:
        return len(os.listdir(f"/proc/{pid}/task")) <= 1
    except OSError:
        return True


class Tree:
    """Every process that this run started. Being a subreaper, we inherit the orphans among them.

    Spared: tmux servers and runs of another id, with all that is below them. A cgroup would end a fork
    bomb faster, but is writable for root or by delegation only; the walk left no survivor of ten kinds.
    """

    TMUX = b"tmux: server"

    def __init__(self, run: str) -> None:
        self.run = run
        self.me = os.getpid()
        _LIBC.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
        self.kept: set[int] = set()  # left alive on purpose
        self._has_children_files = os.path.exists(f"/proc/{self.me}/task/{self.me}/children")

    def members(self) -> dict[int, str]:
        """pid -> state of the living."""
        table = process_table()
        below: dict[int, list[int]] = {}
        for pid, (_, _, parent) in table.items():
            below.setdefault(parent, []).append(pid)
        found, todo = {}, [self.me]
        while todo:
            for pid in below.get(todo.pop(), ()):
                name, state, _ = table[pid]
                if name != self.TMUX and pid not in self.kept and run_id_of(pid) in ("", self.run):
                    todo.append(pid)
                    if not is_dead(pid, state):
                        found[pid] = state
        return found

    def strays(self) -> dict[int, str]:
        """Processes that carry our run id and are not below us: started through somebody else's daemon."""
        table = process_table()
        return {
            pid: state
            for pid, (_, state, _) in table.items()
            if pid != self.me and pid not in self.kept and run_id_of(pid) == self.run
            if not is_dead(pid, state) and not self._below_tmux(pid, table)
        }

    def _below_tmux(self, pid: int, table: dict[int, tuple[bytes, str, int]]) -> bool:
        while pid in table and pid != self.me:
            name, _, parent = table[pid]
            if name == self.TMUX:
                return True
            pid = parent
        return False

    def resident_bytes(self) -> int:
        """Sum of the resident sizes, by children files: all of /proc is too dear for 200 Runners."""
        page = os.sysconf("SC_PAGESIZE")
        pids = self._walk_children() if self._has_children_files else self.members()
        sizes = (read_file(f"/proc/{pid}/statm").split() for pid in pids)
        return sum(int(size[1]) for size in sizes if size) * page

    def _walk_children(self) -> Iterator[int]:
        todo = [self.me]
        while todo:
            pid = todo.pop()
            try:
                threads = os.listdir(f"/proc/{pid}/task")
            except OSError:
                continue
            for thread in threads:
                for child in read_file(f"/proc/{pid}/task/{thread}/children").split():
                    todo.append(int(child))
                    yield int(child)


def send(pids: Iterable[int], number_: int) -> int:
    """Send a signal to each; how many there were to take it."""
    count = 0
    for pid in pids:
        try:
            os.kill(pid, number_)
            count += 1
        except OSError:
            pass  # gone, or somebody else's
    return count


class LaunchError(Exception):
    """The trainer's first instruction was not reached; args: a word for programs, a sentence for people."""


def spawn(command: str, cwd: str, env: Mapping[str, str], log: int, keep: Iterable[int] = ()) -> int:
    """Start `bash -c command` in a session of its own, writing to `log`; its pid, or LaunchError.

    `keep`: descriptors that it inherits.
    """
    reader, writer = os.pipe()
    every = signal.valid_signals()
    signal.pthread_sigmask(signal.SIG_BLOCK, every)  # a signal before exec would wake the parent's loop
    pid = os.fork()
    if pid == 0:
        cause = "exec_failed"
        try:
            signal.set_wakeup_fd(-1)
            for number_ in every - {signal.SIGKILL, signal.SIGSTOP}:
                signal.signal(number_, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, [])
            os.setsid()
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(log, 1)
            os.dup2(log, 2)
            for fd in keep:
                os.set_inheritable(fd, True)
            cause = "bad_cwd"
            os.chdir(cwd or "/")
            cause = "exec_failed"
            os.execvpe("bash", ["bash", "-c", command], dict(env))
        except (OSError, ValueError) as error:
            os.write(writer, f"{cause}\n{error}".encode("utf-8", "replace")[:4000])
        finally:
            os._exit(127)
    os.close(writer)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    said = read_all(reader)
    if said:
        cause, _, message = said.decode("utf-8", "replace").partition("\n")
        what = "its working directory cannot be entered" if cause == "bad_cwd" else "bash could not start it"
        raise LaunchError(cause, f"{what}: {message}")
    return pid


def read_all(fd: int) -> bytes:
    """Everything until the other side closes; closes the descriptor."""
    parts = []
    while part := os.read(fd, 4096):
        parts.append(part)
    os.close(fd)
    return b"".join(parts)


def trainer_environment(run_dir: str, spec: Mapping[str, Any]) -> dict[str, str]:
    """The environment that the CLI left for the trainer (read once, then removed), with ours added to it."""
    path = os.path.join(run_dir, "environment")
    if os.path.exists(path):
        raw = read_file(path)
        os.unlink(path)
        pairs = (os.fsdecode(item).partition("=") for item in raw.split(b"\0") if b"=" in item[1:])
        env = {key: value for key, _, value in pairs}
    else:
        env = dict(os.environ)
    for name in ("TMUX", "TMUX_PANE"):
        env.pop(name, None)
    env["PYTHONUNBUFFERED"] = "1"  # block buffering hides the first step, and a crash's last words
    env[RUN_ID] = str(spec["run"])
    env["AUTORESEARCH_RUN_DIR"] = run_dir
    env["AUTORESEARCH_RESULT_DIR"] = str(spec.get("result_dir") or "")
    interpreter = str(spec.get("interpreter") or "")
    if interpreter:
        bin_dir = os.path.dirname(interpreter)
        env["PATH"] = bin_dir + os.pathsep + env.get("PATH", os.defpath)
        env.pop("VIRTUAL_ENV", None)
        if os.path.exists(os.path.join(os.path.dirname(bin_dir), "pyvenv.cfg")):
            env["VIRTUAL_ENV"] = os.path.dirname(bin_dir)
            env.pop("PYTHONHOME", None)
    return env


# ----------------------------------------------------------------------------- GPUs


class Leases:
    """One flock per GPU. The trainer inherits the descriptors: a lease outlives a Runner that was killed."""

    def __init__(self) -> None:
        self.fds: list[int] = []

    def take(self, paths: Iterable[str], run: str) -> None:
        """All or none; raises LaunchError."""
        for path in paths:
            try:
                fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            except OSError as error:
                why = f"the GPU lease {path} cannot be opened: {error.strerror}"
                raise LaunchError("lease_failed", why) from None
            self.fds.append(fd)
            if not self._locked(fd):
                holder = plain(os.pread(fd, 400, 0)) or "somebody"
                raise LaunchError("lease_busy", f"the GPU lease {path} is held by {holder}")
            os.ftruncate(fd, 0)
            os.pwrite(fd, json.dumps({"run": run, "pid": os.getpid()}).encode(), 0)

    @staticmethod
    def _locked(fd: int) -> bool:
        until = clock() + LEASE_WAIT_S
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                if clock() >= until:
                    return False
                time.sleep(0.05)

    def release(self) -> None:
        """Let go; what the trainer left alive on purpose keeps its share."""
        for fd in self.fds:
            os.close(fd)
        self.fds = []


def gpu_bytes_used(uuids: Iterable[str]) -> int:
    """Memory in use on these GPUs, by NVML. Raises OSError where that cannot be had."""
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    memory = (ctypes.c_ulonglong * 3)()  # nvmlMemory_t: total, free, used
    total = 0
    if nvml.nvmlInit_v2():
        raise OSError("nvmlInit_v2 failed")
    for uuid in uuids:
        device = ctypes.c_void_p()
        if nvml.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(device)):
            raise OSError(f"no GPU {uuid}")
        if nvml.nvmlDeviceGetMemoryInfo(device, ctypes.byref(memory)):
            raise OSError(f"no memory information for {uuid}")
        total += memory[2]
    return total


class Gpus:
    """Memory of the leased GPUs, asked for in a child: a driver that hangs must not stop the limits."""

    def __init__(self, uuids: Iterable[str]) -> None:
        self.uuids = list(uuids)
        self.used: int | None = None  # the latest answer
        self.before: int | None = None
        self.peak: int | None = None
        self.returned: bool | None = None
        self.next_at = 0.0
        self._gap = 0.2
        self._pid = 0
        self._reader = -1

    def ask(self) -> None:
        """Start a question, unless one is open.

        Loading the driver's library costs, so during the run `next_at` comes less and less often.
        """
        if not self.uuids or self._reader >= 0:
            return
        self._gap = min(60.0, 2.0 * self._gap)
        self.next_at = clock() + self._gap
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.closerange(3, writer)  # a child that hangs in the driver must not hold our lock and leases
            os.closerange(writer + 1, writer + 64)
            try:
                os.write(writer, str(gpu_bytes_used(self.uuids)).encode())
            finally:
                os._exit(0)
        os.close(writer)
        os.set_blocking(reader, False)
        self._pid, self._reader = pid, reader

    def hear(self) -> bool:
        """Take the answer if there is one; True once no question is open."""
        if self._reader < 0:
            return True
        try:
            said = os.read(self._reader, 64)
        except BlockingIOError:
            return False
        self.used = int(said) if said else None
        self._close()
        return True

    def note_peak(self) -> None:
        """Take the latest answer as one of the run."""
        if self.used is not None and self.before is not None:
            self.peak = max(self.peak or 0, self.used - self.before)

    def abandon(self) -> None:
        """Give up on an open question."""
        if self._reader >= 0:
            send([self._pid], signal.SIGKILL)
            self._close()

    def _close(self) -> None:
        os.close(self._reader)
        self._reader = -1


# ----------------------------------------------------------------------------- the Runner


class Decision:
    """Why we end the run: fixed before the trainer's exit code is looked at."""

    def __init__(self, ending: str, cause: str, reason: str) -> None:
        self.ending = ending
        self.cause = cause
        self.reason = reason


class Runner:
    """One run from its first file to its exit record."""

    def __init__(self, run_dir: str, spec: Mapping[str, Any], lock: int) -> None:
        self.dir = run_dir
        self.spec = spec
        self.lock = lock
        self.run_id = str(spec["run"])
        limits = spec.get("limits") or {}
        self.grace_s = float(limits.get("grace_s") or 0.0)
        self.max_s = seconds(limits.get("max_s"))
        self.pace = Pace(limits, str(spec.get("first_step") or ""))
        self.log_path = self.path("run.log")
        self.log = -1
        self.env: dict[str, str] = {}
        self.chronicle = Chronicle(run_dir, str(spec.get("journal") or ""))
        self.wakeups = Wakeups(run_dir, self.log_path)
        self.tree = Tree(self.run_id)
        self.leases = Leases()
        self.gpus = Gpus(spec.get("gpus") or ())
        self.mirror = Mirror(self.log_path)
        self.follower = LogFollower(self.log_path)
        self.inbox = LogFollower(self.path("inbox.jsonl"))
        self.scanner = Scanner(())
        self.statuses: dict[int, int | None] = {}  # of the commands that we started
        self.trainer = 0
        self.started_at = 0.0
        self.started_wall = self.born_wall = wall()
        self.ended_at = 0.0
        self.ended_wall = 0.0
        self.decision: Decision | None = None
        self.drain: tuple[float, int, Decision] | None = None  # until when, steps seen then, what follows
        self.failure = ""  # a fault of the Runner itself
        self.error: dict[str, str] = {}
        self.counts = {"term_sent": 0, "kill_sent": 0}
        self.left: list[int] = []
        self.cleanup: list[dict[str, Any]] = []
        self.peak_memory = 0
        self.hurry = False
        self.stop_seen = (0, 0)
        now = clock()
        self.born = now
        self.pulse_at = now + PULSE_S
        self.sample_at = float("inf")
        self.sample_gap = 0.2
        self.scan_after = now
        self.peek_at = float("inf")
        self.hangup_at = float("inf")
        self.dirty = True
        self.missed_before = False

    def path(self, name: str) -> str:
        """A file of the run directory."""
        return os.path.join(self.dir, name)

    # -- the story

    def run(self) -> int:
        """Everything, in order; a fault of our own in one part never keeps the later ones from being done."""
        start = (self.open, self.live)
        finish = (self.end_tree, self.read_the_rest, self.clean_up, self.wait_for_gpus)
        for part in start + finish:
            try:
                part()
            except LaunchError as error:
                cause, reason = error.args
                self.decision = self.decision or Decision("launch_failed", cause, reason)
                self.chronicle.emit("launch_failed", f"could not be launched: {reason}", cause=cause)
            except Exception as error:  # noqa: BLE001 - the one record of this run must tell what happened
                self.note_failure(part.__name__, error)
        record = self.exit_record()
        failpoint("runner.before_exit_record")
        try:
            self.chronicle.record_exit(record)
            self.chronicle.emit("recorded", f"recorded: {record['ending']}", ending=record["ending"])
        except OSError as error:
            self.chronicle.emit("warning", f"the exit record could not be written: {error}")
        failpoint("runner.after_exit_record")
        self.say_goodbye(record)
        self.leases.release()
        self.hand_over()
        return exit_status(record)

    def open(self) -> None:
        """Everything that must be there before anything is started."""
        try:
            self.chronicle.reserve()
            self.log = os.open(self.log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except OSError as error:
            why = f"the run directory cannot be written: {error.strerror}"
            raise LaunchError("unwritable", why) from None
        self.env = trainer_environment(self.dir, self.spec)
        self.write_identity()
        self.wakeups.watch_log()
        self.mirror.say(f"== {self.run_id}: {plain(str(self.spec['command']).encode())} ==")
        try:
            given = self.spec.get("signals") or ()
            self.scanner = Scanner(Pattern(s["kind"], s["pattern"], s.get("hold_s") or 0.0) for s in given)
        except re.error as error:
            raise LaunchError("bad_pattern", f"a signal's pattern cannot be compiled: {error}") from None
        failpoint("runner.started")

    def live(self) -> None:
        """From the leases to the trainer's end or the decision to end it."""
        if self.decision or self.failure:
            return
        self.check_stop_file()
        if self.decision:
            return
        self.leases.take(self.spec.get("leases") or (), self.run_id)
        self.ask_gpus_before()
        self.prepare()
        if self.decision:
            return
        command, cwd = str(self.spec["command"]), str(self.spec.get("cwd") or "")
        pid = spawn(command, cwd, self.env, self.log, self.leases.fds)
        self.trainer, self.statuses[pid] = pid, None
        self.started_at, self.started_wall = clock(), wall()
        self.pace.started = self.pace.last_at = self.started_at
        self.sample_at = self.started_at + self.sample_gap
        self.write_identity()
        self.chronicle.emit("started", f"the trainer started (pid {pid})", pid=pid, runner=os.getpid())
        failpoint("runner.trainer_started")
        while self.statuses[pid] is None and not self.decision:
            self.tick(self.next_limit())
            self.judge()
            if self.gpus.hear():  # the end of the asking child woke us
                self.gpus.note_peak()

    def prepare(self) -> None:
        """Run the prepare commands, one after another."""
        for command in self.spec.get("prepare") or ():
            if self.decision:
                return
            status = self.run_command(command, self.max_deadline(), watched=True)
            if self.decision is None and status != 0:
                said = "was cut" if status is None else f"exited with {status}"
                raise LaunchError("prepare_failed", f"the prepare command `{plain(command.encode())}` {said}")
        if self.spec.get("prepare") and not self.decision:
            took = round(clock() - self.born, 3)
            self.chronicle.emit("prepared", f"prepared in {took:.1f} s", seconds=took)

    def run_command(self, command: str, deadline: float, *, watched: bool) -> int | None:
        """Run one prepare or cleanup command; its exit code, None if it was still running at the deadline."""
        write_all(self.log, b"$ " + command.encode("utf-8", "replace") + b"\n")
        cwd = str(self.spec.get("cwd") or "")
        if not watched and not os.path.isdir(cwd):
            cwd = self.dir  # cleaning up must not depend on what may have been the trouble
        pid = spawn(command, cwd, self.env, self.log)
        self.statuses[pid] = None
        while self.statuses[pid] is None and clock() < deadline and not (watched and self.decision):
            self.tick(deadline)
            if watched:
                self.judge()
        if watched:
            self.judge()
        status = self.statuses[pid]
        return None if status is None else exit_code(status)

    def end_tree(self) -> None:
        """TERM, grace, KILL: nothing of this run lives on, unless that was asked for after a normal end."""
        self.gpus.abandon()
        by_itself = self.decision is None and not self.failure
        members = self.tree.members() or self.tree.strays()
        if by_itself and self.spec.get("keep_children"):
            self.tree.kept = set(members)
            return
        if not members:
            return
        self.counts["term_sent"] = send(members, signal.SIGTERM)
        send(members, signal.SIGCONT)  # a stopped process takes no TERM
        until = clock() + (min(self.grace_s, LEFTOVER_GRACE_S) if by_itself else self.grace_s)
        pause = 0.005
        while clock() < until and not self.hurry and self.tree.members():
            self.tick(clock() + pause)
            pause = min(2 * pause, 0.1)
        self.kill_tree()
        whose = "what the trainer left behind" if by_itself else "the trainer and what it started"
        text = f"ended {whose}: TERM to {self.counts['term_sent']}, KILL to {self.counts['kill_sent']}"
        self.chronicle.emit("killed", text, left=self.left, **self.counts)

    def kill_tree(self) -> None:
        """KILL again and again until nobody is left, or only those that no signal reaches."""
        first: dict[int, float] = {}
        until, pause = clock() + KILL_CAP_S, 0.002
        while True:
            self.reap()
            members = self.tree.members() or self.tree.strays()
            now = clock()
            stuck = [pid for pid in members if now - first.get(pid, now) > STUCK_S]
            if len(stuck) == len(members) or now > until:
                self.left = sorted(members)
                return
            for pid in members:
                if pid not in first:
                    first[pid] = now
                    self.counts["kill_sent"] += 1
            send(members, signal.SIGKILL)
            self.tick(clock() + pause)
            pause = min(2 * pause, 0.05)

    def read_the_rest(self) -> None:
        """Scan what was printed last; some trainers' lines arrive after the end (Ray's do)."""
        if self.died_of_a_stop_signal() and not self.decision:
            until = clock() + 0.2  # a scheduler signals the trainer and us together: ours may come later
            while clock() < until and not self.decision:
                self.tick(until)
        until = clock() + FINAL_SCAN_S
        while not self.scan(until - clock(), final=True) and clock() < until:
            self.tick(clock())
        if self.follower.behind() > 4 * LogFollower.LONGEST:
            self.follower.skip(self.follower.behind() - 4 * LogFollower.LONGEST)
            self.scan(0.1 * FINAL_SCAN_S, final=True)

    def clean_up(self) -> None:
        """Run the cleanup commands after any ending, within `cleanup_s` in all."""
        commands = self.spec.get("cleanup") or ()
        if not commands:
            return
        until = clock() + float(self.spec.get("cleanup_s") or 120.0)
        for command in commands:
            code = None
            try:
                if clock() < until:
                    code = self.run_command(command, until, watched=False)
            except (LaunchError, OSError) as error:
                self.chronicle.emit("warning", f"a cleanup command could not start: {error}")
            self.cleanup.append({"command": command, "returncode": code})
            self.kill_tree()
        failed = sum(1 for done in self.cleanup if done["returncode"] != 0)
        text = f"cleaned up: {len(commands)} commands, {failed} failed"
        self.chronicle.emit("cleaned", text, failed=failed)

    def hand_over(self) -> None:
        """Become the collector, if one is named; the lock is closed by that."""
        argv = [str(word) for word in self.spec.get("collector") or ()]
        if not argv:
            return
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        env = {key: value for key, value in os.environ.items() if key != RUN_ID}
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            out = os.open(self.path("collect.log"), flags, 0o644)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(out, 1)
            os.dup2(out, 2)
            signal.set_wakeup_fd(-1)
            os.execve(argv[0], argv, env)
        except OSError as error:
            self.chronicle.emit("warning", f"the collector could not be started: {error}")

    # -- one turn

    def tick(self, until: float) -> None:
        """Sleep until something happens, at the latest `until`, and take in what happened."""
        now = clock()
        pacing = now < self.scan_after
        timers = [until, self.pulse_at, self.sample_at, self.hangup_at, self.mirror.next_at, self.peek_at]
        if pacing:
            timers.append(self.scan_after)
        elif self.dirty:
            timers.append(now)
        if not self.wakeups.trusted:
            timers.append(now + 1.0)
        came, moved = self.wakeups.wait(min(timers) - now, only_signals=pacing)
        self.dirty = self.dirty or moved or not self.wakeups.trusted
        for number_ in came:
            self.take_signal(number_)
        if self.dirty and clock() >= self.scan_after:
            self.look()
        self.reap()
        self.do_what_is_due(clock())

    def take_signal(self, number_: int) -> None:
        """What a signal to the Runner means; SIGCHLD only woke us."""
        if number_ == signal.SIGHUP:
            self.hangup_at = clock() + HANGUP_S
        elif number_ == signal.SIGUSR1:
            self.request_stop("now", "walltime", "the scheduler's wall time is near (SIGUSR1)")
        elif number_ in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
            self.hurry = self.hurry or (self.decision is not None and number_ == signal.SIGINT)
            name = signal.Signals(number_).name
            self.request_stop("now", name.lower(), f"the Runner received {name}")

    def look(self) -> None:
        """Read what is new: stop request, inbox, log."""
        self.dirty = False
        self.check_stop_file()
        self.read_inbox()
        if not self.scan(SCAN_BUDGET_S):
            self.dirty = True
        now = clock()
        self.scan_after = now + PACE_S
        self.mirror.wake(now)

    def do_what_is_due(self, now: float) -> None:
        """Timers that are not limits."""
        self.mirror.pump(now)
        if now >= self.hangup_at:
            self.hangup_at = float("inf")
            if terminal_is_gone() and tmux_server_lives():
                self.request_stop("now", "session_killed", "the tmux session was killed")
        if now >= self.peek_at:
            self.peek_at = float("inf")
            self.take_in(self.follower.partial(), self.follower.offset)
        if now >= self.sample_at:
            self.sample_gap = min(PULSE_S, 2.0 * self.sample_gap)
            self.sample_at = now + self.sample_gap
            self.sample()
        if now >= self.pulse_at:
            self.pulse_at = now + PULSE_S
            self.pulse()

    def pulse(self) -> None:
        """The heartbeat; also finds out whether the file system tells us about changes at all."""
        try:
            os.utime(self.lock)
        except OSError:
            pass  # a full or vanished file system: the flock still says that we live
        missed = not self.dirty and self.follower.behind() > len(self.follower.partial())
        if missed and self.missed_before:
            self.wakeups.trusted = False
        self.missed_before = missed
        self.dirty = True

    def sample(self) -> None:
        """Memory of the run now; more often at first, so that short runs have a number too."""
        self.peak_memory = max(self.peak_memory, self.tree.resident_bytes())
        if clock() >= self.gpus.next_at:
            self.gpus.ask()

    def reap(self) -> None:
        """The one place that waits for children: a second one would steal exit codes."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if self.trainer:
                self.peak_memory = max(self.peak_memory, usage.ru_maxrss * 1024)
            if pid in self.statuses:
                self.statuses[pid] = status
            if pid == self.trainer:
                self.trainer_ended(status)

    def trainer_ended(self, status: int) -> None:
        """The moment of its death, told at once; what follows may take a while."""
        self.ended_at, self.ended_wall = clock(), wall()
        self.scan(0.0)  # one chunk: a first step that was just printed is told before the end
        code, number_ = exit_code(status), term_signal(status)
        text = f"the trainer {how_it_ended(code, number_)}"
        self.chronicle.emit("ended", text, returncode=code, signal=number_)

    # -- limits and stop requests

    def max_deadline(self) -> float:
        """When the run is over at the latest."""
        return float("inf") if self.max_s is None else self.born + self.max_s

    def next_limit(self) -> float:
        """The nearest time at which `judge` may say something new."""
        drain = self.drain[0] if self.drain else float("inf")
        return min(self.max_deadline(), self.pace.next_deadline(), drain)

    def judge(self) -> None:
        """Decide whether the run must end now."""
        if self.decision or (self.trainer and self.statuses[self.trainer] is not None):
            return
        now, pace = clock(), self.pace
        if now >= self.max_deadline():
            self.over_limit("max_time", self.max_s, "the run's time limit is reached")
        if not self.trainer or self.decision:
            return
        if self.drain and (now >= self.drain[0] or pace.steps > self.drain[1]):
            self.decide(self.drain[2].ending, self.drain[2].cause, self.drain[2].reason)
            return
        if now >= pace.next_deadline():
            self.scan(FINAL_SCAN_S)  # the limit is on what was printed, not on what we happened to read
            self.take_in(self.follower.partial(), self.follower.offset)
        if now >= pace.first_deadline():
            self.over_limit("first_step_timeout", pace.first_limit, "no first step in time")
        elif now >= pace.stall_deadline():
            self.over_limit("stalled", pace.stall_limit, "no new signal")
        elif now >= pace.report_deadline():
            pace.stalled = True
            silent = round(now - pace.last_at, 1)
            self.chronicle.emit("stall", f"no new signal for {silent:.0f} s", silent_s=silent)

    def over_limit(self, ending: str, limit: float | None, what: str) -> None:
        """A limit fired."""
        self.chronicle.emit("limit", f"{what} ({limit:g} s)", limit=ending, limit_s=limit)
        self.decide(ending, ending, f"{what} (limit {limit:g} s)")

    def decide(self, ending: str, cause: str, reason: str) -> None:
        """Fix why the run ends; the first reason stays."""
        if self.decision is None:
            self.decision = Decision(ending, cause, reason)
            self.chronicle.emit("stopping", f"stopping: {reason}", ending=ending, cause=cause)

    def request_stop(self, how: str, cause: str, reason: str) -> None:
        """Somebody asked: now, or after the step that is being made."""
        if self.decision:
            return
        if how != "drain" or not self.trainer:
            self.decide("stopped", cause, reason)
        elif self.drain is None:
            wait = max(self.grace_s, 2 * self.pace.median_gap())
            self.drain = (clock() + wait, self.pace.steps, Decision("stopped", cause, reason))
            text = f"stopping after this step: {reason}"
            self.chronicle.emit("stopping", text, ending="stopped", cause=cause, drain_s=round(wait, 1))

    def check_stop_file(self) -> None:
        """Read the stop request if there is a new one."""
        try:
            there = os.stat(self.path("stop"))
        except OSError:
            return
        if self.stop_seen == (there.st_ino, there.st_mtime_ns):
            return
        self.stop_seen = (there.st_ino, there.st_mtime_ns)
        request = parse_object(read_file(self.path("stop")))
        reason = plain(str(request.get("reason") or "a stop was requested").encode("utf-8", "replace"))
        self.request_stop(str(request.get("how") or "now"), "stop_request", reason)

    def died_of_a_stop_signal(self) -> bool:
        """Whether the trainer ended as by TERM, INT, HUP or USR1, perhaps sent to us as well."""
        status = self.statuses.get(self.trainer)
        code = None if status is None else exit_code(status)
        return code in {128 + s for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)}

    # -- signals of the trainer

    def scan(self, budget: float, *, final: bool = False) -> bool:
        """Scan what is new in the log for at most so many seconds; False if there is more."""
        until = clock() + budget
        generation = self.follower.generation
        for chunk in self.follower.poll():
            self.scanner.restart(self.follower.generation)
            self.take_in(chunk, self.follower.offset - len(chunk))
            if clock() > until:
                return False
        if self.follower.generation != generation:
            self.wakeups.watch_log()
        if final:
            self.take_in(self.follower.partial(), self.follower.offset)
        self.peek_at = clock() + 1.0 if self.follower.behind() and not final else float("inf")
        return True

    def take_in(self, chunk: bytes, start: int) -> None:
        """Act on every signal in a chunk of the log."""
        validation: tuple[re.Match[bytes], bytes] | None = None
        for pattern, match, line in self.scanner.scan(chunk, start):
            if pattern.kind == "step":
                step = number(group(match, "step"))
                self.saw_step(None if step is None else int(step), number(group(match, "kl")), line)
            elif pattern.kind == "error":
                pattern.quiet_until = clock() + ERROR_EVERY_S
                self.saw_error(plain(group(match, "kind")), plain(group(match, "text") or line))
            elif pattern.kind == "nan":
                pattern.quiet_until = float("inf")
                self.saw_nan(plain(group(match, "text") or line))
            else:
                self.saw_progress(pattern.hold_s)
                if pattern.kind == "validation":
                    self.pace.validations += 1
                    validation = match, line
        if validation:
            match, line = validation
            self.chronicle.emit("validation", f"validation: {plain(group(match, 'text') or line, 120)}")

    def saw_step(self, step: int | None, kl: float | None, line: bytes) -> None:
        """A training step's metrics were printed."""
        now, pace = clock(), self.pace
        self.resumed(now)
        had_nan = pace.nan
        if pace.step(now, step, kl):
            shown = "" if pace.kl is None else f", KL {pace.kl:g}"
            text = f"first step: step {pace.first_step}{shown}"
            after = round(pace.first_s or 0.0, 3)
            self.chronicle.emit("first_step", text, step=pace.first_step, kl=pace.kl, first_step_s=after)
        if pace.nan and not had_nan:
            self.chronicle.emit("nan", f"a metric is not a number: {plain(line, 120)}")

    def saw_progress(self, hold_s: float) -> None:
        """Something moved that is not a step."""
        now = clock()
        self.resumed(now)
        self.pace.moved(now, hold_s)

    def saw_nan(self, text: str) -> None:
        """A metric is not a number any more; told once."""
        if not self.pace.nan:
            self.pace.nan = True
            self.chronicle.emit("nan", f"a metric is not a number: {text}")

    def saw_error(self, kind: str, text: str) -> None:
        """A line that means trouble."""
        self.error = self.error or {"error_kind": kind, "error": text}
        self.chronicle.emit("error", text, kind=kind)

    def resumed(self, now: float) -> None:
        """A signal after a stall."""
        if self.pace.stalled:
            self.pace.stalled = False
            silent = round(now - self.pace.last_at, 1)
            self.chronicle.emit("resumed", f"a signal again after {silent:.0f} s", silent_s=silent)

    def read_inbox(self) -> None:
        """Signals that the CLI saw elsewhere: an HTTP status, a Ray job."""
        for chunk in self.inbox.poll():
            for raw in chunk.splitlines():
                said = parse_object(raw)
                kind, hold_s = said.get("kind"), seconds(said.get("hold_s")) or 0.0
                text = plain(str(said.get("text") or "").encode("utf-8", "replace"))
                if kind == "step":
                    step, kl = said.get("step"), said.get("kl")
                    known = int(step) if isinstance(step, (int, float)) else None
                    self.saw_step(known, float(kl) if isinstance(kl, (int, float)) else None, raw)
                elif kind in ("validation", "progress"):
                    self.pace.validations += kind == "validation"
                    self.saw_progress(hold_s)
                elif kind == "error":
                    self.saw_error("", text)
                elif kind == "nan":
                    self.saw_nan(text)

    # -- GPUs

    def ask_gpus_before(self) -> None:
        """Memory in use before the start, to compare with afterwards."""
        self.gpus.ask()
        until = clock() + GPU_ASK_S
        while not self.gpus.hear() and clock() < until:
            self.tick(clock() + 0.02)
        self.gpus.abandon()
        self.gpus.before = self.gpus.used

    def wait_for_gpus(self) -> None:
        """Whether the memory came back, given some time: the next run needs it."""
        if self.gpus.before is None or not self.trainer:
            return
        until = clock() + GPU_RETURN_S
        while clock() < until and not self.gpus.returned:
            self.gpus.ask()
            while not self.gpus.hear() and clock() < until:
                self.tick(clock() + 0.05)
            if self.gpus.used is not None:
                self.gpus.returned = self.gpus.used <= self.gpus.before + (64 << 20)
            if not self.gpus.returned:
                self.tick(clock() + 0.5)
        self.gpus.abandon()

    # -- records

    def write_identity(self) -> None:
        """runner.json: who runs, in terms that survive pid reuse and reboots."""
        value = {
            "schema": SCHEMA,
            "run": self.run_id,
            "pid": os.getpid(),
            "start_ticks": start_ticks(os.getpid()),
            "trainer_pid": self.trainer or None,
            "trainer_start_ticks": start_ticks(self.trainer) if self.trainer else None,
            "boot_id": read_file("/proc/sys/kernel/random/boot_id").decode().strip(),
            "host": os.uname().nodename,
            "started": self.born_wall,
            "started_boot": self.born,
            "trainer_started_boot": self.started_at or None,
        }
        self.chronicle.write_json("runner.json", value)

    def note_failure(self, part: str, error: Exception) -> None:
        """A fault of our own: the run is ended and its record says so."""
        import traceback  # costs memory, and is needed only now

        trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        self.failure = self.failure or f"the Runner failed in {part}: {trace[-2500:]}"
        self.chronicle.emit("error", f"the Runner failed in {part}: {error!r}", kind="runner_error")

    def verdict(self, code: int | None, number_: int | None) -> Decision:
        """Ending, cause and reason from intent first and exit code second."""
        if self.decision and self.decision.ending != "launch_failed":
            return self.decision
        if self.failure:
            return Decision("crashed", "runner_error", self.failure)
        if self.decision:
            return self.decision
        text = f"the trainer {how_it_ended(code, number_)}"
        if code == 0:
            return Decision("finished", "", text)
        if number_ == signal.SIGKILL:
            text += ", not by the Runner: often the out-of-memory killer"
        return Decision("crashed", "exit_code" if number_ is None else "signal", text)

    def exit_record(self) -> dict[str, Any]:
        """Everything that is known about the end."""
        status = self.statuses.get(self.trainer)
        code = None if status is None else exit_code(status)
        number_ = None if status is None else term_signal(status)
        why, pace = self.verdict(code, number_), self.pace
        lived = (self.ended_at or clock()) - self.started_at if self.started_at else 0.0
        return {
            "schema": SCHEMA,
            "run": self.run_id,
            "ending": why.ending,
            "cause": why.cause,
            "reason": why.reason,
            "returncode": code,
            "signal": number_,
            "first_step_s": None if pace.first_s is None else round(pace.first_s, 3),
            "first_step": pace.first_step,
            "kl": pace.kl,
            "last_step": pace.last_step,
            "steps_seen": pace.steps,
            "validations_seen": pace.validations,
            "nan_seen": pace.nan,
            **self.error,
            "duration_s": round(lived, 3),
            "started": self.started_wall,
            "ended": self.ended_wall or wall(),
            "peak_memory_bytes": self.peak_memory,
            "gpu_memory_bytes": self.gpus.peak,
            "gpu_memory_returned": self.gpus.returned,
            **self.counts,
            "left": self.left,
            "cleanup": self.cleanup,
            "log_bytes": os.fstat(self.log).st_size if self.log >= 0 else 0,
        }

    def say_goodbye(self, record: Mapping[str, Any]) -> None:
        """The pane's last lines."""
        until = clock() + 0.5
        self.mirror.wake(0.0)
        while self.mirror.next_at < until and clock() < until:
            time.sleep(max(0.0, min(0.1, self.mirror.next_at - clock())))
            self.mirror.pump(clock())
        code = record["returncode"]
        shown = "" if code is None else f", exit code {code}"
        self.mirror.say(f"== {self.run_id}: {record['ending']}{shown}; records: {self.dir} ==")


def exit_code(status: int) -> int:
    """The shell's reading of a wait status: 128+n for signal n."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def term_signal(status: int) -> int | None:
    """The signal that ended a process, None if it exited."""
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else None


def how_it_ended(code: int | None, number_: int | None) -> str:
    """The end of a process in words."""
    if code is None:
        return "did not end"
    if number_ is not None:
        return f"was ended by {signal.Signals(number_).name}"
    known = {126: ": a file is not executable", 127: ": a command was not found"}
    return f"exited with {code}{known.get(code, '')}"


def exit_status(record: Mapping[str, Any]) -> int:
    """The Runner's own exit status."""
    return 0 if record["ending"] == "finished" else int(record["returncode"] or 1)


def parse_object(raw: bytes) -> dict[str, Any]:
    """A JSON object from outside; {} for anything else."""
    try:
        value = json.loads(raw)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def terminal_is_gone() -> bool:
    """Whether the terminal that we were started in has hung up. False where there never was one."""
    for fd in (0, 1, 2):
        try:
            fcntl.ioctl(fd, termios.TIOCGWINSZ, b"\0" * 8)
        except OSError as error:
            if error.errno == errno.EIO:
                return True
    return False


def tmux_server_lives() -> bool:
    """Whether the tmux server of our pane is alive. A zombie takes signals too, so its state is read."""
    fields = os.environ.get("TMUX", "").split(",")
    if len(fields) < 2 or not fields[1].isdigit():
        return False
    raw = read_file(f"/proc/{fields[1]}/stat")
    return b"(tmux" in raw and raw.rpartition(b")")[2].split()[0] not in (b"Z", b"X")


def refuse(status: int, sentence: str) -> int:
    """Say why nothing was done."""
    sys.stderr.write(sentence + "\n")
    return status


def command_line(run_dir: str) -> list[str]:
    """The argv that starts a Runner with this interpreter, from its compiled file if that is there and fresh.

    Compiling the source in every Runner takes twice the memory and twice the time to the first instruction.
    """
    from importlib.util import cache_from_source  # for launchers; the Runner itself never comes here

    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "runner.py")
    compiled = cache_from_source(source)
    with open(compiled, "rb") if os.path.exists(compiled) else open(os.devnull, "rb") as file:
        header = file.read(16)  # magic, flags, mtime, size
    there = os.stat(source)
    fresh = (0, int(there.st_mtime) & 0xFFFFFFFF, there.st_size & 0xFFFFFFFF)
    found = tuple(int.from_bytes(header[at : at + 4], "little") for at in (4, 8, 12))
    program = compiled if len(header) == 16 and found == fresh else source
    return [sys.executable, "-S", "-E", "-s", program, run_dir]


def main(argv: list[str]) -> int:
    """Run the one run of a run directory."""
    if len(argv) != 1:
        return refuse(2, "usage: runner.py RUN_DIR")
    run_dir = os.path.abspath(argv[0])
    spec = parse_object(read_file(os.path.join(run_dir, "spec.json")))
    if not spec.get("run") or not spec.get("command"):
        return refuse(4, f"{run_dir} holds no readable spec.json.")
    if os.environ.get(RUN_ID, spec["run"]) != spec["run"]:
        # Started inside another run: our own mark, so that the other Runner's sweep spares us.
        again = getattr(sys, "orig_argv", None) or [sys.executable, "-S", "-E", "-s", __file__, *argv]
        os.execve(sys.executable, again, {**os.environ, RUN_ID: str(spec["run"])})
    while (fd := os.open(os.devnull, os.O_RDWR)) < 3:
        pass  # descriptors 0 to 2 must not become files of ours
    os.close(fd)
    lock = os.open(os.path.join(run_dir, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return refuse(5, f"Another Runner holds {run_dir}.")
    if os.path.exists(os.path.join(run_dir, "exit.json")):
        return refuse(5, f"The run in {run_dir} is over: it has an exit record.")
    if parse_object(read_file(os.path.join(run_dir, "runner.json"))).get("trainer_pid"):
        return refuse(5, f"The run in {run_dir} was started before, by a Runner that died: it is lost.")
    return Runner(run_dir, spec, lock).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
