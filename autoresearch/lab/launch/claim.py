"""Claim what a run needs for itself: its result directory, its run directory, its idea's index, its index entry."""

from __future__ import annotations

import contextlib
import functools
from dataclasses import fields, replace
from pathlib import Path

from autoresearch.core.run.spec import RunSpec
from autoresearch.errors import EnvironmentUnusable, NotFoundError
from autoresearch.git_repo.checkout import current_project, hide, project_of
from autoresearch.lab.launch.runner_session import keys_of_runner
from autoresearch.lab.resolve.resolve_run import ResolvedRun
from autoresearch.lab.resolve.run_names import free_name
from autoresearch.readers.tracker_dirs import there, unnamed_files
from autoresearch.records import journal, ledger, recorded_run
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.files import locked, make_directory
from autoresearch.records.index import Index, IndexEntry
from autoresearch.records.rundir import RunDir


def claim(resolved_run: ResolvedRun) -> ResolvedRun:
    """Claim a run directory and the idea's index, under the ledger's lock. The run as it was claimed."""
    spec, parts, campaign_dir = resolved_run.spec, resolved_run.options.parts, resolved_run.campaign_dir
    make_directory(resolved_run.result_dir)
    journal.claim(resolved_run.result_dir, spec.run, lambda run_id: _lives(parts.index, run_id))
    make_directory(campaign_dir)
    if checkout := resolved_run.options.checkout:
        hide(checkout, campaign_dir.parent, resolved_run.result_dir)
    with locked(campaign_dir / ".claims"):
        if not resolved_run.options.campaign_run:  # a campaign's run was named when it was prepared
            experiment = free_name(campaign_dir, spec.experiment)
            index = spec.index if spec.fix_of else _next_index(campaign_dir)
            spec = replace(spec, experiment=experiment, run_dir=str(campaign_dir / experiment), index=index)
            resolved_run = replace(resolved_run, spec=spec)
        # First: from here on `adopt` finds whatever a kill leaves.
        parts.index.add(_entry(resolved_run))
        try:
            resolved_run.directory.path.mkdir()
            recorded_run.write(resolved_run.directory, spec, keys_of_runner(resolved_run))
        except (EnvironmentUnusable, OSError):  # no run without a spec: after a full disk, restore the former state
            with contextlib.suppress(OSError):
                resolved_run.directory.path.rmdir()
            parts.index.discard_live(spec.run)
            raise
    return resolved_run


def _next_index(campaign_dir: Path) -> int:
    """One more than the highest index of a row or a run directory here."""
    taken = [ledger.Ledger(campaign_dir / "results.tsv").next_index() - 1]
    specs = (recorded_run.read_if_whole(RunDir(other.parent)) for other in campaign_dir.glob("*/spec.json"))
    return max([*taken, *(spec.index for spec in specs if spec)]) + 1  # a claim that was never finished has none


def _lives(index: Index, run_id: str) -> bool | None:
    """Whether a run lives; None if the index does not know it, or its spec is not written (yet)."""
    entry = index.by_id(run_id)
    rundir = RunDir(Path(entry.run_dir)) if entry and entry.run == run_id else None
    return rundir.state().lives if rundir and rundir.spec.exists() else None


def _entry(resolved_run: ResolvedRun) -> IndexEntry:
    spec, (project, started_in) = resolved_run.spec, _projects(resolved_run)
    own = {one.name: getattr(spec, one.name) for one in fields(IndexEntry) if hasattr(spec, one.name)}
    return IndexEntry(**own, project=project, started_in=started_in)


def _projects(resolved_run: ResolvedRun) -> tuple[str, str]:
    """The project of the code, and the one in which the run was started; slugs are looked up in both."""
    options, resolved = resolved_run.options, resolved_run.resolved
    if options.campaign_run is not None:
        from autoresearch.lab.campaign_setup import campaign_registry

        directory = resolved_run.campaign_dir
        started_in = campaign_registry.started_in(CampaignDir(directory), resolved_run.spec.campaign, options.parts)
        return _project_of(directory), started_in
    started_in = ""
    with contextlib.suppress(NotFoundError):
        started_in = str(current_project())
    return str(options.checkout.project if options.checkout else project_of(resolved.codebase)), started_in


@functools.lru_cache(maxsize=8)
def _project_of(directory: Path) -> str:
    """The project of a campaign's directory, which lies in it as long as there are runs."""
    return str(project_of(directory))


def prepare_result_dir(resolved_run: ResolvedRun) -> None:
    """Move the records of an earlier run aside, then create the experiment journal before all else."""
    result_dir, spec = resolved_run.result_dir, resolved_run.spec
    inside = (Path(source.path) for source in spec.sources if result_dir in Path(source.path).parents)
    metrics = [match for pattern in inside for match in there(pattern)]
    for path in journal.begin(result_dir, spec, metrics):
        journal.append(result_dir, f"moved aside, from an earlier run: {path}")
    for finding in resolved_run.findings:
        journal.append(result_dir, str(finding))


def with_what_is_there(spec: RunSpec) -> RunSpec:
    """The run with the present sizes of its files of metrics, and of others that are there: none of that is its own."""
    others = unnamed_files(spec, Path(spec.run_dir))
    if not (spec.sources or others):
        return spec
    from autoresearch.readers.read import mark_of, size_of

    sizes = tuple(size_of(source) for source in spec.sources)
    marks = tuple(mark_of(source, size) for source, size in zip(spec.sources, sizes, strict=True))
    held = {source.path: f"{size} {mark_of(source, size)}" for source in others if (size := size_of(source))}
    return replace(spec, source_offsets=sizes, source_marks=marks, held=held)
