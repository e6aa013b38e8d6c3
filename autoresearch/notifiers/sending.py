"""The process that sends one notice to its recipients, trying again where one cannot be reached.

It is started detached (`notifiers.hand_over`), so nothing waits for it. What came of each attempt is a line of
notices.jsonl in the directory of the run or the campaign:

    {"t": ..., "do": "sent" | "failed" | "gave_up", "notice": KEY, "kind": ..., "number": 1, "to": "slack://***",
     "try": 1, "reason": ""}

A recipient that has a `sent` or `gave_up` for a key is not tried again, whoever asks: so a controller that was killed
may hand a notice over once more. Each attempt and its line are made under one lock. A notice comes twice only if this
process is killed between an attempt and its line, or where nothing can be written.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from autoresearch.errors import EnvironmentUnusable
from autoresearch.notifiers.notice import Notice
from autoresearch.notifiers.recipients import Recipient
from autoresearch.records import lines
from autoresearch.records.appending import append_line, json_line
from autoresearch.records.failpoint import failpoint
from autoresearch.records.rundir import locked

NAME = "notices.jsonl"
WAITS_S = (1.0, 5.0, 15.0, 60.0, 240.0, 900.0, 2400.0)  # between the attempts: in all, an hour
ATTEMPT_S = 60.0  # seconds that one attempt may take
REASON_MAX = 300  # characters
USELESS = 3  # exit code of an attempt after which no other one is of use
PROGRAM = (sys.executable, "-P", "-m", "autoresearch.notifiers")


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A notice and those who shall get it. `folder`: of its run or campaign."""

    folder: Path
    notice: Notice
    to: tuple[Recipient, ...]

    def encoded(self) -> bytes:
        """As the sending process reads it."""
        record = {
            "folder": str(self.folder),
            "notice": self.notice.to_json(),
            "to": [one.to_json() for one in self.to],
        }
        return json.dumps(record).encode()

    @classmethod
    def decoded(cls, data: bytes) -> Outgoing:
        """Read what `encoded` wrote. Raises ValueError, KeyError, TypeError for anything else."""
        record = json.loads(data)
        each = tuple(map(Recipient.from_json, record["to"]))
        return cls(Path(record["folder"]), Notice.from_json(record["notice"]), each)


def send(outgoing: Outgoing, *, sleep: Callable[[float], None] = time.sleep, waits: Sequence[float] = WAITS_S) -> None:
    """Send a notice to all its recipients; returns when each has it, or was given up after the last wait."""
    left = list(outgoing.to)
    for count, wait in enumerate((*waits, None), 1):
        left = [one for one in left if not _settled(outgoing, one, count, final=wait is None)]
        if wait is None or not left:
            return
        sleep(wait)


def attempt(recipient: Recipient, notice: Notice) -> tuple[str, bool]:
    """One attempt in a process of its own: why it failed, without secrets, and whether another one is of no use.

    ("", False) if the notice was delivered.
    """
    outgoing = Outgoing(Path(), notice, (recipient,))
    try:
        done = subprocess.run([*PROGRAM, "attempt"], input=outgoing.encoded(), capture_output=True, timeout=ATTEMPT_S)
    except subprocess.TimeoutExpired:
        return f"no answer within {ATTEMPT_S:.0f} s", False
    except OSError as error:  # no memory, no more processes
        return f"no process could be started: {error.strerror}", False
    if done.returncode == 0:
        return "", False
    last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
    reason = recipient.without_secrets(last[0] if last else f"it ended with {done.returncode}")
    return reason[:REASON_MAX], done.returncode == USELESS


def settled(folder: Path) -> set[tuple[str, int]]:
    """(key, number of the recipient) of each notice that was sent or given up."""
    done = set()
    with lines.reading(folder / NAME) as fd:
        for line in lines.forwards(fd) if fd is not None else ():
            with contextlib.suppress(ValueError, KeyError, TypeError):
                record = json.loads(line)
                if record["do"] in ("sent", "gave_up"):
                    done.add((str(record["notice"]), int(record["number"])))
    return done


def note(folder: Path, do: str, notice: Notice, number: int, shown: str, tries: int, reason: str) -> None:
    """Append a line to the notices of a run or campaign; a full disk is no reason not to go on."""
    record = {
        "t": round(time.time(), 3),
        "do": do,
        "notice": notice.key,
        "kind": notice.kind.value,
        "number": number,
        "to": shown,
        "try": tries,
        "reason": reason,
    }
    with contextlib.suppress(EnvironmentUnusable):
        append_line(folder / NAME, json_line(record))


def _settled(outgoing: Outgoing, recipient: Recipient, count: int, *, final: bool) -> bool:
    """Try one recipient, unless that was done; whether nothing is left to do for it."""
    with _alone(outgoing.folder):
        if (outgoing.notice.key, recipient.number) in settled(outgoing.folder):
            return True
        reason, useless = attempt(recipient, outgoing.notice)
        failpoint("notify.attempted")
        do = "gave_up" if reason and (final or useless) else "failed" if reason else "sent"
        note(outgoing.folder, do, outgoing.notice, recipient.number, recipient.shown, count, reason)
    return do != "failed"


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder's notices; where none can be made (a full disk, a removed directory), go on without."""
    with contextlib.ExitStack() as held:
        if folder.is_dir():
            with contextlib.suppress(OSError):
                held.enter_context(locked(folder / f"{NAME}.lock"))
        yield


def read_all(descriptor: int) -> bytes:
    """Everything that comes from a descriptor until its other end is closed."""
    with os.fdopen(descriptor, "rb") as file:
        return file.read()
