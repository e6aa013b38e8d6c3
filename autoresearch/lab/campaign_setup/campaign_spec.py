"""The spec of a campaign, and the code that it starts from: the commit that `base` names, or the working tree."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from autoresearch.core.agents.agent import AgentSpec
from autoresearch.core.campaign.spec import CampaignSpec, ProposerSpec
from autoresearch.core.run.json_record import from_record
from autoresearch.core.text import branch_and_run_names as naming
from autoresearch.errors import EnvironmentUnusable, UsageError
from autoresearch.git_repo import checkout as repository
from autoresearch.git_repo.branches import branch_commit
from autoresearch.git_repo.checkout import Checkout, NoCheckout
from autoresearch.git_repo.snapshot import snapshot
from autoresearch.git_repo.survey import survey
from autoresearch.lab.campaign_setup.campaign_file import CampaignFile
from autoresearch.lab.campaign_setup.campaign_goal import CampaignGoal
from autoresearch.lab.campaign_setup.campaign_keys import AGENT_KEYS
from autoresearch.lab.launch.snapshot_code import masked_files
from autoresearch.lab.parts import Parts
from autoresearch.lab.resolve.resolve_blueprint import ResolvedBlueprint
from autoresearch.lab.resolve.run_names import key_of
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.index import state_home


def campaign_spec(
    campaign_file: CampaignFile,
    resolved: ResolvedBlueprint,
    checkout: Checkout,
    goal: CampaignGoal,
    proposer_spec: ProposerSpec,
    parts: Parts,
) -> CampaignSpec:
    """The spec of a campaign that has no targets, GPUs and base commit yet."""
    now = parts.clock()
    slug = naming.slugify(campaign_file.path.stem if campaign_file.path else resolved.blueprint.slug)
    day = time.strftime("%Y%m%d", time.localtime(now))
    usual = f"autoresearch/{naming.campaign_name(day, slug)}"
    prefix = campaign_file["prefix"].strip("/") or free_prefix(usual, checkout, beside=False)
    name, directory = prefix.rpartition("/")[2], _directory(prefix, checkout)
    recipe, codebase = _in_repository(resolved.recipe, checkout), _in_repository(resolved.codebase, checkout)
    return CampaignSpec(
        name=name,
        slug=slug,
        directory=str(directory),
        repository=str(checkout.root),
        codebase="" if codebase == "." else codebase,
        trees=campaign_file["trees"] or str(default_trees(directory, parts)),
        blueprint=str(resolved.path),
        blueprint_text=resolved.file.data.decode("utf-8", "replace"),
        prefix=prefix,
        base_commit="",
        base=campaign_file["base"] or "the working tree as it is",
        recipe=recipe,
        interpreter=str(resolved.interpreter),
        result_dir=str(resolved.result_dir),
        objective=goal.objective,
        proposer=proposer_spec,
        rules=goal.rules,
        created=now,
        timeout_s=campaign_file["timeout"],
        replicates=campaign_file["baseline"],
        retests=campaign_file["retests"],
        max_machine_retries=campaign_file["max_machine_retries"],
        confirm=campaign_file["confirm"],
        resolution=campaign_file["resolution"],
        runs_per_gpu=campaign_file["runs_per_gpu"],
        gpu_busy_mib=campaign_file["gpu_busy_mib"],
        include=tuple(dict.fromkeys([*resolved.blueprint.notes.include, *campaign_file["include"]])),
        hide=tuple(dict.fromkeys(resolved.blueprint.notes.hide)),
        min_steps=campaign_file["min_steps"],
        prune=campaign_file["prune"],
        warmup=campaign_file["warmup"] or 0,
        keep_gb=campaign_file["keep_gb"],
        research=from_record(
            AgentSpec, {key.spec_field: campaign_file[key.name] for key in AGENT_KEYS if key.spec_field}
        ),
    )


def named(campaign_spec: CampaignSpec, prefix: str, checkout: Checkout, parts: Parts) -> CampaignSpec:
    """The campaign under another prefix, with the directories that follow from it."""
    directory = _directory(prefix, checkout)
    own = campaign_spec.trees == str(default_trees(Path(campaign_spec.directory), parts))
    trees = str(default_trees(directory, parts)) if own else campaign_spec.trees
    name = prefix.rpartition("/")[2]
    return replace(campaign_spec, name=name, prefix=prefix, directory=str(directory), trees=trees)


def _directory(prefix: str, checkout: Checkout) -> Path:
    """Where the campaign with this prefix keeps its records."""
    return checkout.root / "reports" / "auto_research" / naming.slugify(prefix.rpartition("/")[2])


def free_prefix(usual: str, checkout: Checkout, *, beside: bool = True) -> str:
    """The usual prefix, or the first with a number where neither a lone run nor, if `beside`, a campaign has records.

    Without `beside`, a campaign of that name is the one that goes on.
    """
    above, slash, last = usual.rpartition("/")

    def is_taken(name: str) -> bool:
        prefix = f"{above}{slash}{name}"
        campaign_dir = CampaignDir(_directory(prefix, checkout))
        if campaign_dir.spec.exists():
            return beside
        # lone runs, or only the branch of a baseline.md
        return campaign_dir.ledger.exists() or branch_commit(checkout, f"{prefix}/baseline") is not None

    if not is_taken(last):
        return usual
    return f"{above}{slash}{naming.first_free(naming.slugify(last), is_taken, naming.SLUG_MAX)}"


def default_trees(directory: Path, parts: Parts) -> Path:
    """Where the worktrees go; a campaign of the same name in another repository has others."""
    return state_home(parts.environ) / "worktrees" / f"{directory.name}-{key_of(directory)}"


def _in_repository(path: Path | None, checkout: Checkout) -> str:
    """The path relative to the repository; absolute if it lies elsewhere, "" for None."""
    if path is None:
        return ""
    real = path.resolve()
    root = checkout.root.resolve()
    return str(real.relative_to(root)) if real == root or root in real.parents else str(real)


@dataclass(frozen=True, slots=True)
class ProposedBase:
    """Where the base commit would come from; nothing is committed yet."""

    checkout: Checkout
    ref: str  # of the key `base`; "" is the working tree
    dirty: tuple[str, ...]  # files of the working tree that differ from HEAD
    own_files: tuple[Path, ...]  # the campaign's own: its blueprint, its file and its queue

    def commit(self) -> str:
        """HEAD, or the commit that `base` names. UsageError if it names none."""
        if not self.ref:
            return self.checkout.head
        command = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{self.ref}^{{commit}}")
        with self.checkout.git.start(*command) as process:
            status, out, _ = process.finish()
        if status:
            raise UsageError(f"base: {self.ref!r} names no commit of {self.checkout.root}", code="bad_base")
        return os.fsdecode(out).strip()

    def with_commit(self, campaign_spec: CampaignSpec) -> CampaignSpec:
        """The campaign with its base commit, which is made here if it is the working tree."""
        if self.ref:
            return replace(campaign_spec, base_commit=self.commit())
        what = "your uncommitted changes" if self.dirty else "the working tree as it was"
        shot = snapshot(
            self.checkout,
            message=f"base: {what}\n\n{campaign_spec.name} starts from it; an idea's commit has its own change only.",
            extra=masked_files(self.checkout, self.own_files),
            leave_out=_not_code(campaign_spec),
        )
        left = f"; left out: {', '.join(map(str, shot.left_out[:5]))}" if shot.left_out else ""
        return replace(campaign_spec, base_commit=shot.commit, base=f"the working tree at the start{left}")


def campaign_checkout(codebase: Path) -> Checkout:
    """The repository of the code. EnvironmentUnusable if there is none, or if it has no commit."""
    checkout = repository.locate(codebase)
    if isinstance(checkout, NoCheckout):
        raise no_repository(checkout)
    if not checkout.head:
        raise EnvironmentUnusable(
            f"the repository {checkout.root} has no commit yet",
            fix="git add -A && git commit -m start",
            code="no_commit",
        )
    return checkout


def no_repository(missing: NoCheckout) -> EnvironmentUnusable:
    """The error for code outside of a repository, with what can be done about it."""
    instead = f"{missing.remedy}, or " if missing.remedy else ""
    return EnvironmentUnusable(
        f"a campaign keeps every idea on a branch, and {missing.reason}",
        hint=f"{instead}run single blueprints with `autoresearch run`",
        fix=missing.fix,
        code="no_repository",
    )


def propose_base(campaign_spec: CampaignSpec, checkout: Checkout, ref: str, own_files: Iterable[Path]) -> ProposedBase:
    """What the base of this campaign would be."""
    dirty = () if ref else survey(checkout, leave_out=_not_code(campaign_spec)).dirty
    return ProposedBase(checkout, ref, dirty, tuple(own_files))


def _not_code(campaign_spec: CampaignSpec) -> list[Path]:
    """Records, results and what is hidden, which are never committed."""
    records = Path(campaign_spec.directory).parent
    return [records, Path(campaign_spec.result_dir), *map(Path, campaign_spec.hidden_inputs)]
