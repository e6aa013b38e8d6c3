"""What the trainer says: every signal in its log and in the inbox becomes pace, error and event."""

from __future__ import annotations

import os

from .basics import NEVER, clock, parse_object, positive, whole
from .chronicle import Chronicle
from .follow import LogFollower
from .pace import Pace
from .patterns import Pattern, Scanner, group
from .spec import Spec
from .text import number, plain

FINAL_SCAN_S = 10.0  # what was left unread is scanned for so long, then only its end
PEEK_S = 1.0  # an unfinished line is looked at after so long without its end


class Listener:
    """Reads what is new and tells `pace` and `chronicle`."""

    def __init__(self, run_dir: str, spec: Spec, chronicle: Chronicle) -> None:
        self.spec = spec
        self.chronicle = chronicle
        self.pace = Pace(spec)
        self.follower = LogFollower(os.path.join(run_dir, "run.log"))
        self.inbox = LogFollower(os.path.join(run_dir, "inbox.jsonl"))
        self.scanner = Scanner(())
        self.error: dict[str, str] = {}
        self.peek_at = NEVER

    def learn(self) -> None:
        """Compile the patterns. Raises re.error for one that is none."""
        self.scanner = Scanner(
            Pattern(s["kind"], s["pattern"], s.get("hold_s") or 0.0, s.get("needles") or ()) for s in self.spec.signals
        )

    def scan(self, budget: float) -> bool:
        """Scan what is new in the log for at most so many seconds; False if there is more."""
        until = clock() + budget
        for chunk in self.follower.poll():
            self.scanner.restart(self.follower.generation)
            self._take_in(chunk, self.follower.offset - len(chunk))
            if clock() > until:
                return False
        self.peek_at = clock() + PEEK_S if self.follower.behind() else NEVER
        return True

    def peek(self) -> None:
        """Scan the line that has no end yet, as it is."""
        self.peek_at = NEVER
        self._take_in(self.follower.partial(), self.follower.offset)

    def read_the_rest(self) -> None:
        """Everything that is there now, unfinished or not; of what is too much only the last megabytes."""
        if not self.scan(FINAL_SCAN_S):
            self.follower.skip(max(0, self.follower.behind() - 4 * LogFollower.LONGEST))
            self.scan(0.1 * FINAL_SCAN_S)
        self.peek()

    def _take_in(self, chunk: bytes, start: int) -> None:
        """Act on every signal in a chunk of the log."""
        for pattern, match, line in self.scanner.scan(chunk, start):
            text = group(match, "text") or line
            if pattern.kind == "step":
                self._saw_step(number(group(match, "step")), number(group(match, "kl")), line)
            elif pattern.kind == "error":
                self._saw_error(plain(group(match, "kind")), plain(text))
            elif pattern.kind == "nan":
                self._saw_nan(plain(text))
            else:
                self._saw_progress(pattern.kind, pattern.hold_s, plain(text, 120))

    def read_inbox(self) -> None:
        """Signals that the CLI saw elsewhere: an HTTP status, a Ray job."""
        for chunk in self.inbox.poll():
            for raw in chunk.splitlines():
                said = parse_object(raw)
                kind, text = said.get("kind"), plain(str(said.get("text") or ""))
                if kind == "step":
                    kl = said.get("kl")
                    self._saw_step(said.get("step"), float(kl) if isinstance(kl, (int, float)) else None, raw)
                elif kind in ("validation", "progress"):
                    self._saw_progress(kind, positive(said.get("hold_s")) or 0.0, text)
                elif kind == "error":
                    self._saw_error("", text)
                elif kind == "nan":
                    self._saw_nan(text)

    def _saw_step(self, step: object, kl: float | None, line: bytes) -> None:
        """A training step's metrics were printed."""
        now, pace = clock(), self.pace
        self._resumed(now)
        had_nan = pace.nan
        if pace.step(now, whole(step), kl):
            shown = "" if pace.kl is None else f", KL {pace.kl:g}"
            text = f"first step: step {pace.first_step}{shown}"
            after = round(pace.first_s or 0.0, 3)
            self.chronicle.emit("first_step", text, step=pace.first_step, kl=pace.kl, first_step_s=after)
        if pace.nan and not had_nan:
            self.chronicle.emit("nan", f"a metric is not a number: {plain(line, 120)}")

    def _saw_progress(self, kind: str, hold_s: float, text: str) -> None:
        """Something moved that is not a step."""
        now = clock()
        self._resumed(now)
        self.pace.moved(now, hold_s)
        if kind == "validation":
            self.pace.validations += 1
            self.chronicle.emit("validation", f"validation: {text}")

    def _saw_nan(self, text: str) -> None:
        """A metric is not a number any more; told once."""
        if not self.pace.nan:
            self.pace.nan = True
            self.chronicle.emit("nan", f"a metric is not a number: {text}")

    def _saw_error(self, kind: str, text: str) -> None:
        """A line that means trouble."""
        self.error = self.error or {"error_kind": kind, "error": text}
        self.chronicle.emit("error", text, kind=kind)

    def _resumed(self, now: float) -> None:
        """A signal after a stall."""
        if self.pace.stalled:
            self.pace.stalled = False
            silent = round(now - self.pace.last_at, 1)
            self.chronicle.emit("resumed", f"a signal again after {silent:.0f} s", silent_s=silent)
