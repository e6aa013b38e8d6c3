"""A campaign in memory: lines of a journal, rows and verdicts, folded. No file, no process, no clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from autoresearch.core.agents.turns import AgentJob
from autoresearch.core.campaign.claim import CLAIMS
from autoresearch.core.campaign.fold import fold
from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.campaign.spec import CampaignSpec, ProposerSpec, Rules
from autoresearch.core.campaign.state import CampaignState
from autoresearch.core.controller.actions import ControllerAction, Note, Say
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.core.statistics.seeding import SeededRun
from tests.specs import campaign_spec, events

START = 1_790_000_000.0
SPEC = campaign_spec(
    name="20261121-sort",
    directory="/reports/20261121-sort",
    prefix="autoresearch/20261121-sort",
    proposer=ProposerSpec("tpe"),
    rules=Rules(count=12, deadline=START + 7200),
    created=START,
)


@dataclass
class Records:
    """The records of a campaign, which grow line by line as its controller would write them."""

    spec: CampaignSpec = SPEC
    clock: float = START
    journal: list[dict[str, Any]] = field(default_factory=list)
    rows: list[LedgerRow] = field(default_factory=list)
    verdicts: list[dict[str, Any]] = field(default_factory=list)
    indexes: dict[str, int] = field(default_factory=dict)

    def note(self, do: str, **fields: Any) -> None:
        self.clock += 1
        self.journal.append({"t": self.clock, "do": do, **fields})

    def begin(self, job: AgentJob) -> None:
        """A job of a coding agent is begun."""
        fields = ("kind", "slug", "agent", "usd", "editor", "parent")
        self.note("job", **{name: getattr(job, name) for name in fields})

    def idea(self, slug: str, *, parent: str = "baseline", **hypothesis: Any) -> int:
        """An idea on its branch, without a run."""
        index = self.indexes[slug] = len(self.indexes) + 1
        self.note(
            "idea",
            index=index,
            hypothesis=Hypothesis(slug, f"Try {slug}", parent=parent, **hypothesis).to_json(),
            parent="" if slug == "baseline" else parent,
            commit=f"commit-{slug}",
            branch=self.spec.branch(slug),
            fingerprint=slug,
        )
        return index

    def prepare(self, slug: str, why: str = "", *, round_number: int = 0) -> str:
        """A prepared run of an idea; its ID."""
        idea = self.state().by_slug(slug)
        assert idea is not None
        replicate = len(idea.runs) + 1
        run = f"{slug}-{replicate:06d}"
        why = why or ("baseline" if slug == "baseline" else "first" if replicate == 1 else "retest")
        fields = {"index": idea.index, "run": run, "run_dir": f"/reports/{run}", "replicate": replicate, "why": why}
        self.note("prepared", **fields, commit=idea.commit, seed=40 + replicate, round=round_number)
        return run

    def start(self, slug: str, why: str = "", *, round_number: int = 0) -> str:
        """A live run of an idea; its ID."""
        run = self.prepare(slug, why, round_number=round_number)
        self.note("started", run=run)
        return run

    def end(self, run: str, value: float | None, status: str = "keep", **changes: Any) -> LedgerRow:
        """The row of a live run that is over."""
        slug = run.rpartition("-")[0]
        row = LedgerRow(
            index=self.indexes[slug],
            metric_name="pass@1",
            metric_value=value,
            elapsed_min=5.0,
            status=status,
            run_id=run,
            replicate=int(run.rpartition("-")[2]),
            ending="crashed" if status == "crash" else "finished",
            started=self.clock,
            ended=self.clock + 300,
        )
        self.clock += 300
        self.rows.append(replace(row, **changes))
        return self.rows[-1]

    def run(self, slug: str, value: float | None, status: str = "keep", *, why: str = "", **changes: Any) -> str:
        """A run of an idea from its preparation to its row; its ID."""
        run = self.start(slug, why, round_number=changes.pop("round_number", 0))
        self.end(run, value, status, **changes)
        return run

    def checked(self, *, seen: bool = True) -> None:
        """The seed check is made: the seed has an effect, or has none."""
        fields = {"seen": seen, "reason": "it differs", "by": "recipe key seed", "runs": 3, "values": 9, "exact": True}
        self.note("seed_check", **fields, copies=[])

    def state(self) -> CampaignState:
        """What these records amount to."""
        return fold(self.spec, events(self.journal, self.rows, self.verdicts))

    def curves(self) -> dict[str, SeededRun]:
        """One point for each run, its final metric."""
        seeds = {line["run"]: line["seed"] for line in self.journal if line["do"] == "prepared"}
        known = [row for row in self.rows if row.metric_value is not None and row.run_id in seeds]
        return {row.run_id: SeededRun(seeds[row.run_id], ((0, row.metric_value or 0.0),), {}) for row in known}

    def apply(self, actions: tuple[ControllerAction, ...]) -> list[str]:
        """Write down what these actions record; returns what they say."""
        for action in actions:
            if isinstance(action, Note) and action.do in (*CLAIMS, "marked"):
                self.verdicts.append({"do": action.do, **action.fields})
            elif isinstance(action, Note):
                self.note(action.do, **action.fields)
        return [action.text for action in actions if isinstance(action, Say)]


@pytest.fixture
def records() -> Callable[..., Records]:
    """Make the records of a campaign with a measured baseline, or (`empty`) of one that has not begun."""

    def make(*, empty: bool = False, **changes: Any) -> Records:
        made = Records(replace(SPEC, **changes))
        made.note("state", state="running", reason="")
        if not empty:
            made.idea("baseline")
            for value in (0.50, 0.52, 0.48):
                made.run("baseline", value)
        return made

    return make
