"""What the runs of a campaign wrote beside their results: checkpoints and the like, kept below their run directories.

A worktree holds one run after another, and nothing of an earlier one. So when a run is recorded, what it wrote there is
moved to `<run directory>/outputs`; `outputs.json` beside it names the files. All runs together keep `keep_gb`: beyond
it, whole runs lose theirs, those of ideas that lost first, the oldest first. The best idea's last run never does.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Sequence, Set
from pathlib import Path, PurePosixPath

from autoresearch.core.campaign.state import CampaignState
from autoresearch.core.text.numbers import listed
from autoresearch.errors import AutoresearchError
from autoresearch.git_repo.remove_tree import wipe
from autoresearch.git_repo.worktrees import Slot
from autoresearch.lab.campaign_report.run_outputs import MOST_NAMED, RunOutputs, is_best, outputs_of
from autoresearch.lab.campaigns.context import CampaignContext
from autoresearch.lab.disk.usage import GB, MOST_OF_A_RUN, disk_usage, gb
from autoresearch.readers.read import changed_at
from autoresearch.records import campaign_records, journal
from autoresearch.records.files import write_json
from autoresearch.records.recorded_run import read as read_run
from autoresearch.records.rundir import RunDir

_NOT_KEPT = frozenset(
    ["__pycache__", ".git", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".cache", ".venv", "venv", "node_modules",
     ".ipynb_checkpoints", ".autoresearch"]
)  # fmt: skip
_DOWNLOADED = frozenset({"data", "dataset", "datasets"})  # at the top: what a run fetched, and not what it made


def gather(context: CampaignContext, rundir: RunDir, slot: Slot) -> bool:
    """Move what a run wrote in its worktree to its run directory, once; whether anything is kept of it."""
    if rundir.outputs_record.exists():
        return False
    spec, kept, inside = read_run(rundir), list[str](), f"{slot.path}/"
    fresh = (one.path for one in spec.sources if one.path.startswith(inside) and changed_at(one) > spec.created)
    names = list(written(slot, {path.removeprefix(inside) for path in fresh}))
    size, removed, why = sum(_size(slot.path / name) for name in names), list[str](), ""
    results = disk_usage([Path(spec.result_dir)], MOST_OF_A_RUN).bytes
    if size > context.spec.keep_gb * GB and not is_best(context.state, rundir):
        removed, why = names, f"it is {gb(size)}, and {_limit(context)}"
    else:
        for name in names:
            target = rundir.outputs / name
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.move(slot.path / name, target)
                kept.append(name)
            except OSError as error:
                removed.append(name)
                why = error.strerror or str(error)
    held = sum(_size(rundir.outputs / name) for name in kept)
    record = {"files": kept, "bytes": held, "removed": removed, "why": why, "results": results}
    write_json(rundir.outputs_record, {"schema": 1, **record})
    if kept:
        _tell(spec.result_dir, f"kept its outputs: {listed(kept, MOST_NAMED)}, in {rundir.outputs}")
    if removed:
        _note_removed(context, rundir, spec.result_dir, removed, why)
    return bool(kept)


def gather_left(context: CampaignContext, slots: list[Slot]) -> None:
    """The same for runs that were recorded just before a controller was killed, and whose worktree still holds them."""
    for idea in context.state.ideas:
        commits = {run.run: run.commit for run in idea.runs}
        for row in idea.rows:
            rundir = RunDir(Path(row.run_dir))
            if row.run_dir and rundir.path.is_dir() and not rundir.outputs_record.exists():
                for slot in slots:
                    with contextlib.suppress(AutoresearchError, OSError):
                        slot.check_commit(commits.get(row.run_id, ""))
                        gather(context, rundir, slot)


def make_room(context: CampaignContext) -> None:
    """Remove the outputs of whole runs until all together fit into `keep_gb`."""
    state = context.state
    held = [one for one in outputs_of(state) if one.bytes]
    size = sum(one.bytes for one in held)
    for one in sorted(held, key=lambda one: _worth(state, one)):
        if size <= context.spec.keep_gb * GB or is_best(state, one.rundir):
            break
        wipe(one.rundir.outputs)
        size -= one.bytes
        record = {"schema": 1, "files": [], "bytes": 0, "removed": [*one.removed, *one.files], "why": _limit(context)}
        write_json(one.rundir.outputs_record, record | {"results": one.results})
        _note_removed(context, one.rundir, one.row.result_dir, one.files, _limit(context))


def _worth(state: CampaignState, run_outputs: RunOutputs) -> tuple[bool, bool, float]:
    """What is removed last is worth most."""
    idea, row = run_outputs.idea, run_outputs.row
    return is_best(state, run_outputs.rundir), idea is state.winner or idea.kept, row.ended or 0.0


def written(slot: Slot, sources: Set[str] = frozenset()) -> Iterator[str]:
    """The files in a worktree that are not of its commit; no links, no caches, no data; `sources` in any case."""
    for name in sorted({*sources, *slot.untracked()}):
        path = PurePosixPath(name)
        cache = bool(_NOT_KEPT & set(path.parts)) or path.suffix == ".pyc" or path.parts[0] in _DOWNLOADED
        linked = any((slot.path / part).is_symlink() for part in (path, *path.parents))
        if (name in sources or not cache) and not linked and (slot.path / name).is_file():
            yield name


def _note_removed(
    context: CampaignContext, rundir: RunDir, result_dir: str, names: Sequence[str], why: str
) -> None:
    """Say by name what is gone: in the campaign's log, the run's history, and beside its row."""
    sentence = f"removed its outputs, {listed(names, MOST_NAMED)}: {why}"
    run = next((row.run_id for row in context.state.rows if Path(row.run_dir) == rundir.path), rundir.path.name)
    campaign_records.append(context.campaign_dir, "outputs_removed", run=run, names=list(names[:100]), why=why)
    context.say(f"{rundir.path.name}: {sentence}")
    _tell(result_dir, sentence)


def _tell(result_dir: str, sentence: str) -> None:
    with contextlib.suppress(AutoresearchError, OSError):
        journal.append(Path(result_dir), sentence)


def _limit(context: CampaignContext) -> str:
    return f"all runs together keep {context.spec.keep_gb:g} GB (keep_gb)"


def _size(path: Path) -> int:
    try:
        return path.stat(follow_symlinks=False).st_size
    except OSError:
        return 0
