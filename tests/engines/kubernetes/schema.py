"""What an API server would say of an object whose fields it is asked to check strictly (`fieldValidation=Strict`).

Pods are checked against the pod template in KubeRay's own schema (rayjob_v1.json: its CRD without descriptions, what
occurs twice written once); the fields of a JobSpec are those of batch/v1 in Kubernetes 1.32.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

JOB_SPEC = {
    **dict.fromkeys(("activeDeadlineSeconds", "backoffLimit", "backoffLimitPerIndex", "completions"), "integer"),
    **dict.fromkeys(("maxFailedIndexes", "parallelism", "ttlSecondsAfterFinished"), "integer"),
    **dict.fromkeys(("completionMode", "managedBy", "podReplacementPolicy"), "string"),
    **dict.fromkeys(("manualSelector", "suspend"), "boolean"),
    **dict.fromkeys(("podFailurePolicy", "selector", "successPolicy"), "object"),
}
_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}


@functools.cache
def _vendored() -> tuple[dict[str, Any], dict[str, Any]]:
    whole = json.loads(Path(__file__).with_name("rayjob_v1.json").read_bytes())
    return whole["schema"], whole["$defs"]


def complaint(resource: str, item: dict[str, Any]) -> str:
    """The sentence of a refusal; "" for an object that fits."""
    faults = list(faults_of(resource, item))
    return f"strict decoding error: {', '.join(faults)}" if faults else ""


def faults_of(resource: str, item: dict[str, Any]) -> Iterator[str]:
    """Unknown fields, wrong types, what is required and missing."""
    if resource == "jobs":
        schema = _vendored()[0]
        pod = schema["properties"]["spec"]["properties"]["submitterPodTemplate"]
        fields = {key: {"type": kind, "x-kubernetes-preserve-unknown-fields": True} for key, kind in JOB_SPEC.items()}
        spec = {"type": "object", "required": ["template"], "properties": {**fields, "template": pod}}
        yield from _check(item, {**schema, "properties": {**schema["properties"], "spec": spec}}, "")


def _check(value: Any, schema: dict[str, Any], path: str) -> Iterator[str]:
    if "$ref" in schema:
        schema = _vendored()[1][schema["$ref"]]
    if schema.get("x-kubernetes-int-or-string"):
        if isinstance(value, bool) or not isinstance(value, int | str):
            yield f"{path or '.'}: must be an integer or a string"
        return
    wanted = _TYPES.get(schema.get("type", ""), (object,))
    if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted and object not in wanted):
        yield f"{path or '.'}: must be of type {schema['type']}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: {value!r} is not supported"
    if isinstance(value, dict):
        yield from _fields(value, schema, path)
    for number, inner in enumerate(value if isinstance(value, list) else []):
        yield from _check(inner, schema.get("items", {}), f"{path}[{number}]")


def _fields(value: dict[str, Any], schema: dict[str, Any], path: str) -> Iterator[str]:
    known, others = schema.get("properties"), schema.get("additionalProperties")
    for key in schema.get("required", []):
        if key not in value:
            yield f'missing required field "{f"{path}.{key}".lstrip(".")}"'
    for key, inner in value.items():
        where = f"{path}.{key}".lstrip(".")
        if known and key in known:
            yield from _check(inner, known[key], where)
        elif others:
            yield from _check(inner, others, where)
        elif known and not schema.get("x-kubernetes-preserve-unknown-fields"):
            yield f'unknown field "{where}"'
