"""Where a plan is kept: a branch that is never checked out, and a directory for the files derived from it.

The branch `autoresearch/plans/<slug>/plan` is authoritative. It starts at the commit of the code that the plan was
registered with; each record is one commit on it, made by plumbing and added with one compare-and-swap `update-ref`. So
`git log` shows what was fixed before what, and a kill at any instruction leaves a record either whole or absent. In
its tree:

    .autoresearch/plan/records.jsonl    what happened, one JSON object per line (`core.plans.view`)
    .autoresearch/plan/plan.yaml        the current version; the files that it names are below files/
    .autoresearch/plan/final_report.md  at the end

The directory `reports/auto_research/plans/<slug>/` holds what can be recreated, and a lock:

    plan.lock          held with flock by `plan run`
    plan.log           its output
    <campaign>.yaml    the ideas of a stage, as its campaign reads them
    turns/             prompts to a coding agent, and its answers
    progress.md, final_report.md, figures/, finish.flag
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autoresearch.core.plans.view import PlanView, fold
from autoresearch.core.text import branch_and_run_names as naming
from autoresearch.errors import ConflictError, NotFoundError
from autoresearch.git_repo import branches
from autoresearch.git_repo import checkout as repository
from autoresearch.git_repo.checkout import Checkout, current_project, project_of
from autoresearch.git_repo.comparison import read_file
from autoresearch.git_repo.exclude import exclude, pattern_for
from autoresearch.git_repo.hypothesis_commit import Change, commit_hypothesis
from autoresearch.lab.parts import Parts
from autoresearch.lab.resolve.run_names import key_of
from autoresearch.records.failpoint import failpoint
from autoresearch.records.index import state_home
from autoresearch.records.rundir import is_locked, locked, read_json, write_json

LAST_PLAN = "last-plan"  # the name that stands for the newest plan

INSIDE = ".autoresearch/plan"
RECORDS = f"{INSIDE}/records.jsonl"
ATTEMPTS = 5  # to add a record while other commands add theirs


@dataclass(frozen=True, slots=True)
class PlanDir:
    """A plan of a repository: its branch and its directory."""

    checkout: Checkout
    slug: str

    @property
    def directory(self) -> Path:
        return self.checkout.root / "reports" / "auto_research" / "plans" / self.slug

    @property
    def prefix(self) -> str:
        """The common prefix of the plan's branches."""
        return f"autoresearch/plans/{self.slug}"

    @property
    def branch(self) -> str:
        return f"{self.prefix}/plan"

    @property
    def lock(self) -> Path:
        return self.directory / "plan.lock"

    @property
    def log(self) -> Path:
        return self.directory / "plan.log"

    @property
    def report(self) -> Path:
        return self.directory / "final_report.md"

    @property
    def flag(self) -> Path:
        return self.directory / "finish.flag"

    @property
    def pursued(self) -> bool:
        """Whether a `plan run` is alive, by its lock."""
        return is_locked(self.lock)

    @property
    def tip(self) -> str | None:
        """The commit of the last record; None if the plan was never registered."""
        return branches.branch_commit(self.checkout, self.branch)


def read_view(plan_dir: PlanDir) -> PlanView:
    """The plan's state from its branch. NotFoundError if it is not registered, or its records are damaged."""
    tip = plan_dir.tip
    if tip is None:
        raise NotFoundError(
            f"no plan {plan_dir.slug} is registered in {plan_dir.checkout.root}",
            fix="autoresearch plan approve PLAN.yaml",
            code="no_plan",
        )
    try:
        records = [json.loads(line) for line in _records(plan_dir, tip).splitlines()]
        commits = plan_dir.checkout.git.line("rev-list", "--reverse", f"{records[0]['code']}..{tip}").split("\n")
        return fold(
            plan_dir.slug, [{**record, "commit": commit} for record, commit in zip(records, commits, strict=True)]
        )
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise NotFoundError(
            f"the records of the plan {plan_dir.slug} on the branch {plan_dir.branch} are damaged: {error!r}",
            hint=f"restore the branch: git reflog {plan_dir.branch}",
            code="plan_damaged",
        ) from error


def _records(plan_dir: PlanDir, commit: str) -> bytes:
    return read_file(plan_dir.checkout, commit, RECORDS)


def first_record(plan_dir: PlanDir, record: Mapping[str, Any], message: str, files: Mapping[str, bytes | None]) -> None:
    """Create the branch of a plan on the commit of its code. ConflictError if another plan has that name."""
    line = json.dumps(dict(record), ensure_ascii=False).encode() + b"\n"
    made = commit_hypothesis(
        plan_dir.checkout, str(record["code"]), Change(files={**files, RECORDS: line}), message=message
    )
    failpoint("plan.committed")
    name = branches.claim_branch(plan_dir.checkout, plan_dir.branch, made.commit, again=lambda _: True)
    if name != plan_dir.branch or plan_dir.tip != made.commit:
        raise ConflictError(f"a plan {plan_dir.slug} was registered at the same time", code="plan_taken")


def add_record(
    plan_dir: PlanDir, record: Mapping[str, Any], message: str, files: Mapping[str, bytes | None] | None = None
) -> str:
    """Commit one record to the branch; returns the commit. ConflictError if the branch is checked out."""
    line = json.dumps(dict(record), ensure_ascii=False).encode() + b"\n"
    for attempt in range(1, ATTEMPTS + 1):
        tip = plan_dir.tip
        if tip is None:
            raise NotFoundError(f"the branch {plan_dir.branch} is gone", code="no_plan")
        change = Change(files={**(files or {}), RECORDS: _records(plan_dir, tip) + line})
        made = commit_hypothesis(plan_dir.checkout, tip, change, message=message)
        failpoint("plan.committed")
        try:
            branches.advance_branch(plan_dir.checkout, plan_dir.branch, made.commit, tip)
        except ConflictError as moved:
            if moved.code != "branch_moved" or attempt == ATTEMPTS:
                raise
            continue
        failpoint("plan.recorded")
        return made.commit
    raise AssertionError("unreachable")


def tree_of(plan_dir: PlanDir, commit: str) -> list[str]:
    """The files of a plan in a commit of its branch, relative to `.autoresearch/plan`."""
    listed = plan_dir.checkout.git.run("ls-tree", "-r", "-z", "--name-only", "--full-tree", commit, f"{INSIDE}/")
    return [os.fsdecode(name).removeprefix(f"{INSIDE}/") for name in listed.split(b"\0") if name]


def create_plan_dir(plan_dir: PlanDir, parts: Parts) -> None:
    """Create the directory, excluded from `git status`, and make the plan known to commands from any directory."""
    plan_dir.directory.mkdir(parents=True, exist_ok=True)
    if pattern := pattern_for(plan_dir.checkout, plan_dir.directory.parents[1]):
        exclude(plan_dir.checkout, pattern)
    folder = state_home(parts.environ) / "plans"
    folder.mkdir(parents=True, exist_ok=True)
    entry = folder / f"{plan_dir.slug}-{key_of(plan_dir.directory)}.json"
    with locked(folder / ".lock"):
        if not entry.exists():
            root = str(plan_dir.checkout.root)
            write_json(entry, {"slug": plan_dir.slug, "repository": root, "created": parts.clock()})


def find_plan(name: str, parts: Parts) -> PlanDir:
    """A plan of the current project, by name; "" and `last-plan` are one that is running, else the newest.

    NotFoundError if none is.
    """
    name = "" if name == LAST_PLAN else name
    records = [read_json(path) or {} for path in (state_home(parts.environ) / "plans").glob("*.json")]
    records.sort(key=lambda record: -float(record.get("created") or 0.0))
    plan_dirs = []
    for record in records:
        if name in ("", record.get("slug")):
            checkout = repository.find(Path(str(record.get("repository", ""))))
            plan_dir = PlanDir(checkout, str(record["slug"])) if checkout else None
            plan_dirs += [plan_dir] if plan_dir and plan_dir.tip else []
    here = repository.find(Path.cwd()) if name and not plan_dirs else None
    if here and name == naming.slugify(name) and PlanDir(here, name).tip:
        return PlanDir(here, name)
    if not plan_dirs:
        raise NotFoundError(
            f"no plan is called {name[:80]!r}" if name else "there is no plan yet",
            hint="give its name, or its file",
            fix="autoresearch plan write TOPIC.md" if not name else "autoresearch plan status",
            code="no_plan",
        )
    project = current_project()
    if own := [plan_dir for plan_dir in plan_dirs if project_of(plan_dir.checkout.root) == project]:
        return next((plan_dir for plan_dir in own if plan_dir.pursued), own[0])
    raise NotFoundError(
        f"no plan of {project} is called {name[:80]!r}" if name else f"{project} has no plan",
        hint="elsewhere: " + ", ".join(f"{plan_dir.slug} in {plan_dir.checkout.root}" for plan_dir in plan_dirs[:5]),
        fix="autoresearch plan write TOPIC.md",
        code="no_plan",
    )
