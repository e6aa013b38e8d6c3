"""An abstract step as the call of a tool that the request itself offers."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from tests.agents.script import SEARCHES, Asked, Step, kind

Call = tuple[str, dict[str, Any]]
_NAMES = {
    "read": ("Read", "read_file", "read"),
    "edit": ("Edit", "replace", "edit", "edit_file"),
    "write": ("Write", "write_file", "write"),
    "shell": ("Bash", "run_shell_command", "bash", "exec_command", "shell_command", "shell"),
}
_PATH = ("file_path", "filePath", "absolute_path", "path")
_SYNONYMS = {
    "path": _PATH,
    "old": ("old_string", "oldString", "oldText", "old_text"),
    "new": ("new_string", "newString", "newText", "new_text"),
    "text": ("content", "contents", "text"),
    "command": ("command", "cmd"),
    "query": ("query",),
}


def call_of(step: Step, asked: Asked) -> Call | str:
    """The tool and its arguments, or the text to say; a step that no offered tool can do is said to be so."""
    what, value = kind(step), _placed(step[kind(step)], asked.cwd)
    if what in ("text", "json"):
        return value if isinstance(value, str) else json.dumps(value)
    if what == "tool":
        return value["name"], dict(value["arguments"])
    if what == "mcp":
        found = _of_mcp(value, asked)
    elif what == "shell":
        found = _shell(str(value), asked)
    else:
        found = _file_tool(what, value, asked) or _by_shell(what, value, asked)
    return found or f"cannot {what}: no tool for that among {', '.join(sorted(asked.tools)) or 'none'}"


def blocks_of(steps: Sequence[Step], asked: Asked) -> str:
    """All steps of a turn at once, as aider's SEARCH/REPLACE blocks."""
    said = []
    for step in steps:
        what, value = kind(step), _placed(step[kind(step)], asked.cwd)
        if what in ("edit", "write"):
            old, new = ("", value["text"]) if what == "write" else (value["old"], value["new"])
            name = value["path"].removeprefix(asked.cwd + "/") if asked.cwd else value["path"]
            said.append(f"{name}\n```\n<<<<<<< SEARCH\n{_line(old)}=======\n{_line(new)}>>>>>>> REPLACE\n```")
        elif what in ("text", "json"):
            said.append(value if isinstance(value, str) else json.dumps(value))
    return "\n\n".join(said)


def _line(text: str) -> str:
    return text if text.endswith("\n") or not text else text + "\n"


def _placed(value: Any, cwd: str) -> Any:
    """With `{cwd}` filled in, in all strings of a value."""
    if isinstance(value, str):
        return value.replace("{cwd}", cwd) if cwd else value
    if isinstance(value, Mapping):
        return {key: _placed(each, cwd) for key, each in value.items()}
    if isinstance(value, list):
        return [_placed(each, cwd) for each in value]
    return value


def _first(names: Sequence[str], asked: Asked) -> str:
    return next((name for name in names if name in asked.tools), "")


def _absolute(path: str, cwd: str) -> str:
    return str(PurePosixPath(cwd) / path) if cwd else path


def _file_tool(what: str, value: Any, asked: Asked) -> Call | None:
    """A tool for files, with its own names of the arguments; what else it requires gets a word."""
    tool = _first(_NAMES[what], asked)
    if not tool:
        return None
    given = {"path": value} if isinstance(value, str) else dict(value)
    given["path"] = _absolute(given["path"], asked.cwd)
    return tool, _named(given, asked.tools[tool])


def _named(given: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    known = schema.get("properties", {})
    named = {next((n for n in _SYNONYMS[key] if n in known), _SYNONYMS[key][0]): each for key, each in given.items()}
    for name in schema.get("required", ()):
        if name not in named:
            named[name] = "scripted" if known.get(name, {}).get("type") == "string" else _empty(known.get(name, {}))
    return named


def _empty(schema: Mapping[str, Any]) -> Any:
    return {"boolean": False, "integer": 1, "number": 1, "array": [], "object": {}}.get(schema.get("type", ""), "")


def _shell(command: str, asked: Asked) -> Call | None:
    tool = _first(_NAMES["shell"], asked)
    if not tool:
        return None
    schema = asked.tools[tool]
    arguments = _named({"command": command}, schema)
    if schema.get("properties", {}).get("command", {}).get("type") == "array":
        arguments["command"] = ["bash", "-lc", command]
    if "yield_time_ms" in schema.get("properties", {}):
        arguments["yield_time_ms"] = 30000
    return tool, arguments


def _by_shell(what: str, value: Any, asked: Asked) -> Call | None:
    """Where there is a shell only: Codex's apply_patch, or a line of Python."""
    path = value if isinstance(value, str) else value["path"]
    if what == "read":
        return _shell(f"cat {shlex.quote(path)}", asked)
    if "exec_command" in asked.tools:
        return _shell(f"apply_patch <<'PATCH'\n{_patch(what, value)}\nPATCH\n", asked)
    if what == "edit":
        code = "import pathlib, sys; f = pathlib.Path(sys.argv[1]); f.write_text(f.read_text().replace(*sys.argv[2:]))"
        words = ["python3", "-c", code, path, value["old"], value["new"]]
    else:
        code = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_text(sys.argv[2])"
        words = ["python3", "-c", code, path, value["text"]]
    return _shell(shlex.join(words), asked)


def _patch(what: str, value: Mapping[str, str]) -> str:
    if what == "edit":
        lines = [sign + line for sign, text in (("-", "old"), ("+", "new")) for line in value[text].splitlines()]
        head = f"*** Update File: {value['path']}\n@@"
    else:
        lines = [f"+{line}" for line in value["text"].splitlines()]
        head = f"*** Add File: {value['path']}"
    return "\n".join(["*** Begin Patch", head, *lines, "*** End Patch"])


def _of_mcp(value: Mapping[str, Any], asked: Asked) -> Call | None:
    """Each agent prefixes a server's tools in its own way: the shortest name that ends in the tool's is it."""
    server, tool = value.get("server", ""), value["tool"]
    found = [name for name in asked.tools if re.search(rf"(^|[_./-]){re.escape(tool)}$", name)]
    found = [n for n in found if server in n + asked.namespaces.get(n, "")] or found
    if found:
        return min(found, key=len), dict(value.get("arguments", {}))
    search = _first(SEARCHES, asked)
    return (search, _named({"query": tool}, asked.tools[search])) if search and search not in asked.calls[-1:] else None
