"""What an agent is told of files and GPUs: what runs wrote for whoever has the next idea, and the data.

Runs write results of each task, failed samples, profiles.

These are the files below `artifacts/`, in a run's result directory or where it ran, and what `artifacts:` names. An
evaluation may know answers that are hidden (`hide:`): then only what is named is shown.
"""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import islice, zip_longest
from pathlib import Path

from autoresearch.core.agents.protection import is_data
from autoresearch.core.campaign.state import CampaignState, Idea
from autoresearch.core.campaign.tip import edits_of
from autoresearch.core.run.ending import Verdict
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.core.text.numbers import listed
from autoresearch.lab.agent_work.prompt_parts import fenced
from autoresearch.lab.campaign_report.formatting import plain
from autoresearch.lab.disk.usage import gb
from autoresearch.lab.ideas.commit_builder import CommitBuilder
from autoresearch.launchers import gpus
from autoresearch.records import hostile
from autoresearch.records.rundir import RunDir

FOLDER = "artifacts"
MOST_FILES = 4  # of one run
FILE_BYTES = 700  # of one file that are shown
GPUS_S = 10.0  # that their driver has to answer
LOOKED_AT = 2_000  # names in one directory


@dataclass(frozen=True, slots=True)
class ArtifactNames:
    """Which files of a run are shown."""

    named: tuple[str, ...] = ()  # patterns, of paths relative to the result directory or to where it ran
    hidden: bool = False  # whether only these

    def match(self, name: str) -> bool:
        """Whether a file of this path is one of them."""
        below = any(fnmatchcase(name, pattern) or name.startswith(f"{pattern.rstrip('/')}/") for pattern in self.named)
        return below or (not self.hidden and name.startswith(f"{FOLDER}/"))


def artifacts(state: CampaignState, builder: CommitBuilder) -> list[str]:
    """The beginnings of what the best run and the last failed one wrote for whoever has the next idea."""
    names = ArtifactNames(builder.blueprint.notes.artifacts, bool(builder.blueprint.notes.hide))
    base, failed = state.base, last_failed(state)
    best = excerpts(base.slug, telling_run(state, base), names) if base else []
    other = excerpts(f"{failed[0].slug}, which failed", failed[1], names) if failed else []
    return [text for pair in zip_longest(best, other) for text in pair if text]


def telling_run(state: CampaignState, idea: Idea) -> LedgerRow | None:
    """The last run of an idea; of a tip without one, that of an idea whose run trained the same edits."""
    edits = edits_of(state, idea)
    alike = (one for one in reversed(state.ideas) if idea.hypothesis.merges and edits_of(state, one) == edits)
    return next(filter(None, map(last_measured, (idea, *alike))), None)


def last_measured(idea: Idea | None) -> LedgerRow | None:
    """The last run of an idea that has the objective."""
    return next((row for row in reversed(idea.whole) if row.metric_value is not None), None) if idea else None


def last_failed(state: CampaignState) -> tuple[Idea, LedgerRow] | None:
    """The run that crashed last, with its idea."""
    crashed = ((idea, row) for idea in state.ideas for row in idea.rows if row.status == Verdict.CRASH and row.run_dir)
    return max(crashed, key=lambda one: one[1].ended or 0.0, default=None)


def excerpts(slug: str, row: LedgerRow | None, artifact_names: ArtifactNames) -> list[str]:
    """The beginning of each such file of a run, as data; of those that are no text only the size."""
    return list(islice(_excerpts(slug, row, artifact_names), MOST_FILES)) if row is not None else []


def _excerpts(slug: str, row: LedgerRow, artifact_names: ArtifactNames) -> Iterator[str]:
    places = [Path(row.result_dir)] if row.result_dir else []
    places += [RunDir(Path(row.run_dir)).outputs] if row.run_dir else []
    for place in places:
        below = place if artifact_names.named else place / FOLDER
        for path, size in sorted(hostile.files_below(below, LOOKED_AT)):
            name = path.relative_to(place).as_posix()
            if not artifact_names.match(name):
                continue
            try:
                data = hostile.read_own(path, FILE_BYTES, root=place)
            except OSError:
                continue
            shown = plain(name, 80)
            if b"\0" in data:
                yield f"{shown} of {slug}: no text, {gb(size)}"
                continue
            whole = f"\nIt has {size:,} bytes: {plain(str(path), 300)}" if size > len(data) else ""
            yield fenced(data.decode("utf-8", "replace"), f"{shown} of {slug}", most=FILE_BYTES, lines=30) + whole


def data_files(builder: CommitBuilder) -> str:
    """`data/ (1.2 GB), eval.csv (3.1 MB)`: what runs see beside the code, and files of the usual names in git."""
    sizes = {one.name: one.bytes for one in builder.spec.shown if one.way.is_shown and not one.path.startswith(".")}
    listed_files = builder.checkout.git.run("ls-tree", "-r", "-l", "-z", "--full-tree", builder.spec.base_commit)
    for line in filter(None, os.fsdecode(listed_files).split("\0")):
        about, _, path = line.partition("\t")
        size = about.split()[-1]
        if size.isdigit() and is_data(path):
            sizes[path] = int(size)
    largest = sorted(sizes, key=lambda name: (-sizes[name], name))
    return listed([f"{name} ({gb(sizes[name])})" for name in largest if sizes[name]], 8)


@functools.cache
def gpus_here() -> str:
    """`4 of NVIDIA H200 with 140 GiB`: they are asked once, as a driver may take seconds."""
    kinds = Counter(f"{one.name} with {(one.memory_mib or 0) / 1024:.0f} GiB" for one in gpus.find(GPUS_S))
    return ", ".join(f"{number} of {kind}" for kind, number in kinds.items())
