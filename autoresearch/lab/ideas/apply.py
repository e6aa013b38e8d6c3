"""Brings an idea home: its whole change as one commit on a new branch from the user's own HEAD.

No checkout, index or untracked file is touched. Code and recipe come by a 3-way merge; what stands on an idea's command
line goes into the blueprint's launch command; what git does not hold is named, to be done by hand.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from autoresearch.core.campaign.recipe_edits import ABSENT, diff_recipes
from autoresearch.core.campaign.state import Idea
from autoresearch.core.text.regex import later
from autoresearch.errors import AutoresearchError, ConflictError, NotFoundError
from autoresearch.git_repo import branches
from autoresearch.git_repo.commits import Change, Committed, PatchError, commit_hypothesis
from autoresearch.git_repo.history import diff, read_file
from autoresearch.lab.ideas.commit_builder import OURS, RECIPE, CommitBuilder
from autoresearch.lab.recipes.overrides import rewritten
from autoresearch.lab.yaml_files import parse_mapping
from autoresearch.records.hostile import write_atomically

PREFIX = "autoresearch/apply"
MAX_BYTES = 64 << 20  # of a patch
_CONFLICT = later(
    r"(?m)^(?:Applied patch to '(.+)' with conflicts"
    r"|error: (.+?): (?:patch does not apply|does not exist|already exists))"
)


@dataclass(frozen=True, slots=True)
class Application:
    """An idea's change, as it would be on top of `head`; nothing refers to `commit` yet."""

    head: str  # the user's commit that it is put on
    commit: str  # `head` itself where git has nothing to change
    diff: str  # between the two
    command: str  # what to train with; "" where the launch command stays as it was
    blueprint: str  # the file that has this command: in the commit, or to be written; "" where nothing holds one
    text: str  # of a blueprint that git does not hold, with the new command; "" where the commit has it
    by_hand: tuple[str, ...]  # what neither git nor a blueprint of ours can hold, a sentence each


def plan(builder: CommitBuilder, idea: Idea, evidence: str) -> Application:
    """Make the commit that brings an idea home; it is on no branch yet. Raises ConflictError, which names what clashes.
    """
    head = builder.checkout.head
    if not head:
        raise ConflictError("this branch has no commit yet, so there is nothing to bring the idea to", code="no_commit")
    builder = builder.for_idea(idea.hypothesis)
    base, checkout = builder.spec.base_commit, builder.checkout
    arguments = builder.arguments(idea.commit)
    command = builder.command(arguments) if arguments else ""
    blueprint, text, tracked = _blueprint(builder, head, command) if command else ("", "", False)
    files: dict[str, bytes | None] = {blueprint: text.encode()} if tracked else {}
    message = f"{idea.hypothesis.slug}: {idea.hypothesis.sentence}\n\n{evidence}\n"
    patch = diff(checkout, base, idea.commit, ignoring=(OURS,), max_bytes=MAX_BYTES)
    made = _merged(builder, idea, head, patch, files, message)
    same = made is None or made.changes_nothing
    commit = head if made is None or same else made.commit
    return Application(
        head=head,
        commit=commit,
        diff="" if same else diff(checkout, head, commit, max_bytes=MAX_BYTES),
        command=command,
        blueprint=blueprint,
        text="" if tracked else text,
        by_hand=tuple(_by_hand(builder, idea, command, blueprint)),
    )


def carry_out(builder: CommitBuilder, idea: Idea, application: Application) -> str:
    """Claim the branch, and write the blueprint that git does not hold; returns the branch, "" where none is needed.

    Applied twice, the same branch is returned.
    """
    checkout, branch = builder.checkout, ""

    def same(name: str) -> bool:
        found = branches.branch_commit(checkout, name) or ""
        trees = {checkout.git.line("rev-parse", f"{one}^{{tree}}") for one in (found, application.commit)}
        return len(trees) == 1 and checkout.git.line("rev-parse", f"{found}^") == application.head

    if application.commit != application.head:
        name = f"{PREFIX}/{idea.hypothesis.slug}"
        branch = branches.claim_branch(checkout, name, application.commit, again=same)
    if application.text:
        write_atomically(Path(application.blueprint), application.text.encode())
    return branch


def _merged(
    builder: CommitBuilder, idea: Idea, head: str, patch: str, files: Mapping[str, bytes | None], message: str
) -> Committed | None:
    """The commit on `head`; None where there is nothing to commit. A recipe that clashes is set key by key."""

    def commit(patch: str, files: Mapping[str, bytes | None]) -> Committed:
        change = Change((patch,) if patch.strip() else (), files, merge=True)
        return commit_hypothesis(builder.checkout, head, change, message=message)

    if not patch.strip() and not files:
        return None
    try:
        return commit(patch, files)
    except PatchError as clash:
        recipe = builder.recipe_path
        if recipe not in ("", RECIPE):
            ends = builder.spec.base_commit, idea.commit
            others = diff(builder.checkout, *ends, ignoring=(OURS, recipe), max_bytes=MAX_BYTES)
            with contextlib.suppress(PatchError, NotFoundError):
                return commit(others, {**files, recipe: _recipe(builder, idea, head)})
        raise _named(clash, idea) from clash


def _recipe(builder: CommitBuilder, idea: Idea, head: str) -> bytes:
    """The user's recipe as `head` has it, comments kept, with the keys that the idea changed."""
    path = builder.recipe_path
    before, after = builder.recipe(builder.spec.base_commit), builder.recipe(idea.commit)
    text = read_file(builder.checkout.root, head, path).decode("utf-8", "surrogateescape")
    changes = diff_recipes(before, after)
    if any(one.new is ABSENT for one in changes):
        raise NotFoundError(f"{idea.name} takes keys out of {path}")
    changed = {one.key: one.new for one in changes}
    own = parse_mapping(text.encode("utf-8", "surrogateescape"), path)
    return rewritten(text, own, changed, path).encode("utf-8", "surrogateescape")


def _blueprint(builder: CommitBuilder, head: str, command: str) -> tuple[str, str, bool]:
    """Where the launch command stands: the blueprint's path, its text with the new command, whether git holds it.

    In git it is the path in the repository; else that of a new file beside the blueprint. ("", "", False) where the old
    command does not stand there in one piece.
    """
    root, old = builder.checkout.root, builder.blueprint.launch_command
    path = Path(os.path.normpath(Path(builder.spec.repository) / builder.spec.blueprint))
    inside = str(path.relative_to(root)) if root in path.parents else ""
    text, tracked = builder.spec.blueprint_text, False
    if inside:
        try:
            text, tracked = read_file(root, head, inside).decode("utf-8", "surrogateescape"), True
        except NotFoundError:
            pass
    section = re.search(r"(?m)^.*\[exp_launch_command\]", text)  # the purpose may name the command, too
    at = text.find(old, section.end()) if section else -1
    if at < 0:
        return "", "", False
    whole = text[:at] + command + text[at + len(old) :]
    beside = path.with_name(f"{path.stem}-applied{path.suffix or '.md'}")
    return (inside if tracked else str(beside)), whole, tracked


def _by_hand(builder: CommitBuilder, idea: Idea, command: str, blueprint: str) -> Iterator[str]:
    if command and not blueprint:
        yield f"in {builder.spec.blueprint}, the launch command is now: {command}"
    if builder.recipe_path == RECIPE:
        changes = diff_recipes(builder.recipe(builder.spec.base_commit), builder.recipe(idea.commit))
        if changes:
            yield f"in {builder.spec.recipe}, which is in no repository: {', '.join(map(str, changes))}"


def _named(clash: PatchError, idea: Idea) -> AutoresearchError:
    found = (one or other for one, other in _CONFLICT.findall(clash.reason))
    names = ", ".join(dict.fromkeys(name for name in found if name))
    where = names or " ".join(clash.reason.split())[:300]
    return ConflictError(
        f"{idea.name} does not fit onto your branch: both changed {where}",
        hint=f"nothing was changed; by hand: git merge {idea.branch}",
        code="apply_conflict",
    )
