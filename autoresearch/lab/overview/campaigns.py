"""Campaigns that run, still have runs, or have not ended: where each is and stands."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from autoresearch.core.campaign.state import CampaignState
from autoresearch.core.controller.standing import Word, standing
from autoresearch.core.run.overview import CampaignLine
from autoresearch.errors import AutoresearchError
from autoresearch.lab.campaigns.campaign_history import CampaignHistory
from autoresearch.lab.parts import Parts
from autoresearch.records.campaign_records import CampaignDir

MOST = 5  # of those that nobody controls


def campaign_dirs(parts: Parts, living: Counter[Path]) -> list[tuple[CampaignDir, bool]]:
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
) -> tuple[CampaignLine, CampaignState | None]:
    """Where a campaign is and stands, and its state; None where it cannot be read. own: commands here know its name."""
    from autoresearch.core.controller.rules import stand_at
    from autoresearch.lab.campaigns.campaign_status import interrupted, next_commands, phase_now, reason_now

    try:
        state = CampaignHistory(campaign_dir).state()
        phase, found = phase_now(campaign_dir, state), stand_at(state, now)
        best = standing(state, state.best) if state.best and state.best.value is not None else None
        line = CampaignLine(
            name=state.spec.name,
            state=phase.value,
            reason=reason_now(campaign_dir, state, phase),
            interrupted=interrupted(campaign_dir),
            attempted=state.attempted,
            count=state.spec.rules.count,
            remaining=found.remaining_ideas,
            deadline_s=found.remaining_s,
            best=best.slug if best else "",
            best_name=best.name if best else "",
            best_index=best.index if best else None,
            best_value=best.value if best else None,
            best_label=best.word if best and best.word is not Word.BASELINE else "",
            metric_name=state.spec.objective.metric,
            running=living,
            directory=str(campaign_dir.path),
            next=tuple(next_commands(state, phase)[:own]),
        )
    except (AutoresearchError, OSError, ValueError, KeyError, TypeError) as damaged:
        name, path = campaign_dir.path.name, str(campaign_dir.path)
        return CampaignLine(name, "unknown", reason=str(damaged), running=living, directory=path), None
    return line, state
