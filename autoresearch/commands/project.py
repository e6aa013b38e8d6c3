"""`autoresearch init|config|clean`: a project's first files, its settings, and what campaigns and runs left behind."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from autoresearch.commands import Option, Positional, output
from autoresearch.commands.layout import Whole
from autoresearch.commands.output import CommandResult, TableRows
from autoresearch.core.text.durations import parse_duration, spoken
from autoresearch.errors import AutoresearchError, ConflictError, NotFoundError, UsageError
from autoresearch.lab import settings as project

if TYPE_CHECKING:
    from autoresearch.lab.disk.cleaning import Cleaned
    from autoresearch.lab.recipes.likely_objective import PrintedNumber

BLUEPRINT, CAMPAIGN = "experiment.md", "campaign.yaml"
_COMMIT = "git init && git add -A && git commit -m start"
_NO_SCRIPT = "no script of a usual name is there (train.py, main.py, run.sh): name what trains by --command"
TRY_S = 60.0  # of a trial that a person agrees to
MOST_LISTED = 100  # in the JSON object; people see fewer
MOST_KEPT_LINES = 8


def init(
    words: Annotated[list[str] | None, Positional(metavar="[DIR] [-- COMMAND...]", show_default=False)] = None,
    command: Annotated[str, Option(help="How it is trained, if not by train.py, main.py or run.sh.")] = "",
    metric: Annotated[str, Option(help="The objective; without it, the first run shows which numbers there are.")] = "",
    try_: Annotated[str, Option("--try", metavar="DURATION", help="Run it so long, and show what it prints.")] = "",
) -> CommandResult:
    """Write autoresearch.yaml, a blueprint of the training command, and a campaign.yaml that lists what it takes.

    Its --help is asked for its flags. Files that exist are kept; with a command, a metric or --try, those that `init`
    wrote and nobody edited are written anew. --try runs it in a worktree, which is removed, and shows every number that
    it prints or writes. The words behind `--` are the command, as --command is.
    """
    from autoresearch.lab.campaign_setup.first_files import unedited

    directory, *more = (words or [])[: len(words or ()) - len(output.typed.behind)] or ["."]
    command = output.typed.behind_as_line or command
    if more:
        fix = shlex.join(["autoresearch", "init", "--", directory, *more])
        raise UsageError(f"one directory is set up, and `{more[0]}` follows it; a command stands behind `--`", fix=fix)
    root = Path(directory).absolute()
    if not root.is_dir():
        raise NotFoundError(f"there is no directory {root}", hint="a command stands behind `--`")
    asking, trying = not output.agent_or_pipe(), parse_duration(try_) if try_ else 0.0
    own = unedited(root, (BLUEPRINT, CAMPAIGN)) if command or metric or trying else set[Path]()
    wrote: dict[str, str] = {}
    first = _blueprint_file(root / BLUEPRINT, command, metric, wrote, asking=asking, trying=trying, own=own)
    wrote |= _settings_file(root)
    nothing: dict[str, Any] = {"campaign": None, "settings": {}, "remarks": []}
    campaign = _campaign_file(root, wrote, own, asking=asking) if first["blueprint"] else nothing
    if not wrote:
        hint = "nothing was changed; edit it, or name another command behind `--`: what nobody edited is written anew"
        raise ConflictError(f"{root / BLUEPRINT} exists already", hint=hint)
    remarks = [*first.pop("remarks", ()), *campaign["remarks"]]
    near = root == Path.cwd()
    here = {name: name if near else shlex.quote(str(root / name)) for name in (BLUEPRINT, CAMPAIGN)}
    plan = "" if asking else " --dry-run"  # on a terminal it shows the plan and asks
    following = [f"autoresearch run {here[BLUEPRINT]}", f"autoresearch campaign start {here[CAMPAIGN]}{plan}"]
    if not first["blueprint"]:
        following = ["autoresearch config show", output.typed.again("--command", "COMMAND")]
    elif missing := first.pop("missing", ()):
        following.insert(0, output.typed.again(*missing, without=("--try", try_)))
    payload = {"path": str(root / project.FILE), "files": [*wrote], **first, **campaign, "remarks": remarks}
    lines = [_wrote(os.path.relpath(path) if near else path, words) for path, words in wrote.items()]
    output.remark_path()
    return CommandResult(payload | {"next": following}, [*lines, *(f"note: {one}" for one in remarks)])


def _wrote(path: str, words: str) -> str:
    return f"wrote {path}{words and f': {words}'}"


def _settings_file(root: Path) -> dict[str, str]:
    """Write autoresearch.yaml unless it is there; what was written, with a word about it."""
    from autoresearch.lab.json_schemas import write_schema

    path = root / project.FILE
    if path.exists():
        return {}
    with path.open("x", encoding="utf-8") as file:
        file.write(f"{write_schema(root)}\n{project.template()}")
    return {str(path): "every setting, commented out"}


def _blueprint_file(
    path: Path, command: str, metric: str, wrote: dict[str, str], *, asking: bool, trying: float = 0.0,
    own: Set[Path] = frozenset(),
) -> dict[str, Any]:  # fmt: skip
    """Write the blueprint, unless there is one or nothing to train; first ask, if `asking`.

    trying: seconds that the command runs to show its numbers. own: files that may be written anew, the command as it
    is there if none is named.
    """
    from autoresearch.lab.campaign_setup import first_files as first
    from autoresearch.lab.render import render_blueprint

    root, purpose = path.parent, ""
    result: dict[str, Any] = {"blueprint": str(path), "launch_command": command, "metric": metric, "direction": ""}
    result["numbers"] = []
    if path.exists() and path not in own:
        return result
    command = command or (first.command_of(path) if path.exists() else first.training_command(root))
    if asking:
        command = output.answered("Which command trains it (empty: none)?", command)
    if not command:
        return result | {"blueprint": None, "remarks": [] if asking else [_NO_SCRIPT]}
    settings = first.as_read(first.first_blueprint(root, command, metric, "", path), path, os.environ)
    trainer, remarks = settings.trainer, list[str]()
    metric = settings.objective.metric if settings.objective else ""
    if trying and trainer.named:
        message = f"`{command}` starts {trainer.name}, which is not run for a trial: its numbers are known"
        raise UsageError(message, hint="leave out --try; --metric names another one of its numbers")
    question = f"Run `{command}` for {spoken(TRY_S)}, in a copy, to see which numbers it prints?"
    if not trying and asking and not (metric or trainer.named) and output.confirmed(question):
        trying = TRY_S
    numbers: Sequence[PrintedNumber] = ()
    if trying:
        from autoresearch.lab.campaign_setup.tried_command import tried_command

        output.remark(f"running `{command}` for at most {spoken(trying)}, in a copy")
        environ = {**settings.resolved.unsynchronised, **os.environ}
        trial = tried_command(command, root, trying, settings.resolved.interpreter, environ)
        numbers, remarks = trial.numbers, [*trial.words, *(f"it has {one}" for one in trial.numbers)]
        metric = metric or (numbers[0].name if trial.sure else "")
    if asking:
        for one in remarks:
            output.remark(one)
        likeliest = numbers[0].name if numbers else ""
        metric = output.answered("Which metric is the objective (empty: none)?", metric or likeliest)
        purpose, remarks = output.answered("What is the experiment for, in a sentence (may be empty)?"), []
    number = next((one for one in numbers if one.name == metric), None)
    blueprint = first.first_blueprint(root, command, metric, purpose, path)
    notes = replace(blueprint.notes, source=(number.file,) if number and number.file else ())
    if asking and metric and not notes.direction:
        notes = replace(notes, direction=asked_direction(f"Are higher or lower values of {metric} better?"))
    first.write_file(path, render_blueprint(replace(blueprint, notes=notes)))
    missing = ("--metric", numbers[0].name) if numbers else () if trying else ("--try", "60s")
    way = notes.direction or "whether a higher or a lower one is better is for you to say: `- direction:`"
    wrote[str(path)] = f"`{command}`; " + (f"{metric} counts ({way})" if metric else "no metric is named in it")
    if metric and numbers and not number:
        remarks.append(f"{metric} was not printed")
    elif not (metric or numbers):
        remarks.append("no metric is named: the first run will tell which numbers there are")
    return result | {
        "launch_command": command,
        "metric": metric,
        "direction": notes.direction,
        "numbers": [asdict(one) | {"words": str(one)} for one in numbers],
        "missing": () if metric or trainer.named else missing,
        "remarks": remarks,
    }


def asked_direction(question: str) -> str:
    """`maximize` or `minimize`, as a person at the keyboard says; asked again for any other word."""
    import typer

    from autoresearch.lab.campaign_setup.campaign_keys import CAMPAIGN_KEYS

    def read(text: str) -> str:
        try:
            return str(CAMPAIGN_KEYS["direction"].read(text, 0.0))
        except ValueError:
            raise typer.BadParameter("higher or lower") from None

    return str(typer.prompt(question, value_proc=read))


def _campaign_file(
    root: Path, wrote: dict[str, str], own: Set[Path] = frozenset(), *, asking: bool = False
) -> dict[str, Any]:
    """Write the campaign file of the blueprint, unless there is one that is not its `own`; ask for its space."""
    from autoresearch.git_repo import checkout
    from autoresearch.lab.campaign_setup.first_files import first_campaign, write_file

    path, remarks = root / CAMPAIGN, []
    found = checkout.find(root)
    if found is None or not found.head:
        remarks.append(f"a campaign keeps each idea on a git branch, and there is no commit yet; type: {_COMMIT}")
    if path.exists() and path not in own:
        return {"campaign": str(path), "settings": {}, "remarks": remarks}
    campaign = first_campaign(root / BLUEPRINT, os.environ, path.name)
    space = _asked_space(campaign.settings) if asking and campaign.settings else ""
    write_file(path, campaign.text + space)
    wrote[str(path)] = space.strip()
    remarks += [campaign.remark] if campaign.remark and not space else []
    return {"campaign": str(path), "settings": dict(campaign.settings), "remarks": remarks}


def _asked_space(settings: Mapping[str, object]) -> str:
    """The space that a person at the keyboard writes, as a line of the campaign file; "" for later."""
    from autoresearch.lab.campaign_setup.first_files import space_line

    output.remark(f"it takes {', '.join(key if one is None else f'{key} ({one})' for key, one in settings.items())}")
    while answer := output.answered("What may the ideas vary, such as `lr: [0.1, 0.3]` (empty: say it later)?"):
        try:
            return space_line(answer)
        except AutoresearchError as error:
            output.remark(f"{error.message}; {error.hint}")
    return ""


# ------------------------------------------------------------------------------------------ config


def show() -> CommandResult:
    """Every setting, its value, and where the value comes from."""
    from autoresearch.commands.doctor import recipients_shown

    found = project.load(Path.cwd(), environ=os.environ)
    declared = [_declared(name, found) for name in found.launchers]
    notice_rows, notices, _ = recipients_shown(Path.cwd())
    rows = [[v.key.name, v.text or "-", v.source, v.key.meaning] for v in found.values.values()]
    rows += [[f"launchers.{one['name']}", _target_words(one), str(found.file), ""] for one in declared]
    rows += [[name, shown, str(found.file), ""] for name, shown in notice_rows]
    payload = {
        "settings": {v.key.name: {"value": v.text, "source": v.source} for v in found.values.values()},
        "launchers": declared,
        **notices,
        "file": str(found.file) if found.file else None,
        "next": [f"autoresearch doctor --launcher {one['name']}" for one in declared if not one["error"]],
    }
    return CommandResult(payload, [TableRows(rows)], next_shown=0)


def schema(
    name: Annotated[
        str, Positional(help="Of campaign, idea, autoresearch, notes or blueprint.", show_default=False)
    ] = "",
) -> CommandResult:
    """The keys of campaign.yaml (which `campaign --set` takes too) and of autoresearch.yaml: type, default, meaning.

    With a name, the JSON Schema (2020-12) of that file, or of an entry of a queue (`idea`); for `blueprint`, the
    sections, notes and an example.
    """
    if name == "blueprint":
        from autoresearch.core.blueprint.model import schema as sections_and_notes
        from autoresearch.lab.render import data_dir
        from autoresearch.lab.yaml_files import dump

        described = sections_and_notes() | {"example": (data_dir("blueprints") / "examples/agentjet.md").read_text()}
        payload = {"name": name, **described, "next": ["autoresearch blueprint new FILE.md"]}
        return CommandResult(payload, [Whole(dump(described).rstrip())], next_shown=0)
    if name:
        from autoresearch.lab.json_schemas import NAMES, as_text, schema_of

        if name not in NAMES:
            known = ", ".join((*NAMES, "blueprint"))
            raise UsageError(f"there is no schema {name!r}", hint=f"known: {known}", fix="autoresearch config schema")
        return CommandResult({"name": name, "json_schema": schema_of(name)}, [Whole(as_text(schema_of(name)))])
    from autoresearch.lab.campaign_setup.campaign_keys import CAMPAIGN_KEYS

    blueprint = ("blueprint", "path", None, "the blueprint of the baseline; relative to the campaign file")
    files: dict[str, list[tuple[str, str, Any, str]]] = {
        "campaign.yaml": [
            blueprint,
            *((key.name, key.takes, key.default, key.meaning) for key in CAMPAIGN_KEYS.values()),
        ],
        project.FILE: [
            *((key.name, key.takes, key.default or None, key.meaning) for key in project.KEYS),
            (project.LAUNCHERS, "mapping", None, "targets for --launcher, by name: each a kind and its options"),
            (project.NOTIFY, "text, mapping or list", None, project.NOTIFY_MEANING),
        ],
    }
    names = ("name", "type", "default", "meaning")
    keys = {file: [dict(zip(names, row, strict=True)) for row in rows] for file, rows in files.items()}
    lines = []
    for file, rows in files.items():
        lines.append(f"{file}:")
        for key, takes, default, meaning in rows:
            shown = "" if default in (None, "", []) else f"; default {_yaml(default)}"
            lines.append(f"  {key}: {meaning} ({takes}{shown})")
    return CommandResult({"files": keys, "next": ["autoresearch config show"]}, lines, next_shown=0)


def _yaml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def _declared(name: str, settings: project.Settings) -> dict[str, Any]:
    """A declared target, and what is wrong with it: unlike `--launcher`, nobody is going there now."""
    try:
        target = project.targets_of(name, settings.launchers, str(settings.file))[0]
    except UsageError as wrong:
        return {"name": name, "kind": None, "slots": None, "options": {}, "error": wrong.message}
    return {**asdict(target), "error": None}


def _target_words(one: dict[str, Any]) -> str:
    options = ", ".join(f"{key} {value}" for key, value in one["options"].items())
    slots = f", {one['slots']} at a time" if one["slots"] else ""
    return one["error"] or f"{one['kind']}{slots}{'; ' if options else ''}{options}"


# ------------------------------------------------------------------------------------------ clean


def clean(
    yes: Annotated[bool, Option("--yes", help="Remove it; otherwise it is only listed.")] = False,
    every: Annotated[bool, Option("--all", help="Of all projects of this account.")] = False,
) -> CommandResult:
    """Remove worktrees and caches of campaigns of this project that are over.

    Branches, ledgers, results and run directories stay, and so does a worktree with changes that no commit holds.
    """
    from autoresearch.commands.wiring import parts
    from autoresearch.git_repo.checkout import current_project
    from autoresearch.lab.disk import cleaning

    of_project = None if every else current_project()
    cleaned = (cleaning.remove_leftovers if yes else cleaning.find_leftovers)(parts(), of_project)
    again = ["autoresearch clean --all --yes" if every else "autoresearch clean --yes"]
    payload: dict[str, Any] = {
        "state": "cleaned" if yes else "planned",
        "project": None if of_project is None else str(of_project),
        "bytes": sum(one.bytes for one in cleaned.leftovers if not yes or one.name in cleaned.removed),
        "leftovers": [
            {"kind": one.kind.value, "name": one.name, "bytes": one.bytes, "why": one.why}
            | ({"removed": one.name in cleaned.removed} if yes else {})
            for one in cleaned.leftovers[:MOST_LISTED]
        ],
        "kept": [{"kind": one.kind.value, "name": one.name, "why": one.why} for one in cleaned.kept[:MOST_LISTED]],
        "not_listed": max(0, len(cleaned.leftovers) - MOST_LISTED) + max(0, len(cleaned.kept) - MOST_LISTED),
        "next": [] if yes or not cleaned.leftovers else again,
    }
    return CommandResult(payload, _clean_lines(cleaned, payload, yes=yes))


def _clean_lines(cleaned: Cleaned, payload: dict[str, Any], *, yes: bool) -> list[str]:
    from autoresearch.lab.disk.usage import gb

    where = payload["project"] or "this account"
    if not cleaned.leftovers and not cleaned.kept:
        return [f"nothing of {where} is left over"]
    shown = [one for one in cleaned.leftovers if not yes or one.name in cleaned.removed]
    size = gb(payload["bytes"])
    head = f"removed of {where}, {size}:" if yes else f"could be removed of {where}, {size}; nothing is changed yet:"
    kept = [f"kept {one.name}: {one.why}" for one in cleaned.kept]
    room = output.MAX_LINES - 4 - min(len(kept), MOST_KEPT_LINES)
    lines = [f"{one.kind}  {one.name}  {gb(one.bytes) if one.bytes else '-'}  {one.why}" for one in shown]
    lines, more = lines[:room], len(lines) - room
    kept, more_kept = kept[:MOST_KEPT_LINES], len(kept) - MOST_KEPT_LINES
    return [
        head if shown else f"nothing of {where} was removed" if yes else f"nothing of {where} could be removed",
        *lines,
        *([f"... and {more} more"] if more > 0 else []),
        *kept,
        *([f"... and {more_kept} more are kept"] if more_kept > 0 else []),
    ]
