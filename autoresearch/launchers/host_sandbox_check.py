"""Which coding agent started the command, and whether its sandbox would end what the command starts.

A sandbox fails late: `tmux new-session` exits with 0 although the session dies with the one shell command that holds
the sandbox open. So the check comes before anything is started.
"""

from __future__ import annotations

import errno
import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from autoresearch.core.blueprint.finding import Finding, Severity

REMEDY = (
    "run autoresearch outside the sandbox. Codex: `codex mcp add autoresearch -- autoresearch mcp`, or"
    ' -s danger-full-access; Claude Code, in its settings: "sandbox": {"excludedCommands": ["autoresearch *"]},'
    ' "permissions": {"allow": ["Bash(autoresearch *)"]}'
)

# Variables that an agent sets for the commands it runs; a person's own settings (CODEX_HOME,
# GEMINI_API_KEY ...) are not among them. The first that is set names the agent.
_AGENTS: tuple[tuple[str, str], ...] = (
    ("CLAUDECODE", "claude-code"),
    ("CLAUDE_CODE_SESSION_ID", "claude-code"),
    ("CODEX_THREAD_ID", "codex"),
    ("CODEX_SESSION_ID", "codex"),
    ("CODEX_SANDBOX", "codex"),
    ("CODEX_SANDBOX_NETWORK_DISABLED", "codex"),
    ("CODEX_CI", "codex"),
    ("GEMINI_CLI", "gemini-cli"),
    ("QWEN_CODE", "qwen-code"),
    ("OPENCODE", "opencode"),
    ("OPENCODE_CLIENT", "opencode"),
    ("CURSOR_AGENT", "cursor"),
    ("AUGMENT_AGENT", "augment"),
    ("CLINE_ACTIVE", "cline"),
    ("VSCODE_AGENT", "vscode"),
)
_ANY_AGENT = ("AI_AGENT", "AGENT")  # their value is the name: claude-code_2.1_agent, goose, amp
AGENT_MARKERS = (*(name for name, _ in _AGENTS), *_ANY_AGENT)

CLAUDES = "SANDBOX_RUNTIME"  # anthropic's sandbox-runtime sets it, on Linux with bubblewrap
_MARKERS = ("CODEX_SANDBOX", CLAUDES)
_SANDBOXES = ("bwrap", "codex-linux-sandbox")
HOST_PIDS = "pid:[4026531836]"  # PROC_PID_INIT_INO in the kernel's include/linux/proc_ns.h


def driven_by(environ: Mapping[str, str]) -> str:
    """The coding agent that ran this command (`claude-code`, `codex`, ...); "" for a person."""
    for name, agent in _AGENTS:
        if environ.get(name):
            return agent
    for name in _ANY_AGENT:
        word = re.match(r"[A-Za-z][A-Za-z0-9-]{0,39}", environ.get(name, ""))
        if word:
            return "unnamed-agent" if word[0].lower() == "true" else word[0].lower()
        if environ.get(name):
            return "unnamed-agent"
    return ""


@dataclass(frozen=True, slots=True)
class HostSandbox:
    """Restrictions on this process. Facts only; `findings` judges them."""

    first_process: str  # the command line of PID 1, shortened; "" where it cannot be read
    private_pids: bool  # not the machine's own PID namespace; a container has one too
    unix_sockets: bool  # can be bound and connected; tmux needs them
    markers: tuple[str, ...]  # variables of _MARKERS that are set

    @property
    def doomed(self) -> bool:
        """Whether processes started here die with the command that the sandbox was made for."""
        program = Path(self.first_process.split(" ", 1)[0]).name
        named = program in _SANDBOXES or "codex-linux-sandbox" in self.first_process
        return named or (self.private_pids and CLAUDES in self.markers)  # there PID 1 may be a nameless program


def look(environ: Mapping[str, str], *, proc: Path = Path("/proc")) -> HostSandbox:
    """Read the facts; `proc` is for tests. Nothing is written."""
    return HostSandbox(
        first_process=_text(proc / "1" / "cmdline").replace("\0", " ").strip()[:200],
        private_pids=_link(proc / "self" / "ns" / "pid") not in ("", HOST_PIDS),
        unix_sockets=_can_use_sockets(proc),
        markers=tuple(sorted(name for name in environ if name.startswith(_MARKERS))),
    )


def findings(host_sandbox: HostSandbox) -> list[Finding]:
    """Problems that stop a run (errors) and those a person should know (warnings)."""
    said = []
    if host_sandbox.doomed:
        message = "this is a sandbox whose processes all end with the command that it was made for"
        said.append(Finding(Severity.ERROR, "sandbox", message, REMEDY))
    if not host_sandbox.unix_sockets:
        message = "this is a sandbox that forbids Unix sockets; tmux cannot work"
        said.append(Finding(Severity.ERROR, "no_unix_sockets", message, REMEDY))
    if not said and host_sandbox.markers:
        message = f"{host_sandbox.markers[0]} is set: this looks like a sandbox"
        said.append(Finding(Severity.WARNING, "sandbox", message, REMEDY))
    return said


def way_out(host_sandbox: HostSandbox, environ: Mapping[str, str]) -> str:
    """The command that registers our MCP server, which runs outside of the agent's sandbox; "" for unknown agents."""
    agent = "codex" if "codex-linux-sandbox" in host_sandbox.first_process else driven_by(environ)
    client = {"codex": "codex", "claude-code": "claude"}.get(agent)
    return f"{client} mcp add autoresearch -- autoresearch mcp" if client else ""


def git_is_read_only(directory: Path | None = None) -> Finding:
    """The finding for a git directory that cannot be written: the code of a run could not be committed."""
    which = f" {directory}" if directory else ""
    if directory and (owner := directory.stat().st_uid) != os.geteuid():
        message = f"the repository's git directory{which} belongs to another account (uid {owner}): no write access"
        hint = "`git config core.sharedRepository group` and group write access there; or a clone of your own"
        return Finding(Severity.ERROR, "git_read_only", message, hint)
    message = f"the repository's git directory{which} cannot be written"
    if directory and directory.stat().st_mode & 0o300 != 0o300:  # a sandbox does not take these from their owner
        hint = f"its mode forbids it to you: chmod -R u+rwX {shlex.quote(str(directory))}"
        return Finding(Severity.ERROR, "git_read_only", message, hint)
    return Finding(Severity.ERROR, "git_read_only", message, REMEDY)


def forbids_writing(directory: Path) -> bool:
    """Whether creating a file fails as read-only or not permitted. A full disk does not count."""
    return _refusal(directory) in (errno.EROFS, errno.EACCES, errno.EPERM)


def can_write(directory: Path) -> bool:
    """Whether a file can be created; tries it, as access(2) ignores Landlock and full disks."""
    return _refusal(directory) is None


def _refusal(directory: Path) -> int | None:
    import tempfile  # takes milliseconds to import

    try:
        with tempfile.TemporaryFile(dir=directory) as probe:
            probe.write(b"\0")
            probe.flush()
    except OSError as error:
        return error.errno or errno.EIO
    return None


def _can_use_sockets(proc: Path) -> bool:
    """Codex allows to create a socket, but not to bind or connect it; neither of these two reaches any process."""
    import socket  # takes milliseconds to import

    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as one:
            one.bind("")  # a name that the kernel chooses, in no directory
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
            other.connect(str(proc / "no-such-socket"))
    except (FileNotFoundError, ConnectionRefusedError):
        return True
    except OSError:
        return False
    return True


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _link(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        return ""
