"""The blueprint of an idea, and the sentence in it that says how the idea differs from its parent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from autoresearch.core.blueprint.fields import BlueprintFields, fields_like
from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.campaign.recipe_edits import diff_recipes
from autoresearch.core.text.branch_and_run_names import slugify
from autoresearch.lab.ideas.commit_builder import ARGUMENTS, CommitBuilder
from autoresearch.lab.yaml_files import parse_mapping


def fields_of(
    builder: CommitBuilder, hypothesis: Hypothesis, description: str, result_dir: str = "", command: str = ""
) -> BlueprintFields:
    """The blueprint fields of an idea, valid in any worktree: paths inside the repository are relative."""
    own = builder.blueprint_of(hypothesis)
    expected = f"\nExpected: {hypothesis.expected}" if hypothesis.expected else ""
    return fields_like(
        own,
        title=hypothesis.slug,
        purpose=f"{hypothesis.sentence}\n{description}{expected}",
        launch_command=command or own.launch_command,
        codebase_dir=f"./{builder.spec.codebase}",
        venv_exe=builder.spec.interpreter,
        yaml_path=_recipe_seen_from(builder) or "",
        result_dir=result_dir or f"{builder.spec.result_dir}/{slugify(hypothesis.slug)}",
        slug=slugify(hypothesis.slug),
        trainer=builder.trainer.name,
        evaluate=builder.evaluation.evaluate,
        evaluate_s=builder.evaluation.evaluate_s,
        metric=builder.spec.objective.metric,
        direction=builder.spec.objective.direction.value,
        include=builder.spec.include,
        hide=(),  # the campaign keeps these two, whatever an idea says, and chooses the target
        writable=(),
        launcher="",
    )


def _recipe_seen_from(builder: CommitBuilder) -> str:
    """The recipe's path for the blueprint: relative to the codebase if it lies within it."""
    path, codebase = builder.recipe_path, builder.spec.codebase
    return path.removeprefix(codebase + "/") if codebase and path.startswith(codebase + "/") else path


def difference(builder: CommitBuilder, hypothesis: Hypothesis, base: str, files: Mapping[str, bytes | None]) -> str:
    """A sentence on how the idea differs from its parent."""
    if hypothesis.is_baseline:
        return "Nothing is changed: this is what all others are measured against."
    parts = []
    recipe = files.get(builder.recipe_path) if builder.recipe_path else None
    if recipe is not None:
        changes = diff_recipes(builder.recipe(base), parse_mapping(recipe, builder.recipe_path))
        parts.append("recipe: " + ", ".join(str(change) for change in changes))
    if ARGUMENTS in files:
        data = files[ARGUMENTS]
        launch = replace(builder.launch(base), command=builder.command(parse_mapping(data or b"", ARGUMENTS)))
        changes = diff_recipes(builder.whole(base), launch.settings)
        parts.append("command: " + ", ".join(str(change) for change in changes))
    if own := [path for path in hypothesis.files if path != builder.recipe_path]:
        parts.append(f"files: {', '.join(own)}")
    if hypothesis.patches:
        parts.append(f"{len(hypothesis.patches)} patches")
    return f"Differs from its parent ({hypothesis.parent}) in {'; '.join(parts) or 'its blueprint'}."
