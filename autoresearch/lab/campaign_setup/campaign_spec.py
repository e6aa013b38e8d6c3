"""The spec of a campaign: its name and directories, the code that it starts from, and an earlier one that goes on.

Without a `prefix`, the name of a campaign begins with the day. The same line typed again, on another day or after a
change, goes on with the newest campaign of its blueprint if the stop rules of that one leave something to try and
nothing else differs; in any other case a new one begins, under a free name.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoresearch.core.agents.turns import AGENT, HYBRID
from autoresearch.core.campaign.spec import CampaignPhase, CampaignSpec, ProposerSpec
from autoresearch.core.text import session_and_branch_names as naming
from autoresearch.core.text.numbers import counted
from autoresearch.errors import NotFoundError, UsageError
from autoresearch.git_repo.branches import branch_commit
from autoresearch.git_repo.checkout import Checkout
from autoresearch.git_repo.snapshot import snapshot, survey
from autoresearch.git_repo.trees import lines_of
from autoresearch.lab.campaign_setup.campaign_registry import with_own_results
from autoresearch.lab.campaign_setup.read_setup import CampaignSetup
from autoresearch.lab.campaigns.campaign_history import CampaignHistory
from autoresearch.lab.parts import Parts
from autoresearch.lab.resolve.launch_command import shell_of
from autoresearch.lab.resolve.run_names import key_of
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.index import state_home

if TYPE_CHECKING:
    from autoresearch.core.campaign.state import CampaignState

_AS_GIVEN = (
    "retests", "max_machine_retries", "confirm", "prove", "at_least", "resolution", "runs_per_gpu", "gpu_busy_mib",
    "min_steps", "prune", "keep_gb",
)  # fmt: skip
"""Fields of the spec that are keys of the campaign file, by the same name."""

# What must not differ when a campaign is continued, and what to call it.
_SAME = {
    **{"blueprint_text": "blueprint text", "objective": "objective", "recipe": "recipe", "interpreter": "interpreter"},
    **{"constraints": "list of `constraints`"},
    **{"proposer": "source of ideas", "research": "researcher, or other terms for it"},
    **{"include": "list of `include`", "exclude": "list of `exclude`"},
    **{"places": "--launcher", "resolution": "`resolution`"},
    **{"timeout_s": "--timeout", "min_steps": "min_steps", "prune": "`prune`"},
    **{"warmup": "`warmup`", "search": "`search`"},
}


def campaign_spec(setup: CampaignSetup, proposer: ProposerSpec, **decided: Any) -> CampaignSpec:
    """The spec without a base commit; `decided`: the other fields that need more than the setup."""
    file, notes, settings = setup.file, setup.blueprint.notes, setup.trainer_settings
    checkout, resolved, now = setup.checkout, settings.resolved, setup.parts.clock()
    slug = naming.slugify(file.path.stem if file.path else resolved.blueprint.slug)
    usual = f"autoresearch/{naming.campaign_name(time.strftime('%Y%m%d', time.localtime(now)), slug)}"
    prefix = file["prefix"].strip("/") or free_prefix(usual, checkout, beside=False)
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
        warmup=file["warmup"] or 0,
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


def _named(campaign_spec: CampaignSpec, prefix: str, checkout: Checkout, parts: Parts) -> CampaignSpec:
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
        from autoresearch.lab.launch.snapshot_code import masked_files

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


# ------------------------------------------------------------------ the campaign that it goes on with


def with_earlier_name(campaign_spec: CampaignSpec, base: ProposedBase, parts: Parts) -> tuple[CampaignSpec, str]:
    """The campaign under the name of the one that it goes on with, or under a free one; and which, in a sentence.

    "" for the first campaign of its blueprint, and for one whose prefix was given. Its results have a directory of
    their own.
    """
    words = ""
    earlier = [] if "prefix" in campaign_spec.sources else _of_same_line(campaign_spec, base)
    if newest := max(earlier, key=lambda one: one[1].spec.created, default=None):
        campaign_dir, state = newest
        old = state.spec
        if why := _why_another(state, campaign_spec, base):
            prefix = free_prefix(campaign_spec.prefix, base.checkout)
            campaign_spec = _named(campaign_spec, prefix, base.checkout, parts)
            words = f"{campaign_spec.name} begins, as {old.name} {why}"
        else:
            same = {name: getattr(old, name) for name in ("name", "prefix", "trees", "result_dir")}
            campaign_spec = replace(campaign_spec, directory=str(campaign_dir.path), **same)
            does = "runs already" if campaign_dir.controlled else "goes on"
            words = f"{old.name} {does}, after {counted(state.attempted, 'idea')}"
    return with_own_results(campaign_spec, parts), words


def _of_same_line(campaign_spec: CampaignSpec, base: ProposedBase) -> list[tuple[CampaignDir, CampaignState]]:
    """The campaigns of the same blueprint in this repository that no `prefix` named."""

    def known() -> Iterator[tuple[CampaignDir, CampaignState]]:
        for path in (base.checkout.root / "reports" / "auto_research").glob("*/campaign.json"):
            try:
                yield CampaignDir(path.parent), CampaignHistory(CampaignDir(path.parent)).state()
            except NotFoundError:  # damaged: not to be touched
                continue

    same = _line(campaign_spec)
    return [one for one in known() if _line(one[1].spec) == same and "prefix" not in one[1].spec.sources]


def _line(campaign_spec: CampaignSpec) -> tuple[str, str]:
    return campaign_spec.slug, os.path.relpath(campaign_spec.blueprint, campaign_spec.repository)


def _why_another(state: CampaignState, campaign_spec: CampaignSpec, base: ProposedBase) -> str:
    """Why an earlier campaign does not go on, said of it; "" if it does."""
    from autoresearch.core.controller.rules import stand_at

    old = state.spec
    met = stand_at(replace(state, spec=replace(old, rules=campaign_spec.rules)), campaign_spec.created).met
    if state.phase is CampaignPhase.ENDED and met:
        return f"is over: {met}"
    if os.path.realpath(old.repository) != os.path.realpath(base.checkout.root):
        return f"began when this was {old.repository}"
    differs = other_terms(old, campaign_spec) or other_code(old.base_commit, campaign_spec, base)
    return f"had another {differs}" if differs else ""


def other_terms(campaign_spec: CampaignSpec, other_spec: CampaignSpec) -> str:
    """What else differs than the stop rules; "" if nothing does. A search that nobody asked for stays as it was."""
    if "search" not in other_spec.sources:
        other_spec = replace(other_spec, search=campaign_spec.search)
    one, other = _recorded(campaign_spec), _recorded(other_spec)
    return next((words for name, words in _SAME.items() if one[name] != other[name]), "")


def _recorded(campaign_spec: CampaignSpec) -> dict[str, str]:
    """Each value as campaign.json holds it, with lists for tuples. Targets are the same with other slots."""
    places = [[target.name, target.kind, target.options] for target in campaign_spec.places]
    values = asdict(campaign_spec) | {"places": places}
    return {name: json.dumps(values[name], sort_keys=True, default=str) for name in _SAME}


def other_code(commit: str, campaign_spec: CampaignSpec, base: ProposedBase) -> str:
    """How the code differs from the base commit of an earlier campaign; "" if it does not.

    A campaign that goes on would do so from its old base, without the changes.
    """
    checkout = base.checkout
    now = base.with_commit(campaign_spec).base_commit
    changed = os.fsdecode(checkout.git.run("diff-tree", "-r", "-z", "--name-only", commit, now)).split("\0")
    root = os.path.realpath(checkout.root)
    own = {os.path.relpath(os.path.realpath(path), root) for path in base.own_files}  # compared, or free to change
    code = [name for name in changed if name and name not in own]
    return f"state of the code ({', '.join(code[:3])}{' ...' if len(code) > 3 else ''})" if code else ""
