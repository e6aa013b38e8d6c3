"""Runs of a bench that go to another target: ordered and not waited for, then asked for by what was answered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from autoresearch.records.rundir import RunDir
from tests.commands.rows import ledger_rows


class RunsElsewhere:
    """A bench, and the target of its runs as `--launcher` names it."""

    def __init__(self, bench: Any, target: str) -> None:
        self.bench, self.target = bench, target

    def run(self, mode: str = "ok", *flags: object, name: str = "", **values: str) -> dict[str, Any]:
        """Order a run; it is not waited for."""
        values.setdefault("result_dir", str(self.bench.root / f"results-{name or mode}"))
        path = self.bench.blueprint(mode, name=f"{name or mode}.md", **values)
        return dict(self.bench.ask("run", path, "--launcher", self.target, "--detach", *flags))

    def dir(self, run: dict[str, Any]) -> RunDir:
        return RunDir(Path(run["run_dir"]))

    def state(self, run: dict[str, Any]) -> str:
        return self.dir(run).state().value

    def job(self, run: dict[str, Any]) -> str:
        """What its scheduler calls it, once it was submitted."""
        order = self.dir(run).order
        return str(self.bench.until(lambda: (json.loads(order.read_bytes()).get("handle") or {}).get("native")))

    def stepped(self, run: dict[str, Any]) -> None:
        """Wait for the first step."""
        self.bench.event(run["run_dir"], "first_step")

    def row(self, run: dict[str, Any]) -> dict[str, str]:
        """Its one row, waited for."""
        self.bench.until(self.dir(run).collected.exists)
        (row,) = ledger_rows(run["ledger"], run["run"])
        return row

    def record(self, run: dict[str, Any]) -> dict[str, Any]:
        """Its exit record here, once its row is written too."""
        self.row(run)
        return dict(json.loads(self.dir(run).exit_record.read_bytes()))
