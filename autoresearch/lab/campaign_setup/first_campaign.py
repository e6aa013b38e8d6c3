"""The first campaign file of a project: what its launch can vary, searched around the values that it has.

A script without flags is varied where its text sets numbers: each idea of the queue is a patch of one line.
"""

from __future__ import annotations

import ast
import json
import os.path
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from autoresearch.core.campaign.space import on_one_line, usual_space
from autoresearch.core.text.python_text import syntax_tree
from autoresearch.core.text.session_and_branch_names import slugify
from autoresearch.lab.campaign_setup.first_blueprint import settings_of
from autoresearch.lab.campaign_setup.proposer_spec import space_line
from autoresearch.lab.json_schemas import first_line
from autoresearch.lab.recipes.overrides import LaunchSettings
from autoresearch.lab.resolve.resolve_blueprint import base_of, read_blueprint
from autoresearch.lab.resolve.trainer_settings import TrainerSettings
from autoresearch.records.hostile import read_readable
from autoresearch.values import dataclass, field

COUNT = 8
IDEAS = "ideas"  # the directory of the patches
_AGENTS = ("claude", "codex", "opencode", "gemini", "qwen", "aider")
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
    for program in resolved.shell_reading.programs:
        if ideas := _ideas(resolved.codebase / program.path, base_of(blueprint)):
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
    note = "# The script takes no flags: each idea is a patch of one number in its text. `overrides`, `files` and\n" \
           "# `patches` of your own may follow; `proposer: agent` and `agent: claude` would let an agent have ideas.\n"
    text = head.replace(f"count: {COUNT} ", f"count: {len(ideas) + 1} ")
    return FirstCampaign(f"{text}{note}queue:\n{''.join(entries)}", files, tuple(ideas))


def _ideas(path: Path, root: Path) -> dict[str, tuple[str, str]]:
    """Patches of the numbers that a script sets at its top level, a third and three times each: slug -> (words, patch).
    """
    try:
        source = read_readable(path).decode()
        before = source.splitlines(keepends=True)
        numbers = _numbers(source, before)
    except (OSError, SyntaxError, ValueError, RecursionError):
        return {}
    if not source.endswith("\n"):
        return {}
    name = os.path.relpath(path, root)
    ideas: dict[str, tuple[str, str]] = {}
    for key, around in list(usual_space({key: node.value for key, node in numbers.items()}).items())[:3]:
        node = numbers[key]
        n, line = node.lineno - 1, before[node.lineno - 1]
        start, stop = node.col_offset, node.end_col_offset or 0
        for value in [around["low"], around["high"]] if isinstance(around, dict) else around:
            if value != node.value:
                new = f"{value:g}"
                after = [*before[:n], f"{line[:start]}{new}{line[stop:]}", *before[n + 1 :]]
                import difflib

                patch = "".join(difflib.unified_diff(before, after, f"a/{name}", f"b/{name}"))
                ideas[slugify(f"{key}-{new}")] = (f"{key} = {new} instead of {line[start:stop]}", patch)
    return ideas


def _numbers(source: str, lines: Sequence[str]) -> dict[str, ast.Constant]:
    """The numbers that names are set to at the top level of a text (`LR = 3e-4`); only on ASCII lines."""
    found = {}
    tree = syntax_tree(source)
    for node in tree.body if tree else ():
        match node:
            case ast.Assign(targets=[ast.Name(id=name), *_], value=ast.Constant(value=int() | float()) as number):
                pass
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant(value=int() | float()) as number):
                pass
            case _:
                continue
        if not isinstance(number.value, bool) and lines[number.lineno - 1].isascii():
            found[name] = number
    return found
