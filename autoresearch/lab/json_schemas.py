"""JSON Schemas (2020-12) of our YAML files, made from the tables that also check them.

For editors: a file that we write names its schema in its first line, as yaml-language-server reads it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autoresearch.core.campaign.space import RANGE
from autoresearch.core.campaign.spec import LEAST_CONFIRM_RUNS
from autoresearch.core.keys import DURATION, Key, Schema, ValueType
from autoresearch.core.run.targets import MOST_SLOTS, Kind
from autoresearch.lab import settings
from autoresearch.lab.campaign_setup.campaign_keys import CAMPAIGN_KEYS
from autoresearch.plugins import Registry
from autoresearch.proposers.queue_entry import ENTRY

DRAFT = "https://json-schema.org/draft/2020-12/schema"
NAMES = ("campaign", "autoresearch", "idea")
FILE = ".autoresearch.schema.json"
"""Beside autoresearch.yaml and campaign.yaml, and committed with them: a path into an installed package differs from
one person to the next, and an address needs a network."""

_NOTIFY: Schema = {
    **{"description": settings.NOTIFY_MEANING, "type": ["string", "array", "null"], "items": {"type": "string"}}
}
_IDEA: Schema = {"type": "object", "properties": ENTRY, "additionalProperties": False}


def schema_of(name: str) -> Schema:
    """The schema of campaign.yaml (`campaign`), autoresearch.yaml (`autoresearch`) or an entry of a queue (`idea`).

    That of autoresearch.yaml holds the campaign's as `$defs/campaign`: one file for both. KeyError for another name.
    """
    made = {"campaign": _campaign, "autoresearch": _project, "idea": _idea}[name]()
    return {"$schema": DRAFT, **made, **({"$defs": {"campaign": _campaign()}} if name == "autoresearch" else {})}


def write_schema(directory: Path) -> str:
    """Write the schemas of a project's two files into `directory`; the first line of autoresearch.yaml names them."""
    (directory / FILE).write_text(f"{as_text(schema_of('autoresearch'))}\n", encoding="utf-8")
    return first_line("autoresearch")


def as_text(schema: Schema) -> str:
    """A schema as it is printed, and written into a file."""
    return json.dumps(schema, indent=1, ensure_ascii=False)


def first_line(name: str) -> str:
    """The line by which a file beside `FILE` names its schema: of `autoresearch` or `campaign`."""
    return f"# yaml-language-server: $schema={FILE}" + ("#/$defs/campaign" if name == "campaign" else "")


def _closed(title: str, properties: Mapping[str, Schema], **more: Any) -> Schema:
    return {"title": title, "type": "object", "properties": properties, "additionalProperties": False, **more}


def _campaign() -> Schema:
    blueprint = {"type": "string", "description": "the blueprint of the baseline; relative to this file"}
    properties = {"blueprint": blueprint, **{key.name: _campaign_key(key) for key in CAMPAIGN_KEYS.values()}}
    off: Schema = {"properties": {"confirm": {"enum": [False, "no", "off", "false"]}}, "required": ["confirm"]}
    provable = {"baseline": {"minimum": 2}, "confirm_runs": {"minimum": LEAST_CONFIRM_RUNS}}
    rules = [{"if": {"not": off}, "then": {"properties": provable}}]
    return _closed("a campaign of autoresearch", properties, required=["blueprint"], allOf=rules)


def _idea() -> Schema:
    lower = {"slug": "lower-lr", "sentence": "a lower lr is steadier", "overrides": {"actor.lr": 3e-6}}
    shorter = {"files": {"prompt.txt": {"from": "short.txt"}}, "parent": "baseline"}
    return {"title": "an entry of a queue, which is a list of them", **_IDEA, "examples": [lower, shorter]}


def _campaign_key(key: Key) -> Schema:
    made = key.schema(Registry("proposers").names() if key.name == "proposer" else ())
    if key.type is ValueType.SPACE:
        return {**made, "additionalProperties": RANGE}
    return {**made, "items": _IDEA} if key.type is ValueType.QUEUE else made


def _project() -> Schema:
    properties = {key.name: _setting(key) for key in settings.KEYS}
    blocks = {settings.LAUNCHERS: _launchers(), settings.NOTIFY: _NOTIFY}
    return _closed("the defaults of a project of autoresearch", {**properties, **blocks})


def _setting(key: Key) -> Schema:
    made = key.schema()
    if key.type is ValueType.DURATION:  # empty: none; and a grace of 0 is one
        del made["exclusiveMinimum"]
        made |= {"pattern": f"^$|{DURATION}", "minimum": 0}
    return made


def _launchers() -> Schema:
    """Which kind has which option is left to our own check, which is made whenever a target is named."""
    from autoresearch.launchers.registry import options_of

    slots = {"type": "integer", "minimum": 1, "maximum": MOST_SLOTS, "description": "runs of a campaign at a time"}
    about = {name: meaning for kind in Kind for name, meaning in options_of(kind).items()}
    kinds = [*Kind, "tmux", "k8s", *Registry("launchers").names()]
    block: Schema = {
        "type": "object",
        "properties": {
            "kind": {"enum": kinds, "description": "the launcher that starts runs there"},
            "slots": slots,
            **{name: {"description": meaning} for name, meaning in about.items()},
        },
    }
    return {
        "description": "targets for `--launcher`, by name: each a kind and its options",
        "type": ["object", "null"],
        "properties": {kind.value: block for kind in Kind},  # a name that is a kind needs no `kind:`
        "additionalProperties": {**block, "required": ["kind"]},
    }
