"""The two worktrees of an editor, in which a coding agent edits, and everything that an edit is judged by.

An agent edits in the one, `agent-a`; what it did reaches the other, `agent-b`, as a patch and in no other way. There
the guard commands run. Both are used by one idea at a time: the second editor has `agent-a-2` and `agent-b-2`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from autoresearch.core.agents.agent import AgentSpec, TurnRole
from autoresearch.core.agents.protection import Protection, named_in
from autoresearch.core.metrics.objective import Objective
from autoresearch.core.run.extra_paths import ExtraPath
from autoresearch.git_repo.checkout import Checkout
from autoresearch.git_repo.patches import IsolatedWorktree
from autoresearch.git_repo.worktrees import Slot, slot
from autoresearch.lab.ideas.commit_builder import OURS, CommitBuilder

EDITED, CLEAN = "agent-a", "agent-b"
_REASONS = {EDITED: "where a coding agent edits", CLEAN: "where a coding agent's patch is tried"}


@dataclass(frozen=True, slots=True)
class EditWorkspace:
    """What is needed to let an agent edit, and to judge what it did."""

    checkout: Checkout
    spec: AgentSpec
    trees: Path  # where the worktrees lie: outside of the checkout
    turn: Callable[[TurnRole], Path]  # the directory of the next turn: absolute, and not the agent's to write to
    protection: Protection
    objective: Objective
    settings: Callable[[str], Mapping[str, object]]  # the recipe of a commit or tree, as its trainer has it
    recipe: str = ""  # its path in the repository; "" for none
    interpreter: str = ""  # of the trainer; its directory comes first on the guard's PATH
    codebase: str = ""  # where in the repository the guard commands start; "" is its root
    shown: tuple[ExtraPath, ...] = ()  # what the guard sees of the checkout
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))  # of the guard, less its secrets
    confined: Callable[[str, Path], str] = lambda command, _: command  # a guard command as it is started, in that place
    known: tuple[str, ...] = ()  # what the agent is told of the campaign, beside the hypothesis
    editor: int = 1  # whose worktrees these are

    @property
    def worktree_paths(self) -> tuple[Path, Path]:
        """Where its two worktrees lie."""
        after = "" if self.editor == 1 else f"-{self.editor}"
        return self.trees / f"{EDITED}{after}", self.trees / f"{CLEAN}{after}"

    @property
    def isolated_worktree(self) -> IsolatedWorktree:
        """Where the agent edits."""
        return IsolatedWorktree(self._slot(self.worktree_paths[0]))

    @property
    def clean(self) -> Slot:
        """Where its patch is applied and guarded."""
        return self._slot(self.worktree_paths[1])

    @property
    def left(self) -> list[Slot]:
        """The worktrees of all editors of which something is left."""
        names = {path.name.partition(".")[0] for path in self.trees.glob("agent-[ab]*")}
        return [self._slot(self.trees / name) for name in sorted(names)]

    def _slot(self, path: Path) -> Slot:
        if path.is_symlink():  # an agent's: the slot would be made wherever it leads
            path.unlink()
        return slot(self.checkout, path, reason=_REASONS[path.name[: len(EDITED)]])


def workspace_for(builder: CommitBuilder, agent_spec: AgentSpec, turn: Callable[[TurnRole], Path]) -> EditWorkspace:
    """The workspace of a campaign, protected as its blueprint, its trainer and its agent's settings say."""
    return EditWorkspace(
        checkout=builder.checkout,
        spec=agent_spec,
        trees=Path(builder.spec.trees),
        turn=turn,
        protection=protection_of(builder, agent_spec),
        objective=builder.spec.objective,
        settings=builder.whole,
        recipe=builder.recipe_path,
        interpreter=builder.spec.interpreter,
        codebase=builder.spec.codebase,
        shown=builder.spec.shown,
    )


def protection_of(builder: CommitBuilder, agent_spec: AgentSpec) -> Protection:
    """What is protected in a campaign: built in, declared, and named by the commands of guard and evaluation."""
    base = builder.spec.base_commit
    listed = builder.checkout.git.run("ls-tree", "-r", "-z", "--name-only", "--full-tree", base)
    tracked = frozenset(os.fsdecode(path) for path in listed.split(b"\0") if path)
    below = f"{builder.spec.codebase}/" if builder.spec.codebase else ""
    files = {path.removeprefix(below) for path in tracked if path.startswith(below)}
    commands = [one.replace(f"{builder.spec.repository}/{below}", "") for one in builder.evaluation.evaluate]
    named = named_in((*commands, *agent_spec.guard), files) - named_in([builder.blueprint.launch_command], files)
    blueprint = os.path.relpath(builder.spec.blueprint, builder.spec.repository)
    whole = builder.whole(base)
    seed, outputs = builder.trainer.seed_key_in(whole), builder.trainer.outputs(whole)
    return Protection(
        protect=agent_spec.protect,
        allow=agent_spec.allow,
        blueprint=(OURS, *([] if blueprint.startswith("..") else [blueprint])),
        named=tuple(sorted(below + path for path in named)),
        keys=tuple(key for key in (seed, *(output.key for output in outputs)) if key),
    )
