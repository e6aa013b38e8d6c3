"""YAML files as plain mappings; the only file that knows pyyaml."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autoresearch.errors import BlueprintError, NotFoundError


def load_mapping(path: Path) -> dict[str, object]:
    """The mapping in a YAML (or JSON) file; an empty file is an empty mapping.

    Raises NotFoundError where the file cannot be read, and BlueprintError with the line where it is
    no YAML, says a key twice, or holds something else than a mapping.
    """
    try:
        data = path.read_bytes()
    except OSError as failure:
        raise NotFoundError(f"{path}: {failure.strerror or failure}") from failure
    return parse_mapping(data, str(path))


def parse_mapping(data: bytes, name: str) -> dict[str, object]:
    """The same for bytes that were read elsewhere; `name` is for messages."""
    import yaml

    try:
        value = yaml.load(data, Loader=_loader())
    except yaml.MarkedYAMLError as bad:
        mark = bad.problem_mark or bad.context_mark
        line = f":{mark.line + 1}" if mark else ""
        raise _broken(f"{name}{line}: {bad.problem or 'not YAML'}") from bad
    except (yaml.YAMLError, UnicodeDecodeError, ValueError) as bad:
        raise _broken(f"{name}: {str(bad).splitlines()[0]}") from bad
    except RecursionError as bad:
        raise _broken(f"{name}: nested too deeply") from bad
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _broken(f"{name}: holds a {_kind(value)}, not a mapping of keys to values")
    return {str(key): item for key, item in value.items()}


def dump(mapping: Mapping[str, object]) -> str:
    """YAML text that `load_mapping` reads back, keys in the order given."""
    import yaml

    return str(yaml.safe_dump(dict(mapping), sort_keys=False, allow_unicode=True, default_flow_style=False))


def _broken(message: str) -> BlueprintError:
    return BlueprintError(message, code="bad_yaml", hint="compare the indentation and the quotes of that line")


def _kind(value: object) -> str:
    words = {list: "list", str: "text", bool: "truth value", int: "number", float: "number"}
    return words.get(type(value), "value")


def _loader() -> Any:
    """A SafeLoader that refuses a key that stands twice: plain YAML silently takes the last."""
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

    Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, mapping)
    return Loader
