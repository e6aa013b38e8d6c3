"""Notices are sent by a process of their own, which tries again where a recipient cannot be reached.

`hand_over` starts it detached, so nothing waits for it, and each attempt is a further process (`notifiers.deliver`),
as a service's library may hang or crash. What came of each attempt is a line of notices.jsonl in the directory of the
run or the campaign:

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autoresearch.errors import EnvironmentUnusable
from autoresearch.notifiers.notice import Notice, NoticeKind, Recipient, Recipients
from autoresearch.records import lines
from autoresearch.records.appending import append_line, json_line
from autoresearch.records.rundir import locked
from autoresearch.runner.basics import failpoint

NAME = "notices.jsonl"
WAITS_S = (1.0, 5.0, 15.0, 60.0, 240.0, 900.0, 2400.0)  # between the attempts: in all, an hour
ATTEMPT_S = 60.0  # seconds that one attempt may take
CHECK_S = 20.0  # seconds; Apprise takes half a second to import, more on a network file system
REASON_MAX = 300  # characters
USELESS = 3  # exit code of an attempt after which no other one is of use
PROGRAM = (sys.executable, "-P", "-m", "autoresearch.notifiers.deliver")
_started: list[subprocess.Popen[bytes]] = []  # a process that nobody waits for would stay a zombie as long as we live


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A notice and those who shall get it, as the processes hand it on (pickled). `folder`: of its run or campaign."""

    folder: Path
    notice: Notice
    to: tuple[Recipient, ...]


def hand_over(
    folder: Path, notice: Notice, recipients: Recipients, environ: Mapping[str, str]
) -> subprocess.Popen[bytes] | None:
    """Start sending a notice to those who want its kind; returns the process, None if there is nothing to send.

    `folder`: of its run or campaign, where it is recorded what was sent. Returns within milliseconds and raises
    nothing: a notice is never a reason for a run to fail. An entry that gives no recipient is recorded as given up.
    """
    for number, problem in enumerate(recipients.problems, 1):
        _note(folder, "gave_up", notice, number=-number, reason=problem)
    to = recipients.of(notice.kind)
    if not to:
        return None
    import pickle  # a process that has nothing to send needs none

    _started[:] = [process for process in _started if process.poll() is None]
    try:
        process = subprocess.Popen(
            [*PROGRAM, "send"],
            # of no run: what ends its run's processes by that mark would end this one, too
            env={name: value for name, value in environ.items() if name != "AUTORESEARCH_RUN_ID"},
            cwd=folder if folder.is_dir() else "/",
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        _started.append(process)
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError), process.stdin as pipe:
            pipe.write(pickle.dumps(Outgoing(folder, notice, to)))
    except OSError as error:  # no memory, no more processes
        _note(folder, "failed", notice, reason=f"no process could be started: {error.strerror}")
        return None
    return process


def send(outgoing: Outgoing, *, sleep: Callable[[float], None] = time.sleep, waits: Sequence[float] = WAITS_S) -> None:
    """Send a notice to all its recipients; returns when each has it, or was given up after the last wait."""
    left = list(outgoing.to)
    for count, wait in enumerate((*waits, None), 1):
        left = [one for one in left if not _settle(outgoing, one, count, final=wait is None)]
        if wait is None or not left:
            return
        sleep(wait)


def attempt(recipient: Recipient, notice: Notice) -> tuple[str, bool]:
    """One attempt in a process of its own: why it failed, without secrets, and whether another one is of no use.

    ("", False) if the notice was delivered.
    """
    import pickle

    data = pickle.dumps(Outgoing(Path(), notice, (recipient,)))
    try:
        done = subprocess.run([*PROGRAM, "attempt"], input=data, capture_output=True, timeout=ATTEMPT_S)
    except subprocess.TimeoutExpired:
        return f"no answer within {ATTEMPT_S:.0f} s", False
    except OSError as error:
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
        for _, record in lines.objects(enumerate(lines.forwards(fd) if fd is not None else ())):
            with contextlib.suppress(ValueError, KeyError, TypeError):
                if record["do"] in ("sent", "gave_up"):
                    done.add((str(record["notice"]), int(record["number"])))
    return done


def try_each(recipients: Recipients) -> list[str]:
    """Send a test to every recipient, side by side; for each why it failed, or "" where it worked."""
    from concurrent.futures import ThreadPoolExecutor

    host = os.uname().nodename
    body = (f"Notices of autoresearch on {host} arrive here.", "This was sent by: autoresearch doctor --notify")
    notice = Notice(NoticeKind.RUN_END, "test", f"autoresearch: a test from {host}", body)
    with ThreadPoolExecutor(max_workers=8) as pool:
        return list(pool.map(lambda one: attempt(one, notice)[0], recipients.each))


def problems_of(recipients: Recipients) -> tuple[str, ...]:
    """All that is wrong with the recipients, one sentence each; nothing is sent. With a URL, Apprise is imported."""
    urls = tuple(one for one in recipients.each if one.url)
    if not urls:
        return recipients.problems
    import pickle

    data = pickle.dumps(Outgoing(Path(), Notice(NoticeKind.RUN_END, "check", "", ()), urls))
    try:
        done = subprocess.run([*PROGRAM, "check"], input=data, capture_output=True, timeout=CHECK_S)
        reasons = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return (*recipients.problems, "the URLs of notify: could not be checked: Apprise cannot be imported here")
    wrong = [f"notify: {one.shown}: {reason}" for one, reason in zip(urls, reasons, strict=True) if reason]
    return (*recipients.problems, *wrong)


def _settle(outgoing: Outgoing, recipient: Recipient, count: int, *, final: bool) -> bool:
    """Try one recipient, unless that was done; whether nothing is left to do for it."""
    folder, notice = outgoing.folder, outgoing.notice
    with _alone(folder):
        if (notice.key, recipient.number) in settled(folder):
            return True
        reason, useless = attempt(recipient, notice)
        failpoint("notify.attempted")
        do = "gave_up" if reason and (final or useless) else "failed" if reason else "sent"
        _note(folder, do, notice, number=recipient.number, shown=recipient.shown, tries=count, reason=reason)
    return do != "failed"


def _note(
    folder: Path, do: str, notice: Notice, *, reason: str, number: int = 0, shown: str = "", tries: int = 0
) -> None:
    """Append a line to the notices of a run or campaign; a full disk is no reason not to go on."""
    about = {"t": round(time.time(), 3), "do": do, "notice": notice.key, "kind": notice.kind.value}
    with contextlib.suppress(EnvironmentUnusable):
        append_line(folder / NAME, json_line({**about, "number": number, "to": shown, "try": tries, "reason": reason}))


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder's notices; where none can be made (a full disk, a removed directory), go on without."""
    with contextlib.ExitStack() as held:
        if folder.is_dir():
            with contextlib.suppress(OSError):
                held.enter_context(locked(folder / f"{NAME}.lock"))
        yield
