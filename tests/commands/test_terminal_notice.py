"""A terminal that waited rings and shows a notice; what of it passes a real tmux."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from autoresearch.commands.output import notice_sequence, ring

WRAPPED = b"\x1b]9;autoresearch: one: ended\x07"


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_what_is_written_has_no_control_characters_of_the_text() -> None:
    assert notice_sequence("one:\x1b]0;x\x07 \u202eended\n", in_tmux=False) == "\a\x1b]9;autoresearch: one:]0;x ended\a"
    assert notice_sequence("x", in_tmux=True) == "\a\x1bPtmux;\x1b\x1b]9;autoresearch: x\a\x1b\\"


def test_nothing_is_written_but_to_a_terminal_that_may_ring(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TERM", "xterm")
    for stream, environ, rings in (
        (io.StringIO(), {}, False),
        (Tty(), {"TERM": "dumb"}, False),
        (Tty(), {"AUTORESEARCH_BELL": "no"}, False),
        (Tty(), {}, True),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", stream)
            for name, value in environ.items():
                patch.setenv(name, value)
            ring("one: ended")
        assert bool(stream.getvalue()) == rings
    (tmp_path / "autoresearch.yaml").write_text("bell: no\n")
    monkeypatch.setattr(sys, "stderr", Tty())
    ring("one: ended")
    assert sys.stderr.getvalue() == ""


@pytest.mark.system
@pytest.mark.parametrize("passthrough", ["on", "off"])
def test_a_real_tmux_passes_the_bell_on_and_the_notice_where_it_is_allowed(
    tmp_path: Path, tmux_socket: str, passthrough: str, eventually: Any
) -> None:
    """`script` is the terminal outside; what tmux writes to it is in its file."""
    (tmp_path / "text").write_text(notice_sequence("one: ended", in_tmux=True))
    inside = f"tmux set -g allow-passthrough {passthrough}; sleep 0.3; cat {tmp_path / 'text'}; sleep 0.5"
    outside = f'tmux -S {tmux_socket} -f /dev/null new-session "{inside}"'
    environ = {"TERM": "xterm-256color", "PATH": "/usr/bin:/bin:/usr/local/bin", "LANG": "C.UTF-8"}
    subprocess.run(
        ["script", "-qc", outside, str(tmp_path / "seen")],
        env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True,
    )  # fmt: skip
    seen = (tmp_path / "seen").read_bytes()
    assert b"\x07" in seen.replace(WRAPPED, b"")
    assert (WRAPPED in seen) == (passthrough == "on")
