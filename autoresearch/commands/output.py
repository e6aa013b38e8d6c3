"""What every command prints: one flat JSON object, or a few lines for people. Data on stdout, the rest on stderr.

A command returns a `CommandResult`, and the front door prints it. Whatever passes here is shown without secrets.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from autoresearch.commands import Option
from autoresearch.commands.layout import (
    Whole,
    for_people,
    from_here,
    has_colour,
    painted,
    table_lines,
    width_of,
    wrapped,
)
from autoresearch.commands.options import Parameter, parameters_of
from autoresearch.core.text import numbers
from autoresearch.errors import AutoresearchError, InputMissing
from autoresearch.records.files import finite
from autoresearch.runner.masking import clean_text, mask_values

SCHEMA = 1
T = TypeVar("T")
ROOM = 8000  # characters of JSON that hold a series: about 2,000 tokens of an agent's context
MOST_WORDS = 2000  # characters of a command line that is told
MAX_LINES = 30  # a harness cuts long output; a command that has more to say names the file


@dataclass(slots=True)
class TypedLine:
    """What was typed: its words, the command in them, and whether the answer is for a program."""

    words: list[str]
    command: str = ""
    as_json: bool = False
    debug: bool = False  # programs that are started, and tracebacks, are told on stderr

    def begin(self, words: Sequence[str], command: str) -> None:
        """Another one."""
        self.words, self.command, self.as_json = list(words), command, False

    @property
    def ours(self) -> list[str]:
        """The words before `--`; those behind it are of another program, whatever they look like."""
        return self.words[: self.words.index("--")] if "--" in self.words else self.words

    @property
    def behind(self) -> list[str]:
        """The words behind `--`."""
        return self.words[len(self.ours) + 1 :]

    @property
    def behind_as_line(self) -> str:
        """The words behind `--` as a shell line; a single one is such a line."""
        return shlex.join(self.behind) if len(self.behind) > 1 else "".join(self.behind)

    def again(self, *more: str, without: Sequence[str] = ("--json", "--dry-run")) -> str:
        """The line to type, with other words of ours."""
        ours = [*(word for word in self.ours if word not in without), *more]
        return shlex.join(["autoresearch", *ours, *self.words[len(self.ours) :]])


typed = TypedLine([])


class LogLine(str):
    """A line of a run's log: it ends between two words at a terminal, and nothing else is changed."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class TableRows:
    """Rows of two or more columns, as wide as their widest cells; at a terminal the last one is folded."""

    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command has to say: keys for programs, lines for people. `lines` are made only where they are printed."""

    payload: Mapping[str, Any]
    lines: Iterable[str | TableRows] = ()
    exit_code: int = 0
    refusals: Sequence[AutoresearchError] = ()  # of a plan that cannot be carried out
    next_shown: int = 3  # lines to type next that people see; 0 where their lines are data


def with_json(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command as the front door calls it: with `--json`, and its result, or its interruption, is printed."""

    @functools.wraps(command)
    def run(*, as_json: bool = False, **options: Any) -> int:
        typed.as_json = as_json
        try:
            result = command(**options)
            return show(result) if isinstance(result, CommandResult) else int(result)
        except KeyboardInterrupt as error:  # typer would drop what it carries
            return interrupted(error)

    run.parameters = [*parameters_of(command), Parameter("as_json", Json, False)]  # type: ignore[attr-defined]
    return run


Json = Annotated[bool, Option("--json", help="One JSON object, for programs.")]


def show(command_result: CommandResult) -> int:
    """Print a result: its JSON object, or its lines for people; its exit code."""
    result, payload = command_result, command_result.payload
    if typed.as_json:
        whole = {"schema": SCHEMA, "command": typed.command, "ok": True, **payload, "error": None}
        whole["next"] = [for_program(line) for line in payload.get("next", ())]
        if result.refusals:
            first, *others = map(_detail, result.refusals)
            whole |= {"ok": False, "exit_code": result.exit_code, "error": {**first, "others": others}}
            whole["next"] = [first["fix"]] if first["fix"] else []
        say_json(whole)
    else:
        for line in result.lines:
            if isinstance(line, TableRows):
                table(line.rows)
            elif isinstance(line, LogLine):
                log_text(line)
            else:
                prose(line)
        for error in result.refusals:
            print_error(error)
        for text in () if result.refusals else payload.get("next", ())[: result.next_shown]:
            prose(f"next: {text}")
    return result.exit_code


def say(text: str = "") -> None:
    """One line of data on stdout, without secrets. A reader that has seen enough (`| head`) ends the command with 0."""
    _write(clean_text(text))


def prose(text: str) -> None:
    """The same for people: paths from here; at a terminal, laid out and coloured. A `Whole` line is left as it is."""
    cleaned = clean_text(text)  # before it is cut: half a secret would not be known as one
    _write(cleaned if isinstance(text, Whole) else for_people(cleaned, sys.stdout))


def log_text(text: str) -> None:
    """See `LogLine`."""
    text, width = clean_text(text), width_of(sys.stdout)
    _write("\n".join(wrapped(line, width) for line in text.split("\n")) if sys.stdout.isatty() else text)


def say_json(value: Any) -> None:
    """One line of JSON on stdout, without secrets."""
    _write(json.dumps(mask_values(finite(value)), ensure_ascii=False))


def _write(text: str) -> None:
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None


def remark(text: str) -> None:
    """One line about what is going on, on stderr, as `prose` writes it: never data."""
    sys.stderr.write(for_people(clean_text(text), sys.stderr) + "\n")
    sys.stderr.flush()


def remark_path() -> None:
    """Say how the lines that begin with `autoresearch` can be typed, where the shell would not find it."""
    import shutil

    program = Path(sys.argv[0]).absolute()
    # uvx puts an environment in its cache on the PATH of this process, and not on that of the shell; `uv venv` marks
    # an environment itself so, too
    environment = program.parent.parent
    cached = any((parent / "CACHEDIR.TAG").exists() for parent in environment.parents)
    if program.name == "autoresearch" and (cached or shutil.which("autoresearch") is None):
        remark(f'`autoresearch` is not on PATH; type: export PATH={shlex.quote(str(program.parent))}:"$PATH"')


def begin_debug() -> None:
    """Name each program on stderr that `subprocess` starts from now on, whichever library starts it (PEP 578)."""

    def audit(event: str, values: tuple[Any, ...]) -> None:
        if event == "subprocess.Popen" and typed.debug:
            _, words, folder, _ = values
            words = [words] if isinstance(words, str | bytes | os.PathLike) else words
            line = shlex.join(map(os.fsdecode, words))[:MOST_WORDS]
            with contextlib.suppress(OSError, ValueError, AttributeError):  # what a hook raises stops the program
                sys.stderr.write(clean_text(f"starts in {folder or '.'}: {line}") + "\n")

    typed.debug = True
    sys.addaudithook(audit)


def interrupted(error: KeyboardInterrupt) -> int:
    """Say what the interruption leaves behind, in the place of the terminal's `^C`; the exit code."""
    if at_terminal():
        sys.stderr.write("\r\x1b[2K")
    for line in (str(error) or "interrupted").splitlines():
        remark(line)
    return 130


def for_program(line: str) -> str:
    """A line to type, as somebody types it who reads JSON: with `--json`, and detached, unless this command itself
    waited for what it started."""
    before, dashes, after = line.partition(" -- ") if "--" in shlex.split(line) else (line, "", "")
    words = before.split(" ")
    known = {"--json", "--help", "--serve"} & set(words)
    if words[0] != "autoresearch" or known or words[1:2] in (["attach"], ["mcp"]):
        return line
    own = typed.ours
    planned = "--dry-run" in own or (own[:1] == ["campaign"] and not {"--yes", "resume"} & set(own))
    waited = _starts(own) and "--detach" not in own and not planned
    more = " --detach --json" if _starts(words[1:]) and "--detach" not in words and not waited else " --json"
    return f"{before}{more}{dashes}{after}"


def _starts(words: Sequence[str]) -> bool:
    """Whether a command line starts something and may wait for its end; `campaign FILE` starts a campaign."""
    verb = "".join(words[1:2])
    campaign = verb in ("start", "resume") or verb.startswith("-") or "." in verb
    return words[:1] == ["run"] or (words[:1] == ["campaign"] and campaign)


def newest(items: Sequence[T], room: int, record: Callable[[T], Any] = lambda item: item) -> list[Any]:
    """The last items, as `record` has them, whose JSON fits in so many characters; at least the last one."""
    found: list[Any] = []
    for item in reversed(items):
        told = record(item)
        room -= len(json.dumps(finite(told), ensure_ascii=False)) + 2
        if room < 0 and found:
            break
        found.append(told)
    return found[::-1]


def _detail(error: AutoresearchError) -> dict[str, Any]:
    detail = {"code": error.code, "message": error.message, "hint": error.hint, "fix": for_program(error.fix)}
    findings = [str(f) for f in getattr(error, "findings", ())]
    return {**detail, "findings": findings[:MAX_LINES]} if findings else detail


def print_error(error: AutoresearchError) -> None:
    """One clear sentence, what to do, and the line to type; for a program, an object."""
    if typed.debug:
        sys.stderr.write(_traceback(error))
    if typed.as_json:
        detail = _detail(error)
        whole = {"schema": SCHEMA, "command": typed.command, "ok": False, "exit_code": error.exit_code}
        whole |= {"error": detail, "next": [detail["fix"]] if detail["fix"] else []}
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
    text = _traceback(error)
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "autoresearch"
    try:
        state.mkdir(parents=True, exist_ok=True)
        (state / "last-error.txt").write_text(text, encoding="utf-8")
    except OSError:
        sys.stderr.write(text)
        return "the traceback could not be saved; it is printed above"
    return f"the traceback is in {state / 'last-error.txt'}"


def _traceback(error: Exception) -> str:
    import traceback

    return clean_text("".join(traceback.format_exception(error)))


def number(value: float | None) -> str:
    """A metric as people read it."""
    return "-" if value is None else numbers.number(value)


def table(rows: Sequence[Sequence[str]]) -> None:
    """See `TableRows`."""
    colour = has_colour(sys.stdout)
    cells = [[from_here(clean_text(cell)) for cell in row] for row in rows]
    for line in table_lines(cells, width_of(sys.stdout)):
        _write(painted(line) if colour else line)


def confirmed(question: str) -> bool:
    """What a person at the keyboard says; Enter is a yes."""
    import typer

    return typer.confirm(question, default=True)


def answered(question: str, default: str = "") -> str:
    """The text that a person at the keyboard writes, stripped. Enter and a bare yes mean the default; no is no text."""
    import typer

    def read(text: str) -> str:
        word = text.strip().lower()
        if word in ("n", "no") or (word in ("y", "yes") and not default):
            raise typer.BadParameter(f"write it, or press Enter{f' for {default}' if default else ''}")
        return default if word in ("y", "yes") else text.strip()

    return str(typer.prompt(question, default=default, show_default=bool(default), value_proc=read))


def at_terminal() -> bool:
    """Whether stderr is a terminal that can draw a line again."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def agent_or_pipe() -> bool:
    """Whether nobody is at the keyboard: no TTY, or a coding agent's shell."""
    return not sys.stdin.isatty() or not sys.stdout.isatty()
