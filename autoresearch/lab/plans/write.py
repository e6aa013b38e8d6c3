"""Write a plan for a topic: the skeleton that a person fills in."""

from __future__ import annotations

import json
import os
from pathlib import Path

from autoresearch.core.plans.condition import OF_IDEA, WORDS
from autoresearch.core.plans.model import STAGE_MAX
from autoresearch.errors import ConflictError, EnvironmentUnusable, UsageError
from autoresearch.git_repo import checkout as repository
from autoresearch.lab.campaign_report import formatting
from autoresearch.lab.parts import Parts
from autoresearch.lab.plans.draft import Draft, read_topic, slug_of
from autoresearch.lab.plans.plan_dir import PlanPlace, make
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
    lines = [formatting.plain(line, 110) for line in text.strip().splitlines()]
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
        title=json.dumps(formatting.plain(first, 100), ensure_ascii=False),
        blueprint=os.path.relpath(found, path.parent) if found else "TODO.md",
        stage_max=STAGE_MAX,
        words=WORDS,
        of_idea=OF_IDEA,
    )


def place_for(path: Path, parts: Parts) -> PlanPlace:
    """The place of a plan that is about to be written. ConflictError where another is registered under its name."""
    found = repository.find(path.parent)
    if found is None or not found.head:
        why = repository.why_not(path.parent) or f"{path.parent} has no commit yet"
        raise EnvironmentUnusable(f"a plan is fixed in git before its first run, and {why}", code="no_repository")
    place = PlanPlace(found, slug_of(path))
    if place.tip:
        raise ConflictError(
            f"a plan {place.slug} is registered already",
            hint="--out names another file, and so another plan",
            fix=f"autoresearch plan status {place.slug}",
            code="plan_taken",
        )
    make(place, parts)
    return place


def topic_of(draft: Draft) -> Path:
    """The topic that a plan answers. UsageError where it names none."""
    if draft.plan is None or not draft.plan.topic:
        raise UsageError(f"{draft.path} names no topic", hint="`topic: TOPIC.md`: an agent must know what is asked")
    return draft.path.parent / draft.plan.topic


def is_blueprint(path: Path) -> bool:
    """Whether a markdown file looks like one."""
    with path.open("rb") as file:
        return b"[exp_launch_command]" in file.read(1 << 16)
