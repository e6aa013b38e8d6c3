"""The pictures of the documents, from a simulated campaign that the product's own judge decided: `make screenshots`.

    python -m tests.screenshots [DIRECTORY]     docs/images unless another is named

What a run of an idea shows is drawn, with one seed; which ideas are kept and confirmed, and all words and numbers, are
what a campaign with these results comes to.
"""

from __future__ import annotations

import math
import random
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from autoresearch.core.campaign.fold import Fold
from autoresearch.core.campaign.hypothesis import Hypothesis
from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.core.campaign.state import CampaignState
from autoresearch.core.controller.rules import stand_at
from autoresearch.core.metrics.objective import Objective
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.lab.campaign_report.progress_plot import progress_of, write_png
from autoresearch.lab.campaign_report.report import page_data, page_html
from autoresearch.lab.campaign_report.summary import idea_lines
from autoresearch.records import campaign_records
from autoresearch.records.campaign_records import CampaignDir, write_spec
from tests.bench.simulated import Simulation, World
from tests.browser import browser

METRIC, START, SEED = "val/pass@1", 1_790_000_000.0, 8
SENTENCES = {6: "Drop the entropy bonus", 11: "Normalise advantages per group", 17: "Mask solved prompts"}
SIZES = (("light", 1240, 1150, False), ("dark", 1240, 1150, True), ("phone", 390, 1500, False))


class _Shown(Fold):
    """A fold whose records have the times, commits and scale of a night's campaign."""

    def add(self, events: Iterable[Mapping[str, Any]]) -> CampaignState:
        """The same; all of it is recorded in the campaign's directory as well."""
        files, dated = CampaignDir(Path(self.state.spec.directory)), list[dict[str, Any]]()
        ideas = {idea.index: idea.hypothesis.sentence for idea in self.state.ideas}
        for event in events:
            one = {**event, "t": START + 400 * event.get("t", 0.0)}
            if one["do"] == "ran":
                row = _dated(LedgerRow.from_cells(one["row"]))
                one["row"] = replace(row, description=ideas.get(row.index, "")).cells()
            campaign_records.append(files, **one)
            dated.append(one)
        return super().add(dated)


def _dated(row: LedgerRow) -> LedgerRow:
    ended = START + 400 * (row.ended or 0.0)
    return replace(row, metric_name=METRIC, ended=ended, started=ended - 420, elapsed_min=7.0, seed=row.replicate)


class Night(Simulation):
    """24 ideas, some of them better: settings of a GRPO recipe, and three edits of its code."""

    def __init__(self, directory: Path) -> None:
        super().__init__(World(ideas=23, share=0.25, effect=2.2, failing=0.04), SEED)
        spec: CampaignSpec = replace(
            self.state.spec, name="20261121-grpo-math", objective=Objective(METRIC), created=START, gpus_per_run=8,
            directory=str(directory), blueprint="exp/grpo-math.md", prefix="autoresearch/20261121-grpo-math",
        )  # fmt: skip
        write_spec(CampaignDir(directory), spec)
        self.fold = _Shown(spec)
        self.state: CampaignState = self.fold.state
        self.ideas = random.Random(SEED)

    def new_idea(self) -> None:
        index, best = len(self.state.ideas) + 1, self.state.best
        assert best is not None
        effect = self.effects[index - 2] - (self.ideas.random() * 1.5 if not self.effects[index - 2] else 0.0)
        self.levels[index] = self.levels[best.index] + effect
        lr = float(f"{10 ** self.ideas.uniform(-6.3, -5.2):.2g}")
        kl, group = round(self.ideas.uniform(0.0, 0.05), 3), self.ideas.choice([8, 16])
        values: dict[str, object] = {"lr": lr, "kl": kl, "group": group}
        sentence = SENTENCES.get(index, "")
        code: dict[str, Any] = {"files": {"loss.py": ""}, "parent": best.slug}
        edit = code if sentence else {"overrides": values, "parent": "baseline"}
        hypothesis = Hypothesis(f"idea-{index}", sentence or "Sampled by TPE", **edit)
        self.note("idea", index=index, hypothesis=hypothesis.to_json(), parent=best.slug, commit=f"{index:040x}",
                  branch=f"{self.state.spec.prefix}/idea-{index}")  # fmt: skip


def curves_of(state: CampaignState) -> list[dict[str, Any]]:
    """What each run may have looked like on its way to its result."""
    found, rng = [], random.Random(SEED)
    for line in idea_lines(state):
        for row in line.idea.rows:
            if row.metric_value is not None:
                end, start = row.metric_value, 0.18
                ys = [end - (end - start) * math.exp(-step / 35) + rng.gauss(0, 0.004) for step in range(0, 200, 5)]
                words = {"run": row.run_id, "index": row.index, "name": line.idea.name, "standing": str(line.word)}
                series = {METRIC: {"x": list(range(0, 200, 5)), "y": [round(y, 4) for y in ys]}}
                found.append({**words, "seed": row.seed, "series": series})
    return found


def main(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        campaign = Path(scratch) / "campaign"
        campaign.mkdir()
        night = Night(campaign)
        night.draw.one = _scaled(night.draw.one)  # type: ignore[method-assign]
        night.run()
        state = night.state
        now = max(row.ended or 0.0 for row in state.rows)
        night.note("state", state="ended", reason=stand_at(state, now).sentence)
        write_png(directory / "progress-simulated.png", progress_of(state, idea_lines(state)))
        data = page_data(CampaignDir(campaign), state, stand_at(state, now), now)
        page = Path(scratch) / "report.html"
        page.write_text(page_html({**data, "phase": "ended", "curves": curves_of(state), "remarks": []}))
        with browser(Path(scratch) / "profile") as chrome:
            for name, width, height, dark in SIZES:
                chrome.open(page.as_uri(), width=width, height=height, dark=dark)
                chrome.shot(directory / f"report-{name}.png")


def _scaled(one: Any) -> Any:
    """Standard deviations as a pass rate."""
    return lambda level, **more: None if (value := one(level, **more)) is None else round(0.412 + 0.011 * value, 4)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images"))
