"""What a campaign has to say now, from its state alone: so a controller that was killed says it when it is resumed.

The key of a notice names its occasion (this pause, this idea), and a notice is sent once for each key.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from autoresearch.core.campaign.idea_name import idea_name
from autoresearch.core.campaign.shown_value import shown_value
from autoresearch.core.campaign.spec import CampaignPhase
from autoresearch.core.campaign.state import CampaignState, Idea
from autoresearch.core.controller.agent_schedule import held
from autoresearch.core.text.durations import counted
from autoresearch.lab.campaigns.campaign_status import next_commands
from autoresearch.notifiers.notice import Notice, NoticeKind

STORM = "circuit breaker: "  # as `core.controller.rules.reason_to_pause` begins
RECENT_S = 3600.0  # a full disk of yesterday is no news
MOST_NAMED = 3  # ideas that wait for a person


def due_notices(state: CampaignState, now: float, host: str) -> Iterator[Notice]:
    """All notices that the present state calls for; most were sent before."""
    yield from (_confirmed(state, idea, host) for idea in _newly_confirmed(state))
    if full := _full_disk(state, now, host):
        yield full
    if state.stop_mode:
        return
    if state.phase is CampaignPhase.PAUSED:
        yield _pause(state, host)
    elif waiting := _waiting(state, host):
        yield waiting


def end_notice(state: CampaignState, reason: str, host: str) -> Notice:
    """The end of a campaign, before its journal says so; one that was continued ends again."""
    ends = sum(line.get("do") == "state" and line.get("state") == CampaignPhase.ENDED for line in state.timeline)
    kept = sum(idea.kept and idea.index > 1 for idea in state.ideas)
    confirmed = sum(idea.confirmed == "confirmed" for idea in state.ideas)
    title = f"{state.spec.name}: over after {counted(state.attempted, 'idea')}, {kept} kept, {confirmed} confirmed"
    lines = (reason, best_line(state), *_tail(state, CampaignPhase.ENDED, host))
    return Notice(NoticeKind.CAMPAIGN_END, f"campaign_end:{ends + 1}", title, lines)


def full_disk_notice(name: str, directory: Path, reason: str, key: str, host: str) -> Notice:
    """Nothing can be written; the controller waits for space."""
    lines = (reason, "Nothing is lost: it goes on by itself when there is space.", f"on {host}: {directory}")
    return Notice(NoticeKind.DISK_FULL, key, f"{name}: the disk is full", lines)


def fault_notice(state: CampaignState, reason: str, key: str, host: str) -> Notice:
    """The controller ended on an error; its runs go on."""
    lines = (reason, "What runs goes on; no new run is started.", *_tail(state, CampaignPhase.DEAD, host))
    return Notice(NoticeKind.PAUSE, key, f"{state.spec.name}: its controller ended on an error", lines)


def best_line(state: CampaignState) -> str:
    """The best idea by its name, with its number: with an interval where fresh runs gave one, else labelled."""
    best = state.best
    if best is None or shown_value(state, best).value is None:
        return "Nothing was measured."
    name, words = best.name, shown_value(state, best).words
    return f"best: {name}: {words}" + ("; no idea was better" if best.hypothesis.is_baseline else "")


def _newly_confirmed(state: CampaignState) -> list[Idea]:
    """Confirmed ideas, but for those of before the campaign last ended, whom the notices of that time named."""
    return [
        idea
        for idea in state.ideas
        if idea.confirmed == "confirmed" and any(run.round > state.earlier_rounds for run in idea.runs)
    ]


def _confirmed(state: CampaignState, idea: Idea, host: str) -> Notice:
    name = idea.name
    rounds = max(run.round for run in idea.runs)
    lines = (shown_value(state, idea).words, f"next: autoresearch report {state.spec.name}", _where(state, host))
    title = f"{state.spec.name}: {name} is confirmed"
    return Notice(NoticeKind.CONFIRMED, f"confirmed:{idea.index}:{rounds}", title, lines)


def _full_disk(state: CampaignState, now: float, host: str) -> Notice | None:
    """The disk was full for a run, which is tried again."""
    rows = [row for row in state.rows if row.failure == "disk_full" and (row.ended or 0.0) > now - RECENT_S]
    if not rows:
        return None
    row = min(rows, key=lambda each: each.ended or 0.0)  # what follows within the hour is the same trouble
    idea = next(one for one in state.ideas if row in one.rows)
    lines = (
        f"{idea.name}, run {row.replicate}, ended because a disk was full.",
        f"next: autoresearch explain {row.run_id}",
        _where(state, host),
    )
    return Notice(NoticeKind.DISK_FULL, f"disk_full:{row.run_id}", f"{state.spec.name}: a disk is full", lines)


def _pause(state: CampaignState, host: str) -> Notice:
    storm = state.reason.startswith(STORM)
    kind = NoticeKind.CRASH_STORM if storm else NoticeKind.PAUSE
    reason = state.reason.removeprefix(STORM) or "somebody asked for it"
    title = f"{state.spec.name}: paused{', its ideas crash' if storm else ''}"
    lines = (reason, best_line(state), *_tail(state, CampaignPhase.PAUSED, host))
    return Notice(kind, f"pause:{_since(state)}", title, lines)


def _waiting(state: CampaignState, host: str) -> Notice | None:
    """Code ideas wait for `campaign approve`, or there is no idea left and no stop rule is met."""
    kept_back = held(state)
    if kept_back:
        names = [idea_name(0, one) for one in kept_back[:MOST_NAMED]]
        more = f" and {len(kept_back) - MOST_NAMED} more" if len(kept_back) > MOST_NAMED else ""
        reason, key = f"To approve: {'; '.join(names)}{more}", f"waiting:{kept_back[-1].slug}"
    elif state.phase is CampaignPhase.WAITING:
        reason, key = state.reason, f"waiting:{_since(state)}"
    else:
        return None
    title = f"{state.spec.name}: waits for you"
    return Notice(NoticeKind.WAITING, key, title, (reason, *_tail(state, CampaignPhase.WAITING, host)))


def _since(state: CampaignState) -> float:
    """When it entered its phase, wall clock in seconds."""
    times = (float(line.get("t") or 0.0) for line in reversed(state.timeline) if line.get("do") == "state")
    return next(times, 0.0)


def _tail(state: CampaignState, phase: CampaignPhase, host: str) -> tuple[str, str]:
    return f"next: {next_commands(state, phase)[0]}", _where(state, host)


def _where(state: CampaignState, host: str) -> str:
    return f"on {host}: {state.spec.directory}"
