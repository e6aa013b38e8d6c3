"""One attempt to hand one notice to one recipient. It runs in a process of its own, which may hang or crash.

Apprise knows some 130 services by the scheme of a URL (https://appriseit.com); a plug-in may add a scheme.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
from typing import Any

from autoresearch.errors import EnvironmentUnusable
from autoresearch.notifiers.notice import Notice
from autoresearch.notifiers.recipients import Recipient
from autoresearch.plugins import PluginGroup

COMMAND_S = 30.0  # seconds that a command may take
_SAID = 300  # characters of what a command printed that are kept


class NotDelivered(Exception):  # noqa: N818 - an answer, not an accident
    """A notice did not reach its recipient; the message says why, and may hold secrets."""


class NotUsable(NotDelivered):
    """A recipient to whom nothing can ever be sent: trying again is no use."""


def _example(url: str, title: str, body: str) -> None:
    """What a plug-in is: it sends a text. Whatever it raises is the reason why it could not."""


PLUGINS = PluginGroup("notifiers", like=_example, taken=())  # by scheme; where Apprise knows one, that is used


def deliver(recipient: Recipient, notice: Notice) -> None:
    """Hand it over. Raises NotDelivered; whatever else a service's library raises ends the process."""
    if recipient.command:
        _run(recipient.command, notice)
    else:
        _send(recipient.url, notice)


def why_unusable(recipient: Recipient) -> str:
    """What is wrong with a recipient's URL, by its service's own rules; "" if nothing is. Nothing is sent."""
    if recipient.command:
        return ""
    import apprise

    with _complaints() as printed:
        service = apprise.Apprise.instantiate(recipient.url)
    try:
        known = service is not None or PLUGINS.get(_scheme(recipient.url)) is not None
    except EnvironmentUnusable as error:
        return error.message
    return "" if known else _sentence(printed.getvalue(), "Apprise does not take it")


def _send(url: str, notice: Notice) -> None:
    import apprise

    with _complaints() as printed:
        service = apprise.Apprise.instantiate(url)
        if service is None:
            try:
                plugin = PLUGINS.get(_scheme(url))
            except EnvironmentUnusable as error:
                raise NotUsable(error.message) from None
            if plugin is None:
                raise NotUsable(_sentence(printed.getvalue(), "Apprise does not take it"))
            plugin(url, notice.title, notice.body)
            return
        ours = apprise.Apprise()
        ours.add(service)
        # said to be text, so that names with <, & and * arrive as they are
        if not ours.notify(title=notice.title, body=notice.body or notice.title, body_format=apprise.NotifyFormat.TEXT):
            raise NotDelivered(_sentence(printed.getvalue(), "the service did not take it"))


def _scheme(url: str) -> str:
    return url.partition("://")[0].lower()


def _complaints() -> Any:
    """Captures what Apprise warns of, for the duration of a block."""
    import apprise

    return apprise.LogCapture(level=logging.WARNING, fmt="%(message)s")  # type: ignore[no-untyped-call]


def _sentence(printed: str, otherwise: str) -> str:
    """The first thing that a service complained about, which is what is wrong; later ones follow from it."""
    return next((line.strip() for line in printed.splitlines() if line.strip()), otherwise)


def _run(command: str, notice: Notice) -> None:
    """The notice comes in three variables, and its title and body on stdin."""
    given = {
        "AUTORESEARCH_EVENT": notice.kind.value,
        "AUTORESEARCH_TITLE": notice.title,
        "AUTORESEARCH_MESSAGE": notice.body,
    }
    with subprocess.Popen(
        ["bash", "-c", command],
        env={**os.environ, **given},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        try:
            printed, _ = process.communicate(f"{notice.title}\n\n{notice.body}\n".encode(), timeout=COMMAND_S)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise NotDelivered(f"it took more than {COMMAND_S:.0f} s, and was ended") from None
    if process.returncode:
        last = printed.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise NotDelivered(f"it ended with {process.returncode}{f': {last[0][-_SAID:]}' if last else ''}")
