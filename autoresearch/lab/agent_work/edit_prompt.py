"""What an agent is told before it edits, and before it mends a run that failed."""

from __future__ import annotations

from collections.abc import Sequence

from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.git_repo.patches import MAX_FILES, MAX_PATCH_BYTES
from autoresearch.lab.agent_work.edit_workspace import EditWorkspace
from autoresearch.lab.agents.untrusted_text import UNTRUSTED, fenced
from autoresearch.lab.results.explain import Explanation
from autoresearch.records.secrets import mask_text

_RULES = """\
## Rules of the house
- Edit files in this directory, and nothing else. What counts is how the files differ when you are done: it is taken as
  a patch, tried in a clean checkout, guarded by the commands below, and committed by the harness.
- Do not commit, stash, switch branches or configure git. Nothing of that is taken over.
- Do not start training, and do not install packages. A short check that writes nothing outside of this directory is
  fine.
- Do not print or log the objective ({metric}) anew, and do not change how it is computed, logged or read: the harness
  measures it from the trainer's own records.
- Leave validation data, seeds, the number of steps and how often is validated as they are, in code, too.
- A small diff: no reformatting, no renaming, no refactoring that the change does not need; {files} files and
  {mebibytes} MiB at most. Take out what you only needed for trying. Add no large or binary files.
- If it cannot be done, change nothing and say why: that is an answer, too."""
_PROTECTED = """\
## What you may not change
A change of any of these refuses the whole edit, new files and renames included; they say how good an idea is, or act
unseen: tests and how they are run, evaluation and metrics, data files, `conftest.py`, `sitecustomize.py`, `*.pth`,
`.git*`, CI settings, instructions for agents (`AGENTS.md`, `CLAUDE.md` ...), `.autoresearch/`, the blueprint."""
LOG_CHARACTERS = 16_000
_LAST = "When you are done, say in at most five lines what you changed and why."


def edit_prompt(workspace: EditWorkspace, hypothesis: Hypothesis) -> str:
    """The task of an edit turn."""
    head = "# Change the code so that this hypothesis can be tried\nOne training run, started by others, then shows it."
    return _joined(
        head, _idea(workspace, hypothesis), _protected(workspace), _guard(workspace), _rules(workspace), _LAST
    )


def fix_prompt(workspace: EditWorkspace, hypothesis: Hypothesis, explanation: Explanation) -> str:
    """The task of a fix turn: mend what keeps the run from running, and nothing else."""
    head = (
        "# Mend a run that failed\nThe hypothesis below was put into code, and its run failed. Make it run, in as few "
        "lines as that takes, without giving up what the hypothesis says and without making the task easier, training "
        "shorter or errors silent. If the failure is no fault of the code (a full disk, no GPU), change nothing."
    )
    return _joined(
        head,
        _failure(explanation),
        _idea(workspace, hypothesis),
        _protected(workspace),
        _guard(workspace),
        _rules(workspace),
        _LAST,
    )


def _joined(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"


def _idea(workspace: EditWorkspace, hypothesis: Hypothesis) -> str:
    objective = workspace.objective
    lines = [
        "## The hypothesis",
        f"- what: {_line(hypothesis.sentence)}",
        f"- why and how: {_line(hypothesis.rationale)}" if hypothesis.rationale else "",
        f"- expected: {_line(hypothesis.expected)}" if hypothesis.expected else "",
        f"- risk: {_line(hypothesis.risk)}" if hypothesis.risk else "",
        f"- files that it means to change: {', '.join(hypothesis.paths)}" if hypothesis.paths else "",
        f"- the objective of the campaign: {objective.direction} {objective.metric}",
        _recipe(workspace),
        _overrides(hypothesis),
    ]
    return "\n".join(line for line in lines if line)


def _recipe(workspace: EditWorkspace) -> str:
    if not workspace.recipe:
        return ""
    fixed = " (not yours to change)" if workspace.protection.why(workspace.recipe) else ""
    return f"- the recipe of the run: {workspace.recipe}{fixed}"


def _overrides(hypothesis: Hypothesis) -> str:
    if not hypothesis.overrides:
        return ""
    told = ", ".join(f"{key}={value!r}" for key, value in hypothesis.overrides.items())
    return f"- the harness sets these recipe keys itself, so leave them alone: {_line(told)}"


def _protected(workspace: EditWorkspace) -> str:
    rules = workspace.protection
    named = list(dict.fromkeys([*rules.protect, *rules.named, *(path for path in rules.blueprint if path)]))
    more = f"\nIn this campaign also: {_some(named)}." if named else ""
    less = f"\nIn this campaign these may be changed all the same: {_some(rules.allow)}." if rules.allow else ""
    return _PROTECTED + more + less


def _guard(workspace: EditWorkspace) -> str:
    if not workspace.spec.guard:
        return ""
    listed = "\n".join(f"- `{mask_text(command)}`" for command in workspace.spec.guard)
    return f"## Guard commands\nEach must exit with 0 in a clean checkout with your patch:\n{listed}"


def _rules(workspace: EditWorkspace) -> str:
    return _RULES.format(metric=workspace.objective.metric, files=min(MAX_FILES, 500), mebibytes=MAX_PATCH_BYTES >> 20)


def _failure(explanation: Explanation) -> str:
    cause, death = explanation.diagnosis.cause, explanation.death
    told = [f"- how it ended: {_line(mask_text(death.sentence))}"] if death else []
    told += [f"- kind of failure: {cause.family}{'' if cause.certain else ' (not certain)'}"] if cause else []
    told += [f"- where it was raised: {_line(mask_text(cause.where))}"] if cause and cause.where else []
    tries = [f"- what usually helps: {one}" for one in explanation.tries[:5]]
    lines = "\n".join(line for line in ["## How it failed", *told, *tries])
    proof = fenced(cause.line, "the line of the log that proves it") if cause else ""
    every = explanation.diagnosis.digest
    digest = fenced("\n".join(every), "each process's first exception, kills, the last step") if every else ""
    tail = fenced("\n".join(explanation.tail)[-LOG_CHARACTERS:], "the end of the log", most=LOG_CHARACTERS)
    return _joined(lines, UNTRUSTED, proof, digest, tail if explanation.tail else "").rstrip("\n")


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:30])
    return shown + (f" and {len(names) - 30} more" if len(names) > 30 else "")


def _line(text: str) -> str:
    return " ".join(text.split())[:6000]
