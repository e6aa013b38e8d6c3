"""The server of a run in AgentJet's swarm mode, as the notes of its blueprint declare it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from autoresearch.core.text.regex import later

PORT = 10086  # default port of `ajet-swarm start`
HEALTH_S = 90.0  # AgentJet itself gives up after 30; importing vLLM from a cold disk takes longer
DEBUG_S = 1800.0
POLL_S = 2.0
STORM_COUNT, STORM_S = 20, 300.0

_PORT_FLAG = later(r"--swarm[-_]port(?:=|\s+)[\"']?(\d{1,5})\b")
_PORT_VARIABLE = later(r"\$(?:AJET_SWARM_PORT\b|\{AJET_SWARM_PORT\})")
_PUBLISHED = later(r"(?:-p|--publish)(?:=|\s*)[\"']?(?:[\d.]+:)?(\d{1,5}):\d{1,5}\b")
_CONTAINER = later(r"\s*(?:sudo\s+(?:-n\s+)?)?(?:docker|podman)\s+(?:container\s+)?run\s")
_NAMED = later(r"\s--name(?:=|\s+)[\"']?([A-Za-z0-9][\w.-]{0,200})")
_URL = later(r"(?P<scheme>https?)://(?P<host>[^/:\s]+|\[[^\]\s]+\])(?::(?P<port>\d{1,5}))?/?\Z")


@dataclass(frozen=True, slots=True)
class Swarm:
    """The swarm notes of a run. Without `server` and `ssh` a server must be running already."""

    server: str = ""  # shell command of the server, started in its own session
    url: str = ""  # its address; "" to derive it from the command
    debug: str = ""  # shell command of the one-episode check; "" for none
    debug_timeout_s: float = DEBUG_S
    on_busy: str = "refuse"  # or "stop": what to do about a training engine that is already running
    ssh: str = ""  # arguments of ssh: `url` is relative to that host; its port is forwarded
    retries: tuple[int, float] = (STORM_COUNT, STORM_S)  # count of equal tracebacks, and seconds, that make a storm
    poll_s: float = POLL_S
    health_s: float = HEALTH_S

    @property
    def starts_session(self) -> bool:
        """Whether autoresearch has to run a second session (server or port forward) beside the client's."""
        return bool(self.server or self.ssh)

    @property
    def remote_address(self) -> str:
        """`host:port` of the server as seen from the host of `ssh`."""
        found = _URL.match(self.url)
        return f"{found['host'] if found else '127.0.0.1'}:{self.port or PORT}"

    @property
    def container(self) -> bool:
        """Whether the server's command is `docker run ...` or the like."""
        return _CONTAINER.match(self.server) is not None

    @property
    def container_name(self) -> str:
        """The `--name` that the command gives its container; "" if none."""
        found = _NAMED.search(self.server)
        return found[1] if found else ""

    @property
    def port(self) -> int | None:
        """The port on this host; None if the command takes it from $AJET_SWARM_PORT, so that any free one will do."""
        if found := _URL.match(self.url):
            return int(found["port"] or (443 if found["scheme"] == "https" else 80))
        if self.server and _PORT_VARIABLE.search(self.server):
            return None
        found = _PORT_FLAG.search(self.server) or (_PUBLISHED.search(self.server) if self.container else None)
        return int(found[1]) if found else PORT

    def named_container(self, name: str) -> str:
        """The server's command, with `--name` added to an unnamed container so that it can be stopped by name."""
        if not self.container or self.container_name:
            return self.server
        return re.sub(r"(\brun)\s", rf"\1 --name {name} ", self.server, count=1)


def is_url(text: str) -> bool:
    """Whether the text is an http(s) URL of a server, without a path."""
    return _URL.match(text) is not None
