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
    from autoresearch.lab.campaign_setup.campaign_file import CampaignFile
    from autoresearch.lab.disk.cleaning import Cleaned

BLUEPRINT, CAMPAIGN = "experiment.md", "campaign.yaml"
_COMMIT = "git init && git add -A && git commit -m start"
MOST_LISTED = 100  # in the JSON object; people see fewer
MOST_KEPT_LINES = 8


def init(
    words: Annotated[list[str] | None, Positional(metavar="[DIR] [-- COMMAND...]", show_default=False)] = None,
    command: Annotated[str, Option(help="How it is trained, if not by train.py, main.py or run.sh.")] = "",
    metric: Annotated[str, Option(help="The objective; by default, what the script prints last.")] = "",
    try_: Annotated[
        str, Option("--try", metavar="DURATION", help="Run it so long where its text does not name the metric.")
    ] = "",
) -> CommandResult:
    """Write autoresearch.yaml, a blueprint of the training script, and a campaign.yaml that varies what it takes.

    The script's text is read, and its --help is asked where the text shows no flag. Files that exist are kept; with a
    command, a metric or --try, those that `init` wrote and nobody edited are written anew. --try runs it in a worktree,
    which is removed. The words behind `--` are the command, as --command is.
    """
    from autoresearch.lab.campaign_setup.first_blueprint import unedited
    from autoresearch.lab.campaign_setup.training_programs import likely_commands, whole_commands

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
    wrote = _settings_file(root)
    first = _blueprint_file(root / BLUEPRINT, command, metric, wrote, asking=asking, trying=trying, own=own)
    nothing: dict[str, Any] = {"campaign": None, "varies": [], "remarks": []}
    campaign = _campaign_file(root, wrote, own) if first["blueprint"] else nothing
    if not wrote:
        hint = "nothing was changed; edit it, or name another command behind `--`: what nobody edited is written anew"
        raise ConflictError(f"{root / BLUEPRINT} exists already", hint=hint)
    remarks, unnamed = [*first.pop("remarks", ()), *campaign["remarks"]], first.pop("unnamed", "")
    near = root == Path.cwd()
    here = {name: name if near else shlex.quote(str(root / name)) for name in (BLUEPRINT, CAMPAIGN)}
    plan = "" if asking else " --dry-run"  # on a terminal it shows the plan and asks
    following = [f"autoresearch run {here[BLUEPRINT]}", f"autoresearch campaign start {here[CAMPAIGN]}{plan}"]
    if not first["blueprint"]:
        new = f"autoresearch blueprint new {BLUEPRINT} --purpose WHY --command COMMAND"
        following = ["autoresearch config show", new]
        typed = whole_commands(root)
        if commands := [*typed, *likely_commands(root)]:
            named = commands[0] if typed or len(commands) == 1 else "COMMAND"  # of several, one is as likely as another
            following.insert(0, output.typed.again("--command", named))
    elif not (first["metric"] or trying) and (unnamed or not first["candidates"]) and str(root / BLUEPRINT) in wrote:
        following.insert(0, output.typed.again("--try", "60s"))  # it reads what a run prints
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


def campaign_file_here(
    source: str, flags: Mapping[str, Any], pairs: Sequence[str], now: float, *, asking: bool, yes: bool
) -> CampaignFile:
    """The campaign file that is named, or that of this directory; where that has none, as `init` writes it."""
    from autoresearch.lab.campaign_setup.campaign_file import NoCampaignFile, read_campaign_file

    here = Path.cwd()
    try:
        return read_campaign_file(source, flags, start=here, now=now, pairs=pairs)
    except NoCampaignFile as none:
        first_files(none, here / BLUEPRINT, asking=asking, yes=yes, campaign=True)
        first_commit(here, asking=asking)
        return read_campaign_file(source, flags, start=here, now=now, pairs=pairs)


def first_files(none: AutoresearchError, blueprint: Path, *, asking: bool, yes: bool, campaign: bool) -> None:
    """Write what `init` does, for a `run` or a `campaign` of a project that has no blueprint; first ask, if `asking`.

    Raises UsageError, with nothing written, where nobody agreed or there is nothing to train. `none`: what to say.
    """
    from autoresearch.lab.campaign_setup.training_programs import training_command, what_may_train

    root = blueprint.parent
    if not (asking or yes):
        raise UsageError(
            f"nothing was started: {none.message}",
            hint="`autoresearch init` writes what is needed, for you to read first; --yes writes it and starts",
            fix=output.typed.again("--yes") if training_command(root) else none.fix,
            code=none.code,
        )
    if not asking and not training_command(root):
        fix = "autoresearch init --command 'python YOUR_SCRIPT.py'"
        raise UsageError(f"nothing was started: {what_may_train(root)}", fix=fix, code=none.code)
    output.remark(f"{none.message}: this is what `autoresearch init` does")
    wrote: dict[str, str] = {}
    first = _blueprint_file(blueprint, "", "", wrote, asking=asking)
    if not first["blueprint"]:
        raise UsageError("nothing was started: no command that trains was named", code=none.code)
    wrote |= _settings_file(root)
    remarks = [*first.get("remarks", ()), *(_campaign_file(root, wrote)["remarks"] if campaign else ())]
    remarks = [one for one in remarks if _COMMIT not in one]  # `first_commit` comes next
    for line in (*(_wrote(os.path.relpath(path), words) for path, words in wrote.items()), *remarks):
        output.remark(line)


def first_commit(root: Path, *, asking: bool) -> None:
    """Make a folder that is in no repository one, with a commit of its files, if that is wanted."""
    from autoresearch.git_repo import checkout
    from autoresearch.git_repo.snapshot import begin_repository

    found = checkout.locate(root)
    if not isinstance(found, checkout.NoCheckout) or found.remedy != checkout.INIT or root == Path.home():
        return
    if asking and not output.confirmed(f"A campaign keeps each idea on a git branch; `git init` in {root}?"):
        return
    commit, left_out = begin_repository(root)
    left = f"; left out: {', '.join(map(str, left_out[:5]))}" if left_out else ""
    output.remark(f"{root} is a git repository now; its first commit is {commit[:12]}, of what is there{left}")


def _blueprint_file(
    path: Path, command: str, metric: str, wrote: dict[str, str], *, asking: bool, trying: float = 0.0,
    own: Set[Path] = frozenset(),
) -> dict[str, Any]:  # fmt: skip
    """Write the blueprint, unless there is one or nothing to train; first ask, if `asking`.

    trying: seconds that the command may run where its text does not say which metric counts. own: files that may be
    written anew, the command as it is there if none is named.
    """
    from autoresearch.lab.campaign_setup import first_blueprint as first
    from autoresearch.lab.campaign_setup.training_programs import training_command, typed_commands, what_may_train
    from autoresearch.lab.render import render_blueprint

    root, purpose, given = path.parent, "", bool(command)
    if path.exists() and path not in own:
        return {"blueprint": str(path), "launch_command": command, "metric": metric, "direction": "", "candidates": []}
    command = command or (first.command_of(path) if path.exists() else training_command(root))
    if asking:
        for words, place in typed_commands(root):
            output.remark(f"{place} has `{words}`")
        command = output.answered("Which command trains it (empty: none)?", command)
    if not command:
        nothing = {"blueprint": None, "launch_command": "", "metric": metric, "direction": ""}
        return {**nothing, "remarks": [] if asking else [what_may_train(root)]}
    settings = first.as_read(first.first_blueprint(root, command, metric, "", path), path, os.environ)
    metric, likely = (settings.objective.metric if settings.objective else ""), settings.texts.objectives
    tried = ""  # what a run printed, if that says nothing
    if trying and not metric:
        from autoresearch.lab.campaign_setup.tried_command import tried_command

        output.remark(f"running `{command}` for at most {spoken(trying)}, in a copy")
        environ = {**settings.resolved.unsynchronised, **os.environ}
        shown, tried = tried_command(command, root, trying, settings.resolved.interpreter, environ)
        likely, tried = shown or likely, "" if shown else tried
        metric = likely[0].name if len(likely) == 1 and likely[0].objective else ""
    if asking:
        for one in likely:
            output.remark(f"it has {one}")
        likeliest = likely[0].name if len(likely) == 1 else ""
        metric = output.answered("Which metric is the objective (empty: none)?", metric or likeliest)
        purpose = output.answered("What is the experiment for, in a sentence (may be empty)?")
    number = next((one for one in likely if one.name == metric), None)
    fields = first.first_blueprint(root, command, metric, purpose, path)
    fields = replace(fields, source=number.sources if number else ())
    if asking and metric and not fields.direction:
        fields = replace(fields, direction=asked_direction(f"Are higher or lower values of {metric} better?"))
    first.write_file(path, render_blueprint(fields))
    way = fields.direction or "whether a higher or a lower one is better is for you to say: `- direction:`"
    counts = f"{metric} counts ({way})" if metric else "no metric is named in it"
    wrote[str(path)] = f"`{command}`; {counts}" + (f", {number.provenance}" if number else "")
    remarks = [*([tried] if tried else []), *settings.texts.unread(), *settings.unset(os.environ)]
    if not metric and likely and not tried:
        words = " or ".join(map(str, likely)) if trying else settings.likely_words
        remarks.append(f"it may be {words}: name it as `- metric:` in {path.name}")
    program, missing = settings.texts.missing()
    if missing:
        remarks.append(f"{program} ends at once without {', '.join(missing)}: complete the command in {path.name}")
    elif absent := settings.absent():
        remarks.append(f"{'; '.join(absent)}: if the program does not get or make it itself, complete {path.name}")
    typed = sorted(typed_commands(root), key=lambda one: command.split()[-1] not in one[0])  # of the same program first
    if not given and typed and command not in dict(typed):
        remarks.append(f"{typed[0][1]} has `{typed[0][0]}`: if that is meant, write it into {path.name}")
    return {
        "blueprint": str(path),
        "launch_command": command,
        "metric": metric,
        "metric_line": number.printed if number else None,
        "direction": fields.direction,
        "candidates": [one.name for one in likely],
        "unnamed": "" if metric else settings.texts.unnamed,
        "remarks": remarks,
    }


def asked_direction(question: str) -> str:
    """`maximize` or `minimize`, as a person at the keyboard says; asked again for any other word."""
    import typer

    from autoresearch.lab.campaign_setup.campaign_file import CAMPAIGN_KEYS

    def read(text: str) -> str:
        try:
            return str(CAMPAIGN_KEYS["direction"].read(text, 0.0))
        except ValueError:
            raise typer.BadParameter("higher or lower") from None

    return str(typer.prompt(question, value_proc=read))


def _campaign_file(root: Path, wrote: dict[str, str], own: Set[Path] = frozenset()) -> dict[str, Any]:
    """Write the campaign file of the blueprint, unless there is one that is not its `own`."""
    from autoresearch.git_repo import checkout
    from autoresearch.lab.campaign_setup.first_blueprint import write_file
    from autoresearch.lab.campaign_setup.first_campaign import first_campaign

    path, remarks = root / CAMPAIGN, []
    found = checkout.find(root)
    if found is None or not found.head:  # `campaign` in a folder without any file of ours offers to do it
        remarks.append(f"a campaign keeps each idea on a git branch, and there is no commit yet; type: {_COMMIT}")
    if path.exists() and path not in own:
        return {"campaign": str(path), "varies": [], "remarks": remarks}
    campaign = first_campaign(root / BLUEPRINT, os.environ, path.name)
    for patch in own - {root / BLUEPRINT, path}:
        patch.unlink()
    write_file(path, campaign.text)
    for name, text in campaign.files.items():
        if not (root / name).exists():
            write_file(root / name, text)
    varied = ", ".join(campaign.varies)
    wrote[str(path)] = f"ideas vary {varied}" if varied else ""
    remarks += [campaign.remark] if campaign.remark else []
    return {"campaign": str(path), "varies": list(campaign.varies), "remarks": remarks}


# ------------------------------------------------------------------------------------------ config


def show() -> CommandResult:
    """Every setting, its value, and where the value comes from."""
    from autoresearch.commands.notice_checks import recipients_shown

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
        from autoresearch.core.blueprint.schema import schema as describe
        from autoresearch.lab.yaml_files import dump

        payload = {"name": name, **describe(), "next": ["autoresearch blueprint new FILE.md"]}
        return CommandResult(payload, [Whole(dump(describe()).rstrip())], next_shown=0)
    if name:
        from autoresearch.lab.json_schemas import NAMES, as_text, schema_of

        if name not in NAMES:
            known = ", ".join((*NAMES, "blueprint"))
            raise UsageError(f"there is no schema {name!r}", hint=f"known: {known}", fix="autoresearch config schema")
        return CommandResult({"name": name, "json_schema": schema_of(name)}, [Whole(as_text(schema_of(name)))])
    from autoresearch.lab.campaign_setup.campaign_file import CAMPAIGN_KEYS

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
    """Remove worktrees, ended tmux sessions and caches of campaigns and runs of this project that are over.

    Branches, ledgers, results and run directories stay, and so does a worktree with changes that no commit holds.
    """
    from autoresearch.commands.wiring import parts
    from autoresearch.git_repo.checkout import current_project
    from autoresearch.lab.disk import cleaning

    of_project = None if every else current_project()
    socket = project.load(Path.cwd(), environ=os.environ).text("tmux_socket")
    cleaned = (cleaning.remove_leftovers if yes else cleaning.find_leftovers)(parts(), of_project, socket)
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
