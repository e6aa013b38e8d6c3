"""Whether notices will arrive: what is wrong with `notify:`, and a test to everyone in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autoresearch.commands import output
from autoresearch.lab.notices.run_notices import project_recipients, recipients_in
from autoresearch.lab.settings import Settings
from autoresearch.notifiers.notice import NoticeKind, Recipient, Recipients
from autoresearch.notifiers.sending import problems_of, try_each


def checked_recipients(settings: Settings, environ: Mapping[str, str]) -> tuple[Recipients, tuple[str, ...]]:
    """The recipients, and all that is wrong with `notify:`. With a URL in it, a second for Apprise's own check."""
    recipients = recipients_in(settings, environ)
    return recipients, problems_of(recipients)


def warn_of_recipients(directory: Path, environ: Mapping[str, str]) -> None:
    """Say what is wrong with the `notify:` of the project in a directory; it refuses nothing."""
    recipients = project_recipients(directory, environ)
    for problem in problems_of(recipients):
        output.remark(f"warning: {problem}; no notice is sent there")


def events_of(recipient: Recipient) -> str:
    """Which notices it gets, in words."""
    return "all" if len(recipient.kinds) == len(NoticeKind) else ", ".join(recipient.kinds)


@dataclass(frozen=True, slots=True)
class NoticesLook:
    """What `doctor` shows of notices; `failed` is about a test that was sent, or an entry that gives no recipient."""

    rows: list[list[str]]
    payload: list[dict[str, Any]]
    problems: tuple[str, ...]
    failed: bool


def look_at_notices(settings: Settings, environ: Mapping[str, str], *, send: bool) -> NoticesLook:
    """Check every recipient, or `send` each a test, which takes until the slowest of them has answered."""
    if send:
        recipients = recipients_in(settings, environ)
        reasons, problems = try_each(recipients), recipients.problems
        if not (recipients.each or problems):
            output.remark("no test was sent: `notify:` of autoresearch.yaml is empty")
    else:
        recipients, problems = checked_recipients(settings, environ)
        reasons = [""] * len(recipients.each)
    pairs = list(zip(recipients.each, reasons, strict=True))
    worked = "a test arrived there" if send else ""
    rows = [["notify", f"{one.shown}: {reason or worked or events_of(one)}"] for one, reason in pairs]
    rows += [["warning", problem] for problem in problems]
    payload = [
        {"to": one.shown, "events": list(one.kinds), "sent": not reason if send else None, "error": reason or None}
        for one, reason in pairs
    ]
    return NoticesLook(rows, payload, problems, any(reasons) or bool(problems))
