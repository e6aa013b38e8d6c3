"""Turns the trainer's signals, from its log and the inbox, into progress, errors and events."""

from __future__ import annotations

from .basics import NEVER, clock, parse_object, positive, real, whole
from .event_log import EventLog
from .line_patterns import LinePattern, Scanner, group
from .log_follower import LogFollower
from .progress_limits import ProgressLimits
from .spec import Spec
from .text import number, plain

FINAL_SCAN_S = 10.0  # time limit for the final scan; beyond it, only the log's end is scanned
PEEK_S = 1.0  # an unfinished line is scanned after this time


class Listener:
    """Reads what is new in log and inbox, and updates `pace` and `event_log`."""

    def __init__(self, run_dir: str, runner_spec: Spec, event_log: EventLog) -> None:
        self.spec = runner_spec
        self.event_log = event_log
        self.pace = ProgressLimits(runner_spec)
        self.follower = LogFollower(f"{run_dir}/run.log")
        self.inbox = LogFollower(f"{run_dir}/inbox.jsonl")
        self.scanner = Scanner(())
        self.error: dict[str, str] = {}  # the first error, or the first with an `error_kind`
        self.peek_at = NEVER
        self._unfinished = 0  # bytes of the unfinished last line

    def learn(self) -> None:
        """Compile the patterns. Raises re.error for an invalid one."""
        self.scanner = Scanner(
            LinePattern(s["kind"], s["pattern"], s.get("hold_s") or 0.0, s.get("needles") or ())
            for s in self.spec.signals
        )

    def scan(self, budget: float) -> bool:
        """Scan what is new in the log for about `budget` seconds at most; False if there is more."""
        until = clock() + budget
        for chunk in self.follower.poll():
            self.pace.printed(clock())
            self._take_in(chunk, self.follower.offset - len(chunk))
            if clock() > until:
                return False
        unfinished = self.follower.behind()
        if unfinished > self._unfinished:
            self.pace.printed(clock())
        self._unfinished = unfinished
        self.peek_at = clock() + PEEK_S if unfinished else NEVER
        return True

    def peek(self) -> None:
        """Scan the unfinished line as it is."""
        self.peek_at = NEVER
        self._take_in(self.follower.partial(), self.follower.offset)

    def read_the_rest(self) -> None:
        """Scan all that is left, including an unfinished line; if that takes too long, only the last megabytes."""
        if not self.scan(FINAL_SCAN_S):
            self.follower.offset += max(0, self.follower.behind() - 4 * LogFollower.LONGEST)
            self.scan(0.1 * FINAL_SCAN_S)
        self.peek()

    def read_inbox(self) -> None:
        """Process the signals that the CLI detected elsewhere, such as an HTTP status or a Ray job."""
        for chunk in self.inbox.poll():
            for said in map(parse_object, chunk.splitlines()):
                kind, text = str(said.get("kind")), str(said.get("text") or "")
                if kind == "step":
                    self._saw_step(whole(said.get("step")), real(said.get("kl")), text)
                else:
                    self._saw(kind, text, positive(said.get("hold_s")) or 0.0)

    def _take_in(self, chunk: bytes, start: int) -> None:
        """Process every signal in a chunk of the log that begins at offset `start`."""
        for pattern, match, line in self.scanner.scan(chunk, start, self.follower.generation):
            text = group(match, "text") or line
            if pattern.kind == "step":
                self._saw_step(whole(number(group(match, "step"))), number(group(match, "kl")), text)
            else:
                self._saw(pattern.kind, text, pattern.hold_s, plain(group(match, "kind")))

    def _saw_step(self, step: int | None, kl: float | None, text: bytes | str) -> None:
        """Process a training step's metrics."""
        now, pace = clock(), self.pace
        self._resumed(now)
        if pace.step(now, step, kl):
            shown = "" if pace.kl is None else f", KL {pace.kl:g}"
            first = {"step": pace.first_step, "kl": pace.kl, "first_step_s": round(pace.first_s or 0.0, 3)}
            self.event_log.emit("first_step", f"first step: step {pace.first_step}{shown}", **first)
        if kl is not None and kl != kl:
            self._saw("nan", text)

    def _saw(self, kind: str, text: bytes | str, hold_s: float = 0.0, error_kind: str = "") -> None:
        """Process any other signal; unknown kinds are ignored."""
        now, pace = clock(), self.pace
        if kind in ("progress", "validation"):
            self._resumed(now)
            pace.moved(now, hold_s)
        elif kind == "ready":
            pace.ready(now)
        if kind == "validation":
            pace.validations += 1
            self.event_log.emit("validation", f"validation: {plain(text, 120)}")
        elif kind == "error":
            if not self.error or (error_kind and not self.error["error_kind"]):  # an error with a kind says more
                self.error = {"error_kind": error_kind, "error": plain(text)}
            self.event_log.emit("error", plain(text), kind=error_kind)
        elif kind == "nan" and not pace.nan:
            pace.nan = True
            self.event_log.emit("nan", f"a metric is not a number: {plain(text, 120)}")

    def _resumed(self, now: float) -> None:
        """If the run was stalled, end the stall and report it."""
        if self.pace.stalled:
            self.pace.stalled = False
            silent = round(now - self.pace.last_at, 1)
            self.event_log.emit("resumed", f"a signal again after {silent:.0f} s", silent_s=silent)
