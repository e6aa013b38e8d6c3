"""The two tools: `look` reads, `act` starts, changes and ends. Each takes the words of an autoresearch command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autoresearch.core.text.durations import parse_duration
from autoresearch.errors import UsageError

WAIT_S = 100  # within the tool timeout of known clients: Codex has 120 s, once 60, lately 300
MOST_WAIT_S = 540
MOST_TEXT = 4000  # characters of one word
LOOK: Mapping[str, tuple[str, ...]] = {  # what changes nothing, and the flags that would write or send
    "status": (),
    "wait": (),
    "logs": ("--out",),
    "metrics": ("--out",),
    "explain": (),
    "compare": (),
    "campaign status": (),
    "ledger show": ("--out",),
    "doctor": ("--notify",),
    "config show": (),
    "config schema": (),
    "skill show": (),
}
_ENDLESS = ("--watch", "--follow", "-f", "--serve")
_STARTS = {"run": (), "prove": (), "campaign": ("--yes",), "campaign start": ("--yes",), "campaign resume": ()}
_GROUPS = ("blueprint", "campaign", "config", "ledger", "scaffold", "skill", "swarm")
_ABOUT = {
    "look": f"Read: {', '.join(LOOK)}. `wait RUN` returns when something happens; call it instead of sleeping."
    ' `["skill", "show"]` tells how to work.',
    "act": "Start, change or end: run FILE.md, prove, campaign FILE.yaml, campaign add/skip/fix/set/pause/resume,"
    " note, report, stop RUN --reason WHY ... What is started outlives this session.",
}


@dataclass(frozen=True, slots=True)
class CommandLine:
    """An autoresearch command line that a client requested."""

    argv: Sequence[str]
    cwd: str  # "": the server's
    waits_s: float  # seconds that it may deliberately wait
    reads: bool  # it can be ended half-way without loss


def declared() -> list[dict[str, Any]]:
    """The entries of `tools/list`."""
    words = {"type": "array", "items": {"type": "string"}, "minItems": 1}
    properties = {
        "argv": {**words, "description": 'words behind `autoresearch`: ["status", "last"]'},
        "cwd": {"type": "string", "description": "project directory"},
    }
    schema = {"type": "object", "properties": properties, "required": ["argv"], "additionalProperties": False}
    return [
        {
            "name": name,
            "title": f"autoresearch: {name}",
            "description": about,
            "inputSchema": schema,
            "annotations": {
                "readOnlyHint": name == "look",
                "destructiveHint": name == "act",  # it may end a run
                "idempotentHint": name == "look",
                "openWorldHint": False,
            },
        }
        for name, about in _ABOUT.items()
    ]


def command_line(tool: str, arguments: Mapping[str, Any]) -> CommandLine:
    """The command line for a tool's arguments. Raises UsageError with one sentence if they are invalid."""
    words, cwd = arguments.get("argv"), arguments.get("cwd", "")
    if unknown := [name for name in arguments if name not in ("argv", "cwd")]:
        raise UsageError(f"{tool} takes no {unknown[0][:60]!r}", hint="it takes argv, a list of words, and cwd")
    if not isinstance(words, list) or not words:
        raise UsageError(f'{tool}: argv must be a list of words, such as ["status", "last"]')
    if fault := next(filter(None, map(_fault, [*words, cwd])), ""):
        raise UsageError(f"{tool}: each word {fault}")
    words = words[1:] if words[0] == "autoresearch" and words[1:] else words
    grouped = words[0] in _GROUPS and words[1:] and words[1].isalpha()
    command = " ".join(words[: 2 if grouped else 1])
    reads, options = tool == "look", words[: words.index("--")] if "--" in words else words
    if reads and command not in LOOK:
        raise UsageError(f"look does not take `{command[:60]}`", hint=f"it takes {', '.join(LOOK)}; act takes the rest")
    if refused := [flag for flag in (*_ENDLESS, *(LOOK[command] if reads else ())) if _has(flag, options)]:
        raise UsageError(f"{tool}: `{command}` is not called with {refused[0]} here")
    if command == "campaign approve":
        raise UsageError("an approval is a person's word: ask your user to type it", fix=f"autoresearch {command}")
    added = [] if _has("--json", options) else ["--json"]
    if not _has("--dry-run", options):
        started = ("--detach", *_STARTS[command]) if command in _STARTS else ()
        added += [flag for flag in started if not _has(flag, options)]
    waits_s = 0.0
    if command == "wait":
        waits_s, added = _wait(options, added)
    at = len(command.split())
    return CommandLine([*words[:at], *added, *words[at:]], cwd, waits_s, reads or command in LOOK)


def _has(flag: str, words: Sequence[str]) -> bool:
    return any(word == flag or word.startswith(f"{flag}=") for word in words)


def _wait(words: Sequence[str], added: list[str]) -> tuple[float, list[str]]:
    """The seconds that a `wait` may take, and the flags that it gets."""
    if not _has("--for", words):
        return WAIT_S, [*added, f"--for={WAIT_S}s"]
    at = next(n for n, word in enumerate(words) if word.partition("=")[0] == "--for")
    value = words[at].partition("=")[2] or (words[at + 1] if at + 1 < len(words) else "")
    try:
        seconds = parse_duration(value)
    except ValueError:
        return WAIT_S, added  # the command says what is wrong with it
    if seconds > MOST_WAIT_S:
        raise UsageError(f"wait: --for is at most {MOST_WAIT_S}s in one call", hint="call it again")
    return seconds, added


def _fault(word: Any) -> str:
    if not isinstance(word, str):
        return "must be a text"
    if len(word) > MOST_TEXT:
        return f"must have at most {MOST_TEXT} characters"
    if "\0" in word or any("\ud800" <= c <= "\udfff" for c in word):
        return "must be one that a command line can hold"
    return ""
