"""Edit: from an agent's turn to a patch that can be committed. The truth is the diff, not what the agent says.

The agent works in one worktree. What differs there afterwards is applied to a second, clean one, at the commit that it
began from; the guard commands run there. Each way to come to nothing has its own word (`NotMade`).
"""

from __future__ import annotations

import re
import sys
from dataclasses import asdict, replace
from pathlib import Path

from autoresearch.core.agents import suspicion
from autoresearch.core.agents.agent import Answer, Ask, Edit, NotMade, Turn, TurnFault, TurnRole
from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.run.json_record import from_record
from autoresearch.core.text.numbers import listed
from autoresearch.core.text.regex import later
from autoresearch.errors import AutoresearchError
from autoresearch.git_repo.commits import PatchError
from autoresearch.git_repo.git import GitFailed
from autoresearch.git_repo.history import LINK, NOTHING, SUBMODULE, Difference
from autoresearch.git_repo.patches import ExtractedPatch, Opened, TooLarge, Trespass, gathered, patched
from autoresearch.lab.agent_work.edit_prompt import NO_CHANGE, edit_prompt
from autoresearch.lab.agent_work.edit_workspace import EditWorkspace
from autoresearch.lab.agent_work.guard import entered, explain_guard, guard
from autoresearch.lab.campaigns.context import is_full
from autoresearch.lab.resolve.import_proof import shadowed
from autoresearch.lab.results.explain import Explanation
from autoresearch.records.files import read_json, write_json
from autoresearch.runner.basics import failpoint
from autoresearch.runner.masking import mask_text
from autoresearch.runner.text import logical_lines

PATCH, EDIT_FILE = "edit.patch", "edit.json"
GRADED = (None, TurnFault.SILENT, TurnFault.ANSWER)  # after any other fault the files may be half of what was meant
SAID_LINES = 20
_STATED = later(rf"^[*_`# ]*{NO_CHANGE}[*_` ]*(\w.*)", re.IGNORECASE | re.MULTILINE | re.DOTALL)
SAID = 400  # characters of its reason for changing nothing


def make_edit(workspace: EditWorkspace, hypothesis: Hypothesis, base: str, ask: Ask) -> Edit:
    """Let the agent put a hypothesis into code on `base`; what came of it.

    Where it came to nothing, `unmade` and `why` say so, and `patch` is there for the record if there is one. Raises
    Pending as long as the turn or the guard is under way, and an AutoresearchError for what is no fault of the edit: a
    full disk, a repository or a worktree that cannot be used.
    """
    return _turn(workspace, base, ask, TurnRole.EDIT, edit_prompt(workspace, hypothesis))


def make_fix(
    workspace: EditWorkspace, hypothesis: Hypothesis, tip: str, explanation: Explanation, ask: Ask
) -> Edit:
    """Let the agent mend a run that failed; the patch is one against `tip`. As `make_edit` otherwise."""
    return _turn(workspace, tip, ask, TurnRole.FIX, edit_prompt(workspace, hypothesis, explanation))


def make_guard_fix(workspace: EditWorkspace, hypothesis: Hypothesis, base: str, edit: Edit, ask: Ask) -> Edit:
    """Let the agent mend an edit on `base` with which a guard command failed; the whole edit anew. As `make_edit`."""
    command, log = edit.failed_guard
    prompt = edit_prompt(workspace, hypothesis, explain_guard(Path(log)), command)
    return _turn(workspace, base, ask, TurnRole.FIX, prompt, edit.patch.encode("utf-8", "surrogateescape"))


def _turn(workspace: EditWorkspace, base: str, ask: Ask, role: TurnRole, prompt: str, patch: bytes = b"") -> Edit:
    """`patch`: what the agent finds changed on `base` already; it is part of the edit."""
    directory = workspace.turn(role)
    turn = Turn(role, prompt, workspace.worktree_paths[0], directory, workspace.spec.bounds, base)
    edit = _made(workspace, ask, turn, patch)
    if edit.unmade is not None:
        return edit
    failed = guard(workspace, directory)
    failpoint("research.guarded")
    if failed is None:
        return edit
    return replace(edit, unmade=NotMade.GUARD, why=failed.why, failed_guard=(failed.command, str(failed.log or "")))


def _made(workspace: EditWorkspace, ask: Ask, turn: Turn, patch: bytes) -> Edit:
    """What a turn came to before the guard; then it is also in the turn's directory.

    The worktree stays open until then, so that no kill loses what the agent made there.
    """
    directory, worktree = Path(turn.directory), workspace.isolated_worktree
    if (record := read_json(directory / EDIT_FILE)) is not None:
        ask(turn)  # it may have been asked several times
        return from_record(Edit, record)
    opened = worktree.open(turn.base, patch)
    answer = ask(turn)
    failpoint("research.turned")
    edit = _looked_at(workspace, opened, answer, directory, patch)
    write_json(directory / EDIT_FILE, asdict(edit), executed=True)
    worktree.close()
    return edit


def _looked_at(workspace: EditWorkspace, opened: Opened, answer: Answer, directory: Path, patch: bytes) -> Edit:
    edit = Edit(summary=_summary(answer))
    if answer.fault not in GRADED:
        message = f": {mask_text(answer.message)}" if answer.message else ""
        why = f"the agent's turn came to nothing ({answer.fault}){message}"
        return replace(edit, unmade=NotMade.RESEARCHER, why=why, fault=answer.fault)
    found = _gathered(workspace, opened)
    failpoint("research.gathered")
    if not isinstance(found, ExtractedPatch):
        return replace(edit, unmade=found[0], why=found[1])
    if patch and found.patch == patch:
        return replace(edit, unmade=NotMade.EMPTY, why=_unchanged(edit, answer))
    return _judged(workspace, found, edit, directory, answer)


def guarded(workspace: EditWorkspace, commit: str, directory: Path) -> str:
    """Run the guard commands on a commit; "" where all succeeded, else what failed and how. Raises Pending."""
    if not directory.exists():
        workspace.clean.switch(commit, workspace.shown)
    failed = guard(workspace, directory)
    return failed.why if failed else ""


def _gathered(workspace: EditWorkspace, opened: Opened) -> ExtractedPatch | tuple[NotMade, str]:
    try:
        return gathered(opened)
    except TooLarge as large:
        return NotMade.LARGE, str(large)
    except Trespass as trespass:
        return NotMade.PROTECTED, str(trespass)
    except GitFailed as failure:
        if is_full(failure):
            raise
        return NotMade.PATCH, f"git could not take up what was changed: {failure.stderr[:500]}"
    except (OSError, RecursionError) as error:
        if is_full(error):
            raise
        return NotMade.PATCH, f"what was changed cannot be looked at: {error}"


def _judged(workspace: EditWorkspace, extracted: ExtractedPatch, edit: Edit, directory: Path, answer: Answer) -> Edit:
    """The edit as it is worth being run, or why not: cheap questions first."""
    if not extracted.patch:
        return replace(edit, unmade=NotMade.EMPTY, why=_unchanged(edit, answer))
    (directory / PATCH).write_bytes(extracted.patch)
    paths = tuple(one.path for one in extracted.differences)
    edit = replace(edit, patch=extracted.patch.decode("utf-8", "surrogateescape"), paths=paths)
    if touched := workspace.protection.touched(paths):
        return replace(edit, unmade=NotMade.PROTECTED, why=f"it changes what is protected: {listed(touched, 5)}")
    try:
        tree = patched(workspace.clean, extracted.base, extracted.patch, workspace.shown)
    except PatchError as failure:
        return replace(edit, unmade=NotMade.PATCH, why=f"its patch does not apply: {failure.reason[:500]}")
    failpoint("research.patched")
    if tree != extracted.tree:
        return replace(edit, unmade=NotMade.PATCH, why="its patch, applied, is not what the agent made")
    if refused := _recipe(workspace, extracted.base, tree):
        return replace(edit, unmade=refused[0], why=refused[1])
    held_out = workspace.protection.validation_data(workspace.settings(extracted.base))

    changes = (_changed(workspace, one) for one in extracted.differences)
    flags = suspicion.flags(changes, metrics=(workspace.objective.key,), validation=held_out)
    edit = replace(edit, flags=flags)
    added = [one.path for one in extracted.differences if one.mode_before == NOTHING]
    interpreter = Path(workspace.interpreter or sys.executable)
    if why := shadowed(interpreter, workspace.clean.path, workspace.environment, added, entered(workspace)):
        return replace(edit, unmade=NotMade.PROTECTED, why=why)
    return edit


def _changed(workspace: EditWorkspace, difference: Difference) -> suspicion.ChangedFile:
    def text(mode: str, blob: str) -> str:
        known = mode not in (NOTHING, SUBMODULE)
        return workspace.checkout.git.run("cat-file", "blob", blob).decode("utf-8", "replace") if known else ""

    before = text(difference.mode_before, difference.blob_before)
    after = text(difference.mode, difference.blob)
    return suspicion.ChangedFile(difference.path, before, after, difference.mode == LINK, difference.gone)


def _recipe(workspace: EditWorkspace, base: str, tree: str) -> tuple[NotMade, str] | None:
    """Why the recipe, with all that it inherits, must not be as the patch has it; None where it may."""
    before = workspace.settings(base)
    try:
        after = workspace.settings(tree)
    except AutoresearchError as broken:
        return NotMade.GUARD, f"the recipe cannot be read any more: {broken.message}"
    changed = workspace.protection.keys_changed(before, after)
    return (NotMade.PROTECTED, f"it changes protected keys of the recipe: {listed(changed, 5)}") if changed else None


def _summary(answer: Answer) -> str:
    """The agent's last words, for people: no colours, no secrets, some lines."""
    lines = list(logical_lines(answer.text.encode("utf-8", "replace")))
    return mask_text("\n".join(line[:300] for line in lines[-SAID_LINES:]))


def _unchanged(edit: Edit, answer: Answer) -> str:
    """That it changed nothing, and why, if it says so in the form that it was told; no other words count."""
    stated = _STATED.search(edit.summary)
    why = f": {' '.join(stated[1].split())[:SAID]}" if stated else ""
    denied = f"; it was not allowed to: {mask_text(', '.join(answer.denied))[:300]}" if answer.denied else ""
    return f"the agent changed no file{why}{denied}"
