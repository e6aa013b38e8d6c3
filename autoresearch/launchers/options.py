"""Validates option values of targets of any kind, so that a mistake is reported before anything is written."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from autoresearch.core.text.durations import parse_duration, problem
from autoresearch.errors import UsageError
from autoresearch.records.secrets import mask_text


def refuse_secret(where: str, name: str, value: Any, *, known: bool) -> None:
    """Raise UsageError if an option, or a nested value, holds a token or a password: the file is committed.

    known: its launcher has an option of that name, so only the value is judged.
    """
    if isinstance(value, Mapping):
        for key, inner in value.items():
            refuse_secret(f"{where}.{key}", str(key), inner, known=False)
    elif isinstance(value, list):
        for inner in value:
            refuse_secret(where, name, inner, known=known)
    elif isinstance(value, str | int) and not isinstance(value, bool):
        text = str(value) if known else f"{name}={value}"
        if mask_text(text) != text:
            message = f"{where} holds a secret, and this file is for everybody who has the repository"
            hint = "give it in the environment of the command (RAY_AUTH_TOKEN, an ssh agent, a kubeconfig)"
            raise UsageError(message, hint=f"take it out; {hint}", code="secret_in_file")


def check_value(where: str, name: str, value: Any) -> None:
    """Raise UsageError if an option common to all targets has an invalid value."""
    wrong = "says nothing" if value is None else _CHECKS[name](value) if name in _CHECKS else ""
    if wrong:
        raise UsageError(f"{where}: {wrong}", code="bad_launcher")


def _whole(value: Any) -> str:
    fine = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return "" if fine else f"{value!r} is no whole number of at least 0"


def _text(value: Any) -> str:
    return "" if isinstance(value, str) and value.strip() else f"{value!r} is no text"


def _duration(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return f"{value!r} is no time; durations look like 90s, 20m or 24h"
    try:
        seconds = parse_duration(value) if isinstance(value, str) else float(value)
    except ValueError as error:
        return f"{error}; durations look like 90s, 20m or 24h"
    wrong = problem(seconds)
    return f"{value!r} {wrong}" if wrong else ""


def _number(value: Any) -> str:
    try:
        plain = isinstance(value, str | int | float) and not isinstance(value, bool)
        fine = plain and 0 <= float(value) < math.inf
    except ValueError:
        fine = False
    return "" if fine else f"{value!r} is no number of at least 0"


def _port(value: Any) -> str:
    fine = str(value).isdecimal() and 0 < int(str(value)) < 65536
    return "" if fine else f"{value!r} is no port: 1 to 65535"


def _texts(value: Any) -> str:
    items = value if isinstance(value, list) else [value]
    return "" if items and all(isinstance(item, str) and item.strip() for item in items) else f"{value!r} is no pattern"


def _roots(value: Any) -> str:
    pairs = value.items() if isinstance(value, Mapping) else [(value, "")]
    fine = all(str(here).startswith("/") and str(far).startswith("/") for here, far in pairs)
    return "" if fine else f"{value!r} is no mapping of directories here to those there: {{/data: /mnt/data}}"


def _flag(value: Any) -> str:
    return "" if isinstance(value, bool) else f"{value!r} is neither true nor false"


def _codebase(value: Any) -> str:
    return "" if value == "remote" else f"{value!r} is not `remote`; without it, the code is sent"


_CHECKS: dict[str, Callable[[Any], str]] = {
    **dict.fromkeys(("gpus_per_run",), _whole),
    **dict.fromkeys(("pending_limit", "poll"), _duration),
    **dict.fromkeys(("python", "host", "user", "root", "venv", "interpreter", "address", "partition"), _text),
    **dict.fromkeys(("min_free_gb", "collect_max_gb", "connect_timeout", "keepalive"), _number),
    **dict.fromkeys(("driver_gpus", "driver_cpus"), _number),
    "port": _port,
    "collect": _texts,
    "paths": _roots,
    "shared": _flag,
    "codebase": _codebase,
}
