"""The skill that coding agents load: the topics that the command serves, and where its files are installed.

    .agents/skills/autoresearch/    real files, for Codex, OpenCode, Gemini CLI, Cursor, Copilot
    .claude/skills/autoresearch     the same, for Claude Code, which looks nowhere else
    .agents/skills-kept/            what stood there before and had been edited by hand

Layout and front matter: agentskills/agentskills 69ef37e, docs/specification.mdx.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from autoresearch.errors import ConflictError, NotFoundError
from autoresearch.lab.render import data_dir
from autoresearch.records.hostile import write_atomically

NAME = "autoresearch"
REAL = Path(".agents/skills")
STAMP = ".installed.json"  # the checksums of the files that we wrote, to distinguish an edited copy from an old one

CLAUDE_RULE = "Bash(autoresearch *)"  # without it Claude Code 2.1 denies every command of ours where nobody is asked
CODEX_RULE = 'prefix_rule(pattern=["autoresearch"], decision="allow")'  # and Codex runs them outside its sandbox
CODEX_RULES = f"{NAME}.rules"  # a file of our own: Codex reads all of `rules/`, and `default.rules` is its user's


@dataclass(frozen=True, slots=True)
class Topic:
    """One page of the skill: `name`, when to read it, and its text."""

    name: str
    summary: str
    text: str


@dataclass(frozen=True, slots=True)
class InstallResult:
    """The result for one directory: written, updated or unchanged; `kept` are edited files that it has replaced."""

    path: Path
    done: str
    kept: Path | None = None


def topics() -> list[Topic]:
    """Every page, by name. The first line of each is `# name: when it is of use`."""
    return [_topic(path) for path in sorted((data_dir("skills") / NAME / "references").glob("*.md"))]


def topic(name: str) -> Topic:
    """One page. NotFoundError for an unknown name suggests the nearest, or the page that mentions it."""
    known = {one.name: one for one in topics()}
    wanted = name.strip().lower().removesuffix(".md")
    if wanted in known:
        return known[wanted]
    near = difflib.get_close_matches(wanted, known, n=1) or [
        one.name for one in known.values() if wanted and re.search(rf"\b{re.escape(wanted)}\b", one.summary.lower())
    ]
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
    fix = f"autoresearch skill show {near[0]}" if near else "autoresearch skill show"
    raise NotFoundError(f"the skill has no topic {name[:40]!r}", code="no_topic", hint=hint, fix=fix)


def _topic(path: Path) -> Topic:
    text = path.read_text(encoding="utf-8")
    head = text.partition("\n")[0].lstrip("# ")
    return Topic(path.stem, head.partition(": ")[2], text)


def install(root: Path, *, claude: Path | None = None) -> list[InstallResult]:
    """Write the skill below `root`, a project or a home, for Claude Code in `claude` too; safe to repeat.

    `claude`: its directory if not `root/.claude`. Files edited by hand are moved aside, never lost.
    Raises ConflictError, before anything is written, if a foreign link or a file is in the way.
    """
    real = root / REAL / NAME
    places = [real, (claude or root / ".claude") / "skills" / NAME]
    for place in places:
        _free(place, real)
    ours = _ours()
    return [_write(place, ours) for place in places]


def allow(claude: Path, codex: Path, *, user: bool = False) -> dict[str, Path]:
    """Add CLAUDE_RULE to Claude Code's settings and CODEX_RULE to Codex's rules, and leave all else; the files.

    `claude` and `codex` are their directories. Of a project's settings those that git ignores, which count without a
    person too. ConflictError if the files cannot be read.
    """
    path = (claude / ("settings.json" if user else "settings.local.json")).resolve()  # it may be a link to dotfiles
    try:
        settings = json.loads(path.read_bytes()) if path.exists() else {}
        rules = settings.setdefault("permissions", {}).setdefault("allow", [])
        if CLAUDE_RULE not in rules:
            rules.append(CLAUDE_RULE)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, json.dumps(settings, indent=2).encode() + b"\n")
    except (ValueError, AttributeError, TypeError) as error:
        hint = f'mend it, or write "permissions": {{"allow": ["{CLAUDE_RULE}"]}} into it yourself'
        raise ConflictError(f"{path} is no JSON object of settings: {error}", hint=hint) from error
    return {"claude": path, "codex": _allow_codex(codex / "rules")}


def _allow_codex(folder: Path) -> Path:
    """The file of Codex's rules that has CODEX_RULE: one that has it already, else our own."""
    ours = (folder / CODEX_RULES).resolve()
    for path in (ours, *sorted(folder.glob("*.rules"))):
        if path.is_file() and CODEX_RULE in path.read_text(encoding="utf-8", errors="replace").splitlines():
            return path
    before = ours.read_bytes() if ours.exists() else b""
    between = b"\n" if before and not before.endswith(b"\n") else b""
    ours.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(ours, before + between + CODEX_RULE.encode() + b"\n")
    return ours


def _ours() -> dict[str, bytes]:
    """The files that agents need, without the evals, which hold the answers."""
    source = data_dir("skills") / NAME
    paths = [source / "SKILL.md", *sorted((source / "references").glob("*.md"))]
    return {path.relative_to(source).as_posix(): path.read_bytes() for path in paths}


def _free(path: Path, real: Path) -> None:
    if path.is_symlink() and path.exists() and (path == real or path.resolve() != real.resolve()):
        hint = "nothing was written; remove the link, then type this again"
        raise ConflictError(f"{path} is a link to {path.resolve()}, which is not ours", hint=hint)
    if path.exists() and not path.is_dir():
        raise ConflictError(f"{path} is a file", hint="nothing was written; move it away, then type this again")


def _write(target: Path, ours: Mapping[str, bytes]) -> InstallResult:
    """The files at `target`: written beside it, then renamed."""
    if target.is_symlink():  # ours, of an earlier version, or one that leads nowhere: `_free` checked that
        target.unlink()
    there = _files(target)
    if there == ours:
        return InstallResult(target, "unchanged")
    target.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f".{NAME}-", dir=target.parent))
    try:
        for name, data in ours.items():
            (made / name).parent.mkdir(exist_ok=True)
            (made / name).write_bytes(data)
        (made / STAMP).write_text(json.dumps(_sums(ours), indent=1) + "\n", encoding="utf-8")
        made.chmod(0o755)
        kept = _make_way(target, there)
        made.rename(target)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
    return InstallResult(target, "updated" if there else "written", kept)


def _make_way(target: Path, there: Mapping[str, bytes]) -> Path | None:
    """Remove what is at `target`; an edited copy is moved aside, and its new path returned."""
    if not target.exists():
        return None
    if there and _stamp(target) == _sums(there):
        shutil.rmtree(target)
        return None
    shelf = target.parent.parent / "skills-kept"
    shelf.mkdir(exist_ok=True)
    taken = {path.name for path in shelf.iterdir()}
    kept = next(shelf / f"{NAME}-{n}" for n in range(1, len(taken) + 2) if f"{NAME}-{n}" not in taken)
    target.rename(kept)
    return kept


def _files(folder: Path) -> dict[str, bytes]:
    """The files of an installed copy, without our stamp; empty if there is none."""
    if not folder.is_dir():
        return {}
    paths = (path for path in folder.rglob("*") if path.is_file() and path != folder / STAMP)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def _sums(files: Mapping[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())}


def _stamp(folder: Path) -> dict[str, str] | None:
    try:
        return dict(json.loads((folder / STAMP).read_bytes()))
    except (OSError, ValueError, TypeError):
        return None
