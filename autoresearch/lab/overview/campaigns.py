"""Campaigns that are running or still have runs; of their files only additions are read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from autoresearch.core.run.overview import CampaignLine
from autoresearch.errors import AutoresearchError
from autoresearch.lab.campaigns.campaign_history import CampaignHistory
from autoresearch.lab.parts import Parts
from autoresearch.records.campaign_records import CampaignDir

LOOK_S = 10.0  # between two searches for new campaigns
_PLANS = "autoresearch/plans/"  # the prefix of a stage's branches


class RunningCampaigns:
    """What is cached about them between two looks."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._places: list[CampaignDir] = []
        self._looked = float("-inf")
        self._books: dict[Path, CampaignHistory] = {}

    def lines(self, running: Counter[Path], now: float) -> list[CampaignLine]:
        """One line per campaign. running: how many runs live in each campaign directory."""
        if now - self._looked >= LOOK_S or now < self._looked:
            from autoresearch.lab.campaign_setup import start_campaign

            self._looked = now
            self._places = [one.place for one in start_campaign.known(self._parts) if one.place.controlled]
        places = {place.path: place for place in self._places}
        for path in running:
            if path not in places and (place := CampaignDir(path)).spec.is_file():
                places[path] = place
        self._books = {path: book for path, book in self._books.items() if path in places}
        found = [self._line(place, running[path], now) for path, place in places.items()]
        return sorted((line for line in found if line), key=lambda line: line.name)

    def _line(self, place: CampaignDir, running: int, now: float) -> CampaignLine | None:
        if not running and not place.controlled:  # it ended since the last look
            return None
        try:
            return self._told(place, running, now)
        except (AutoresearchError, OSError, ValueError, KeyError, TypeError) as damaged:
            self._books.pop(place.path, None)
            return CampaignLine(place.path.name, "unknown", directory=str(place.path), trouble=str(damaged))

    def _told(self, place: CampaignDir, running: int, now: float) -> CampaignLine:
        from autoresearch.core.campaign.stop_rules import stand
        from autoresearch.lab.campaigns.campaign_status import phase_now
        from autoresearch.lab.campaigns.scheduler import facts

        book = self._books.get(place.path)
        if book is None:
            book = self._books[place.path] = CampaignHistory(place)
        state = book.state()
        spec, best = state.spec, state.best
        found = stand(spec.rules, facts(state, now), spec.objective)
        measured = best if best and best.value is not None else None
        plan = spec.prefix.removeprefix(_PLANS).partition("/")[0] if spec.prefix.startswith(_PLANS) else ""
        return CampaignLine(
            name=spec.name,
            state=phase_now(place, state).value,
            plan=plan,
            attempted=state.attempted,
            remaining=found.remaining_ideas,
            deadline_s=found.remaining_s,
            best=measured.slug if measured else "",
            best_index=measured.index if measured else None,
            best_value=measured.value if measured else None,
            metric_name=spec.objective.metric,
            running=running,
            directory=str(place.path),
        )


def directories(run_dirs: Iterable[str]) -> Counter[Path]:
    """How many runs live in each directory that may be a campaign's."""
    return Counter(Path(run_dir).parent for run_dir in run_dirs)
