"""What mkdocs adds to the pages of docs/: README and the project's files as pages, and references made from the code.

A page says `<!-- generated: NAME -->` where the text of `GENERATED[NAME]` goes. Links that leave docs/ are plain text
on the site, which holds none of those files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGES = {  # page -> file of the repository
    "index.md": "README.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "security.md": "SECURITY.md",
}
MARK = re.compile(r"<!-- generated: (?P<name>[a-z.]+) -->")
LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]\n]*)\]\((?P<target>[^)\s#]+)(?P<anchor>#[^)]*)?\)")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that stand elsewhere in the repository."""
    from mkdocs.structure.files import File

    for page, source in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=from_the_root(text)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Fill in what is generated, and take out the links that lead out of docs/."""
    text = MARK.sub(lambda mark: GENERATED[mark["name"]](), markdown)
    return LINK.sub(lambda link: link["text"] if link["target"].startswith("../") else link[0], text)


def from_the_root(text: str) -> str:
    """A text of the repository's root as a page of docs/: its links lead from there."""
    pages = {source: page for page, source in PAGES.items()}

    def moved(link: re.Match[str]) -> str:
        target = link["target"]
        if "://" in target:
            return link[0]
        inside = pages.get(target) or (target.removeprefix("docs/") if target.startswith("docs/") else f"../{target}")
        return f"{link['image']}[{link['text']}]({inside}{link['anchor'] or ''})"

    return LINK.sub(moved, text)


# ------------------------------------------------------------------ references


def commands() -> str:
    """Every command that a person types, with its arguments and options."""
    return "\n".join(line for name, about in shown_commands() for line in _command(name, about))


def shown_commands() -> Iterator[tuple[str, str]]:
    """Name and line of help of each command that help shows."""
    from autoresearch import cli

    for name, command in cli.COMMANDS.items():
        if command.function and command.section:
            yield name, command.about


def _command(name: str, about: str) -> Iterator[str]:
    import typer

    from autoresearch import cli

    command: Any = typer.main.get_command(cli._app(name.split()))
    for word in name.split():
        command = command.commands[word]
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option"]
    words = ["autoresearch", name, *(_argument(p) for p in arguments), *(["[OPTIONS]"] if options else [])]
    yield from (f"### {name}", "", _cell(about), "", "```text", " ".join(words), "```", "")
    if options:
        yield from ("| option | what it does |", "|---|---|")
        for option in options:
            yield f"| `{_option(option)}` | {_cell(_help(option))} |"
        yield ""


def _argument(parameter: Any) -> str:
    word = f"{parameter.metavar or parameter.name.upper()}{'...' if parameter.nargs == -1 else ''}"
    return word if parameter.required else f"[{word}]"


def _option(parameter: Any) -> str:
    names = ", ".join(sorted(parameter.opts, key=len))
    if parameter.is_flag:
        return names
    return f"{names} {parameter.metavar or ('N' if isinstance(parameter.default, int | float) else 'TEXT')}"


def _help(parameter: Any) -> str:
    said = parameter.help or ("One JSON object." if parameter.name == "as_json" else "")
    default = parameter.default
    shown = parameter.show_default and isinstance(default, str | int | float) and default not in ("", False)
    return f"{said} Default: `{default}`." if shown else said


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def file_keys(name: str) -> str:
    """The keys of one of our files, from its JSON schema."""
    from autoresearch.lab.json_schemas import schema_of

    return _keys(schema_of(name)["properties"])


def notes() -> str:
    """The keys of a blueprint's notes."""
    from autoresearch.core.blueprint.model import NOTE_KEYS

    return _keys({key.name: key.schema() for key in NOTE_KEYS})


def _keys(schemas: Any) -> str:
    rows = (f"| `{key}` | {_default(about)} | {_cell(about['description'])} |" for key, about in schemas.items())
    return "\n".join(["| key | default | meaning |", "|---|---|---|", *rows])


def _default(about: Any) -> str:
    default = about.get("default")
    return "" if default in (None, "", []) else f"`{json.dumps(default)}`".replace('"', "")


def kinds() -> str:
    """The kinds of failure, with what a campaign may do and what helps."""
    from autoresearch.core.diagnosis.failure import table

    rows = (f"| `{kind}` | {table().policy(kind)} | {table().remedy(kind)} |" for kind in table().kinds)
    return "\n".join(("| kind | policy | what to try first |", "|---|---|---|", *rows))


def launcher_options(kind: str) -> str:
    """The options of a kind of target; of all of them where it is `common`."""
    from autoresearch.launchers.registry import COMMON, options_of

    options = COMMON if kind == "common" else {k: v for k, v in options_of(kind).items() if k not in COMMON}
    rows = (f"| `{name}` | {_cell(about)} |" for name, about in options.items())
    return "\n".join(("| option | what it is |", "|---|---|", *rows))


def tinygrpo() -> str:
    """The keys of a recipe of the embedded trainer."""
    from autoresearch.tinygrpo.recipe import keys_as_markdown

    return keys_as_markdown()


GENERATED: dict[str, Callable[[], str]] = {
    "commands": commands,
    "tinygrpo": tinygrpo,
    "kinds": kinds,
    "autoresearch.yaml": partial(file_keys, "autoresearch"),
    "campaign.yaml": partial(file_keys, "campaign"),
    "notes": notes,
    **{f"launcher.{kind}": partial(launcher_options, kind) for kind in ("common", "ssh", "slurm", "ray", "kubernetes")},
}
