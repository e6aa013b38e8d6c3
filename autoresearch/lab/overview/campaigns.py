"""Campaigns that are running or still have runs; of their files only additions are read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from autoresearch.core.campaign.shown_value import shown_value
from autoresearch.core.campaign.state import Idea
from autoresearch.core.run.overview import CampaignLine, RunLine
from autoresearch.errors import AutoresearchError
from autoresearch.lab.campaigns.campaign_history import CampaignHistory
from autoresearch.lab.parts import Parts
from autoresearch.records.campaign_records import CampaignDir

LOOK_S = 10.0  # between two searches for new campaigns


class RunningCampaigns:
    """What is cached about them between two looks."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._controlled: list[CampaignDir] = []
        self._looked = float("-inf")
        self._histories: dict[Path, CampaignHistory] = {}
        self._ideas: dict[Path, list[Idea]] = {}  # as of the last look

    def lines(self, running: Counter[Path], now: float) -> list[CampaignLine]:
        """One line per campaign. running: how many runs live in each campaign directory."""
        if now - self._looked >= LOOK_S or now < self._looked:
            from autoresearch.lab.campaign_setup import campaign_registry

            self._looked = now
            known = (one.campaign_dir for one in campaign_registry.known(self._parts))
            self._controlled = [campaign_dir for campaign_dir in known if campaign_dir.controlled]
        campaign_dirs = {campaign_dir.path: campaign_dir for campaign_dir in self._controlled}
        for path in running:
            if path not in campaign_dirs and (campaign_dir := CampaignDir(path)).spec.is_file():
                campaign_dirs[path] = campaign_dir
        self._histories = {path: history for path, history in self._histories.items() if path in campaign_dirs}
        found = [self._line(campaign_dir, running[path], now) for path, campaign_dir in campaign_dirs.items()]
        return sorted((line for line in found if line), key=lambda line: line.name)

    def name_of(self, run_line: RunLine) -> str:
        """The name of the idea that a run of a running campaign is of; "" for any other run."""
        ideas = self._ideas.get(Path(run_line.run_dir).parent, []) if run_line.member else []
        return next((idea.name for idea in ideas if idea.index == run_line.index), "")

    def _line(self, campaign_dir: CampaignDir, running: int, now: float) -> CampaignLine | None:
        if not running and not campaign_dir.controlled:  # it ended since the last look
            return None
        try:
            return self._running_line(campaign_dir, running, now)
        except (AutoresearchError, OSError, ValueError, KeyError, TypeError) as damaged:
            self._histories.pop(campaign_dir.path, None)
            return CampaignLine(
                campaign_dir.path.name, "unknown", directory=str(campaign_dir.path), trouble=str(damaged)
            )

    def _running_line(self, campaign_dir: CampaignDir, running: int, now: float) -> CampaignLine:
        from autoresearch.core.controller.rules import stand_at
        from autoresearch.lab.campaigns.campaign_status import phase_now

        history = self._histories.get(campaign_dir.path)
        if history is None:
            history = self._histories[campaign_dir.path] = CampaignHistory(campaign_dir)
        state = history.state()
        self._ideas[campaign_dir.path] = state.ideas
        spec = state.spec
        found = stand_at(state, now)
        best = shown_value(state, state.best) if state.best and state.best.value is not None else None
        return CampaignLine(
            name=spec.name,
            state=phase_now(campaign_dir, state).value,
            attempted=state.attempted,
            remaining=found.remaining_ideas,
            deadline_s=found.remaining_s,
            best=best.slug if best else "",
            best_name=best.name if best else "",
            best_index=state.best.index if best and state.best else None,
            best_value=best.value if best else None,
            best_label=best.label if best else "",
            metric_name=spec.objective.metric,
            running=running,
            directory=str(campaign_dir.path),
        )


def directories(run_dirs: Iterable[str]) -> Counter[Path]:
    """How many runs live in each directory that may be a campaign's."""
    return Counter(Path(run_dir).parent for run_dir in run_dirs)
