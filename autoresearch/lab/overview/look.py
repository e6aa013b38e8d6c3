"""One look at the runs of this account, its targets and its campaigns, from files alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from autoresearch.core.campaign.state import Idea
from autoresearch.core.metrics.objective import Direction
from autoresearch.core.run.overview import CampaignLine, GpuUse, Overview, PlaceLine, RunLine, place_lines
from autoresearch.core.run.spec import RunSpec, RunState
from autoresearch.core.run.targets import LOCAL, Kind, Target
from autoresearch.errors import AutoresearchError
from autoresearch.lab.overview.campaigns import campaign_dirs, campaign_line
from autoresearch.lab.parts import Parts
from autoresearch.lab.runs.adopt import Adopted
from autoresearch.lab.runs.run_status import RunStatus, RunWatch
from autoresearch.launchers import gpus
from autoresearch.records import order_file
from autoresearch.records.index import IndexEntry
from autoresearch.records.order_file import TROUBLE, Order
from autoresearch.records.recorded_run import Outcome, RecordedRun
from autoresearch.records.rundir import RunDir, read_json
from autoresearch.runner.text import clean_line

GPU_WAIT_S = 5.0  # for nvidia-smi
DAMAGE = (AutoresearchError, OSError, ValueError, TypeError, KeyError, AttributeError)


def look(
    parts: Parts, adopted_runs: Iterable[Adopted], *, targets: tuple[Target, ...] = (), ended: int = 0
) -> Overview:
    """These runs, living or just recorded, with `ended` runs that ended before, and what they run on and for.

    `targets`: those to show even without runs. Raises EnvironmentUnusable without an index.
    """
    now = parts.clock()
    lines, orders = [], []
    for one in adopted_runs:
        order = order_file.read(RunDir(Path(one.entry.run_dir)))
        lines.append(_line(one, order, now))
        orders += [order] if order and lines[-1].state.lives else []
    here = PlaceLine("local", Kind.LOCAL.value)
    if any(line.gpus and line.place == "local" and line.state.lives for line in lines):
        known = {gpu.uuid: GpuUse(gpu.uuid, gpu.index, gpu.used_mib) for gpu in gpus.find(timeout_s=GPU_WAIT_S)}
        lines = [replace(line, gpus=tuple(known.get(gpu.uuid, gpu) for gpu in line.gpus)) for line in lines]
        here = replace(here, gpus=len(known), gpus_leased=sum(gpus.is_leased(uuid, parts.environ) for uuid in known))
    over = [_ended_line(entry) for entry in _last(parts, ended, {line.run for line in lines})]
    over.sort(key=lambda line: -(line.ended or line.created))
    campaigns: list[CampaignLine] = []
    ideas: dict[Path, list[Idea]] = {}
    remarks = []
    living = Counter(Path(line.run_dir).parent for line in lines if line.member and line.state.lives)
    try:
        for campaign_dir, own in campaign_dirs(parts, living):
            line, state = campaign_line(campaign_dir, living[campaign_dir.path], now, own=own)
            campaigns.append(line)
            ideas[campaign_dir.path] = state.ideas if state else []
    except (AutoresearchError, OSError) as error:
        remarks.append(f"the campaigns cannot be looked at: {error}")

    def named(line: RunLine) -> RunLine:
        own = ideas.get(Path(line.run_dir).parent, []) if line.member else []
        return replace(line, name=next((idea.name for idea in own if idea.index == line.index), ""))

    return Overview(
        now=now,
        runs=tuple(map(named, lines)),
        over=tuple(map(named, over)),
        places=place_lines(lines, _target_lines(here, targets, orders)),
        campaigns=tuple(campaigns),
        remarks=tuple(remarks),
    )


def _last(parts: Parts, count: int, shown: set[str]) -> list[IndexEntry]:
    """The `count` finished runs started last, but for those already shown."""
    entries = parts.index.recent(count + len(shown)) if count > 0 else []
    return [entry for entry in entries if entry.run not in shown][:count]


def _target_lines(here: PlaceLine, targets: Iterable[Target], orders: Iterable[Order]) -> list[PlaceLine]:
    """This machine, the named targets and those of runs, with whether they are followed."""
    found = {here.place: here}
    for place in (*targets, *(order.place for order in orders)):
        line = found.get(place.shown) or PlaceLine(place.shown, str(place.kind))
        found[place.shown] = replace(line, slots=max(line.slots, place.slots))
    for order in {one.follower: one for one in orders}.values():
        follows = not order.unattended()
        record = None if follows else read_json(Path(order.follower) / TROUBLE)  # why no Follower could start
        line = found[order.place.shown]
        trouble = line.trouble or str((record or {}).get("reason") or "")
        found[line.place] = replace(line, followed=follows and line.followed is not False, trouble=trouble)
    return list(found.values())


def _line(adopted: Adopted, order: Order | None, now: float) -> RunLine:
    """The present state of a run; damage is reported in it, and never hides other runs."""
    if adopted.outcome is not None:
        return _over(adopted.entry, adopted.outcome)
    bare = _bare_line(adopted.entry, adopted.state)
    if adopted.deleted:
        return replace(bare, ending="lost", verdict="crash", reason="its run directory was removed while it ran")
    bare = replace(bare, trouble=f"not recorded: {adopted.trouble}" if adopted.trouble else "")
    rundir = RunDir(Path(adopted.entry.run_dir))
    try:
        placed = replace(bare, **_placed(rundir, order, adopted.state, now))
        known = _known(RecordedRun.read(rundir), adopted.state, now)
    except DAMAGE as damaged:
        return replace(bare, trouble=bare.trouble or clean_line(str(damaged)) or type(damaged).__name__)
    return replace(placed, **known)


def _placed(rundir: RunDir, order: Order | None, run_state: RunState, now: float) -> dict[str, Any]:
    """Its target and what was last observed there."""
    seen = order_file.observed(rundir) if order else None
    if order is None:
        damaged = {"place": "unknown", "kind": "unknown", "trouble": f"{rundir.order} is damaged"}
        return damaged if rundir.order.exists() else {}
    started = (read_json(rundir.runner) or {}).get("started")  # of its Runner, by the wall clock
    began = started if isinstance(started, int | float) else now
    since = None if seen else float(order.ordered)  # the start of its state, as the Follower recorded it
    hint = seen.more.get("hint") if seen and run_state is RunState.UNREACHABLE else ""
    reason = str(seen.reason) if seen else ""
    return {
        "place": order.place.shown,
        "kind": str(order.place.kind),
        "job": str(order.handle.native) if order.handle else "",
        "node": clean_line(str(seen.node)) if seen else "",
        "reason": clean_line(f"{reason} ({hint})" if hint else reason),
        "since": float(seen.since) if seen and seen.state == run_state.value else since,
        "gpu_count": int(order.gpus),
        "queue_s": max(0.0, began - (order.submitted or order.ordered)),
    }


def _known(recorded: RecordedRun, run_state: RunState, now: float) -> dict[str, Any]:
    """The fields that need a readable spec."""
    watch = RunWatch(recorded)
    status = watch.status(run_state, once=True)
    elapsed_s, left_s, limit = _clocks(recorded, status, now)
    return {
        **_declared(recorded.spec),
        "step": status.step,
        "metric_value": watch.objective(status),
        "gpus": tuple(map(GpuUse, recorded.spec.gpus)),
        "elapsed_s": elapsed_s,
        "left_s": left_s,
        "limit": limit,
        "newest_output": status.newest_output[:200],
    }


def _clocks(recorded: RecordedRun, run_status: RunStatus, now: float) -> tuple[float | None, float | None, str]:
    """Seconds since its Runner started, seconds until the nearest limit, and the name of that limit."""
    state, elapsed, left = run_status.state, run_status.elapsed_s, run_status.left_s
    if not recorded.rundir.runner.exists() or state in (RunState.PENDING, RunState.STARTING):
        return None, None, ""
    if state is RunState.EVALUATING:
        ends = run_status.evaluation_ends
        return elapsed, None if ends is None else max(0.0, ends - now), "evaluation"
    if not state.lives or state is RunState.STOPPING:
        return elapsed, None, ""
    first = run_status.first_step_left_s
    if first is not None and first < left:
        return elapsed, first, "output" if recorded.spec.limits.first_step_since_output else "first_step"
    return elapsed, left, "max_time"


def _bare_line(entry: IndexEntry, run_state: RunState) -> RunLine:
    """What the index knows of a run."""
    return RunLine(
        run=entry.run,
        state=run_state,
        created=entry.created,
        slug=entry.slug,
        session=entry.session,
        run_dir=entry.run_dir,
        result_dir=entry.result_dir,
    )


def _declared(spec: RunSpec) -> dict[str, Any]:
    """What its spec says of a run."""
    return {
        "campaign": spec.campaign,
        "member": bool(spec.why),
        "index": spec.index,
        "replicate": spec.replicate,
        "why": spec.why,
        "metric_name": spec.objective.metric if spec.objective else "",
        "upwards": spec.objective is None or spec.objective.direction is Direction.MAXIMIZE,
        "branch": spec.branch,
        **({"gpu_count": len(spec.gpus)} if spec.gpus else {}),
    }


def _ended_line(entry: IndexEntry) -> RunLine:
    """A finished run; missing or damaged records are shown as trouble."""
    try:
        found, trouble = Outcome.load(RunDir(Path(entry.run_dir))), "it has no finished records"
        if found is not None:
            return _over(entry, found)
    except DAMAGE as damaged:
        trouble = f"its records cannot be read: {damaged}"
    return replace(_bare_line(entry, RunState.ENDED), trouble=trouble)


def _over(entry: IndexEntry, outcome: Outcome) -> RunLine:
    """A run that was recorded."""
    end, order = outcome.exit, order_file.read(outcome.rundir)
    place = order.place if order else LOCAL
    known = {"gpu_count": order.gpus if order else 0, **_declared(outcome.spec)}
    return replace(
        _bare_line(entry, RunState.ENDED),
        **known,
        reason=clean_line(end.reason),
        step=outcome.row.metric_step if outcome.row.metric_step is not None else end.last_step,
        metric_value=outcome.row.metric_value,
        gpus=tuple(map(GpuUse, outcome.spec.gpus)),
        elapsed_s=end.duration_s,
        ending=end.ending.value,
        verdict=outcome.row.shown_status,
        ended=end.ended or None,
        place=place.shown,
        kind=str(place.kind),
    )
