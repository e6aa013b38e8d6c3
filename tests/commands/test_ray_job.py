"""A run whose trainer is a Ray job: it is named like its session, and ends with the run, whatever the ending."""

from __future__ import annotations

import json
import os
import signal
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.system

RAY = """#!{python}
import json, os, sys, time, urllib.request
words = sys.argv[1:]
assert words[:2] == ["job", "submit"], words
own, entry = words[2:words.index("--")], words[words.index("--") + 1:]
name, url = own[own.index("--submission-id") + 1], own[own.index("--address") + 1]
urllib.request.urlopen(urllib.request.Request(url + "/api/jobs/", method="POST", data=json.dumps(
    {{"submission_id": name, "entrypoint": "sleep 600"}}).encode())).read()
prefix = "(PPOTrainer pid=7) INFO 03-02 10:12:12 ppo_trainer.py:547] "
for step in (1, 2):
    metrics = {{"policy_loss": 0.1, "kl": 0.0, "reward": step / 10}}
    print(f"{{prefix}}\\u2728 Global step {{step}}: {{metrics}}", flush=True)
if entry[-1] == "hold":
    time.sleep(600)
sys.exit(3)
"""


def blueprint(bench: Any, url: str, mode: str) -> Path:
    ray = bench.root / "bin" / "ray"
    ray.parent.mkdir()
    ray.write_text(textwrap.dedent(RAY).format(python=sys.executable))
    ray.chmod(0o755)
    bench.env["PATH"] = f"{ray.parent}:{bench.env['PATH']}"
    command = f"ray job submit --address {url} -- python3 -m openrlhf.cli.train_ppo_ray --train.seed 5 {mode}"
    path = bench.blueprint("ray", command=command, trainer="openrlhf")
    path.write_text(path.read_text().replace("- metric: task_pass_rate@1", "- metric: reward"))
    return Path(path)


def test_a_client_that_dies_leaves_no_job_behind(bench: Any, fake_ray: Any) -> None:
    path = blueprint(bench, fake_ray.address, "fail")
    planned = bench.ask("run", path, "--dry-run")
    assert f"submit --submission-id {planned['session']} --address" in planned["command_line"]
    assert planned["cleanup"][0].endswith(f"end_ray_job.py {fake_ray.address} {planned['session']}")
    assert not fake_ray.jobs

    done = bench.ask("run", path, check=None)
    bench.settled(done, "crashed")
    spec = json.loads((Path(done["run_dir"]) / "spec.json").read_text())
    assert fake_ray.jobs[spec["session"]].status == "STOPPED"
    assert f"--submission-id {spec['session']}" in spec["command"]
    record = json.loads((Path(done["run_dir"]) / "exit.json").read_text())
    assert [one["returncode"] for one in record["cleanup"]] == [0]
    assert not any("submission-id" in line for line in done.get("remarks", []))


def test_a_run_that_is_lost_ends_its_job_when_it_is_found(bench: Any, fake_ray: Any) -> None:
    begun = bench.ask("run", blueprint(bench, fake_ray.address, "hold"), "--detach")
    bench.event(begun["run_dir"], "first_step")
    os.kill(bench.runner(begun["run_dir"])["pid"], signal.SIGKILL)
    bench.until(lambda: bench.ask("status", begun["run"])["state"] == "ended")
    assert fake_ray.jobs[begun["session"]].status == "STOPPED"
    bench.until(lambda: not bench.carriers())
