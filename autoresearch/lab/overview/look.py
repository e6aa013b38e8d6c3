"""One look at the runs of this account, its targets and its campaigns, from files alone.

All that is found are JSON objects, as `status --json` prints them; the table for people is made of these. A run has the
names that `status RUN` has for the same things.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from autoresearch.core.campaign.state import CampaignState, Idea
from autoresearch.core.controller.standing import Word, standing
from autoresearch.core.run.spec import RunSpec, RunState
from autoresearch.core.run.targets import LOCAL, Target
from autoresearch.errors import AutoresearchError
from autoresearch.lab.parts import Parts
from autoresearch.lab.runs.adopt import Adopted
from autoresearch.lab.runs.run_status import RunStatus, RunWatch
from autoresearch.launchers import gpus
from autoresearch.records import order_file
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.recorded_run import Outcome, RecordedRun
from autoresearch.records.rundir import RunDir
from autoresearch.runner.text import clean_line

GPU_WAIT_S = 5.0  # for nvidia-smi
MOST = 5  # campaigns that nobody controls
DAMAGE = (AutoresearchError, OSError, ValueError, TypeError, KeyError, AttributeError)
JsonObject = dict[str, Any]

_UNKNOWN = (
    *("job", "node", "reason", "since", "unreachable_since", "campaign", "index", "why", "step"),
    *("metric_name", "metric_value", "elapsed_s", "left_s", "limit", "newest_output", "queue_s", "branch"),
    *("ending", "verdict", "ended", "trouble", "name", "seen"),
)


def look(
    parts: Parts, adopted_runs: Iterable[Adopted], *, targets: tuple[Target, ...] = (), ended: int = 0
) -> dict[str, list[Any]]:
    """`runs`, these, living or just recorded, and `ended`, so many that ended before; their `places` and `campaigns`.

    `targets`: those to show even without runs. `remarks`: what could not be read. Raises EnvironmentUnusable without an
    index.
    """
    now, adopted = parts.clock(), list(adopted_runs)
    lines = [_line(one, now) for one in adopted]
    here = _target_line(LOCAL)
    if any(line["gpus"] and line["place"] == "local" and lives(line) for line in lines):
        known = {gpu.uuid: gpu for gpu in gpus.find(timeout_s=GPU_WAIT_S)}
        here |= {"gpus": len(known), "gpus_leased": sum(gpus.is_leased(uuid, parts.environ) for uuid in known)}
        for line in lines:
            used = [known.get(uuid) for uuid in line["gpus"]]
            line["gpu_indices"] = [gpu and gpu.index for gpu in used]
            line["gpu_memory_mib"] = [gpu and gpu.used_mib for gpu in used]
    shown = {line["run"] for line in lines}
    entries = parts.index.recent(ended + len(shown)) if ended > 0 else []
    earlier = [entry for entry in entries if entry.run not in shown][:ended]
    over = [_line(Adopted(entry, RunState.ENDED, None, "it has no finished records"), now) for entry in earlier]
    over.sort(key=lambda line: -(line["ended"] or line["created"]))
    campaigns, ideas, remarks = list[JsonObject](), dict[Path, list[Idea]](), list[str]()
    living = Counter(Path(line["run_dir"]).parent for line in lines if line["why"] and lives(line))
    try:
        for campaign_dir, own in _campaign_dirs(parts, living):
            campaign, state = campaign_line(campaign_dir, living[campaign_dir.path], now, own=own)
            campaigns.append(campaign)
            ideas[campaign_dir.path] = state.ideas if state else []
    except (AutoresearchError, OSError) as error:
        remarks.append(f"the campaigns cannot be looked at: {error}")
    for line in (*lines, *over):
        own_ideas = ideas.get(Path(line["run_dir"]).parent, []) if line["why"] else []
        line["name"] = next((idea.name for idea in own_ideas if idea.index == line["index"]), None)
    orders = [order_file.read(RunDir(Path(one.entry.run_dir))) for one in adopted if one.state.lives]
    places = _target_lines(here, lines, targets, [order for order in orders if order])
    return {"runs": lines, "ended": over, "places": places, "campaigns": campaigns, "remarks": remarks}


def lives(line: JsonObject) -> bool:
    """Whether a run has not ended."""
    return RunState(line["state"]).lives


def shown_target(line: JsonObject) -> str:
    """The target of a run, or one of the `places`, as people are shown it: `local`, `slurm`, `ssh:gpu1`."""
    place, kind = str(line["place"]), str(line["launcher"])
    return place if place == kind else f"{kind}:{place}"


# ----------------------------------------------------------------------------------------------------------- runs


def _line(adopted: Adopted, now: float) -> JsonObject:
    """The present state of a run; damage is reported in it, and never hides other runs."""
    line = _bare_line(adopted)
    if adopted.deleted:
        return line | {"ending": "lost", "verdict": "crash", "reason": "its run directory was removed while it ran"}
    rundir, ended = RunDir(Path(adopted.entry.run_dir)), adopted.state is RunState.ENDED
    line["trouble"] = f"not recorded: {adopted.trouble}" if adopted.trouble else None
    try:
        if outcome := adopted.outcome or (Outcome.load(rundir) if ended else None):
            return line | _over(outcome) | {"trouble": None}
        return line | ({} if ended else _living(rundir, adopted.state, now))
    except DAMAGE as damaged:
        return line | {"trouble": line["trouble"] or clean_line(str(damaged)) or type(damaged).__name__}


def _bare_line(adopted: Adopted) -> JsonObject:
    """What the index knows of a run; None is unknown. Durations are as of now; `since`, `ended` are wall times."""
    names = ("run", "slug", "session", "run_dir", "result_dir", "created")
    known = {name: getattr(adopted.entry, name) for name in names}
    lists: JsonObject = {"gpus": [], "gpu_indices": [], "gpu_memory_mib": [], "gpu_count": 0}
    here = {"place": "local", "launcher": "local", "replicate": 1}
    return {**dict.fromkeys(_UNKNOWN), **known, "state": adopted.state.value, **here, **lists}


def _living(rundir: RunDir, run_state: RunState, now: float) -> JsonObject:
    """What the files of a run that is not over tell."""
    placed, recorded = _placed(rundir, run_state, now), RecordedRun.read(rundir)
    watch = RunWatch(recorded)
    status = watch.status(run_state, once=True)
    elapsed_s, left_s, limit = _clocks(recorded, status, now)
    return {
        **placed,
        **_declared(recorded.spec),
        "step": status.step,
        "metric_value": watch.objective(status),
        "elapsed_s": _rounded(elapsed_s),
        "left_s": _rounded(left_s),
        "limit": limit,
        "newest_output": status.newest_output[:200] or None,
    }


def _placed(rundir: RunDir, run_state: RunState, now: float) -> JsonObject:
    """The target of a run that is not here, and what was last observed there."""
    if not rundir.order.exists():
        return {}
    from autoresearch.lab.remote.reconcile import about

    order, seen = order_file.read(rundir), order_file.observed(rundir)
    if order is None:
        return {"place": "unknown", "launcher": "unknown", "trouble": f"{rundir.order} is damaged"}
    there = about(rundir, now=now)
    since = None if seen else order.ordered  # the start of its state, as it was last seen
    hint = f" ({there['hint']})" if there["hint"] else ""
    return {
        **{name: there[name] for name in ("place", "launcher", "job", "unreachable_since", "seen")},
        "node": clean_line(there["node"] or "") or None,
        "reason": clean_line(f"{there['reason'] or ''}{hint}") or None,
        "since": float(seen.since) if seen and seen.state == run_state.value else since,
        "gpu_count": int(order.gpus),
        "queue_s": _rounded(there["queue_s"]),
    }


def _clocks(recorded: RecordedRun, run_status: RunStatus, now: float) -> tuple[float | None, float | None, str | None]:
    """Seconds since its Runner started, seconds until the nearest limit, and the name of that limit."""
    state, elapsed, left = run_status.state, run_status.elapsed_s, run_status.left_s
    if not recorded.rundir.runner.exists() or state in (RunState.PENDING, RunState.STARTING):
        return None, None, None
    if state is RunState.EVALUATING:
        ends = run_status.evaluation_ends
        return elapsed, None if ends is None else max(0.0, ends - now), "evaluation"
    if not state.lives or state is RunState.STOPPING:
        return elapsed, None, None
    first = run_status.first_step_left_s
    if first is not None and first < left:
        return elapsed, first, "output" if recorded.spec.limits.first_step_since_output else "first_step"
    return elapsed, left, "max_time"


def _declared(spec: RunSpec) -> JsonObject:
    """What its spec says of a run."""
    return {
        **{name: getattr(spec, name) or None for name in ("campaign", "index", "why", "branch")},
        "replicate": spec.replicate,
        "metric_name": spec.objective.metric if spec.objective else None,
        "gpus": list(spec.gpus),
        **dict.fromkeys(("gpu_indices", "gpu_memory_mib"), [None] * len(spec.gpus)),
        **({"gpu_count": len(spec.gpus)} if spec.gpus else {}),
    }


def _over(outcome: Outcome) -> JsonObject:
    """A run that was recorded."""
    end, row, order = outcome.exit, outcome.row, order_file.read(outcome.rundir)
    target = order.place if order else LOCAL
    return {
        "place": target.name,
        "launcher": str(target.kind),
        "gpu_count": order.gpus if order else 0,
        **_declared(outcome.spec),
        "reason": clean_line(end.reason) or None,
        "step": row.metric_step if row.metric_step is not None else end.last_step,
        "metric_value": row.metric_value,
        "elapsed_s": _rounded(end.duration_s),
        "ending": end.ending.value,
        "verdict": row.shown_status,
        "ended": end.ended or None,
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)


# -------------------------------------------------------------------------------------------------------- targets


def _target_line(target: Target) -> JsonObject:
    """A target that nothing runs on: seen is None where nobody looked at a run there."""
    unknown = dict.fromkeys(("unreachable_since", "reason", "seen", "gpus"))
    counts = {"slots": target.slots or None, "used": 0, "pending": 0, "gpus_leased": 0}
    return {"place": target.name, "launcher": str(target.kind), **counts, **unknown}


def _target_lines(
    here: JsonObject, runs: Iterable[JsonObject], targets: Iterable[Target], orders: Iterable[order_file.Order]
) -> list[JsonObject]:
    """This machine, the named targets and those of runs: what runs there, and when it was seen."""
    found = {"local": here}
    for target in (*targets, *(order.place for order in orders)):
        line = found.setdefault(target.shown, _target_line(target))
        line["slots"] = max(line["slots"] or 0, target.slots) or None
    for run in runs:
        name = shown_target(run)
        line = found.setdefault(name, _target_line(LOCAL) | {key: run[key] for key in ("place", "launcher")})
        line["used"] += lives(run)
        line["pending"] += run["state"] == RunState.PENDING
        line["seen"] = min((at for at in (line["seen"], run["seen"]) if at and lives(run)), default=line["seen"])
        if run["state"] == RunState.UNREACHABLE:
            since = [at for at in (line["unreachable_since"], run["since"]) if at is not None]
            line |= {"unreachable_since": min(since, default=None), "reason": run["reason"]}
    for line in found.values():
        line["free"] = max(0, line["slots"] - line["used"]) if line["slots"] else None
    return [found[name] for name in sorted(found, key=lambda name: (name != "local", name))]


# ------------------------------------------------------------------------------------------------------ campaigns


def _campaign_dirs(parts: Parts, living: Counter[Path]) -> list[tuple[CampaignDir, bool]]:
    """The campaigns to be shown, newest first, and whether each is of this project.

    living: how many runs live in each directory that may be a campaign's.
    """
    from autoresearch.git_repo.checkout import current_project
    from autoresearch.lab.campaign_setup.campaign_registry import unfinished

    known = unfinished(parts, elsewhere=True)
    here = current_project() if known else Path()
    dirs = [one.campaign_dir for one in known]
    shown = {one.path: one for number, one in enumerate(dirs) if number < MOST or one.controlled}
    shown |= {path: CampaignDir(path) for path in living if path not in shown and CampaignDir(path).spec.is_file()}
    own = {one.campaign_dir.path for one in known if one.is_of(here)}
    return [(one, path in own) for path, one in shown.items()]


def campaign_line(
    campaign_dir: CampaignDir, living: int, now: float, *, own: bool
) -> tuple[JsonObject, CampaignState | None]:
    """Where a campaign is and stands, and its state; None where it cannot be read. own: commands here know its name."""
    from autoresearch.core.controller.rules import stand_at
    from autoresearch.lab.campaigns.campaign_history import CampaignHistory
    from autoresearch.lab.campaigns.campaign_status import interrupted, next_commands, phase_now, reason_now

    line = {"campaign": campaign_dir.path.name, "running": living, "directory": str(campaign_dir.path), "next": []}
    try:
        state = CampaignHistory(campaign_dir).state()
        phase, found = phase_now(campaign_dir, state), stand_at(state, now)
        best = standing(state, state.best) if state.best and state.best.value is not None else None
        return line | {
            "campaign": state.spec.name,
            "state": phase.value,
            "reason": reason_now(campaign_dir, state, phase) or None,
            "interrupted": interrupted(campaign_dir),
            "attempted": state.attempted,
            "count": state.spec.rules.count,
            "remaining": found.remaining_ideas,
            "deadline_s": _rounded(found.remaining_s),
            "best": best.slug if best else None,
            "best_name": best.name if best else None,
            "best_index": best.index if best else None,
            "best_value": best.value if best else None,
            "best_label": best.word if best and best.word is not Word.BASELINE else None,
            "metric_name": state.spec.objective.metric,
            "next": next_commands(state, phase)[:own],
        }, state
    except (AutoresearchError, OSError, ValueError, KeyError, TypeError) as damaged:
        return line | {"state": "unknown", "reason": str(damaged), "interrupted": False}, None
