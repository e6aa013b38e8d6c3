"""Find a row of a ledger by any name: a run id, a slug, a session, `<campaign>:<index>[.<replicate>]`."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import stdev

from autoresearch.core.campaign.judgement import search_values
from autoresearch.core.campaign.shown_value import ShownValue, shown_value
from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.core.campaign.state import measured
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.core.run.spec import RunSpec
from autoresearch.core.statistics.noise import mean
from autoresearch.errors import NotFoundError
from autoresearch.git_repo import checkout as repository
from autoresearch.git_repo.checkout import Checkout
from autoresearch.lab.parts import Parts
from autoresearch.lab.runs import sessions
from autoresearch.records import campaign_records, spec_file
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.ledger import Ledger
from autoresearch.records.rundir import RunDir, read_json

_ROW = re.compile(r"(?P<campaign>.+):(?P<index>\d{1,9})(?:\.(?P<replicate>\d{1,9}))?\Z")


@dataclass(frozen=True, slots=True)
class LedgerMatch:
    """A run, its row once it is over, and the rows of its idea."""

    name: str  # as requested
    row: LedgerRow | None
    rows: tuple[LedgerRow, ...]  # of the idea, `row` among them
    spec: RunSpec | None  # None where the run directory is gone
    campaign: CampaignSpec | None  # None for a lone run
    values: tuple[float, ...] = ()  # the metric of each run that counts for the idea
    shown: ShownValue | None = None  # what to show of the idea; None without a campaign

    @property
    def run(self) -> str:
        """The run id."""
        return self.row.run_id if self.row else self.spec.run if self.spec else ""

    @property
    def commit(self) -> str:
        """The commit that ran."""
        return (self.row.commit if self.row else "") or (self.spec.commit if self.spec else "")

    @property
    def mean(self) -> float | None:
        """Mean of the idea's runs."""
        return mean(self.values) if self.values else None

    @property
    def sd(self) -> float | None:
        """Standard deviation of the idea's runs; None for fewer than two."""
        return stdev(self.values) if len(self.values) > 1 else None

    @property
    def host(self) -> str:
        """The machine that it ran on; "" if its Runner did not record it."""
        record = read_json(RunDir(Path(self.spec.run_dir)).runner) if self.spec else None
        return str((record or {}).get("host", ""))

    def checkout(self) -> Checkout | None:
        """The repository that holds its commit; None if it is gone."""
        places = [self.campaign.repository] if self.campaign else []
        places += [self.spec.cwd, self.spec.run_dir] if self.spec else []
        for place in places:
            if (path := Path(place)).is_dir() and (found := repository.find(path)):
                return found
        ledger = Path(self.row.run_dir).parent if self.row and self.row.run_dir else None
        while ledger is not None and ledger != ledger.parent:
            if (ledger / ".git").exists():
                return repository.find(ledger)
            ledger = ledger.parent
        return None


def find(name: str, parts: Parts) -> LedgerMatch:
    """The run of that name; raises NotFoundError, with existing names, if there is none."""
    refusal: NotFoundError | None = None
    if asked := _ROW.match(name):
        try:
            return _by_index(name, _campaign(asked["campaign"], parts), asked["index"], asked["replicate"])
        except NotFoundError as error:
            refusal = error  # it may be a path with a colon
    try:
        rundir = sessions.find(name, parts)
    except NotFoundError as unknown:
        hint = f"{unknown.hint}; or CAMPAIGN:INDEX[.REPLICATE] as in `20261121-sort:3.2`"
        raise refusal or NotFoundError(unknown.message, hint=hint, fix=unknown.fix) from None
    spec = sessions.spec_of(rundir)
    place = Path(spec.ledger).parent
    ledger = Ledger(Path(spec.ledger))
    own = ledger.find(spec.run)
    campaign = _spec_beside(place)
    rows = [row for row in ledger.rows() if row.index == spec.index]
    values, shown = _of_idea(place, spec.index, rows, campaign)
    return LedgerMatch(name, own[-1] if own else None, tuple(rows), spec, campaign, values, shown)


def _by_index(name: str, path: Path, index: str, replicate: str | None) -> LedgerMatch:
    rows = [row for row in Ledger(path / "results.tsv").rows() if row.index == int(index)]
    chosen = [row for row in rows if replicate is None or row.replicate == int(replicate)]
    if not chosen:
        have = ", ".join(str(row.replicate) for row in rows if row.replicate is not None)
        what = f"replicate {replicate} of idea {index} (there is {have})" if rows else f"idea {index}"
        raise NotFoundError(
            f"{path / 'results.tsv'} has no row of {what}",
            hint="a run that is not over has no row yet",
            fix=f"autoresearch ledger show {path / 'results.tsv'}",
            code="no_row",
        )
    row = chosen[0]
    campaign = _spec_beside(path)
    values, shown = _of_idea(path, int(index), rows, campaign)
    return LedgerMatch(name, row, tuple(rows), _spec_of(row), campaign, values, shown)


def _of_idea(
    path: Path, index: int, rows: Sequence[LedgerRow], campaign_spec: CampaignSpec | None
) -> tuple[tuple[float, ...], ShownValue | None]:
    """The metric of each run that counts for the idea (in a campaign, smoke and confirmation runs do not, nor those
    that collapsed), and what to show of it.
    """
    if campaign_spec is not None:
        from autoresearch.lab.campaigns.campaign_history import CampaignHistory

        state = CampaignHistory(CampaignDir(path)).state()
        if idea := next((one for one in state.ideas if one.index == index), None):
            return tuple(search_values(state, idea)), shown_value(state, idea)
    return tuple(v for row in rows if (v := measured(row)) is not None), None


def _campaign(name: str, parts: Parts) -> Path:
    """The directory of a campaign, or of a lone run's own."""
    from autoresearch.lab.campaign_setup import campaign_registry

    try:
        return campaign_registry.find(name, parts).path
    except NotFoundError:
        direct = Path(name)
        if (direct / "results.tsv").is_file():
            return direct.absolute()
        for entry in parts.index.recent(1000, str(repository.current_project())):
            place = Path(entry.run_dir).parent
            if place.name == name:
                return place
        raise


def _spec_beside(directory: Path) -> CampaignSpec | None:
    campaign_dir = CampaignDir(directory)
    return campaign_records.read_spec(campaign_dir) if campaign_dir.spec.is_file() else None


def _spec_of(row: LedgerRow) -> RunSpec | None:
    """The spec in a row's run directory; None if it is gone or damaged."""
    if not row.run_dir:
        return None
    with contextlib.suppress(OSError, NotFoundError):
        return spec_file.read(RunDir(Path(row.run_dir)))
    return None
