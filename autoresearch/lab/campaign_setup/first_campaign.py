"""The first campaign file of a project: what its launch can vary, searched around the values that it has.

Where no flag with a usual number is found, the numbers that its text sets are varied: each idea of the queue is a patch
of one line. A Python file that the command names, such as a configuration, goes before the script that reads it.
"""

from __future__ import annotations

import ast
import json
import os.path
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from autoresearch.core.campaign.space import on_one_line, usual_space
from autoresearch.core.shell.reading import ShellReading
from autoresearch.core.text.python_text import syntax_tree
from autoresearch.core.text.session_and_branch_names import slugify
from autoresearch.lab.campaign_setup.first_blueprint import IDEAS, settings_of
from autoresearch.lab.campaign_setup.proposer_spec import space_line
from autoresearch.lab.json_schemas import first_line
from autoresearch.lab.recipes.overrides import LaunchSettings
from autoresearch.lab.resolve.resolve_blueprint import base_of, read_blueprint
from autoresearch.lab.resolve.trainer_settings import TrainerSettings
from autoresearch.records.hostile import read_readable

COUNT = 8
_AGENTS = ("claude", "codex", "opencode", "gemini", "qwen", "aider")
NO_NEWLINE = "\\ No newline at end of file"  # in a patch, behind such a line (diff(1))
_HEAD = """{schema}
# A campaign of `autoresearch`: the unchanged baseline first, then one idea after another, each on a branch of its own.
# `autoresearch campaign start {name}` prints the plan and asks; `autoresearch config schema` lists all keys.
blueprint: {blueprint}
count: {count}  # ideas, the baseline among them; or, for a night: deadline: 10h
{metric}"""


@dataclass(frozen=True, slots=True)
class FirstCampaign:
    """The text of a campaign file, further files by their path from its directory, and what its ideas vary."""

    text: str
    files: Mapping[str, str] = field(default_factory=dict)
    varies: tuple[str, ...] = ()
    remark: str = ""  # why nothing is varied yet


def first_campaign(blueprint: Path, environ: Mapping[str, str], name: str) -> FirstCampaign:
    """The campaign file of this name beside a blueprint; the program's `--help` is asked if its text shows no flag.

    Raises BlueprintError for a blueprint that is invalid.
    """
    settings = settings_of(read_blueprint(blueprint), environ)
    resolved, trainer = settings.resolved, settings.trainer
    metric = "" if resolved.blueprint.notes.metric or settings.objective else (
        "# metric: NAME  # the number that counts; without it, the one that a first run shows to be a score\n"
    )  # fmt: skip
    head = _HEAD.format(schema=first_line("campaign"), name=name, blueprint=blueprint.name, count=COUNT, metric=metric)
    if trainer.space(settings.whole):
        return FirstCampaign(f"{head}# space: left out, so it is that of {trainer.name}: low-risk keys of the recipe\n")
    launch = _launch(settings, base_of(blueprint), environ)
    flags = {key.lstrip("-"): value for key, value in launch.flags.items()}  # those of a known trainer's script, too
    others = settings.texts.other_names()
    if space := usual_space({key: value for key, value in {**flags, **launch.settings}.items() if key not in others}):
        lines = [f"  {key}: {on_one_line(values)}" for key, values in space.items()]
        return FirstCampaign("\n".join([f"{head}space:  # what the ideas vary", *lines, ""]), varies=tuple(space))
    command = resolved.blueprint.launch_command
    if ideas := _ideas(_python_files(resolved.shell_reading, resolved.codebase), base_of(blueprint), launch.settings):
        return _queued(head, ideas)
    if line := space_line(launch):
        remark = f"nothing is varied yet: only you know what the numbers of `{command}` are; see `space:` in {name}"
        return FirstCampaign(f"{head}# space: {line}  # remove the first #, and what must not vary\n", remark=remark)
    agent = next((one for one in _AGENTS if shutil.which(one, path=environ.get("PATH"))), "")
    remark = (
        f"no number that `{command}` takes was found, in its text or by its --help: a coding agent has to change "
        + ("the code" if agent else "the code; none is installed (or write your own ideas: `queue:`)")
    )
    return FirstCampaign(f"{head}proposer: agent\nagent: {agent or _AGENTS[0]}\n", remark=remark)


def _launch(trainer_settings: TrainerSettings, root: Path, environ: Mapping[str, str]) -> LaunchSettings:
    """The command's settings; its `--help` is asked where the text shows no usual number."""
    launch = trainer_settings.launch(root)
    return launch if usual_space(launch.settings) else trainer_settings.with_help(launch, environ)


def _queued(head: str, ideas: Mapping[str, tuple[str, str]]) -> FirstCampaign:
    """A campaign whose queue is the file itself. `ideas`: slug -> (sentence, patch)."""
    entries = [
        f"- slug: {slug}\n  sentence: {json.dumps(sentence)}\n  parent: baseline\n  patches: [{IDEAS}/{slug}.diff]\n"
        for slug, (sentence, _) in ideas.items()
    ]
    files = {f"{IDEAS}/{slug}.diff": patch for slug, (_, patch) in ideas.items()}
    note = """\
# No flag with a usual number is known: each idea is a patch of one number in a file. `overrides: {--lr: 0.1}` passes
# `--lr 0.1` on to the script (`--lr=` as `--lr=0.1`); `proposer: agent` and `agent: claude` let an agent have ideas.
"""
    text = head.replace(f"count: {COUNT} ", f"count: {len(ideas) + 1} ")
    return FirstCampaign(f"{text}{note}queue:\n{''.join(entries)}", files, tuple(ideas))


def _python_files(shell_reading: ShellReading, codebase: Path) -> list[Path]:
    """The Python files that a command names and does not start, those behind first, as they win; then its programs."""
    programs = [codebase / program.path for program in shell_reading.programs]
    words = ((one.cwd or "", word.rpartition("=")[2]) for one in shell_reading.own for word in one.argv)
    named = [codebase / cwd / word for cwd, word in words if word.endswith(".py")]
    return [*(path for path in reversed(named) if path.is_file() and path not in programs), *programs]


def _ideas(files: Sequence[Path], root: Path, settings: Collection[str]) -> dict[str, tuple[str, str]]:
    """Patches of the numbers that files set at their top level, a third and three times each: slug -> (words, patch).

    A name is patched in the first file that sets it, and not at all if the command gives its value.
    """
    numbers: dict[str, tuple[Path, list[str], ast.Constant | None]] = {}
    for path in files:
        try:
            source = read_readable(path).decode()
            lines = source.splitlines(keepends=True)
            own = _numbers(source, lines)
        except (OSError, SyntaxError, ValueError, RecursionError):
            continue
        for key, number in own.items():
            numbers.setdefault(key, (path, lines, number))
    known = {key: number.value for key, (_, _, number) in numbers.items() if number and key not in settings}
    ideas: dict[str, tuple[str, str]] = {}
    for key, around in list(usual_space(known).items())[:3]:
        path, before, node = numbers[key]
        assert node is not None
        name, n = os.path.relpath(path, root), node.lineno - 1
        line, start, stop = before[n], node.col_offset, node.end_col_offset or 0
        for value in [around["low"], around["high"]] if isinstance(around, dict) else around:
            if value != node.value:
                new = f"{value:g}"
                after = [*before[:n], f"{line[:start]}{new}{line[stop:]}", *before[n + 1 :]]
                import difflib

                changed = difflib.unified_diff(before, after, f"a/{name}", f"b/{name}")
                patch = "".join(one if one.endswith("\n") else f"{one}\n{NO_NEWLINE}\n" for one in changed)
                ideas[slugify(f"{key}-{new}")] = (f"{key} = {new} instead of {line[start:stop]} in {name}", patch)
    return ideas


def _numbers(source: str, lines: Sequence[str]) -> dict[str, ast.Constant | None]:
    """What names are set to at the top level of a text (`LR = 3e-4`), if that is a number on an ASCII line."""
    found: dict[str, ast.Constant | None] = {}
    tree = syntax_tree(source)
    for node in tree.body if tree else ():
        match node:
            case ast.Assign(targets=[ast.Name(id=name), *_]) | ast.AnnAssign(target=ast.Name(id=name)):
                number = node.value
            case _:
                continue
        usual = isinstance(number, ast.Constant) and type(number.value) in (int, float)
        if isinstance(number, ast.Constant) and usual and lines[node.lineno - 1].isascii():
            found[name] = number
        else:
            found.setdefault(name, None)
    return found
