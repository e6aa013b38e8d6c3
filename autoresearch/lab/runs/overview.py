"""One look at the runs of this account and the campaigns of this project, from files alone.

All that is found are JSON objects, as `status --json` prints them; the table for people is made of these. A run has the
names that `status RUN` has for the same things.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from autoresearch.core.campaign.state import CampaignState, Idea
from autoresearch.core.controller.standing import standing
from autoresearch.core.run.spec import RunState
from autoresearch.core.run.targets import LOCAL
from autoresearch.errors import AutoresearchError
from autoresearch.lab.parts import Parts
from autoresearch.lab.runs.adopt import Adopted
from autoresearch.lab.runs.run_status import RunWatch, as_payload
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
    *("job", "node", "reason", "hint", "unreachable_since", "seen", "queue_s", "campaign", "index", "why", "branch"),
    *("step", "metric_name", "metric_value", "elapsed_s", "deadline_s", "first_step_left_s", "newest_output"),
    *("ending", "verdict", "ended", "trouble", "name"),
)


def look(parts: Parts, adopted_runs: Iterable[Adopted], *, ended: int = 0) -> dict[str, list[Any]]:
    """`runs`, these, living or just recorded, and `ended`, so many that ended before; and the `campaigns`.

    `remarks`: what could not be read. Raises EnvironmentUnusable without an index.
    """
    now, lines = parts.clock(), [_line(one) for one in adopted_runs]
    if any(line["gpus"] and line["place"] == "local" and lives(line) for line in lines):
        known = {gpu.uuid: gpu for gpu in gpus.find(timeout_s=GPU_WAIT_S)}
        for line in lines:
            line["gpu_indices"] = [known[uuid].index if uuid in known else None for uuid in line["gpus"]]
    shown = {line["run"] for line in lines}
    entries = parts.index.recent(ended + len(shown)) if ended > 0 else []
    earlier = [entry for entry in entries if entry.run not in shown][:ended]
    over = [_line(Adopted(entry, RunState.ENDED, None, "it has no finished records")) for entry in earlier]
    over.sort(key=lambda line: -(line["ended"] or line["created"]))
    campaigns, ideas, remarks = list[JsonObject](), dict[Path, list[Idea]](), list[str]()
    living = Counter(Path(line["run_dir"]).parent for line in lines if line["why"] and lives(line))
    try:
        for campaign_dir, own in _campaign_dirs(parts):
            campaign, state = campaign_line(campaign_dir, living[campaign_dir.path], now, own=own)
            campaigns.append(campaign)
            ideas[campaign_dir.path] = state.ideas if state else []
    except (AutoresearchError, OSError) as error:
        remarks.append(f"the campaigns cannot be looked at: {error}")
    for line in (*lines, *over):
        own_ideas = ideas.get(Path(line["run_dir"]).parent, []) if line["why"] else []
        line["name"] = next((idea.name for idea in own_ideas if idea.index == line["index"]), None)
    return {"runs": lines, "ended": over, "campaigns": campaigns, "remarks": remarks}


def lives(line: JsonObject) -> bool:
    """Whether a run has not ended."""
    return RunState(line["state"]).lives


def shown_target(line: JsonObject) -> str:
    """The target of a run as people are shown it: `local`, `slurm`, `ssh:gpu1`."""
    place, kind = str(line["place"]), str(line["launcher"])
    return place if place == kind else f"{kind}:{place}"


# ----------------------------------------------------------------------------------------------------------- runs


def _line(adopted: Adopted) -> JsonObject:
    """The present state of a run; damage is reported in it, and never hides other runs."""
    line = _bare_line(adopted)
    if adopted.deleted:
        return line | {"ending": "lost", "verdict": "crash", "reason": "its run directory was removed while it ran"}
    rundir, ended = RunDir(Path(adopted.entry.run_dir)), adopted.state is RunState.ENDED
    line["trouble"] = f"not recorded: {adopted.trouble}" if adopted.trouble else None
    try:
        if outcome := adopted.outcome or (Outcome.load(rundir) if ended else None):
            return line | _over(outcome) | {"trouble": None}
        return line | ({} if ended else _living(rundir, adopted.state))
    except DAMAGE as damaged:
        return line | {"trouble": line["trouble"] or clean_line(str(damaged)) or type(damaged).__name__}


def _bare_line(adopted: Adopted) -> JsonObject:
    """What the index knows of a run; None is unknown. Durations are as of now, `ended` is a wall time."""
    names = ("run", "slug", "session", "run_dir", "result_dir", "created")
    known = {name: getattr(adopted.entry, name) for name in names}
    lists: JsonObject = {"gpus": [], "gpu_indices": [], "gpu_count": 0}
    here = {"place": "local", "launcher": "local", "replicate": 1}
    return {**dict.fromkeys(_UNKNOWN), **known, "state": adopted.state.value, **here, **lists}


def _living(rundir: RunDir, run_state: RunState) -> JsonObject:
    """What `status RUN` says of a run that is not over."""
    recorded = RecordedRun.read(rundir)
    told = as_payload(RunWatch(recorded), run_state)
    if rundir.order.exists() and "place" not in told:
        told |= {"place": "unknown", "launcher": "unknown", "trouble": f"{rundir.order} is damaged"}
    names = (*_UNKNOWN, "place", "launcher", "gpu_count")
    return {name: told[name] for name in names if name in told} | _declared(recorded)


def _declared(recorded: RecordedRun) -> JsonObject:
    """What its spec says of a run, and which GPUs it was leased."""
    spec, leased = recorded.spec, recorded.gpus
    return {
        **{name: getattr(spec, name) or None for name in ("campaign", "index", "why", "branch")},
        "replicate": spec.replicate,
        "metric_name": spec.objective.metric if spec.objective else None,
        "gpus": list(leased),
        "gpu_indices": [None] * len(leased),
        **({"gpu_count": len(leased)} if leased else {}),
    }


def _over(outcome: Outcome) -> JsonObject:
    """A run that was recorded."""
    end, row, order = outcome.exit, outcome.row, order_file.read(outcome.rundir)
    target = order.place if order else LOCAL
    return {
        "place": target.name,
        "launcher": str(target.kind),
        "gpu_count": order.gpus if order else 0,
        **_declared(RecordedRun(outcome.rundir, outcome.spec)),
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


# ------------------------------------------------------------------------------------------------------ campaigns


def _campaign_dirs(parts: Parts) -> list[tuple[CampaignDir, bool]]:
    """The campaigns to be shown, newest first: those of this project, and any that a restart of this machine
    interrupted; and whether each is of this project.
    """
    from autoresearch.git_repo.checkout import current_project
    from autoresearch.lab.campaign_setup.campaign_registry import unfinished

    known = unfinished(parts, elsewhere=True)
    here = current_project() if known else Path()
    shown = [one for number, one in enumerate(known) if number < MOST or one.campaign_dir.controlled]
    return [(one.campaign_dir, one.is_of(here)) for one in shown]


def campaign_line(
    campaign_dir: CampaignDir, living: int, now: float, *, own: bool
) -> tuple[JsonObject, CampaignState | None]:
    """Where a campaign stands, and its state; None where it cannot be read. own: commands here know its name."""
    from autoresearch.lab.campaigns.campaign_history import CampaignHistory
    from autoresearch.lab.campaigns.campaign_status import interrupted

    line = {"campaign": campaign_dir.path.name, "living": living, "directory": str(campaign_dir.path), "next": []}
    try:
        state = CampaignHistory(campaign_dir).state()
        told = campaign_stand(campaign_dir, state, now)
        return line | told | {"interrupted": interrupted(campaign_dir), "next": told["next"][:own]}, state
    except (AutoresearchError, OSError, ValueError, KeyError, TypeError) as damaged:
        return line | {"state": "unknown", "reason": str(damaged), "interrupted": False}, None


def campaign_stand(campaign_dir: CampaignDir, state: CampaignState, now: float) -> JsonObject:
    """Where a campaign is and stands, as `status` and `campaign status` have it."""
    from autoresearch.core.campaign.tip import tip_words
    from autoresearch.core.controller.rules import stand_at
    from autoresearch.lab.campaigns.campaign_status import next_commands, phase_now, reason_now

    phase, found = phase_now(campaign_dir, state), stand_at(state, now)
    best = standing(state, top) if (top := state.winner) and (top.values or top.confirmed) else None
    return {
        "campaign": state.spec.name,
        "directory": str(campaign_dir.path),
        "state": phase.value,
        "reason": reason_now(campaign_dir, state, phase),
        "attempted": state.attempted,
        "remaining": found.remaining_ideas,
        "remaining_s": found.remaining_s,
        "standing": found.sentence,
        "best": best.slug if best else None,
        "best_name": best.name if best else None,
        "best_index": best.index if best else None,
        "best_value": best.value if best else None,
        "best_shown": best.to_json() if best else None,
        "tip": tip_words(state) or None,
        "metric_name": state.spec.objective.metric,
        "next": next_commands(state, phase),
    }
