"""Lint of the swarm notes: commands that cannot work, and servers that are open to the network."""

from __future__ import annotations

import re
from collections.abc import Iterator

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.swarm.spec import Swarm

_WRONG = re.compile(r"\bajet\s+swarm\s+server\b")  # from a published skill; argparse rejects it
_DETACHED = re.compile(r"\s(?:-[a-z]*d[a-z]*|--detach(?:=true)?)(?:\s|\Z)")
_LOOPBACK = re.compile(r"(?:-p|--publish)(?:=|\s*)[\"']?(?:127\.\d+\.\d+\.\d+|\[::1\]):")
_RIGHT = "ajet-swarm start --swarm-port=10086"


def lint_wrong_command(command: str) -> Iterator[Finding]:
    """An error if a command contains `ajet swarm server`, which does not exist."""
    if _WRONG.search(command):
        message = "`ajet swarm server` is no command of AgentJet's: it stops with unrecognized arguments"
        yield Finding(Severity.ERROR, "swarm_wrong_command", message, f"write `{_RIGHT}`")


def lint_swarm(swarm: Swarm) -> Iterator[Finding]:
    """Findings in the swarm notes as a whole, their lines not yet set."""
    yield from lint_wrong_command(swarm.server)
    if swarm.server and swarm.ssh:
        message = "swarm_server starts a server here, and swarm_ssh says that it is on another host"
        hint = "keep one of them; a server on the other host is started there, in a tmux session of its own"
        yield Finding(Severity.ERROR, "swarm_two_servers", message, hint)
    if swarm.server and swarm.url and re.search(r"//(?!127\.|localhost\b|\[::1\])", swarm.url):
        message = f"swarm_server starts a server on this machine, but swarm_url is {swarm.url}"
        yield Finding(Severity.ERROR, "swarm_elsewhere", message, "write a url of 127.0.0.1, or none")
    if swarm.container and _DETACHED.search(swarm.server.partition("ajet-swarm")[0]):  # only docker's own flags
        message = "docker run -d returns at once: the server's end would never be seen"
        yield Finding(Severity.ERROR, "swarm_detached", message, "take -d out; the session is detached itself")
    yield from _open_to_all(swarm)


def _open_to_all(swarm: Swarm) -> Iterator[Finding]:
    if not swarm.server or (swarm.container and _LOOPBACK.search(swarm.server)):
        return
    message = "the swarm server listens on 0.0.0.0 without authentication, and runs code that is sent to it"
    hint = "keep its port behind a firewall; from another host use swarm_ssh"
    if swarm.container:
        hint = "publish it as -p 127.0.0.1:PORT:PORT; from another host use swarm_ssh"
    yield Finding(Severity.WARNING, "swarm_open", message, hint)
