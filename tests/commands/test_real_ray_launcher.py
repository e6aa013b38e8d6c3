"""`--launcher ray` on a real Ray: runs, stops, leftovers, and what is done to them from outside."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autoresearch.records.campaign_records import CampaignDir
from autoresearch.runner.end_ray_job import OVER
from autoresearch.runner.processes import run_id_of
from tests.commands.rows import counted, rows_of
from tests.engines.ray.head import PATIENCE_S, RAY

pytestmark = [pytest.mark.real, pytest.mark.waits]


@pytest.fixture
def cluster(bench: Any, ray_head: Any) -> Iterator[Any]:
    """The head, as `ray` of the bench's settings; whoever follows runs there, and shows logs, is ended."""
    bench.env |= {"RAY_AUTH_MODE": "disabled"}
    settings(bench, ray_head)
    yield ray_head
    bench.end_followers()


def settings(bench: Any, head: Any, **options: object) -> None:
    block = {"address": head.address, **options}
    (bench.repo / "autoresearch.yaml").write_text(f"launchers: {json.dumps({'ray': block})}\n")


def begin(bench: Any, blueprint: Path, **env: str) -> dict[str, Any]:
    return dict(bench.ask("run", blueprint, "--launcher", "ray:1", "--detach", **env))


def collected(bench: Any, started: dict[str, Any], ending: str) -> dict[str, Any]:
    """Wait for its flag; nothing of it lives, and its ending is the one that is expected."""
    bench.until(lambda: list(Path(started["result_dir"]).rglob("finish.flag")), PATIENCE_S)
    assert record(started)["ending"] == ending, record(started)
    bench.until(lambda: not living(started))
    return dict(bench.ask("status", started["run"]))


def living(started: dict[str, Any]) -> list[int]:
    """Processes that carry the run's id."""
    return [pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if run_id_of(pid) == started["run"]]


def record(started: dict[str, Any]) -> dict[str, Any]:
    return dict(json.loads((Path(started["run_dir"]) / "exit.json").read_bytes()))


ACTORS = """
import ray
ray.init(namespace="mine")
@ray.remote
class Rollout:
    def reward(self):
        return 0.25
keeper = Rollout.remote()
step(1)
validation(1, ray.get(keeper.reward.remote()))
"""


def test_a_run_with_actors(bench: Any, cluster: Any) -> None:
    """The trainer finds its cluster by what Ray set for the job."""
    started = begin(bench, bench.script(ACTORS, python=str(RAY / "bin" / "python"), title="Try actors"))
    last = collected(bench, started, "finished")
    assert last["metrics"]["task_pass_rate@1"] == 0.25
    # One that a busy Ray holds to be running half a minute after its end stays listed.
    bench.until(lambda: {*OVER}.issuperset(how for n, how in cluster.jobs().items() if started["run"] in n), PATIENCE_S)


def test_an_exit_code_and_a_stubborn_trainer(bench: Any, cluster: Any) -> None:
    """Two at once: one ends with a code of its own; the other ignores TERM, and what it started does."""
    failing = begin(bench, bench.blueprint("rc7", name="a.md", result_dir=str(bench.root / "a")))
    path = bench.blueprint("stubborn", name="b.md", result_dir=str(bench.root / "b"))
    stubborn = begin(bench, path, AUTORESEARCH_GRACE="2s")
    bench.event(stubborn["run_dir"], "first_step")
    bench.ask("stop", stubborn["run"], "--reason", "enough")
    collected(bench, stubborn, "stopped")
    collected(bench, failing, "crashed")
    assert record(failing)["returncode"] == 7
    assert record(stubborn)["reason"] == "enough"


def test_what_nobody_has_room_for(bench: Any, cluster: Any) -> None:
    """The pending limit ends it."""
    cluster.ask("/api/jobs/", {"entrypoint": "sleep 600", "submission_id": "hog", "entrypoint_num_gpus": 8})
    bench.until(lambda: cluster.jobs()["hog"] == "RUNNING", PATIENCE_S)
    settings(bench, cluster, driver_gpus=1, pending_limit="5s")
    started = begin(bench, bench.blueprint("ok"))
    collected(bench, started, "launch_failed")
    assert record(started)["cause"] == "pending_limit" and "waiting for resources" in record(started)["reason"]
    cluster.ask("/api/jobs/hog/stop", {})


def test_a_driver_that_is_killed(bench: Any, cluster: Any) -> None:
    """Nobody is left to write a record: lost, and its trainer does not live on."""
    started = begin(bench, bench.blueprint("tree"))
    runner = bench.runner(started["run_dir"])
    bench.event(started["run_dir"], "first_step")
    os.kill(runner["pid"], signal.SIGKILL)
    collected(bench, started, "lost")
    assert "FAILED" in record(started)["reason"]


def test_a_dashboard_that_is_away_and_a_head_that_forgot(bench: Any, cluster: Any) -> None:
    """Unreachable while nobody answers; a new head that knows nothing of it is no reason to start it twice.

    Its Runner died with the old head; its trainer, in a session of its own, is found by the run id and ended.
    """
    started = begin(bench, bench.blueprint("long"))
    bench.event(started["run_dir"], "first_step")
    cluster.end()
    bench.until(lambda: bench.ask("status", started["run"])["state"] == "unreachable", PATIENCE_S)
    cluster.start()
    cluster.takes_jobs()
    collected(bench, started, "lost")
    assert record(started)["cause"] == "job_gone"


def test_four_ideas(bench: Any, cluster: Any, tiny: Any) -> None:
    """A campaign of the embedded trainer, two runs at a time; its controller is killed in the middle and goes on."""
    settings(bench, cluster)
    said = bench.ask("campaign", tiny(4), "--yes", "--detach", "--launcher", "ray:2")
    place = CampaignDir(Path(said["directory"]))
    bench.until(lambda: len(rows_of(place)) >= 2, PATIENCE_S)
    os.kill(json.loads(place.controller.read_bytes())["pid"], signal.SIGKILL)
    bench.until(lambda: not place.controlled)
    bench.ask("campaign", "resume", "one", "--detach")
    bench.until(lambda: bench.ask("campaign", "status", "one")["state"] == "ended", PATIENCE_S)
    bench.until(lambda: not place.controlled)
    rows = rows_of(place)
    assert [row["ending"] for row in counted(rows)] == ["finished"] * 4
    assert {row["launcher"] for row in rows} == {"ray"}
