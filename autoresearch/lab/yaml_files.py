"""YAML files, and KEY=VALUE words of a command line that are read as they are; the only module that uses pyyaml."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from typing import Any

from autoresearch.core.campaign.recipe_edits import apply_overrides
from autoresearch.core.keys import ValueType, same_thing, unknown_key
from autoresearch.core.run.recipe_keys import look_up
from autoresearch.errors import BlueprintError, NotFoundError, UsageError
from autoresearch.records.hostile import read_readable

MOST_NODES = 1_000_000  # values in a file; with aliases a few lines can stand for more than any memory holds
_DEEP = 8  # keys within keys of which anybody asks for the line

# Values of these types are texts: `--set` takes them as they are typed, and not as YAML would read them.
_TEXTS = (ValueType.TEXT, ValueType.CHOICE, ValueType.TEXTS, ValueType.COMMAND)
_LISTS = (ValueType.TEXTS, ValueType.PATHS, ValueType.COMMAND, ValueType.QUEUE, ValueType.ANY)


SYNTAX = "yaml_syntax"
"""The code of the error of a text that no reader of YAML takes, whatever its tags and keys mean."""


def load_mapping(path: Path) -> dict[str, object]:
    """The mapping in a YAML (or JSON) file; an empty file is an empty mapping.

    Raises NotFoundError if the file cannot be read, and BlueprintError with the line if it is not YAML, repeats a key,
    or holds anything but a mapping.
    """
    return parse_mapping(_read(path), str(path))


def load_any(path: Path) -> Any:
    """The content of a YAML (or JSON) file, whatever it is; raises as `load_mapping`."""
    return parse_any(_read(path), str(path))


def _read(path: Path) -> bytes:
    try:
        return read_readable(path)
    except OSError as failure:
        raise NotFoundError(f"{path}: {failure.strerror or failure}") from failure


def parse_mapping(data: bytes, name: str) -> dict[str, object]:
    """The same for bytes; `name` is for messages."""
    value = parse_any(data, name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _broken(f"{name}: holds a {_kind(value)}, not a mapping of keys to values")
    return {str(key): item for key, item in value.items()}


def parse_any(data: bytes, name: str) -> Any:
    """The content of a YAML document; raises BlueprintError with the line if it is invalid."""
    import yaml

    try:
        loader = _loader()(data)
        try:
            node = loader.get_single_node()
            if node is not None and _expanded(node, {}) > MOST_NODES:
                raise _broken(f"{name}: its aliases (`*name`) stand for more than {MOST_NODES:,} values")
            return None if node is None else loader.construct_document(node)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as bad:
        mark = bad.problem_mark or bad.context_mark
        line = f":{mark.line + 1}" if mark else ""
        broken = _broken(f"{name}{line}: {bad.problem or 'not YAML'}")
        if isinstance(bad, yaml.scanner.ScannerError | yaml.parser.ParserError):
            broken.code = SYNTAX  # whoever reads it
        raise broken from bad
    except yaml.reader.ReaderError as bad:
        row = data.count(b"\n", 0, bad.position) + 1
        raise _broken(f"{name}:{row}: byte {bad.position}: {bad.reason}", "save it as plain text in UTF-8") from bad
    except (yaml.YAMLError, UnicodeDecodeError, ValueError) as bad:
        raise _broken(f"{name}: {str(bad).splitlines()[0]}") from bad
    except RecursionError as bad:
        raise _broken(f"{name}: nested too deeply") from bad


def _expanded(node: Any, known: dict[int, float]) -> float:
    """How many values a node stands for with all aliases written out; infinite for one that holds itself."""
    if id(node) in known:
        return known[id(node)]
    known[id(node)] = math.inf
    values = node.value if isinstance(node.value, list) else []
    inner = (part for value in values for part in (value if isinstance(value, tuple) else (value,)))
    known[id(node)] = 1 + sum(_expanded(part, known) for part in inner)
    return known[id(node)]


def line_numbers(data: bytes) -> dict[tuple[str | int, ...], int]:
    """The line of each key and item of a YAML document, by its path from the top; lines count from 1.

    For a document that `parse_any` accepted; the content of an alias has the line of its anchor.
    """
    import yaml

    found: dict[tuple[str | int, ...], int] = {}
    seen: set[int] = set()  # content of several aliases is visited once

    def look(node: Any, path: tuple[str | int, ...], line: int) -> None:
        found[path] = line
        if len(path) > _DEEP or id(node) in seen:
            return
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                look(value, (*path, str(key.value)), key.start_mark.line + 1)
        elif isinstance(node, yaml.SequenceNode):
            for n, item in enumerate(node.value):
                look(item, (*path, n), item.start_mark.line + 1)

    root = yaml.compose(data, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    if root is not None:
        look(root, (), root.start_mark.line + 1)
    return found


def dump(mapping: Mapping[str, object]) -> str:
    """YAML text that `load_mapping` reads back, keys in the given order."""
    import yaml

    return str(yaml.safe_dump(dict(mapping), sort_keys=False, allow_unicode=True, default_flow_style=False))


def edit(text: str, overrides: Mapping[str, object], *, name: str = "recipe") -> str:
    """The text with only these dotted keys changed: comments, order and layout stay.

    The result is parsed again as a check, and the file written anew if a value cannot be replaced in place.
    Raises BlueprintError for a text that is not a YAML mapping, and the errors of `apply_overrides`.
    """
    wanted = apply_overrides(parse_mapping(text.encode(), name), overrides)
    if not overrides:
        return text
    keys = [key.removeprefix("+") for key in overrides]
    edited = _in_place(text, {key: look_up(wanted, key) for key in keys})
    with contextlib.suppress(BlueprintError):
        if edited is not None and parse_mapping(edited.encode(), name) == wanted:
            return edited
    return dump(wanted)


def parse_pairs(
    pairs: Iterable[str], types: Mapping[str, ValueType], *, option: str = "--set", mapped: Container[str] = ()
) -> dict[str, Any]:
    """The values of KEY=VALUE words, read as a YAML file would have them; None for `null`: the default.

    Numbers, truth values, lists and mappings are YAML's; a text needs no quotes. Raises UsageError that names the
    nearest key for one that is unknown, and for a word that is no pair, says nothing or stands twice. Those of
    `mapped` may also be a mapping, whatever their type.
    """
    found: dict[str, Any] = {}
    start = f"{option} " if option else ""
    for pair in pairs:
        name, sign, text = pair.partition("=")
        name, text = name.strip().replace("-", "_"), text.strip()
        name = name if name in types else same_thing(name, types) or name
        if not sign or not name:
            raise UsageError(f"{start}{pair!r} is no KEY=VALUE", hint=f"such as {start}{next(iter(types))}=VALUE")
        if name not in types:
            raise unknown_key(f"{start or ''}{pair!r}".strip(), name, types)
        if name in found:
            raise UsageError(f"{start}{name} stands twice", hint=f"a list is one value: {start}{name}='[A, B]'")
        if not text:
            raise UsageError(f"{start}{name}= has no value", hint=f"{start}{name}=null is its default")
        found[name] = _pair_value(types[name], text, f"{start}{name}", mapped=name in mapped)
    return found


def _pair_value(value_type: ValueType, text: str, source: str, *, mapped: bool) -> Any:
    if text in ("null", "~"):
        return None
    begins = {"[": _LISTS, "{": (ValueType.SPACE, ValueType.ANY, ValueType.SCREEN)}
    flow = text[0] in "\"'" or value_type in begins.get(text[0], ()) or (mapped and text[0] == "{")
    if value_type in _TEXTS and not flow:
        return text
    try:
        value = parse_any(text.encode(), source)
    except BlueprintError as bad:
        if not flow:
            return text
        raise UsageError(bad.message, hint="quote the value for the shell: --set 'guard=[A, B]'") from None
    space = isinstance(value, dict) and value_type is ValueType.SPACE
    keep = flow or space or not isinstance(value, str | dict | list)
    return value if keep else text


def _broken(message: str, hint: str = "compare the indentation and the quotes of that line") -> BlueprintError:
    return BlueprintError(message, code="bad_yaml", hint=hint)


def _kind(value: object) -> str:
    words = {list: "list", str: "text", bool: "truth value", int: "number", float: "number"}
    return words.get(type(value), "value")


def _loader() -> Any:
    """A SafeLoader that refuses duplicate keys: plain YAML silently takes the last."""
    import yaml

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        pass

    def mapping(loader: Any, node: Any) -> dict[Any, Any]:
        seen: dict[Any, int] = {}
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = loader.construct_object(key_node, deep=True)
            message = "a key is a list or a mapping" if isinstance(key, (list, dict)) else ""
            if not message and key in seen:
                message = f"the key {key!r} stands twice (first in line {seen[key]})"
            if message:
                raise yaml.constructor.ConstructorError(None, None, message, key_node.start_mark)
            seen[key] = key_node.start_mark.line + 1
        loader.flatten_mapping(node)
        pairs = [(loader.construct_object(k, deep=True), v) for k, v in node.value]
        return {key: loader.construct_object(value, deep=True) for key, value in pairs}

    clock = ("tag:yaml.org,2002:str", re.compile(r"\d{1,2}:\d\d\Z"))  # 22:30, which YAML 1.1 takes for 1350
    usual = Loader.yaml_implicit_resolvers.items()
    Loader.yaml_implicit_resolvers = {one: [clock, *known] if one.isdecimal() else known for one, known in usual}
    Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, mapping)
    return Loader


def _in_place(text: str, values: Mapping[str, object]) -> str | None:
    """Replace every value in place and append new ones; None if that is impossible."""
    import yaml

    root = yaml.compose(text, Loader=yaml.SafeLoader)
    spans = []
    added = ""
    for key, value in values.items():
        node = _node(root, key)
        if node is None and "." not in key:
            added += f"{key}: {_scalar(value)}\n"
        elif not isinstance(node, yaml.ScalarNode) or node.style in ("|", ">"):
            return None
        else:
            spans.append((node.start_mark.index, node.end_mark.index, _scalar(value)))
    for start, end, new in sorted(spans, reverse=True):
        before = " " if start and text[start - 1] == ":" else ""
        text = text[:start] + before + new + text[end:]
    if added and text and not text.endswith("\n"):
        text += "\n"
    return text + added


def _node(root: Any, dotted: str) -> Any:
    """The node of a dotted key: as a literal key, else nested."""
    import yaml

    def child(node: Any, key: str) -> Any:
        if isinstance(node, yaml.MappingNode):
            return next((value for name, value in node.value if name.value == key), None)
        if isinstance(node, yaml.SequenceNode) and key.isdecimal() and int(key) < len(node.value):
            return node.value[int(key)]
        return None

    if (flat := child(root, dotted)) is not None:
        return flat
    here = root
    for part in dotted.split("."):
        here = child(here, part)
    return here


def _scalar(value: object) -> str:
    """A value as YAML writes it within a line."""
    text = dump({"v": value}).removeprefix("v:").strip() if not isinstance(value, list | dict) else ""
    if text and "\n" not in text:
        return text
    import yaml

    return str(yaml.safe_dump(value, default_flow_style=True, width=1 << 20)).strip().removesuffix("\n...")
