"""Hand a notice to the process that sends it, and go on at once."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from autoresearch.notifiers.notice import Notice, NoticeKind
from autoresearch.notifiers.recipients import Recipients
from autoresearch.notifiers.sending import PROGRAM, Outgoing, attempt, note

CHECK_S = 20.0  # seconds; Apprise takes half a second to import, more on a network file system
_started: list[subprocess.Popen[bytes]] = []  # a process that nobody waits for would stay a zombie as long as we live


def hand_over(
    folder: Path, notice: Notice, recipients: Recipients, environ: Mapping[str, str]
) -> subprocess.Popen[bytes] | None:
    """Start sending a notice to those who want its kind; returns the process, None if there is nothing to send.

    `folder`: of its run or campaign, where it is recorded what was sent. Returns within milliseconds and raises
    nothing: a notice is never a reason for a run to fail. An entry that gives no recipient is recorded as given up.
    """
    for number, problem in enumerate(recipients.problems, 1):
        note(folder, "gave_up", notice, -number, "", 0, problem)
    to = recipients.of(notice.kind)
    if not to:
        return None
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
            pipe.write(Outgoing(folder, notice, to).encoded())
    except OSError as error:  # no memory, no more processes
        note(folder, "failed", notice, 0, "", 0, f"no process could be started: {error.strerror}")
        return None
    return process


def try_each(recipients: Recipients) -> list[str]:
    """Send a test to every recipient, side by side; for each why it failed, or "" where it worked."""
    from concurrent.futures import ThreadPoolExecutor

    host = os.uname().nodename
    lines = (f"Notices of autoresearch on {host} arrive here.", "This was sent by: autoresearch doctor --notify")
    notice = Notice(NoticeKind.RUN_END, "test", f"autoresearch: a test from {host}", lines)
    with ThreadPoolExecutor(max_workers=8) as pool:
        return list(pool.map(lambda one: attempt(one, notice)[0], recipients.each))


def problems_of(recipients: Recipients) -> tuple[str, ...]:
    """All that is wrong with the recipients, one sentence each; nothing is sent. Takes the import of Apprise."""
    urls = tuple(one for one in recipients.each if one.url)
    if not urls:
        return recipients.problems
    outgoing = Outgoing(Path(), Notice(NoticeKind.RUN_END, "check", "", ()), urls)
    try:
        done = subprocess.run([*PROGRAM, "check"], input=outgoing.encoded(), capture_output=True, timeout=CHECK_S)
        reasons = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return (*recipients.problems, "the URLs of notify: could not be checked: Apprise cannot be imported here")
    wrong = [f"notify: {one.shown}: {reason}" for one, reason in zip(urls, reasons, strict=True) if reason]
    return (*recipients.problems, *wrong)
