"""The trainer as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts `python -m autoresearch.tinygrpo --set ...`; whatever still runs after the test is killed.

    A process, because only then numpy runs on one thread: equal bits, and no quarrel with others over cores.
    """
    started: list[subprocess.Popen[str]] = []

    def start_one(*overrides: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "autoresearch.tinygrpo", "--set", *overrides]
        # Unbuffered output would hide a line that nobody flushed.
        env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=env)
        started.append(process)
        return process

    yield start_one
    for process in started:
        process.kill()
        process.communicate()
