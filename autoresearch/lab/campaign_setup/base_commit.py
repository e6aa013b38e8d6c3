"""The code that a campaign starts from: the commit that `base` names, or a commit of the working tree as it is."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.errors import EnvironmentUnusable, UsageError
from autoresearch.git_repo import checkout as repository
from autoresearch.git_repo.checkout import Checkout, NoCheckout
from autoresearch.git_repo.snapshot import snapshot
from autoresearch.git_repo.survey import survey
from autoresearch.lab.launch.snapshot_code import masked_files


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


def with_base_commit(campaign_spec: CampaignSpec, base: ProposedBase) -> CampaignSpec:
    """The campaign with its base commit, which is made here if it is the working tree."""
    if base.ref:
        return replace(campaign_spec, base_commit=base.commit())
    what = "your uncommitted changes" if base.dirty else "the working tree as it was"
    shot = snapshot(
        base.checkout,
        message=f"base: {what}\n\n{campaign_spec.name} starts from it; an idea's commit has its own change only.",
        extra=masked_files(base.checkout, base.own_files),
        leave_out=_not_code(campaign_spec),
    )
    left = f"; left out: {', '.join(map(str, shot.left_out[:5]))}" if shot.left_out else ""
    return replace(campaign_spec, base_commit=shot.commit, base=f"the working tree at the start{left}")


def _not_code(campaign_spec: CampaignSpec) -> list[Path]:
    """Records, results and what is hidden, which are never committed."""
    records = Path(campaign_spec.directory).parent
    return [records, Path(campaign_spec.result_dir), *map(Path, campaign_spec.hidden_inputs)]
