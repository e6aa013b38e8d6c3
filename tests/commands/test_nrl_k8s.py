"""A launch command that is `nrl-k8s run`: checked before, named, and ended with the run. A stand-in follows its CLI.

The stand-in prints what infra/nrl_k8s/src/nrl_k8s/cli.py of NVIDIA-NeMo/RL at 7ea279ab prints.
"""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.system

NRL = """#!{python}
import json, os, sys, time
jobs = os.environ["NRL_JOBS"]
words = sys.argv[1:]
open(jobs + ".asked", "a").write(" ".join(words) + "\\n")
def job(name, state=None):
    path = f"{{jobs}}.{{name}}"
    if state:
        open(path, "w").write(state)
    return open(path).read() if os.path.exists(path) else ""
if words[0] == "check":
    if "bad" in words[1]:
        sys.exit("error: failed to load recipe: infra.image: Field required")
    print("namespace:   rl\\nimage:       nemo:1")
elif words[:2] == ["job", "stop"]:
    assert words[-2:] == ["--role", "training"], words
    job(words[2], "STOPPED")
    print("stopped", words[2])
else:
    name = words[words.index("--run-id" if "--raycluster" in words else "--rayjob-name") + 1]
    job(name, "RUNNING")
    if "--raycluster" in words:
        print(f"run id:  {{name}}\\nkind:    port-forward\\ncluster: c  (ns=rl)", flush=True)
        for step in (1, 2):
            print("step_metrics=" + str({{"step": step, "reward": step / 4, "loss": 0.1}}), flush=True)
            print(f"train step {{step}}/2  trainer_v={{step}}  lag=1", flush=True)
    else:
        print(f"[run --rayjob] applying RayJob {{name}} in rl", flush=True)
        print(f"[run --rayjob] {{name}} deployment=Initializing job=None", flush=True)
    while "hold" in words[1:] and job(name) == "RUNNING":
        time.sleep(0.05)
    job(name, "SUCCEEDED" if "hold" not in words else job(name))
"""
KUBECTL = """#!{python}
import os, sys
jobs, words = os.environ["NRL_JOBS"], sys.argv[1:]
open(jobs + ".asked", "a").write("kubectl " + " ".join(words) + "\\n")
path = f"{{jobs}}.{{words[2]}}" if len(words) > 2 else ""
if words[0] == "get" and os.path.exists(path):
    print(f"{{words[2]}}/" + {{"RUNNING": "Running", "SUCCEEDED": "Complete"}}[open(path).read()])
if words[0] == "delete":
    open(path, "w").write("DELETED")
"""


class Lab:
    """A bench with an nrl-k8s and a kubectl of its own."""

    def __init__(self, bench: Any) -> None:
        self.bench = bench
        self.jobs = bench.root / "jobs"
        self.tools = bench.root / "bin"
        self.tools.mkdir()
        bench.env |= {"NRL_JOBS": str(self.jobs), "PATH": f"{self.tools}:{bench.env['PATH']}"}
        for name, text in (("nrl-k8s", NRL), ("kubectl", KUBECTL)):
            (self.tools / name).write_text(textwrap.dedent(text).format(python=sys.executable))
            (self.tools / name).chmod(0o755)

    def blueprint(self, flags: str, recipe: str = "grpo.yaml") -> Path:
        command = f"nrl-k8s run {recipe} {flags}"
        path = self.bench.blueprint("nrl", command=command, trainer="nemo_rl")
        path.write_text(path.read_text().replace("- metric: task_pass_rate@1", "- metric: train/reward"))
        return Path(path)

    def asked(self) -> list[str]:
        path = Path(f"{self.jobs}.asked")
        return path.read_text().splitlines() if path.exists() else []

    def state(self, name: str) -> str:
        path = Path(f"{self.jobs}.{name}")
        return path.read_text() if path.exists() else ""


@pytest.fixture
def lab(bench: Any) -> Lab:
    return Lab(bench)


def test_a_run_on_a_cluster_is_read_and_over(lab: Lab) -> None:
    path = lab.blueprint("--infra i.yaml --raycluster")
    planned = lab.bench.ask("run", path, "--dry-run")
    assert f"nrl-k8s run --run-id {planned['session']} grpo.yaml" in planned["command_line"]
    assert f" run {planned['session']} grpo.yaml --infra i.yaml" in planned["cleanup"][0]
    done = lab.bench.ask("run", path, check=None)
    flag = lab.bench.settled(done, "finished")
    assert flag["metric"]["value"] == 0.5
    assert lab.asked()[0] == "check grpo.yaml --infra i.yaml"
    spec = json.loads((Path(done["run_dir"]) / "spec.json").read_text())
    assert lab.asked()[-1] == f"job stop {spec['session']} grpo.yaml --infra i.yaml --role training"


@pytest.mark.parametrize("flags", ["--raycluster hold", "--rayjob hold"])
def test_a_run_that_is_stopped_ends_its_job(lab: Lab, flags: str) -> None:
    begun = lab.bench.ask("run", lab.blueprint(flags), "--detach")
    session = begun["session"]
    name = session if "raycluster" in flags else session.lower().replace("_", "-")
    lab.bench.until(lambda: lab.state(name) == "RUNNING")
    lab.bench.ask("stop", begun["run"], "--reason", "enough", check=None)
    lab.bench.until(lambda: lab.state(name) in ("STOPPED", "DELETED"))
    lab.bench.until(lambda: not lab.bench.carriers())
    record = json.loads((Path(begun["run_dir"]) / "exit.json").read_text())
    assert record["ending"] == "stopped" and [one["returncode"] for one in record["cleanup"]] == [0]
    if "rayjob" in flags:
        assert f"kubectl delete rayjob {name} -n rl --ignore-not-found --wait=false" in lab.asked()


def test_what_nrl_k8s_would_refuse_is_refused_before(lab: Lab) -> None:
    said = lab.bench.ask("run", lab.blueprint("--raycluster", "bad.yaml"), check=3)
    assert said["error"]["code"] == "nrl_check_failed" and "infra.image: Field required" in said["error"]["message"]
    said = lab.bench.ask("run", lab.blueprint("--raycluster --no-wait"), check=3)
    assert "does not wait" in json.dumps(said["error"])
    (lab.tools / "nrl-k8s").unlink()
    said = lab.bench.ask("run", lab.blueprint("--raycluster"), check=6)
    assert said["error"]["code"] == "no_nrl_k8s"
    assert not lab.bench.git("branch", "--list", "autoresearch/*")
