"""One attempt to hand one notice to one recipient, in a process of its own, which may hang or crash.

`python -m autoresearch.notifiers.deliver send|attempt|check`: a pickled `Outgoing` comes on stdin, from our own code.
Apprise knows some 130 services by the scheme of a URL (https://appriseit.com); a plug-in may add a scheme.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import pickle
import signal
import subprocess
import sys
from dataclasses import replace

from autoresearch.errors import EnvironmentUnusable
from autoresearch.notifiers.notice import Notice, Recipient
from autoresearch.notifiers.sending import USELESS, Outgoing, send
from autoresearch.plugins import PluginGroup
from autoresearch.runner.masking import clean_text

COMMAND_S = 30.0  # seconds that a command may take
_SAID = 300  # characters of what a command printed that are kept


class NotDelivered(Exception):  # noqa: N818 - an answer, not an accident
    """A notice did not reach its recipient; the message says why, and may hold secrets."""


class NotUsable(NotDelivered):
    """A recipient to whom nothing can ever be sent: trying again is no use."""


PLUGINS = PluginGroup("notifiers", made=False)  # by scheme; where Apprise knows one, that is used


def main(verb: str) -> None:
    """Send a notice, make one attempt, or write what is wrong with each recipient to stdout as a JSON list."""
    with os.fdopen(0, "rb") as stdin:
        data = stdin.read()
    if not data:
        return  # whoever started this died before it said what to send, and says it again
    outgoing: Outgoing = pickle.loads(data)
    if verb == "send":
        send(outgoing)
    elif verb == "check":
        os.write(1, json.dumps([one.without_secrets(why_unusable(one)) for one in outgoing.to]).encode())
    else:
        try:
            deliver(outgoing.to[0], replace(outgoing.notice, title=clean_text(outgoing.notice.title)))
        except NotDelivered as failure:
            os.write(2, " ".join(str(failure).split()).encode("utf-8", "replace"))
            raise SystemExit(USELESS if isinstance(failure, NotUsable) else 1) from None


def deliver(recipient: Recipient, notice: Notice) -> None:
    """Hand it over. Raises NotDelivered; whatever else a service's library raises ends the process."""
    if recipient.command:
        _run(recipient.command, notice)
    elif unusable := _by_url(recipient.url, notice):
        raise NotUsable(unusable)


def why_unusable(recipient: Recipient) -> str:
    """What is wrong with a recipient's URL, by its service's own rules; "" if nothing is. Nothing is sent."""
    return "" if recipient.command else _by_url(recipient.url, None)


def _by_url(url: str, notice: Notice | None) -> str:
    """Send a notice, if there is one, by Apprise or a plug-in; why neither of them takes the URL, "" if one does."""
    import apprise

    with apprise.LogCapture(level=logging.WARNING, fmt="%(message)s") as printed:  # type: ignore[no-untyped-call]
        service = apprise.Apprise.instantiate(url)
        if service is None:
            try:
                plugin = PLUGINS.get(url.partition("://")[0].lower())
            except EnvironmentUnusable as error:
                return error.message
            if plugin is None:
                return _sentence(printed.getvalue(), "Apprise does not take it")
            if notice:
                plugin(url, notice.title, notice.body)
        elif notice:
            ours = apprise.Apprise()
            ours.add(service)
            # said to be text, so that names with <, & and * arrive as they are
            body, text = notice.body or notice.title, apprise.NotifyFormat.TEXT
            if not ours.notify(title=notice.title, body=body, body_format=text):
                raise NotDelivered(_sentence(printed.getvalue(), "the service did not take it"))
    return ""


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


if __name__ == "__main__":
    main(sys.argv[1])
