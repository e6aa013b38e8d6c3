"""The blueprint notes that configure swarm mode: parsing, rendering and lint.

    - swarm_server: ajet-swarm start --swarm-port=10086     started in its own session, ended with the run
    - swarm_url: http://127.0.0.1:10086                     its address, if the command does not name the port
    - swarm_debug: python agent_roll_one_episode_debug.py   one episode that must succeed before the client starts
    - swarm_debug_timeout: 30m
    - swarm_on_busy: refuse                                 or stop: what to do about an engine already running
    - swarm_ssh: user@host                                  swarm_url is relative to that host; its port is forwarded
    - swarm_retries: 20 in 5m                               as many equal tracebacks without progress end the run
    - swarm_poll: 2s                                        interval between polls of the engine

`ajet-swarm start --swarm-port=$AJET_SWARM_PORT` uses any free port; server, check and client have it and
AJET_SWARM_URL in their environment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.blueprint.note_keys import LIST_KEYS, TEXT_KEYS
from autoresearch.core.run.swarm import DEBUG_S, HEALTH_S, POLL_S, STORM_COUNT, STORM_S, Swarm, is_url
from autoresearch.core.text.durations import parse_duration, problem, spoken

COMMANDS = tuple(name for name in LIST_KEYS if name.startswith("swarm_"))
TEXTS = tuple(name for name in TEXT_KEYS if name.startswith("swarm_"))
_RETRIES = re.compile(r"(\d{1,6})\s*(?:times\s*)?(?:in|within|/)\s*(.+)\Z")
_WRONG = re.compile(r"\bajet\s+swarm\s+server\b")  # from a published skill; argparse rejects it
_DETACHED = re.compile(r"\s(?:-[a-z]*d[a-z]*|--detach(?:=true)?)(?:\s|\Z)")
_LOOPBACK = re.compile(r"(?:-p|--publish)(?:=|\s*)[\"']?(?:127\.\d+\.\d+\.\d+|\[::1\]):")
_RIGHT = "ajet-swarm start --swarm-port=10086"


class BadNote(ValueError):  # noqa: N818 - it names what was found
    """An invalid value of a note; args: the key, what is wrong, what to write."""


def read_swarm(texts: Mapping[str, str], commands: Mapping[str, Sequence[str]]) -> Swarm | None:
    """Parse the swarm notes; None if there are none. BadNote for the first invalid value."""
    values = {key: texts.get(key, "") for key in TEXTS}
    for key in COMMANDS:
        if len(commands.get(key, ())) > 1:
            raise BadNote(key, "is given twice", "keep one of them")
        values[key] = next(iter(commands.get(key, ())), "").strip()
    if not any(values.values()):
        return None
    return Swarm(
        server=values["swarm_server"],
        url=_url(values["swarm_url"]),
        debug=values["swarm_debug"],
        debug_timeout_s=_seconds("swarm_debug_timeout", values, DEBUG_S),
        on_busy=_on_busy(values["swarm_on_busy"]),
        ssh=values["swarm_ssh"],
        retries=_retries(values["swarm_retries"]),
        poll_s=_seconds("swarm_poll", values, POLL_S),
        health_s=_seconds("swarm_health_timeout", values, HEALTH_S),
    )


def swarm_lines(swarm: Swarm | None) -> list[tuple[str, str]]:
    """(key, text) of the notes that describe this swarm, in the order of the schema, without default values."""
    if swarm is None:
        return []
    count, seconds = swarm.retries
    lines = [
        ("swarm_server", swarm.server),
        ("swarm_url", swarm.url),
        ("swarm_debug", swarm.debug),
        ("swarm_ssh", swarm.ssh),
        ("swarm_on_busy", "" if swarm.on_busy == "refuse" else swarm.on_busy),
        ("swarm_debug_timeout", "" if swarm.debug_timeout_s == DEBUG_S else spoken(swarm.debug_timeout_s)),
        ("swarm_retries", "" if swarm.retries == (STORM_COUNT, STORM_S) else f"{count} in {spoken(seconds)}"),
        ("swarm_poll", "" if swarm.poll_s == POLL_S else spoken(swarm.poll_s)),
        ("swarm_health_timeout", "" if swarm.health_s == HEALTH_S else spoken(swarm.health_s)),
    ]
    return [(key, text) for key, text in lines if text]


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


def _url(text: str) -> str:
    text = text.strip("`<>\"'")
    if text and not is_url(text):
        raise BadNote("swarm_url", f"{text[:80]!r} is no address of a server", "write http://HOST:PORT")
    return text.rstrip("/")


def _on_busy(text: str) -> str:
    word = text.lower().strip("`\"'. ")
    if word in ("", "refuse", "stop"):
        return word or "refuse"
    raise BadNote("swarm_on_busy", f"{text[:60]!r} is neither refuse nor stop", "an engine is never used as it is")


def _seconds(key: str, texts: Mapping[str, str], default: float) -> float:
    if not texts[key]:
        return default
    try:
        seconds = parse_duration(texts[key])
    except ValueError as error:
        raise BadNote(key, str(error), "durations look like 30m, 90 s or 1h30m") from None
    if trouble := problem(seconds):
        raise BadNote(key, f"{texts[key]!r} {trouble}", "durations look like 30m, 90 s or 1h30m")
    return seconds


def _retries(text: str) -> tuple[int, float]:
    if not text:
        return STORM_COUNT, STORM_S
    match = _RETRIES.match(text.strip("`\"' "))
    if match is None or int(match[1]) < 1:
        raise BadNote("swarm_retries", f"{text[:60]!r} is no count and time", "write it like `20 in 5m`")
    return int(match[1]), _seconds("swarm_retries", {"swarm_retries": match[2]}, STORM_S)
