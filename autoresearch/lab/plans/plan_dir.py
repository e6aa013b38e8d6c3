"""Where a plan is kept: a branch that nobody checks out, and a directory for what is made from it.

The branch `autoresearch/plans/<slug>/plan` is the truth. It begins at the commit of the code that the plan was
registered with; each record is one commit on it, made by plumbing and put there by one `update-ref` from where it
was known to be. So `git log` shows what was fixed before what, and a kill at any instruction leaves a record that
is there or not. In its tree:

    .autoresearch/plan/records.jsonl    what happened, one object a line (`core.plans.view`)
    .autoresearch/plan/plan.yaml        the version that counts, with all that it names below files/
    .autoresearch/plan/final_report.md  at the end

The directory `reports/auto_research/plans/<slug>/` holds what can be made again, and a lock:

    plan.lock          flock'd by `plan run` while it lives
    plan.log           what it said
    <campaign>.yaml    the ideas of a stage, as its campaign reads them
    turns/             what an agent was asked for, and answered
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
from autoresearch.core.text import naming
from autoresearch.errors import ConflictError, NotFoundError
from autoresearch.git_repo import branches
from autoresearch.git_repo import checkout as repository
from autoresearch.git_repo.checkout import Checkout, current_project, project_of
from autoresearch.git_repo.comparison import read_file
from autoresearch.git_repo.exclude import exclude, pattern_for
from autoresearch.git_repo.hypothesis_commit import Change, commit_hypothesis
from autoresearch.lab.parts import Parts
from autoresearch.lab.resolve.run_plan import key_of
from autoresearch.records.failpoint import failpoint
from autoresearch.records.index import state_home
from autoresearch.records.rundir import is_locked, locked, read_json, write_json

INSIDE = ".autoresearch/plan"
RECORDS = f"{INSIDE}/records.jsonl"
ATTEMPTS = 5  # of a record, where another command was quicker


@dataclass(frozen=True, slots=True)
class PlanPlace:
    """One plan of one repository."""

    checkout: Checkout
    slug: str

    @property
    def directory(self) -> Path:
        return self.checkout.root / "reports" / "auto_research" / "plans" / self.slug

    @property
    def prefix(self) -> str:
        """Of every branch of this plan."""
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
        """Whether a `plan run` lives; the kernel's lock says so."""
        return is_locked(self.lock)

    @property
    def tip(self) -> str | None:
        """The last record's commit; None where the plan was never registered."""
        return branches.branch_commit(self.checkout, self.branch)


def read_view(place: PlanPlace) -> PlanView:
    """The plan as its branch tells it. NotFoundError where it is not registered, or its records are damaged."""
    tip = place.tip
    if tip is None:
        raise NotFoundError(
            f"no plan {place.slug} is registered in {place.checkout.root}",
            fix="autoresearch plan approve PLAN.yaml",
            code="no_plan",
        )
    try:
        records = [json.loads(line) for line in _records(place, tip).splitlines()]
        commits = place.checkout.git.line("rev-list", "--reverse", f"{records[0]['code']}..{tip}").split("\n")
        return fold(place.slug, [{**record, "commit": commit} for record, commit in zip(records, commits, strict=True)])
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise NotFoundError(
            f"the records of the plan {place.slug} on the branch {place.branch} are damaged: {error!r}",
            hint=f"put the branch back where it was: git reflog {place.branch}",
            code="plan_damaged",
        ) from error


def _records(place: PlanPlace, commit: str) -> bytes:
    return read_file(place.checkout, commit, RECORDS)


def first_record(place: PlanPlace, record: Mapping[str, Any], message: str, files: Mapping[str, bytes | None]) -> None:
    """Begin the branch of a plan on the commit of its code. ConflictError where another plan has that name."""
    line = json.dumps(dict(record), ensure_ascii=False).encode() + b"\n"
    made = commit_hypothesis(
        place.checkout, str(record["code"]), Change(files={**files, RECORDS: line}), message=message
    )
    failpoint("plan.committed")
    name = branches.claim_branch(place.checkout, place.branch, made.commit, again=lambda _: True)
    if name != place.branch or place.tip != made.commit:
        raise ConflictError(f"a plan {place.slug} was registered at the same time", code="plan_taken")


def add_record(
    place: PlanPlace, record: Mapping[str, Any], message: str, files: Mapping[str, bytes | None] | None = None
) -> str:
    """Put one record on the branch, as one commit; its id. ConflictError where the branch is checked out."""
    line = json.dumps(dict(record), ensure_ascii=False).encode() + b"\n"
    for attempt in range(1, ATTEMPTS + 1):
        tip = place.tip
        if tip is None:
            raise NotFoundError(f"the branch {place.branch} is gone", code="no_plan")
        change = Change(files={**(files or {}), RECORDS: _records(place, tip) + line})
        made = commit_hypothesis(place.checkout, tip, change, message=message)
        failpoint("plan.committed")
        try:
            branches.advance_branch(place.checkout, place.branch, made.commit, tip)
        except ConflictError as moved:
            if moved.code != "branch_moved" or attempt == ATTEMPTS:
                raise
            continue
        failpoint("plan.recorded")
        return made.commit
    raise AssertionError("unreachable")


def tree_of(place: PlanPlace, commit: str) -> list[str]:
    """The files of a plan in a commit of its branch, relative to `.autoresearch/plan`."""
    listed = place.checkout.git.run("ls-tree", "-r", "-z", "--name-only", "--full-tree", commit, f"{INSIDE}/")
    return [os.fsdecode(name).removeprefix(f"{INSIDE}/") for name in listed.split(b"\0") if name]


def make(place: PlanPlace, parts: Parts) -> None:
    """Its directory, out of `git status`, and known from any directory."""
    place.directory.mkdir(parents=True, exist_ok=True)
    if pattern := pattern_for(place.checkout, place.directory.parents[1]):
        exclude(place.checkout, pattern)
    folder = state_home(parts.environ) / "plans"
    folder.mkdir(parents=True, exist_ok=True)
    entry = folder / f"{place.slug}-{key_of(place.directory)}.json"
    with locked(folder / ".lock"):
        if not entry.exists():
            root = str(place.checkout.root)
            write_json(entry, {"slug": place.slug, "repository": root, "created": parts.clock()})


def find(name: str, parts: Parts) -> PlanPlace:
    """A plan of the project where one stands, by name; "" is one that runs, else the newest. NotFoundError for none."""
    records = [read_json(path) or {} for path in (state_home(parts.environ) / "plans").glob("*.json")]
    records.sort(key=lambda record: -float(record.get("created") or 0.0))
    places = []
    for record in records:
        if name in ("", record.get("slug")):
            found = repository.find(Path(str(record.get("repository", ""))))
            place = PlanPlace(found, str(record["slug"])) if found else None
            places += [place] if place and place.tip else []
    here = repository.find(Path.cwd()) if name and not places else None
    if here and name == naming.slugify(name) and PlanPlace(here, name).tip:
        return PlanPlace(here, name)
    if not places:
        raise NotFoundError(
            f"no plan is called {name[:80]!r}" if name else "there is no plan yet",
            hint="its name, or the file that it is written in",
            fix="autoresearch plan new TOPIC.md" if not name else "autoresearch plan status",
            code="no_plan",
        )
    standing = current_project()
    if own := [place for place in places if project_of(place.checkout.root) == standing]:
        return next((place for place in own if place.pursued), own[0])
    raise NotFoundError(
        f"no plan of {standing} is called {name[:80]!r}" if name else f"{standing} has no plan",
        hint="elsewhere: " + ", ".join(f"{place.slug} in {place.checkout.root}" for place in places[:5]),
        fix="autoresearch plan new TOPIC.md",
        code="no_plan",
    )
