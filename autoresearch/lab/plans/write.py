"""The skeleton of a plan for a topic, to be filled in by a person."""

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
from autoresearch.lab.plans.plan_dir import PlanDir, create_plan_dir
from autoresearch.lab.render import render

QUOTED_LINES = 60
SUFFIX = ".plan.yaml"


def out_path(topic: Path, out: str) -> Path:
    """The file for the plan of a topic. ConflictError if it exists."""
    path = Path(out) if out else topic.with_name(f"{topic.stem.lower()}{SUFFIX}")
    if path.exists():
        raise ConflictError(
            f"{path} already exists", hint="--out names another file", fix=f"autoresearch plan check {path}"
        )
    return path


def skeleton(topic: Path, path: Path) -> str:
    """A plan that quotes the topic and leaves everything else to be filled in. Raises what `read_topic` raises."""
    text = read_topic(topic).decode("utf-8", "replace")
    lines = [formatting.plain(line, 110) for line in text.strip().splitlines()]
    more = len(lines) - QUOTED_LINES
    quoted = [*lines[:QUOTED_LINES], f"... {more} more lines"] if more > 0 else lines
    first = next((line.lstrip("# ") for line in lines if line.strip("# ")), topic.stem)
    blueprints = [p for folder in (topic.parent, topic.parent / "blueprints") for p in sorted(folder.glob("*.md"))]
    blueprint = next((p for p in blueprints if is_blueprint(p)), None)
    return render(
        "plan.yaml.j2",
        shown=path.name,
        topic=topic.name,
        topic_key=json.dumps(os.path.relpath(topic, path.parent), ensure_ascii=False),
        quoted=quoted,
        title=json.dumps(formatting.plain(first, 100), ensure_ascii=False),
        blueprint=os.path.relpath(blueprint, path.parent) if blueprint else "TODO.md",
        stage_max=STAGE_MAX,
        words=WORDS,
        of_idea=OF_IDEA,
    )


def new_plan_dir(path: Path, parts: Parts) -> PlanDir:
    """The directory of a plan that is about to be written. ConflictError if its name is already registered."""
    checkout = repository.find(path.parent)
    if checkout is None or not checkout.head:
        why = repository.why_not(path.parent) or f"{path.parent} has no commit yet"
        raise EnvironmentUnusable(f"a plan is committed to git before its first run, and {why}", code="no_repository")
    plan_dir = PlanDir(checkout, slug_of(path))
    if plan_dir.tip:
        raise ConflictError(
            f"a plan {plan_dir.slug} is already registered",
            hint="--out names another file, and so another plan",
            fix=f"autoresearch plan status {plan_dir.slug}",
            code="plan_taken",
        )
    create_plan_dir(plan_dir, parts)
    return plan_dir


def topic_of(draft: Draft) -> Path:
    """The topic file of a plan. UsageError if it names none."""
    if draft.plan is None or not draft.plan.topic:
        raise UsageError(f"{draft.path} names no topic", hint="add `topic: TOPIC.md`: an agent needs the question")
    return draft.path.parent / draft.plan.topic


def is_blueprint(path: Path) -> bool:
    """Whether a markdown file looks like a blueprint."""
    with path.open("rb") as file:
        return b"[exp_launch_command]" in file.read(1 << 16)
