"""The spec of a campaign: its name and directories, and the code that it starts from.

Without a `prefix`, the name of a campaign begins with the day, and is a free one. A blueprint has one such campaign at
a time: `preflight` refuses another one while the newest has not ended.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autoresearch.core.agents.turns import AGENT, HYBRID
from autoresearch.core.campaign.overrides import flatten
from autoresearch.core.campaign.spec import CampaignSpec, ProposerSpec
from autoresearch.core.text import session_and_branch_names as naming
from autoresearch.errors import NotFoundError, UsageError
from autoresearch.git_repo.branches import branch_commit
from autoresearch.git_repo.checkout import Checkout
from autoresearch.git_repo.commits import lines_of
from autoresearch.git_repo.snapshot import snapshot, survey
from autoresearch.lab.campaign_setup.read_setup import CampaignSetup
from autoresearch.lab.parts import Parts
from autoresearch.lab.resolve.launch_command import shell_of
from autoresearch.lab.resolve.resolve_blueprint import key_of
from autoresearch.records import campaign_records
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.index import state_home

_AS_GIVEN = (
    "retests", "max_machine_retries", "confirm", "prove", "at_least", "resolution", "runs_per_gpu", "gpu_busy_mib",
    "keep_gb",
)  # fmt: skip
"""Fields of the spec that are keys of the campaign file, by the same name."""


def campaign_spec(setup: CampaignSetup, proposer: ProposerSpec, **decided: Any) -> CampaignSpec:
    """The spec without a base commit; `decided`: the other fields that need more than the setup."""
    file, notes, settings = setup.file, setup.blueprint.notes, setup.trainer_settings
    checkout, resolved, now = setup.checkout, settings.resolved, file.now
    slug = naming.slugify(file.path.stem if file.path else resolved.blueprint.slug)
    usual = f"autoresearch/{naming.campaign_name(time.strftime('%Y%m%d', time.localtime(now)), slug)}"
    prefix = file["prefix"].strip("/") or free_prefix(usual, checkout)
    directory = _directory(prefix, checkout)
    codebase = _in_repository(resolved.codebase, checkout)
    seeding, seeding_why = settings.seeding
    agent = file.agent
    return CampaignSpec(
        name=prefix.rpartition("/")[2],
        slug=slug,
        directory=str(directory),
        repository=str(checkout.root),
        codebase="" if codebase == "." else codebase,
        trees=file["trees"] or str(default_trees(directory, setup.parts)),
        blueprint=str(resolved.path),
        blueprint_text=resolved.file.data.decode("utf-8", "replace"),
        prefix=prefix,
        base_commit="",
        base=file["base"] or "the working tree as it is",
        recipe=_in_repository(resolved.recipe, checkout),
        interpreter=str(resolved.interpreter),
        interpreter_source=resolved.interpreter_source,
        shell=shell_of(setup.parts.environ),
        proposer=proposer,
        search=file["search"] or ("tip" if proposer.name in (AGENT, HYBRID) else "chain"),
        result_dir=str(resolved.result_dir),
        created=now,
        timeout_s=file["timeout"] or setup.blueprint.run_time_s,
        replicates=file["baseline"],
        include=tuple(dict.fromkeys([*notes.include, *file["include"]])),
        exclude=tuple(dict.fromkeys([*notes.exclude, *file["exclude"]])),
        hide=tuple(dict.fromkeys(notes.hide)),
        screen_s=file["screen"] if isinstance(file["screen"], float) else 0.0,
        screen_overrides=flatten(file["screen"]) if isinstance(file["screen"], dict) else {},
        research=agent,
        self_reported=bool(agent.agent) and not notes.evaluate,
        seeding=seeding,
        seeding_why=seeding_why,
        places=setup.targets,
        parallel=sum(target.slots for target in setup.targets),
        gpu_check=setup.gpu_check,
        tmux_socket=setup.settings.text("tmux_socket"),
        sources=dict(setup.sources),
        read_from=file.read_from,
        **{name: file[name] for name in _AS_GIVEN},
        **decided,
    )


def _in_repository(path: Path | None, checkout: Checkout) -> str:
    """The path relative to the repository; absolute if it lies elsewhere, "" for None."""
    if path is None:
        return ""
    real, root = path.resolve(), checkout.root.resolve()
    return str(real.relative_to(root)) if real == root or root in real.parents else str(real)


# ------------------------------------------------------------------ names


def _directory(prefix: str, checkout: Checkout) -> Path:
    """Where the campaign with this prefix keeps its records."""
    return checkout.root / "reports" / "auto_research" / naming.slugify(prefix.rpartition("/")[2])


def free_prefix(usual: str, checkout: Checkout) -> str:
    """The usual prefix, or the first with a number where no campaign and no lone run has records or a branch."""
    above, slash, last = usual.rpartition("/")

    def is_taken(name: str) -> bool:
        prefix = f"{above}{slash}{name}"
        campaign_dir = CampaignDir(_directory(prefix, checkout))
        recorded = campaign_dir.spec.exists() or campaign_dir.ledger.exists()
        return recorded or branch_commit(checkout, f"{prefix}/baseline") is not None

    if not is_taken(last):
        return usual
    return f"{above}{slash}{naming.first_free(naming.slugify(last), is_taken, naming.SLUG_MAX)}"


def default_trees(directory: Path, parts: Parts) -> Path:
    """Where the worktrees go; a campaign of the same name in another repository has others."""
    return state_home(parts.environ) / "worktrees" / f"{directory.name}-{key_of(directory)}"


# ------------------------------------------------------------------ the code that it starts from


@dataclass(frozen=True, slots=True)
class ProposedBase:
    """Where the base commit would come from; nothing is committed yet."""

    checkout: Checkout
    ref: str  # of the key `base`; "" is the working tree
    dirty: tuple[str, ...]  # files of the working tree that differ from HEAD
    own_files: tuple[Path, ...]  # the campaign's own: its blueprint, its file and its queue
    taken: tuple[str, ...] = ()  # files of the working tree that its commit will hold as they are

    @classmethod
    def of(cls, setup: CampaignSetup, campaign_spec: CampaignSpec) -> ProposedBase:
        """What the base of this campaign would be."""
        file, checkout = setup.file, setup.checkout
        own = (campaign_spec.blueprint, file.path, campaign_spec.proposer.queue)
        own_files = tuple(Path(path) for path in own if path)
        if file["base"]:
            return cls(checkout, file["base"], (), own_files)
        seen = survey(checkout, leave_out=not_code(campaign_spec))
        return cls(checkout, "", seen.dirty, own_files, seen.take)

    def commit(self) -> str:
        """HEAD, or the commit that `base` names. UsageError if it names none."""
        if not self.ref:
            return self.checkout.head
        command = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{self.ref}^{{commit}}")
        status, out, _ = self.checkout.git.ask(*command)
        if status:
            raise UsageError(f"base: {self.ref!r} names no commit of {self.checkout.root}", code="bad_base")
        return os.fsdecode(out).strip()

    def entries(self) -> tuple[bytes, ...]:
        """The lines of `git ls-tree` for what its commit will hold, beside what git has of the checkout."""
        if self.ref:
            return tuple(lines_of(self.checkout, self.commit()))
        held = b"100644 blob " + b"1" * len(self.checkout.head or 40 * "1") + b"\t"  # names count, and not content
        return tuple(held + os.fsencode(path) for path in self.taken if not (self.checkout.root / path).is_dir())

    def with_commit(self, campaign_spec: CampaignSpec) -> CampaignSpec:
        """The campaign with its base commit, which is made here if it is the working tree."""
        from autoresearch.lab.launch.launch import masked_files

        if self.ref:
            return replace(campaign_spec, base_commit=self.commit())
        what = "your uncommitted changes" if self.dirty else "the working tree as it was"
        shot = snapshot(
            self.checkout,
            message=f"base: {what}\n\n{campaign_spec.name} starts from it; an idea's commit has its own change only.",
            extra=masked_files(self.checkout, self.own_files),
            leave_out=not_code(campaign_spec),
        )
        left = f"; left out: {', '.join(map(str, shot.left_out[:5]))}" if shot.left_out else ""
        return replace(campaign_spec, base_commit=shot.commit, base=f"the working tree at the start{left}")


def not_code(campaign_spec: CampaignSpec) -> list[Path]:
    """Records, results and what is hidden, which are never committed."""
    records = Path(campaign_spec.directory).parent
    return [records, Path(campaign_spec.result_dir), *map(Path, campaign_spec.hidden_inputs)]


# ------------------------------------------------------------------ the one before it


def newest_of_blueprint(campaign_spec: CampaignSpec) -> CampaignDir | None:
    """The newest campaign of the same blueprint in this repository, at this path, that no `prefix` named."""
    same, found = _line(campaign_spec), list[tuple[float, CampaignDir]]()
    for path in Path(campaign_spec.directory).parent.glob("*/campaign.json"):
        with contextlib.suppress(NotFoundError):  # damaged: not to be touched
            old = campaign_records.declared_spec(CampaignDir(path.parent))
            if _line(old) == same and "prefix" not in old.sources:
                found.append((old.created, CampaignDir(path.parent)))
    return max(found, key=lambda one: one[0])[1] if found else None


def _line(campaign_spec: CampaignSpec) -> tuple[str, str, str]:
    spec = campaign_spec
    return spec.slug, os.path.relpath(spec.blueprint, spec.repository), os.path.realpath(spec.repository)


def other_code(commit: str, campaign_spec: CampaignSpec, base: ProposedBase) -> str:
    """How the code differs from the base commit of an earlier campaign; "" if it does not."""
    checkout = base.checkout
    now = base.with_commit(campaign_spec).base_commit
    changed = os.fsdecode(checkout.git.run("diff-tree", "-r", "-z", "--name-only", commit, now)).split("\0")
    root = os.path.realpath(checkout.root)
    own = {os.path.relpath(os.path.realpath(path), root) for path in base.own_files}  # compared, or free to change
    code = [name for name in changed if name and name not in own]
    return f"state of the code ({', '.join(code[:3])}{' ...' if len(code) > 3 else ''})" if code else ""
