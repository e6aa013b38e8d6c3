"""Sessions in tmux's terms: how one is started, found again and attached to. Runs no command itself."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

MARKER = "AUTORESEARCH_RUN_ID"
KEPT = "@autoresearch_exit_empty"  # a server option: "was 1" or "was 0", the value of exit-empty before us
READABLE_S = 86400  # seconds: a day after its command is over, a pane closes by itself
COLUMNS, LINES = "220", "50"  # a detached pane is 80x24 by default; one verl line is 3,000 characters


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session as tmux named it when it was started; written to `session.json`.

    The ids are valid for one server only, which `server_pid` identifies. `socket` is the launcher's: "" for the user's
    default server, a path, or a name.
    """

    launcher: str
    session: str
    socket: str
    session_id: str  # "$3"
    pane_id: str  # "%5"
    server_pid: int
    pane_pid: int = field(compare=False)  # the Runner's, maybe of the past; 0: not known any more
    attach: str  # the line to type

    @classmethod
    def read(cls, record: Mapping[str, object]) -> SessionInfo:
        """Read what `dataclasses.asdict` wrote; missing or mistyped fields become "" or 0."""
        kinds = {one.name: int if one.name.endswith("_pid") else str for one in fields(cls)}
        known = {name: record.get(name) for name in kinds}
        whole: dict[str, Any] = {n: value if isinstance(value, kinds[n]) else kinds[n]() for n, value in known.items()}
        return cls(**whole)


def socket_flags(socket: str) -> list[str]:
    """`-L default` rather than nothing: without a flag $TMUX decides, which may be another server."""
    return ["-S", socket] if "/" in socket else ["-L", socket or "default"]


def attach_line(socket: str, session: str) -> str:
    """The command to attach; the target is exact, and quoted because zsh expands a bare =word."""
    flags = socket_flags(socket) if socket else []
    return shlex.join(["tmux", *flags, "attach", "-t"]) + f" '={session}'"


def new_session(session: str, argv: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> list[str]:
    """One command sequence, so that nothing (an early exit, the user's tmux.conf) can interfere."""
    target = f"={session}:"
    words = argv if len(argv) > 1 else ("env", *argv)  # one word alone would go through default-shell
    command = [
        *("new-session", "-d", "-s", session, "-x", COLUMNS, "-y", LINES),
        *("-c", str(cwd).replace("#", "##")),  # -c is a format: #{pid} in a path would be expanded
        *(word for name, value in environment.items() for word in ("-e", f"{name}={value}")),
        *("--", *words),
    ]
    options = [
        ("set-option", "-w", "-t", target, "remain-on-exit", "on"),
        ("set-hook", "-t", target, "pane-died", _closes_later()),
        ("set-option", "-t", target, "destroy-unattached", "off"),
        ("set-option", "-s", "exit-unattached", "off"),
        # see release_server
        ("if-shell", "-F", f"#{{?#{{{KEPT}}},,1}}", f"set-option -sF {KEPT} 'was #{{exit-empty}}'"),
        ("set-option", "-s", "exit-empty", "off"),
        # a window that a person opens in this session is not part of the run, and not swept with it
        ("set-environment", "-t", target, "-r", MARKER),
    ]
    return [_literal(word) for word in command] + [word for option in options for word in (";", *option)]


def keeper_session(socket: str, keeper: str, seconds: int) -> list[str]:
    """The command that starts a server without words that betray its purpose."""
    target = f"={keeper}:"
    start = ["tmux", *socket_flags(socket), "new-session", "-d", "-s", keeper, "--", "sleep", str(seconds)]
    return [
        *start,
        *(";", "set-option", "-s", "exit-unattached", "off"),
        *(";", "set-option", "-t", target, "destroy-unattached", "off"),
        *(";", "set-option", "-w", "-t", target, "remain-on-exit", "off"),
    ]


def close_session(info: SessionInfo) -> list[str]:
    """End a session of the server that is named first in the answer: of another one, its id is another session's."""
    ours, kill = f"#{{==:#{{pid}},{info.server_pid}}}", f"kill-session -t '{info.session_id}'"
    return ["display-message", "-p", "#{pid}", ";", "if-shell", "-F", ours, kill, ";", *release_server()]


def release_server() -> list[str]:
    """Restore `exit-empty`, unless one of our sessions still exists; decided within the server.

    With one of ours, the server survives its last session: otherwise killing that session by hand would end the server
    too, which the Runner cannot tell from a crash of tmux, which a run survives.
    """
    ours = "#{m:*1*,#{S:#{m:ajet_*,#{session_name}}}}"
    give_back = f"set-option -sF exit-empty '#{{?#{{m:*1,#{{{KEPT}}}}},on,off}}' ; set-option -su {KEPT}"
    return ["if-shell", "-F", f"#{{?{ours},,#{{{KEPT}}}}}", give_back]


def _closes_later() -> str:
    """A command of tmux for when a pane has died: READABLE_S later, close it if it is still dead. No process waits."""
    close = ("if-shell", "-F", "-t", "#{hook_pane}", "##{pane_dead}", "kill-pane -t #{hook_pane}")
    line = shlex.join(["tmux", *close, ";", *(word.replace("#", "##") for word in release_server())])
    escaped = "".join(f"\\{one}" if one in '"\\$' else one for one in line)
    return f'run-shell -b -d {READABLE_S} "{escaped}"'


def _literal(word: str) -> str:
    """Escape a trailing `;`, which would end the command."""
    return word[:-1] + "\\;" if word.endswith(";") else word
