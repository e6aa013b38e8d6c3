"""How rsync is told a host."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from autoresearch.lab.remote_files import rsync


class Host:
    """A Reach by ssh, as far as rsync is concerned."""

    def __init__(self, destination: str) -> None:
        self.destination = destination

    def rsync_shell(self) -> str:
        return "ssh"


@pytest.mark.parametrize(
    ("destination", "said"),
    [
        ("gpu1", "gpu1:"),
        ("me@gpu1", "me@gpu1:"),
        ("fe80::1%eth0", "[fe80::1%eth0]:"),  # HOST::MODULE is rsync's own protocol, and a host called fe80
        ("me@::1", "me@[::1]:"),
    ],
)
def test_a_host_before_a_path(destination: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    host: Any = Host(destination)
    assert rsync.words(host) == ("ssh", said)
