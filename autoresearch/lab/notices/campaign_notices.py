"""What a campaign has to say now, from its state alone: so a controller that was killed says it when it is resumed.

The key of a notice names its occasion (this pause, this idea), and a notice is sent once for each key.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from autoresearch.core.campaign.spec import CampaignPhase, CampaignSpec
from autoresearch.core.campaign.state import CampaignState
from autoresearch.core.controller.proof import proof_of
from autoresearch.core.controller.standing import Word, standing, standings, tally
from autoresearch.lab.campaigns.campaign_status import next_commands, numbers_now
from autoresearch.lab.notices.run_notices import project_recipients
from autoresearch.lab.notices.sending import Notice, NoticeKind, hand_over
from autoresearch.lab.parts import Parts
from autoresearch.records.campaign_records import CampaignDir

STORM = "circuit breaker: "  # as `core.controller.rules.reason_to_pause` begins
RECENT_S = 3600.0  # a full disk of yesterday is no news


def due_notices(state: CampaignState, now: float, host: str) -> Iterator[Notice]:
    """All notices that the present state calls for; most were sent before."""
    yield from _confirmed(state, host)
    yield from _full_disk(state, now, host)
    if state.stop_mode:
        return
    if state.phase is CampaignPhase.PAUSED:
        storm = state.reason.startswith(STORM)
        what = NoticeKind.CRASH_STORM if storm else NoticeKind.PAUSE
        reason = state.reason.removeprefix(STORM) or "somebody asked for it"
        title = f"paused{', its ideas crash' if storm else ''}"
        paused = (reason, *map(str, numbers_now(state)), best_line(state), _next(state, CampaignPhase.PAUSED))
        yield _notice(state, what, f"pause:{_since(state)}", title, paused, host)
    elif state.phase is CampaignPhase.WAITING:
        lines = (state.reason, _next(state, CampaignPhase.WAITING))
        yield _notice(state, NoticeKind.WAITING, f"waiting:{_since(state)}", "waits for you", lines, host)


def end_notice(state: CampaignState, reason: str, host: str) -> Notice:
    """The end of a campaign, before its journal says so; one that was continued ends again."""
    ends = sum(line.get("do") == "state" and line.get("state") == CampaignPhase.ENDED for line in state.timeline)
    title = "the proof is over" if state.spec.prove else f"over after {tally(state, standings(state))}"
    lines = (reason, best_line(state), _next(state, CampaignPhase.ENDED))
    return _notice(state, NoticeKind.CAMPAIGN_END, f"campaign_end:{ends + 1}", title, lines, host)


def best_line(state: CampaignState) -> str:
    """The best idea by its name, with its number: with an interval where fresh runs gave one, else labelled.

    Of a proof, what it has shown.
    """
    if state.spec.prove:
        return proof_of(state, state.phase).sentence
    best = standing(state, state.winner) if state.winner else None
    if best is None or best.value is None:
        return "Nothing was measured."
    return f"best: {best.sentence}" + ("; no idea was better" if best.word is Word.BASELINE else "")


class CampaignNotifier:
    """The notices of one campaign. It raises nothing, waits for nothing, and remembers what it handed over.

    After a crash of the controller, another one hands over the rest.
    """

    def __init__(self, campaign_dir: CampaignDir, parts: Parts) -> None:
        self._campaign_dir, self._parts, self._host = campaign_dir, parts, os.uname().nodename
        self._handed_over: set[str] = set()  # keys: on a full disk nothing else tells it
        self._full_since = ""  # the key of the full disk that is being waited for

    def look(self, state: CampaignState) -> None:
        """Hand over what the state calls for and was not handed over yet."""
        self._full_since = ""
        for notice in due_notices(state, self._parts.clock(), self._host):
            self._hand_over(state.spec, notice)

    def end(self, state: CampaignState, reason: str) -> None:
        """Hand over the notice of the end, before the journal says that it is over: after that, nobody looks again."""
        self.look(state)
        self._hand_over(state.spec, end_notice(state, reason, self._host))

    def full_disk(self, campaign_spec: CampaignSpec, reason: str) -> None:
        """Hand over, once until the controller works again, that nothing can be written."""
        if not self._full_since:
            self._full_since = f"disk_full:{self._parts.clock():.3f}"
            where = f"on {self._host}: {self._campaign_dir.path}"
            lines = (reason, "Nothing is lost: it goes on by itself when there is space.", where)
            title = f"{campaign_spec.name}: the disk is full"
            self._hand_over(campaign_spec, Notice(NoticeKind.DISK_FULL, self._full_since, title, lines))

    def _hand_over(self, campaign_spec: CampaignSpec, notice: Notice) -> None:
        if notice.key not in self._handed_over:
            self._handed_over.add(notice.key)
            recipients = project_recipients(Path(campaign_spec.blueprint).parent)
            hand_over(self._campaign_dir.path, notice, recipients)


def announce_fault(campaign_dir: CampaignDir, state: CampaignState, reason: str) -> None:
    """Hand over that the controller ended on an error; its runs go on."""
    lines = (reason, "What runs goes on; no new run is started.", _next(state, CampaignPhase.DEAD))
    key, title = f"fault:{time.time():.3f}", "its controller ended on an error"
    notice = _notice(state, NoticeKind.PAUSE, key, title, lines, os.uname().nodename)
    hand_over(campaign_dir.path, notice, project_recipients(Path(state.spec.blueprint).parent))


def _confirmed(state: CampaignState, host: str) -> Iterator[Notice]:
    """Confirmed ideas, but for those of before the campaign last ended, whom the notices of that time named."""
    for idea in state.ideas:
        rounds = max((run.round for run in idea.runs), default=0)
        if idea.confirmed == "confirmed" and rounds > state.earlier_rounds:
            lines = (standing(state, idea).words, f"next: autoresearch report {state.spec.name}")
            key = f"confirmed:{idea.index}:{rounds}"
            yield _notice(state, NoticeKind.CONFIRMED, key, f"{idea.name} is confirmed", lines, host)


def _full_disk(state: CampaignState, now: float, host: str) -> Iterator[Notice]:
    """The disk was full for a run, which is tried again."""
    rows = [row for row in state.rows if row.failure in ("disk", "disk_full") and (row.ended or 0.0) > now - RECENT_S]
    if rows:
        row = min(rows, key=lambda each: each.ended or 0.0)  # what follows within the hour is the same trouble
        idea = next(one for one in state.ideas if row in one.rows)
        ended = f"{idea.name}, run {row.replicate}, ended because a disk was full."
        lines = (ended, f"next: autoresearch explain {row.run_id}")
        yield _notice(state, NoticeKind.DISK_FULL, f"disk_full:{row.run_id}", "a disk is full", lines, host)


def _notice(
    state: CampaignState, notice_kind: NoticeKind, key: str, title: str, lines: tuple[str, ...], host: str
) -> Notice:
    """With the campaign's name before the title, and where it is as the last line."""
    return Notice(notice_kind, key, f"{state.spec.name}: {title}", (*lines, f"on {host}: {state.spec.directory}"))


def _next(state: CampaignState, phase: CampaignPhase) -> str:
    return f"next: {next_commands(state, phase)[0]}"


def _since(state: CampaignState) -> float:
    """When it entered its phase, wall clock in seconds."""
    times = (float(line.get("t") or 0.0) for line in reversed(state.timeline) if line.get("do") == "state")
    return next(times, 0.0)
