"""Sends notices for URLs like `file:///tmp/notices.txt`: each is a line of that file."""

from __future__ import annotations


def append(url: str, title: str, body: str) -> None:
    """Raises OSError where it cannot be sent: it is tried again later."""
    with open(url.removeprefix("file://"), "a") as file:
        file.write(f"{title}: {body.splitlines()[0] if body else ''}\n")
