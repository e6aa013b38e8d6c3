"""Write a plan for a topic: the skeleton that a person fills in."""

from __future__ import annotations

import json
import os
from pathlib import Path

from autoresearch.core.condition import OF_IDEA, WORDS
from autoresearch.core.plan import STAGE_MAX
from autoresearch.errors import ConflictError
from autoresearch.lab.campaign import texts
from autoresearch.lab.planning.draft import read_topic
from autoresearch.lab.render import render

QUOTED_LINES = 60
SUFFIX = ".plan.yaml"


def out_path(topic: Path, out: str) -> Path:
    """Where the plan of a topic is written. ConflictError where something is there."""
    path = Path(out) if out else topic.with_name(f"{topic.stem.lower()}{SUFFIX}")
    if path.exists():
        raise ConflictError(
            f"{path} is there already", hint="--out names another file", fix=f"autoresearch plan check {path}"
        )
    return path


def skeleton(topic: Path, path: Path) -> str:
    """A plan with the topic quoted and everything else to be said. Raises what `read_topic` raises."""
    text = read_topic(topic).decode("utf-8", "replace")
    lines = [texts.plain(line, 110) for line in text.strip().splitlines()]
    more = len(lines) - QUOTED_LINES
    quoted = [*lines[:QUOTED_LINES], f"... {more} more lines"] if more > 0 else lines
    first = next((line.lstrip("# ") for line in lines if line.strip("# ")), topic.stem)
    blueprints = [p for folder in (topic.parent, topic.parent / "blueprints") for p in sorted(folder.glob("*.md"))]
    found = next((p for p in blueprints if is_blueprint(p)), None)
    return render(
        "plan.yaml.j2",
        shown=path.name,
        topic=topic.name,
        topic_key=json.dumps(os.path.relpath(topic, path.parent), ensure_ascii=False),
        quoted=quoted,
        title=json.dumps(texts.plain(first, 100), ensure_ascii=False),
        blueprint=os.path.relpath(found, path.parent) if found else "TODO.md",
        stage_max=STAGE_MAX,
        words=WORDS,
        of_idea=OF_IDEA,
    )


def is_blueprint(path: Path) -> bool:
    """Whether a markdown file looks like one."""
    with path.open("rb") as file:
        return b"[exp_launch_command]" in file.read(1 << 16)
