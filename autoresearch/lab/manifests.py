"""Manifests from templates: the package's in `templates/`, or a user's own file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autoresearch.errors import NotFoundError, UsageError
from autoresearch.lab import render
from autoresearch.lab.yaml_files import parse_mapping


def manifest(template: str, values: Mapping[str, object]) -> dict[str, Any]:
    """The one object that a template produces: the file at an absolute path, else one of `templates/`.

    Raises NotFoundError, UsageError for an undefined name in the template, BlueprintError if the result is not YAML.
    """
    own = Path(template)
    if not own.is_absolute():
        return parse_mapping(render.render(template, **values).encode(), template)
    try:
        text = own.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise NotFoundError(f"the template {template} cannot be read: {error}") from error
    made = parse_mapping(render.render_text(text, template, **values).encode(), template)
    if not isinstance(made.get("metadata", {}), dict) or not isinstance(made.get("spec"), dict):
        raise UsageError(f"{template}: makes no Kubernetes object: it needs `kind`, `metadata` and `spec`")
    return made
