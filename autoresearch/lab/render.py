"""Texts from templates; the only module that uses jinja2. Also finds the data directories of the wheel."""

from __future__ import annotations

import functools
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import autoresearch
from autoresearch.core.blueprint.fields import default_result_dir
from autoresearch.core.blueprint.model import Blueprint
from autoresearch.core.blueprint.notes import note_lines
from autoresearch.core.blueprint.parser import means_nothing, parse_blueprint
from autoresearch.core.text.durations import spoken
from autoresearch.errors import BlueprintError, NotFoundError, UsageError

_COMMANDS = ("command", "prepare", "evaluate", "cleanup", "swarm_server", "swarm_debug")


def data_dir(name: str) -> Path:
    """`templates`, `blueprints` or `skills`: in the installed wheel, else at the repository's root.

    Raises NotFoundError if neither has it.
    """
    package = Path(autoresearch.__file__).parent
    for place in (package / "_data" / name, package.parent / name):
        if place.is_dir():
            return place
    raise NotFoundError(f"the installation lacks its {name} directory", hint="install autoresearch again")


def render(template_name: str, **values: object) -> str:
    """The text of a template in `templates/`.

    Raises NotFoundError for an unknown template and UsageError for a name that it needs and that was not given: an
    undefined name never becomes an empty string.
    """
    import jinja2

    environment = _environment(data_dir("templates"), html=".html." in template_name)
    try:
        return str(environment.get_template(template_name).render(**values))
    except jinja2.TemplateNotFound as missing:
        raise NotFoundError(f"there is no template {missing.name}") from missing
    except jinja2.UndefinedError as undefined:
        raise UsageError(f"{template_name}: {undefined.message}") from undefined


def render_blueprint(blueprint: Blueprint) -> str:
    """A blueprint that parses back to the same values.

    Raises BlueprintError if a value cannot be written in one: a path over several lines, an empty command, an
    unreplaced placeholder, a control character.
    """
    for key in ("title", "purpose", "launch_command"):
        if not getattr(blueprint, key).strip():
            raise BlueprintError(f"a blueprint needs a {key.replace('_', ' ')}")
    for key in ("codebase_dir", "venv_exe", "yaml_path", "result_dir"):
        if re.search(r"[\r\n]", getattr(blueprint, key)):
            raise BlueprintError(f"{key} goes over several lines: {getattr(blueprint, key)[:60]!r}")
    written = replace(
        blueprint,
        title=" ".join(blueprint.title.split()),
        purpose=blueprint.purpose.replace("\r\n", "\n").strip(),
        result_dir=default_result_dir(blueprint),
    )
    notes = note_lines(blueprint.notes)
    text = render("blueprint.md.j2", blueprint=written, note_lines=notes, item=_item, code=_code, spoken=spoken)
    parse_blueprint(text.encode(), f"{written.title[:60]}.md")
    return text


@functools.cache
def _environment(directory: Path, *, html: bool) -> Any:
    """The jinja2 environment with its cache of compiled templates: a campaign renders its memory after every run."""
    import jinja2

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(directory),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=html,  # markdown and YAML are not HTML
    )


def _plain(text: str) -> bool:
    """Whether a text after `- key: ` on one line parses back unchanged."""
    if not text or text != text.strip() or "\n" in text or "<!--" in text or text.endswith("\\"):
        return False
    if text[0] in "`\"'*_|>[{(" or text[-1] in "`。；，;)）*_:：" or re.search(r"\s#|`", text):
        return False
    return not means_nothing(text) or text == "NA"


def _item(key: str, text: str) -> str:
    """`- key: text`, or a fenced block if the text would parse differently."""
    spaced = key in ("dir", "path") and re.search(r"\s", text)
    return f"- {key}: {text}" if _plain(text) and not spaced else _code(key, text)


def _code(key: str, text: str) -> str:
    """`- key:` and the text in a fence longer than any in it, indented below the key."""
    text = text.replace("\r\n", "\n").strip("\n")
    if "\r" in text:
        raise BlueprintError(f"{key} holds a carriage return: {text[:60]!r}", hint="write it as an escape")
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    info = "bash" if key in _COMMANDS else "text"
    return "\n".join([f"- {key}:", f"  {fence}{info}", *(f"  {line}" for line in text.split("\n")), f"  {fence}"])
