"""`autoresearch config show|schema`: every setting and where its value comes from; the keys of our files."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from autoresearch.commands import output
from autoresearch.commands.notice_checks import checked_recipients, events_of
from autoresearch.errors import UsageError
from autoresearch.lab import settings as project


def show(
    directory: Annotated[str, typer.Option("--dir", metavar="DIR", help="Of which project.")] = ".",
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> int:
    """Every setting, its value, and where the value comes from."""
    found = project.load(Path(directory), environ=os.environ)
    rows = [[v.key.name, v.text or "-", v.source, v.key.meaning] for v in found.values.values()]
    declared = [_declared(name, found) for name in found.launchers]
    recipients, problems = checked_recipients(found, os.environ)
    if as_json:
        settings = {v.key.name: {"value": v.text, "source": v.source} for v in found.values.values()}
        payload = {
            "settings": settings,
            "launchers": declared,
            "notify": [{"to": one.shown, "events": list(one.kinds)} for one in recipients.each],
            "notify_problems": list(problems),
            "file": str(found.file) if found.file else None,
            "next": [f"autoresearch doctor --launcher {one['name']}" for one in declared if not one["error"]],
        }
        output.emit("config show", payload, as_json=True)
    else:
        rows += [[f"launchers.{one['name']}", _words(one), str(found.file), ""] for one in declared]
        rows += [["notify", one.shown, found.notify_source, events_of(one)] for one in recipients.each]
        output.table(rows)
        for problem in problems:
            output.remark(f"warning: {problem}")
    return 0


def schema(
    name: Annotated[
        str, typer.Argument(help="Of campaign, idea, autoresearch, notes or blueprint.", show_default=False)
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="One flat object; with a name, its `json_schema`.")] = False,
) -> int:
    """The keys of campaign.yaml (which `campaign --set` takes too) and of autoresearch.yaml: type, default, meaning.

    With a name, the JSON Schema (2020-12) of that file, or of an entry of a queue (`idea`); for `blueprint`, the
    sections, notes and an example.
    """
    if name == "blueprint":
        return _blueprint(as_json=as_json)
    if name:
        return _json_schema(name, as_json=as_json)
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
    if as_json:
        names = ("name", "type", "default", "meaning")
        keys = {file: [dict(zip(names, row, strict=True)) for row in rows] for file, rows in files.items()}
        output.emit("config schema", {"files": keys, "next": ["autoresearch config show"]}, as_json=True)
        return 0
    for file, rows in files.items():
        output.say(f"{file}:")
        for name, takes, default, meaning in rows:
            shown = "" if default in (None, "", []) else f"; default {_yaml(default)}"
            output.prose(f"  {name}: {meaning} ({takes}{shown})")
    return 0


def _json_schema(name: str, *, as_json: bool) -> int:
    from autoresearch.lab.json_schemas import NAMES, as_text, schema_of

    if name not in NAMES:
        known = ", ".join((*NAMES, "blueprint"))
        raise UsageError(f"there is no schema {name!r}", hint=f"known: {known}", fix="autoresearch config schema")
    if as_json:
        output.emit("config schema", {"name": name, "json_schema": schema_of(name), "next": []}, as_json=True)
    else:
        output.say(as_text(schema_of(name)))
    return 0


def _blueprint(*, as_json: bool) -> int:
    from autoresearch.core.blueprint.schema import schema as describe

    if as_json:
        next_lines = ["autoresearch blueprint new FILE.md"]
        output.emit("config schema", {"name": "blueprint", **describe(), "next": next_lines}, as_json=True)
        return 0
    from autoresearch.lab.yaml_files import dump

    output.say(dump(describe()).rstrip())
    return 0


def _yaml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def _declared(name: str, settings: project.Settings) -> dict[str, Any]:
    """A declared target, and what is wrong with it: unlike `--launcher`, nobody is going there now."""
    try:
        target = project.targets_of(name, settings.launchers, str(settings.file))[0]
    except UsageError as wrong:
        return {"name": name, "kind": None, "slots": None, "options": {}, "error": wrong.message}
    return {**asdict(target), "error": None}


def _words(one: dict[str, Any]) -> str:
    options = ", ".join(f"{key} {value}" for key, value in one["options"].items())
    slots = f", {one['slots']} at a time" if one["slots"] else ""
    return one["error"] or f"{one['kind']}{slots}{'; ' if options else ''}{options}"
