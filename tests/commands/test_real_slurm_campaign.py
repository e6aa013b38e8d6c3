"""A campaign of the embedded trainer on a real Slurm of four nodes, while everything of ours is killed under it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.commands.rows import counted, rows_of
from tests.controllers import ControlledCampaign

pytestmark = pytest.mark.real

IDEAS = 8


class Camp(ControlledCampaign):
    """One campaign whose runs are Slurm jobs."""

    def __init__(self, bench: Any, cluster: Any, file: Path) -> None:
        self.bench = bench
        self.cluster = cluster
        self.before = {native for native, _, _ in cluster.jobs()}  # of a test that was run again
        bench.env |= cluster.env
        (bench.repo / "autoresearch.yaml").write_text(json.dumps({"launchers": {"slurm": {"gpus_per_run": 2}}}))
        said = bench.ask("campaign", file, "--yes", "--detach", "--launcher", "slurm:4")
        from autoresearch.records.campaign_records import CampaignDir

        self.place = CampaignDir(Path(said["directory"]))

    def rows(self) -> list[dict[str, str]]:
        return rows_of(self.place)

    def running(self) -> list[tuple[str, str]]:
        """(id, name) of jobs that run now."""
        return [(native, name) for native, name, _ in self.jobs("RUNNING")]

    def jobs(self, *states: str) -> list[tuple[str, str, str]]:
        """(id, name, state) of the jobs of this test."""
        return [job for job in self.cluster.jobs(*states) if job[0] not in self.before]

    def close(self) -> None:
        if self.place.controlled:
            self.kill()
        for native, _, _ in self.cluster.jobs("PENDING", "RUNNING"):
            self.cluster.say("scancel", native, check=False)
        self.bench.end_followers()


@pytest.fixture
def camp(bench: Any, slurm: Any, tiny: Any) -> Iterator[Camp]:
    one = Camp(bench, slurm, tiny(IDEAS))
    yield one
    one.close()


def test_eight_ideas_while_everything_of_ours_is_killed(camp: Camp) -> None:
    camp.bench.until(lambda: len(camp.running()) >= 2)
    camp.kill()
    camp.bench.ask("campaign", "resume", "one", "--detach")
    native, cancelled = camp.bench.until(lambda: len(camp.rows()) >= 2 and camp.running())[0]
    camp.cluster.say("scancel", native)
    live = camp.bench.until(lambda: len(camp.rows()) >= 4 and camp.running())
    other = next(((n, name) for n, name in live if name != cancelled), None)
    if other:
        node = camp.cluster.say("squeue", "-h", "-t", "all", "-j", other[0], "-o", "%N")  # it may be over by now
        urgent = ["-p", "urgent", "-w", node, "--exclusive", "-o", "/dev/null", "--job-name=other", "--wrap", "true"]
        camp.cluster.say("sbatch", *urgent)
    camp.bench.until(lambda: camp.state().phase == "ended" and not camp.place.controlled)

    state, rows = camp.state(), camp.rows()
    assert state.attempted == IDEAS, state.reason
    jobs = Counter(name for _, name, _ in camp.jobs() if name.startswith("ajet_"))
    assert set(jobs.values()) == {1}, "a run was submitted twice"
    ordered = [row for row in rows if row["failure"] != "launch_interrupted"]  # the controller was killed before
    assert len(jobs) == len(ordered), "one job and one row for each run"
    assert {row["launcher"] for row in ordered} == {"slurm"}
    told = Counter(row["ending"] for row in counted(rows))
    assert told["finished"] >= IDEAS - 1 and set(told) <= {"finished", "stopped"}, told
    causes = {row["run_id"]: json.loads(Path(row["run_dir"], "exit.json").read_bytes())["cause"] for row in rows}
    assert set(causes.values()) <= {"", "cancelled", "preempted", "launch_interrupted"}, causes
