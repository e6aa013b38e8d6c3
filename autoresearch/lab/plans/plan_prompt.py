"""The prompt for a plan: the topic, the repository's blueprints, and what came of the stages that were run."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from autoresearch.core.agents.proposal_text import one_line
from autoresearch.core.campaign import overrides
from autoresearch.core.plans.agent_answer import SCHEMA
from autoresearch.core.plans.condition import OF_IDEA, WORDS
from autoresearch.core.plans.model import REVISE
from autoresearch.core.plans.plan_text import plan_lines
from autoresearch.errors import AutoresearchError
from autoresearch.git_repo.checkout import Checkout
from autoresearch.lab.agents.untrusted_text import fenced
from autoresearch.lab.parts import Parts
from autoresearch.lab.plans.draft import read_topic
from autoresearch.lab.plans.plan_request import PlanRequest
from autoresearch.lab.plans.register import registered_plan
from autoresearch.lab.plans.write import is_blueprint
from autoresearch.lab.render import render
from autoresearch.lab.resolve.blueprint_file import read_blueprint
from autoresearch.lab.resolve.resolve_blueprint import resolve_blueprint
from autoresearch.records.secrets import mask_text

MOST_BLUEPRINTS = 12
MOST_KEYS = 80  # shown of one recipe
MOST_PROBLEMS = 12  # that an agent is told at once
MOST_QUOTED = 8000  # characters of its own answer that an agent without a memory is shown
MOST_RESULTS = 20_000  # characters of the plan that is revised and of its results


def plan_prompt(request: PlanRequest, parts: Parts) -> str:
    """The first prompt of a request."""
    text = read_topic(request.topic).decode("utf-8", "replace")
    return render(
        "plan_prompt.md.j2",
        words=WORDS,
        of_idea=OF_IDEA,
        revise=REVISE,
        blueprints=list(_blueprints(request.plan_dir.checkout, parts)),
        past=_results(request),
        reason=one_line(request.reason, 2000),
        topic=text.strip(),
        schema=json.dumps(SCHEMA, indent=1),
    )


def correction(problems: Sequence[str]) -> str:
    """The prompt that asks for the whole plan again, for an agent that remembers its answer."""
    listed = "\n".join(f"- {one_line(problem, 400)}" for problem in problems[:MOST_PROBLEMS])
    return f"Your plan cannot be used as it is:\n\n{listed}\n\nAnswer again: the whole JSON object, and nothing else.\n"


def repeated(prompt: str, answer: str, problems: Sequence[str]) -> str:
    """The same for an agent without a memory: the first prompt, its answer, and what is wrong with it."""
    quoted = fenced(answer, "your answer", most=MOST_QUOTED)
    return f"{prompt}\n\n# Your answer so far\n\n{quoted}\n\n{correction(problems)}"


def _results(request: PlanRequest) -> str:
    """The plan that is revised, and the results of its stages; "" for a new plan."""
    view = request.view
    if view is None:
        return ""
    lines = list(plan_lines(registered_plan(request.plan_dir, view)))
    for run in view.runs:
        if (record := run.conclusion) is not None:
            facts = ", ".join(f"{word} {value:.4g}" for word, value in record["facts"].items() if value is not None)
            lines.append(f"{run.stage} was run: expectation {record['met']}; {record['conclusion']} [{facts}]")
            for word in ("kept", "confirmed"):
                named = (record.get("shown", {}).get(slug, {}).get("sentence", slug) for slug in record[word])
                lines.append(f"   {word}: {'; '.join(named) or 'none'}")
    return fenced("\n".join(lines), "the plan and its results", most=MOST_RESULTS)


@dataclass(frozen=True, slots=True)
class _ShownBlueprint:
    path: str
    purpose: str
    metric: str
    keys: str  # of its recipe, a line each


def _blueprints(checkout: Checkout, parts: Parts) -> Iterator[_ShownBlueprint]:
    """The blueprints of a repository, tracked or not; those that cannot be resolved are left out."""
    listed = checkout.git.run("ls-files", "-co", "--exclude-standard", "-z", "*.md").split(b"\0")
    shown = 0
    for name in sorted(set(filter(None, listed))):
        path = checkout.root / os.fsdecode(name)
        if shown == MOST_BLUEPRINTS or not path.is_file() or not is_blueprint(path):
            continue
        try:
            resolved = resolve_blueprint(read_blueprint(path), environ=parts.environ)
        except AutoresearchError:
            continue
        shown += 1
        keys = overrides.flatten(dict(resolved.recipe_data)) if resolved.recipe_data else {}
        lines = [f"{key}: {json.dumps(value, default=str)[:120]}" for key, value in list(keys.items())[:MOST_KEYS]]
        purpose = one_line(resolved.blueprint.purpose or resolved.blueprint.title, 600)
        yield _ShownBlueprint(os.fsdecode(name), purpose, resolved.blueprint.notes.metric, mask_text("\n".join(lines)))
