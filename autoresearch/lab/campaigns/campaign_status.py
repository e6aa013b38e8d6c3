"""The state of a campaign as seen from outside: what its journal says, unless its controller is gone."""

from __future__ import annotations

import contextlib
import os
import shlex
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoresearch.core.campaign.claim import Claim
from autoresearch.core.campaign.spec import CampaignPhase
from autoresearch.core.controller.proof import Proof, proof_of
from autoresearch.core.controller.sentences import more_ideas
from autoresearch.core.metrics.objective import usual_direction
from autoresearch.errors import AutoresearchError
from autoresearch.records import campaign_records, order_file
from autoresearch.records.files import read_json
from autoresearch.records.recorded_run import FinishedRun
from autoresearch.records.rundir import RunDir

if TYPE_CHECKING:
    from autoresearch.core.campaign.state import CampaignState, Idea, IdeaRun
    from autoresearch.lab.recipes.likely_objective import PrintedNumber
    from autoresearch.records.campaign_records import CampaignDir


def phase_now(campaign_dir: CampaignDir, state: CampaignState) -> CampaignPhase:
    """The actual state. The controller may have finished after the state was read."""
    if state.phase is CampaignPhase.ENDED:
        return state.phase
    if not campaign_dir.controlled:  # the lock's last holder writes no more, so the record is complete
        last = _last_word(campaign_dir).get("state")
        if last == CampaignPhase.PAUSED and not fault_of(campaign_dir, state):
            return CampaignPhase.PAUSED
        return CampaignPhase.ENDED if last == CampaignPhase.ENDED else CampaignPhase.DEAD
    return CampaignPhase.DRAINING if state.stop_mode else state.phase


def has_ended(campaign_dir: CampaignDir) -> bool:
    """Whether it is over for good, as its journal says, without folding all of it."""
    return not campaign_dir.controlled and _last_word(campaign_dir).get("state") == CampaignPhase.ENDED


def reason_now(campaign_dir: CampaignDir, state: CampaignState, phase: CampaignPhase) -> str:
    """Why the campaign is in this phase, or what it waits for while no run lives; "" if no reason was recorded."""
    if phase is not state.phase and phase in (CampaignPhase.ENDED, CampaignPhase.PAUSED):
        return str(_last_word(campaign_dir).get("reason", ""))
    if phase is CampaignPhase.RUNNING and not state.reason:
        return str((read_json(campaign_dir.controller) or {}).get("waits_for", ""))
    if phase is not CampaignPhase.DEAD:
        return state.reason if phase is state.phase else ""
    if fault := fault_of(campaign_dir, state):
        return fault
    last = f"; it was {state.phase}: {state.reason}" if state.reason else ""
    if interrupted(campaign_dir):
        runs = ", ".join(f"{idea.name}, run {run.replicate}" for idea, run in state.live)
        return f"the machine was restarted while it ran{f'; interrupted: {runs}' if runs else ''}{last}"
    return f"its controller is gone and said nothing: it was killed, or the machine went down{last}"


def interrupted(campaign_dir: CampaignDir) -> bool:
    """Whether a restart of this machine took its controller, before the campaign was over or paused.

    One that was killed may be given up: nobody but a person goes on with it.
    """
    record = {} if campaign_dir.flag.exists() else read_json(campaign_dir.controller) or {}
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    here = record.get("host") == os.uname().nodename and float(record.get("started") or booted) < booted
    ended = (CampaignPhase.ENDED, CampaignPhase.PAUSED)
    return here and not campaign_dir.controlled and _last_word(campaign_dir).get("state") not in ended


def proof_now(campaign_dir: CampaignDir, state: CampaignState) -> Proof:
    """What a proof has shown; where it has shown nothing, how it stands."""
    phase = phase_now(campaign_dir, state)
    reason = reason_now(campaign_dir, state, phase)
    return proof_of(state, reason if phase is CampaignPhase.ENDED else ": ".join(filter(None, (phase, reason))))


def _last_word(campaign_dir: CampaignDir) -> Mapping[str, Any]:
    """The last event that sets a state; {} if there is none."""
    return next(iter(deque(campaign_records.entries(campaign_dir, "state"), maxlen=1)), {})


def fault_of(campaign_dir: CampaignDir, state: CampaignState) -> str:
    """The error that ended the last controller; "" if it is alive, was killed, or ended normally."""
    if campaign_dir.controlled or state.phase is CampaignPhase.ENDED:
        return ""
    began = (read_json(campaign_dir.controller) or {}).get("started") or 0.0
    when, fault = state.fault
    return fault if when + 0.001 >= began else ""  # times in the journal are rounded


def unnamed_runs(state: CampaignState) -> Iterator[FinishedRun]:
    """The baseline's runs that ended well before anybody named the objective, the last one first."""
    for row in reversed(state.baseline.unnamed if state.baseline else ()):
        with contextlib.suppress(AutoresearchError):  # its directory was removed
            yield FinishedRun.checked(RunDir(Path(row.run_dir)))


def numbers_now(state: CampaignState) -> list[PrintedNumber]:
    """What the baseline printed, the proposed objective first; [] unless the campaign is paused for one to be named."""
    waits = state.phase is CampaignPhase.PAUSED and not state.spec.objective.metric
    for finished in unnamed_runs(state) if waits else ():
        from autoresearch.core.metrics.objective import Objective
        from autoresearch.lab.recipes.likely_objective import with_proposal
        from autoresearch.lab.results.diagnosis import printed_numbers
        from autoresearch.lab.results.measure import RunFiles

        files = RunFiles.of(finished, ended=True)
        numbers = printed_numbers(finished, files.trainer, files.measure())
        best = Objective(numbers[0].name if numbers else "")
        named = replace(finished, spec=replace(finished.spec, objective=best))  # as it will be read
        return with_proposal(numbers, RunFiles.of(named, ended=True).measure().readings)
    return []


def resume_line(state: CampaignState, choices: Sequence[PrintedNumber]) -> str:
    """With the proposed number as the objective, and a direction to fill in where its name does not say it."""
    words = ["autoresearch", "campaign", "resume", state.spec.name]
    for one in choices[:1]:
        known = state.spec.objective.direction or usual_direction(one.name, None)
        words += ["--metric", one.name, *([] if known else ["--direction", "maximize/minimize"])]
    return shlex.join(words)


def next_commands(state: CampaignState, phase: CampaignPhase) -> list[str]:
    """The commands that the user is likely to need next."""
    name = state.spec.name
    if phase is CampaignPhase.ENDED and state.spec.sources.get("count", "").startswith("no stop rule"):
        return [more_ideas(state), f"autoresearch campaign status {name} --full"]
    if phase is CampaignPhase.ENDED:
        won = not state.spec.prove and any(idea.confirmed == Claim.CONFIRMED for idea in state.ideas)
        home = [f"autoresearch apply {name}"] if won else []
        return [f"autoresearch report {name}", *home, f"autoresearch campaign status {name} --full"]
    if phase in (CampaignPhase.DEAD, CampaignPhase.PAUSED):
        return [resume_line(state, numbers_now(state)), f"autoresearch campaign status {name} --full"]
    if phase is CampaignPhase.WAITING:
        best = None if state.unseeded or state.best is state.baseline else state.best
        confirm = [f"autoresearch campaign confirm {name}"] if best and not best.confirmed else []
        add, stop = f"campaign add {name} --set KEY=VALUE", f"campaign stop {name} --drain"
        return [f"autoresearch {add}", *confirm, f"autoresearch {stop}"]
    return [f"autoresearch wait {name} --for 100s", f"autoresearch campaign status {name}"]


def running(idea: Idea, idea_run: IdeaRun) -> dict[str, Any]:
    """A live run of a campaign: its target, and whether it is queued there or unreachable."""
    rundir = RunDir(Path(idea_run.run_dir))
    order = order_file.read(rundir)
    seen = order_file.observed(rundir) if order else None
    return {
        "slug": idea.slug,
        "name": idea.name,
        "index": idea.index,
        "run": idea_run.run,
        "replicate": idea_run.replicate,
        "why": idea_run.why,
        "state": rundir.state().value if idea_run.started else "prepared",
        "place": order.place.name if order else None,
        "reason": seen.reason if seen and seen.reason else None,
    }
