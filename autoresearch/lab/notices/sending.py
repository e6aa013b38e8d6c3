"""Notices of what happened while nobody watched, handed to Apprise (https://appriseit.com) in a process of its own.

    notify: [ntfy://my-topic, ~/apprise.yaml]

A URL gets every notice; of an Apprise configuration file, the entries that are tagged with the notice's kind. URLs go
to Apprise on its stdin: everybody on the machine can read a command line.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from autoresearch.runner.masking import MASK, clean_text

PROGRAM = (sys.executable, "-P", "-c", "from apprise.cli import main; main(prog_name='apprise')")
WAIT_S, RETRIES, LIMIT_S = 20.0, 10, 300  # between the attempts, as Apprise allows at most; and for all of them
LINE_MAX = 400  # characters: a line of a traceback must not fill a telephone
_started: list[subprocess.Popen[bytes]] = []  # a process that nobody waits for would stay a zombie as long as we live


class NoticeKind(StrEnum):
    """What a notice is about: the tags of an Apprise configuration."""

    RUN_END = "run_end"  # a lone run is over, whatever its ending
    CAMPAIGN_END = "campaign_end"
    PAUSE = "pause"  # of a campaign, whoever paused it; also a controller that ended on an error
    CONFIRMED = "confirmed"  # an idea was put to the proof and passed
    CRASH_STORM = "crash_storm"  # a pause because the last ideas died alike
    DISK_FULL = "disk_full"
    WAITING = "waiting"  # for a person: code ideas to approve, or any idea at all


@dataclass(frozen=True, slots=True)
class Notice:
    """One notice. `key` names the occasion within its run or campaign: a notice is sent once for each."""

    kind: NoticeKind
    key: str
    title: str
    lines: tuple[str, ...]

    @property
    def body(self) -> str:
        """The lines as text, each cut to LINE_MAX; secrets are masked."""
        shown = (" ".join(line.split()) for line in self.lines)
        return clean_text("\n".join(line if len(line) <= LINE_MAX else line[: LINE_MAX - 1] + "…" for line in shown))


@dataclass(frozen=True, slots=True)
class Recipients:
    """Whom `notify:` of a project names, and what is wrong with the entries that name nobody."""

    each: tuple[str, ...] = ()  # an Apprise URL, or the path of an Apprise configuration
    problems: tuple[str, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is wrong, in sentences for whoever starts something."""
        return tuple(f"warning: {problem}; no notice is sent there" for problem in self.problems)

    @property
    def shown(self) -> tuple[str, ...]:
        """Each of them without secrets: `slack://***`."""
        return tuple(f"{one.partition('://')[0]}://{MASK}" if "://" in one else one for one in self.each)


def recipients_of(value: object, settings_file: Path | None) -> Recipients:
    """The recipients in the value of `notify:`: an entry or a list of them, paths relative to the settings file."""
    each, problems = list[str](), list[str]()
    for number, entry in enumerate(value if isinstance(value, list) else [value] if value else [], 1):
        text = entry.strip() if isinstance(entry, str) else ""
        path = (settings_file or Path()).parent / Path(text).expanduser() if text and "://" not in text else None
        if "${" in text:
            problems.append(f"entry {number} has a variable: name an Apprise configuration that holds the token")
        elif "://" in text or (path and path.is_file()):
            each.append(str(path or text))
        else:
            problems.append(f"entry {number} is neither an Apprise URL nor the path of an Apprise configuration")
    return Recipients(tuple(each), tuple(f"{settings_file}: notify: {one}" for one in problems))


def hand_over(folder: Path, notice: Notice, recipients: Recipients) -> None:
    """Start sending a notice, unless that was done before: what Apprise says of it is in a file of `folder`.

    Returns within milliseconds and raises nothing: a notice is never a reason for a run to fail.
    """
    if not recipients.each:
        return
    log = subprocess.DEVNULL
    try:
        log = os.open(folder / f"notice-{notice.key}.log", os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return
    except OSError:  # a full disk, a removed directory: it is sent all the same
        pass
    _started[:] = [process for process in _started if process.poll() is None]
    command, config = _apprise(notice, recipients.each, f"{notice.kind}:{RETRIES}")
    with contextlib.suppress(OSError):  # no memory, no more processes
        process = subprocess.Popen(
            command,
            # of no run: what ends its run's processes by that mark would end this one, too
            env={name: value for name, value in os.environ.items() if name != "AUTORESEARCH_RUN_ID"},
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        _started.append(process)
        assert process.stdin is not None
        with process.stdin as pipe:
            pipe.write(config)
    if log != subprocess.DEVNULL:
        os.close(log)


def try_each(recipients: Recipients) -> Iterator[str]:
    """Send a test to one recipient after the other; for each why it failed, or "" where it worked."""
    host = os.uname().nodename
    body = (f"Notices of autoresearch on {host} arrive here.", "This was sent by: autoresearch doctor --notify")
    notice = Notice(NoticeKind.RUN_END, "test", f"autoresearch: a test from {host}", body)
    for one in recipients.each:
        command, config = _apprise(notice, (one,), "all")
        done = subprocess.run(command, input=config, capture_output=True)
        said = [line.rpartition(" - ")[2] for line in done.stdout.decode("utf-8", "replace").splitlines()]
        first = next((line for line in said if line and "://" not in line), "nobody is in it")
        yield clean_text(first) if done.returncode else ""


def _apprise(notice: Notice, to: Sequence[str], tag: str) -> tuple[list[str], bytes]:
    """The command that sends a notice, and what it shall read on its stdin: a configuration with the URLs."""
    options = {"tag": ",".join(NoticeKind), "wait": WAIT_S}
    urls = [{one: [options]} for one in to if "://" in one]
    sources = [*(["file:///dev/stdin?format=yaml"] if urls else []), *(one for one in to if "://" not in one)]
    words = [f"--title={clean_text(notice.title)}", f"--body={notice.body or notice.title}", f"--tag={tag}", "-v"]
    limits = [f"--service-limit={LIMIT_S}", "--storage-mode=memory"]
    command = [*PROGRAM, *(f"--config={source}" for source in sources), *words, *limits]
    return command, json.dumps({"urls": urls}).encode()
