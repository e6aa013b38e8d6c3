"""A result directory: experiment_log.md, finish.flag, whose it is, and where an earlier run's records go.

The log is created before anything else of a run, and begins with the command; then the Runner and the CLI append one
line per event and intervention, in one format:

    - 2026-11-21 10:00:00Z +12.3s first training step

finish.flag marks that a run is over, whatever happened: its existence has the meaning that the published skill
promises, its content is one JSON object. A trainer may write it itself (AgentJet: `Training completed at 1737...`):
that is not autoresearch's verdict, and ours replaces it. Records of an earlier run are moved to `earlier/<its run id>/`
and never deleted or overwritten.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from autoresearch.core.metrics.constraint import constraint_words
from autoresearch.core.run.spec import RunSpec
from autoresearch.core.text.numbers import span
from autoresearch.core.text.regex import later
from autoresearch.core.text.session_and_branch_names import RUN_ID
from autoresearch.errors import ConflictError
from autoresearch.records import hostile
from autoresearch.records.files import (
    append_line,
    finite,
    hold_lock,
    make_directory,
    sync_directory,
    unwritable,
    write_json,
)
from autoresearch.records.hostile import lies_in, open_own, read_plain
from autoresearch.runner.basics import write_all
from autoresearch.runner.masking import clean_text
from autoresearch.runner.text import without_html

NAME = "experiment_log.md"
RESULTS = "results.md"
OWNER = ".autoresearch-run"
FLAG = "finish.flag"
REFUSED = "refused"  # used instead of an ending: the run was never started
EARLIER = "earlier"
FILES = (NAME, RESULTS, OWNER, FLAG)
NAMES = (*FILES, EARLIER)
SENTENCE_MAX = 4000
FLAG_MAX = 1 << 16  # bytes
_TITLE = later(rb"# Experiment log: (\S{1,80})\n")
_UNSHOWN = later(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f]")


def claim(result_dir: Path, run: str, alive: Callable[[str], bool | None]) -> None:
    """Claim a result directory for `run`. Raises ConflictError while a live run owns it.

    `alive` tells whether a run is alive: None for an unknown run, which then counts as alive while the process that
    claimed the directory lives: a launch between its claim and its first record.
    """
    path = result_dir / OWNER
    try:
        hostile.clear(result_dir, (OWNER,))
        fd = open_own(path, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise unwritable(path, error) from error
    try:
        hold_lock(fd, path)
        owner, pid, born = _owner(os.pread(fd, 1024, 0))
        if owner and owner != run and _holds(alive(owner), pid, born):
            raise ConflictError(
                f"{result_dir} belongs to the run {owner}, which is still alive",
                hint="two runs never write into each other: wait, stop it, or name another exp_result_dir",
                fix=f"autoresearch wait {owner}",
                code="result_dir_in_use",
            )
        me = os.getpid()
        os.ftruncate(fd, 0)
        write_all(fd, json.dumps({"run": run, "pid": me, "born": _born(me)}).encode() + b"\n")
        os.fsync(fd)
    except OSError as error:
        raise unwritable(path, error) from error
    finally:
        os.close(fd)


def _owner(data: bytes) -> tuple[str, int, str]:
    try:
        record = json.loads(data)
        return str(record["run"]), int(record["pid"]), str(record["born"])
    except (ValueError, KeyError, TypeError):
        return "", 0, ""


def _holds(alive: bool | None, pid: int, born: str) -> bool:
    if alive is not None:
        return alive
    return pid != os.getpid() and bool(born) and _born(pid) == born


def _born(pid: int) -> str:
    """A process's start time in clock ticks since boot, which with its pid identifies it; "" if gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].split()
        return "" if fields[0] in b"ZX" else fields[19].decode()
    except (OSError, IndexError):
        return ""


def set_aside(result_dir: Path, more: Iterable[Path] = ()) -> list[Path]:
    """Move the records of an earlier run, and `more` files of it, to `earlier/`; returns their new paths.

    Only renames files; called again after an interruption, it continues.
    """
    clear_the_way(result_dir)
    log, flag = result_dir / NAME, result_dir / FLAG
    try:
        last = [log, flag] if read_flag(result_dir) else [flag, log]  # last of all what names their run
        files = [result_dir / RESULTS, *hostile.renamed(result_dir, NAMES), *more, *last]
        return move(result_dir, files, str((read_flag(result_dir) or {}).get("run", "")) or owner(result_dir))
    except OSError as error:
        raise unwritable(result_dir, error) from error


def move(result_dir: Path, files: Iterable[Path], run: str = "") -> list[Path]:
    """Move those of `files` that exist to `earlier/RUN`, or a number; returns their new paths. Raises OSError.

    Files inside the result directory keep their relative path; one that a link leads out of it to is left alone.
    """
    present = [f for f in files if os.path.lexists(f) and lies_in(f.parent, result_dir)]
    targets = [f.relative_to(result_dir) if result_dir in f.parents else Path(f.name) for f in present]
    base, n = (run if RUN_ID.match(run) else ""), 1
    final = result_dir / EARLIER / (base or "1")
    while final.is_symlink() or any(os.path.lexists(final / target) for target in targets):
        n += 1
        final = result_dir / EARLIER / (f"{base}-{n}" if base else str(n))
    for file, target in zip(present, targets, strict=True):
        (final / target).parent.mkdir(parents=True, exist_ok=True)
        file.rename(final / target)
    if present:
        sync_directory(result_dir)
    return sorted(final / target for target in targets)


def clear_the_way(result_dir: Path) -> list[str]:
    """Rename what else stands where files of ours go, and unlock them; a sentence for each that was changed."""
    try:
        unlocked = hostile.unlock(Path(os.path.realpath(result_dir)), FILES)
        hostile.clear(result_dir, FILES, (EARLIER,))
        return [*unlocked, *hostile.foreign(result_dir, NAMES)]
    except OSError as error:
        raise unwritable(result_dir, error) from error


def owner(result_dir: Path) -> str:
    """The run whose experiment log is in a result directory; "" if there is none, or a foreign one."""
    match = _TITLE.match(read_plain(result_dir / NAME, 200))
    return match[1].decode("ascii", "replace") if match else ""


def has_run(result_dir: Path) -> bool:
    """Whether a result directory holds traces of a run that ended, runs or is being launched, or a foreign flag."""
    traces = any(os.path.lexists(result_dir / name) for name in (OWNER, NAME, RESULTS, EARLIER))
    flag = read_flag(result_dir)
    return traces or (flag is not None and flag.get("ending") != REFUSED)


def read_flag(directory: Path) -> dict[str, Any] | None:
    """The content of a finish.flag, {} if it is not autoresearch's; None without one. Never raises."""
    path = directory / FLAG
    if not os.path.lexists(path):
        return None
    try:
        content = json.loads(read_plain(path, FLAG_MAX))
    except (ValueError, RecursionError):
        return {}
    ours = isinstance(content, dict) and {"schema", "run", "ending"} <= content.keys()
    return content if ours else {}


def write_flag(result_dir: Path, content: Mapping[str, Any]) -> None:
    """Mark a run as over; writing the same flag again changes nothing. EnvironmentUnusable if it cannot be written.

    `content` holds at least schema, run, ending. A flag of another run is moved aside first.
    """
    path = result_dir / FLAG
    try:
        result_dir.mkdir(parents=True, exist_ok=True)
        hostile.clear(result_dir, (FLAG,), (EARLIER,))
        found = read_flag(result_dir) or {}
        if found and found["run"] != content["run"]:
            move(result_dir, [path], str(found["run"]))
        write_json(path, finite(content))
        sync_directory(result_dir)
    except OSError as error:
        raise unwritable(path, error) from error


def write_refusal(result_dir: Path, *, blueprint: str, reason: str, t: float) -> None:
    """Mark a result directory as finished because its blueprint could not be run. EnvironmentUnusable on failure."""
    known = {"run": "", "verdict": None, "returncode": None, "ending": REFUSED, "reason": reason}
    write_flag(result_dir, {"schema": 1, **known, "blueprint": blueprint, "ended": t})


def begin(result_dir: Path, spec: RunSpec, more: Iterable[Path] = ()) -> list[Path]:
    """Create this run's log, moving an earlier run's records aside; safe to repeat.

    Returns the new paths of the earlier records; does nothing if the log is this run's already.
    """
    if owner(result_dir) == spec.run:
        return []
    aside = set_aside(result_dir, more)
    create(result_dir, spec)
    return aside


def create(result_dir: Path, spec: RunSpec) -> Path:
    """Create the experiment log of a run. Raises ConflictError if there is a log, EnvironmentUnusable."""
    path = result_dir / NAME
    make_directory(result_dir)
    try:
        fd = open_own(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND)
        try:
            write_all(fd, clean_text(_opening(spec)).encode("utf-8", "replace"))
            os.fsync(fd)
        finally:
            os.close(fd)
    except FileExistsError:
        raise ConflictError(f"{path} exists: it is the log of {owner(result_dir) or 'another run'}") from None
    except OSError as error:
        raise unwritable(path, error) from error
    return path


def append(
    result_dir: Path, sentence: str, *, s: float | None = None, t: float | None = None, once: bool = False
) -> None:
    """Append one line; `s`: seconds since the run started, if known; `t`: wall clock, default now.

    once: not if it is there, whatever its `t`. Raises EnvironmentUnusable if it cannot be written.
    """
    path = result_dir / NAME
    stamp = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(t))
    words = ("" if s is None else f" +{s:.1f}s") + f" {_line(sentence)}\n"
    if once and holds(result_dir, words):
        return
    line = f"- {stamp}{words}".encode("utf-8", "replace")
    make_directory(result_dir)
    append_line(path, line, durable=False)  # not durable: the authoritative records are elsewhere


def holds(result_dir: Path, words: str) -> bool:
    """Whether the log contains `words`; False if there is no log."""
    return words.encode("utf-8", "replace") in read_plain(result_dir / NAME)


def _line(text: str) -> str:
    """One line of markdown from arbitrary text: without control characters, secrets and HTML, cut to SENTENCE_MAX."""
    return without_html(clean_text(" ".join(_UNSHOWN.sub(" ", text).split()))[:SENTENCE_MAX])


def _opening(spec: RunSpec) -> str:
    """The log's opening: title, command, purpose, settings and notes."""
    parts = [
        f"# Experiment log: {spec.run}",
        f"Command:\n\n{command_block(spec)}",
        "Purpose:\n\n" + _quoted(spec.purpose or "(none given)"),
        "\n".join(f"- {name}: {_line(value)}" for name, value in facts(spec).items()),
    ]
    if spec.notes.strip():
        parts.append("Notes of the blueprint:\n\n" + _quoted(spec.notes.strip()))
    parts.append("## What happened\n\n")
    return "\n\n".join(parts)


def _quoted(text: str) -> str:
    return "\n".join(f"> {_line(line)}".rstrip() for line in text.splitlines())


def command_block(spec: RunSpec) -> str:
    """The command as a block of markdown."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", spec.command)), default=0))
    return f"{fence}bash\n{spec.command}\n{fence}"


def facts(spec: RunSpec) -> dict[str, str]:
    """What was decided about a run before it started, by name; what does not apply is left out."""
    limits = spec.limits
    stall = "reported only" if limits.stall_s is None else span(limits.stall_s)
    strict = " (strict)" if limits.strict_first_step else ""
    strict = " (since the last output)" if limits.first_step_since_output else strict
    times = [span(seconds) for seconds in (limits.first_step_s, limits.max_s, limits.grace_s)]
    known = {
        "blueprint": f"{spec.blueprint} (sha256 {spec.blueprint_sha[:12]})",
        "recipe": spec.recipe,
        "branch": f"{spec.branch} at {spec.commit[:12]}" if spec.commit else spec.branch,
        "parent": f"{spec.parent_branch or 'detached'} at {spec.parent_commit[:12]}" if spec.parent_commit else "",
        "repaired rerun of": spec.fix_of,
        "session": spec.session,
        "runs in": spec.cwd,
        "interpreter": spec.interpreter_words,
        "trainer": spec.trainer,
        "metric": str(spec.objective or ""),
        "constraints": constraint_words(spec.constraints),
        "limits": f"first step {times[0]}{strict}, in all {times[1]}, stall {stall}, grace {times[2]}",
        "metrics files": ", ".join(f"{source.format} {source.path}" for source in spec.sources),
        "seed": "" if spec.seed is None else f"{spec.seed} ({spec.seed_by})",
        "prepare": "; ".join(spec.prepare),
        "evaluation": f"{'; '.join(spec.evaluate)} (within {span(spec.evaluate_s)})" if spec.evaluate else "",
        "cleanup": "; ".join(spec.cleanup),
        "environment": ", ".join(f"{k}={v}" for k, v in spec.environment.items()),
        "driven by": spec.driven_by,
        "run directory": spec.run_dir,
        "log": f"{spec.run_dir}/run.log",
        "result directory": spec.result_dir,
        "ledger": spec.ledger,
    }
    return {name: value for name, value in known.items() if value}
