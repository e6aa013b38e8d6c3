"""Whether notices will arrive: what is wrong with `notify:`, and a test to everyone in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from autoresearch.commands import output
from autoresearch.lab.notices.run_notices import project_recipients
from autoresearch.notifiers.sending import try_each


def warn_of_recipients(directory: Path) -> None:
    """Say what is wrong with the `notify:` of the project in a directory; it refuses nothing."""
    for problem in project_recipients(directory).problems:
        output.remark(f"warning: {problem}; no notice is sent there")


def recipients_shown(directory: Path, *, send: bool = False) -> tuple[list[list[str]], dict[str, Any], bool]:
    """Rows and JSON about whom a project tells, and whether all is well; `send`: each gets a test, one by one."""
    recipients = project_recipients(directory)
    if send and not (recipients.shown or recipients.problems):
        output.remark("no test was sent: `notify:` of autoresearch.yaml is empty")
    reasons = list(try_each(recipients)) if send else [None] * len(recipients.shown)
    pairs = list(zip(recipients.shown, reasons, strict=True))
    rows = [["notify", to if why is None else f"{to}: {why or 'a test was delivered'}"] for to, why in pairs]
    rows += [["warning", problem] for problem in recipients.problems]
    listed = [{"to": to, **({} if why is None else {"sent": not why, "error": why or None})} for to, why in pairs]
    payload = {"notify": listed, "notify_problems": list(recipients.problems)}
    return rows, payload, not (recipients.problems or any(reasons))
