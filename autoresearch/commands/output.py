"""What every command prints: one flat JSON object, or a few lines for people. Data on stdout, the rest on stderr.

Whatever passes here is shown without secrets.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from autoresearch.commands.layout import Whole, columns, for_people, has_colour, painted, table_lines, wrapped
from autoresearch.core.text import numbers
from autoresearch.errors import AutoresearchError, InputMissing
from autoresearch.runner.masking import clean_text, mask_values

SCHEMA = 1
T = TypeVar("T")
typed: list[str] = []  # the words of this command line
ROOM = 8000  # characters of JSON that hold a series: about 2,000 tokens of an agent's context
MAX_LINES = 30  # a harness cuts long output; a command that has more to say names the file


def say(text: str = "") -> None:
    """One line of data on stdout, without secrets. A reader that has seen enough (`| head`) ends the command with 0."""
    _write(clean_text(text))


def prose(text: str) -> None:
    """The same for people: at a terminal, laid out and coloured. A `Whole` line is left as it is."""
    cleaned = clean_text(text)  # before it is cut: half a secret would not be known as one
    _write(for_people(Whole(cleaned) if isinstance(text, Whole) else cleaned, sys.stdout))


def log_text(text: str) -> None:
    """Lines of a run's log: at a terminal they end between two words, and nothing else is changed."""
    text = clean_text(text)
    if sys.stdout.isatty():
        text = "\n".join(wrapped(line, columns()) for line in text.split("\n"))
    _write(text)


def say_json(value: Any) -> None:
    """One line of JSON on stdout, without secrets."""
    _write(json.dumps(mask_values(clean(value)), ensure_ascii=False))


def _write(text: str) -> None:
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None


def remark(text: str) -> None:
    """One line about what is going on, on stderr: never data."""
    sys.stderr.write(for_people(clean_text(text), sys.stderr) + "\n")
    sys.stderr.flush()


def remark_path() -> None:
    """Say how the lines that begin with `autoresearch` can be typed, where the shell would not find it."""
    program = Path(sys.argv[0]).absolute()
    # uvx puts an environment in its cache on the PATH of this process, and not on that of the shell
    cached = any((parent / "CACHEDIR.TAG").exists() for parent in program.parents)
    if program.name == "autoresearch" and (cached or shutil.which("autoresearch") is None):
        remark(f'`autoresearch` is not on PATH; type: export PATH={shlex.quote(str(program.parent))}:"$PATH"')


@contextlib.contextmanager
def interruption_reported() -> Iterator[None]:
    """Print the message that a KeyboardInterrupt carries, which typer would drop."""
    try:
        yield
    except KeyboardInterrupt as error:
        if str(error):
            remark(str(error))
        raise


def emit(
    command: str,
    payload: Mapping[str, Any],
    *,
    as_json: bool,
    lines: Iterable[str] = (),
    refusals: Sequence[AutoresearchError] = (),
) -> None:
    """Print the JSON object of a command, or its lines for people. refusals: of a plan that cannot be carried out."""
    if as_json:
        whole = {"schema": SCHEMA, "command": command, "ok": True, **payload, "error": None}
        whole["next"] = [for_program(line) for line in payload.get("next", ())]
        if refusals:
            first, *others = map(_detail, refusals)
            whole |= {"ok": False, "exit_code": refusals[0].exit_code, "error": {**first, "others": others}}
            whole["next"] = [first["fix"]] if first["fix"] else []
        say_json(whole)
    else:
        for line in lines:
            prose(line)
        for line in payload.get("next", ())[:3]:
            prose(f"next: {line}")


def for_program(line: str) -> str:
    """A line to type, as somebody types it who reads JSON: with `--json`, and detached, unless this command itself
    waited for what it started."""
    words = line.split(" ")
    known = {"--json", "--format", "--help", "--serve"} & set(words)
    if words[0] != "autoresearch" or known or words[1:2] in (["attach"], ["mcp"]):
        return line
    planned = "--dry-run" in typed or (typed[:1] == ["campaign"] and not {"--yes", "resume"} & set(typed))
    waited = _starts(typed) and "--detach" not in typed and not planned
    more = " --detach --json" if _starts(words[1:]) and "--detach" not in words and not waited else " --json"
    before, dashes, after = line.partition(" -- ")
    return f"{before}{more}{dashes}{after}" if dashes and "--" in shlex.split(line) else line + more


def _starts(words: Sequence[str]) -> bool:
    """Whether a command line starts something and may wait for its end; `campaign FILE` starts a campaign."""
    verb = "".join(words[1:2])
    campaign = verb in ("start", "resume") or verb.startswith("-") or "." in verb
    return words[:1] == ["run"] or (words[:1] == ["campaign"] and campaign)


def newest(items: Sequence[T], room: int) -> list[T]:
    """The last items whose JSON fits in so many characters; of what does not fit at all, the last one."""
    count = 0
    for item in reversed(items):
        room -= len(json.dumps(clean(item), ensure_ascii=False)) + 2
        if room < 0 and count:
            break
        count += 1
    return list(items[len(items) - count :])


def clean(value: Any) -> Any:
    """JSON has no NaN: not-finite numbers become null, paths become text."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    if isinstance(value, Mapping):
        return {str(k): clean(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean(v) for v in value]
    return str(value) if isinstance(value, Path) else value


def _detail(error: AutoresearchError) -> dict[str, Any]:
    detail = {"code": error.code, "message": error.message, "hint": error.hint, "fix": for_program(error.fix)}
    findings = [str(f) for f in getattr(error, "findings", ())]
    return {**detail, "findings": findings[:MAX_LINES]} if findings else detail


def print_error(error: AutoresearchError, *, as_json: bool, command: str) -> None:
    """One clear sentence, what to do, and the line to type."""
    if as_json:
        detail = _detail(error)
        whole = {
            "schema": SCHEMA,
            "command": command,
            "ok": False,
            "exit_code": error.exit_code,
            "error": detail,
            "next": [detail["fix"]] if detail["fix"] else [],
        }
        if isinstance(error, InputMissing):
            whole |= {"missing": error.missing, "add": error.add, "add_to": error.add_to}
        say_json(whole)
        return
    remark(f"autoresearch: {error.message}")
    for finding in list(getattr(error, "findings", ()))[:MAX_LINES]:
        if finding.message not in error.message:
            remark(f"  {finding}")
    if error.hint:
        remark(f"  {error.hint}")
    if error.fix:
        remark(f"  type: {error.fix}")


def save_traceback(error: Exception) -> str:
    """Keep the traceback of an internal error where a report can quote it; says where."""
    text = clean_text("".join(traceback.format_exception(error)))
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "autoresearch"
    try:
        state.mkdir(parents=True, exist_ok=True)
        (state / "last-error.txt").write_text(text, encoding="utf-8")
    except OSError:
        sys.stderr.write(text)
        return "the traceback could not be saved; it is printed above"
    return f"the traceback is in {state / 'last-error.txt'}"


def duration(seconds: float | None) -> str:
    """`1h02m`, `3m20s`, `12.3s`; `-` for unknown."""
    if seconds is None:
        return "-"
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{rest:02d}s"


def near(path: str | Path) -> str:
    """A path as people read it: from the working directory where that is shorter."""
    relative = os.path.relpath(path) if Path(path).is_absolute() else str(path)
    return min(str(path), relative, key=len)


def number(value: float | None) -> str:
    """A metric as people read it."""
    return "-" if value is None else numbers.number(value)


def table(rows: Sequence[Sequence[str]], *, title: str = "") -> None:
    """A table of two or more columns, as wide as its widest cells; at a terminal no wider than that."""
    if title:
        say(title)
    if sys.stdout.isatty():
        cells = [[clean_text(cell) for cell in row] for row in rows]
        for line in table_lines(cells, columns()):
            _write(painted(line) if has_colour(sys.stdout) else line)
        return
    widths = [max(len(r[n]) for r in rows if n < len(r)) for n in range(max(len(r) for r in rows))]
    for row in rows:
        say("  ".join(cell.ljust(widths[n]) for n, cell in enumerate(row)).rstrip())


def at_terminal() -> bool:
    """Whether stderr is a terminal that can draw a line again."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def agent_or_pipe() -> bool:
    """Whether nobody is at the keyboard: no TTY, or a coding agent's shell."""
    return not sys.stdin.isatty() or not sys.stdout.isatty()
