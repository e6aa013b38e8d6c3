"""What only a real GPU shows: `make test-gpu`, on a host that may have no network.

Skipped where the driver, torch or bubblewrap is missing: a stand-in for them would show nothing about CUDA.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.commands.test_real_trl import SHIPPED, change

pytestmark = pytest.mark.real
ROOT = Path(__file__).parents[2]
STEPS = """
import os, sys, torch
assert torch.cuda.is_available(), "CUDA does not start"
held = torch.ones(1 << 28, device="cuda")  # 1 GiB
for step in range(1, 41):
    held = held * 0.999 + 0.001
    print(f"step {step}/40 | loss {1 / step:.4f} | reward {held.mean().item() * step / 40:.4f}", flush=True)
"""
SEEN = 'print("devices", os.environ["CUDA_VISIBLE_DEVICES"], os.environ["CUDA_DEVICE_ORDER"], flush=True)\n'
FLAGS = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
parser.parse_args()
"""
NCCL = """
import torch.distributed as dist
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
dist.init_process_group("nccl", rank=0, world_size=1)
dist.all_reduce(held)
dist.destroy_process_group()
"""
MORE_THAN_THERE_IS = """
import torch
print("step 1 | reward 0.1", flush=True)
held = [torch.empty(1 << 28, device="cuda") for _ in range(1000)]
"""
HOLDER = """
import signal, subprocess, sys, time
if sys.argv[1:]:
    import torch
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    held = torch.ones(1 << 30, device="cuda")  # 4 GiB
    print("it holds", flush=True)
    time.sleep(600)
child = subprocess.Popen([sys.executable, __file__, "child"], start_new_session=True)
for step in range(1, 600):
    print(f"step {step} | reward {step / 1000}", flush=True)
    time.sleep(1)
"""
IDLE = """
import time
for step in range(1, 31):
    print(f"step {step}/30 | loss {1 / step:.4f} | reward {step / 30:.4f}", flush=True)
    time.sleep(0.5)
"""
CAMPAIGN = """
blueprint: odd.md
count: 2
proposer: queue
queue: [{slug: same, sentence: nothing else, set: {lr: 0.2}}]
agent: command
agent_command: [/bin/true, "{prompt_file}"]
sandbox: need
confirm: false
baseline: 1
gpus: 1
"""


def memory_used() -> int:
    """MiB in use on the first GPU."""
    words = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "--id=0"]
    return int(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


@pytest.fixture
def gpu(bench: Any) -> Any:
    """A bench whose blueprints have a python with torch; skipped, with the reason, where something is missing."""
    smi = shutil.which("nvidia-smi")
    if smi is None or subprocess.run([smi, "-L"], capture_output=True, check=False).returncode:
        pytest.skip("no GPU here: nvidia-smi shows none")
    found = (os.environ.get("GPU_PYTHON", ""), sys.executable, ROOT / ".venv-trl/bin/python", shutil.which("python3"))
    for python in filter(None, map(str, filter(None, found))):
        if not subprocess.run([python, "-c", "import torch"], capture_output=True, check=False).returncode:
            bench.torch = python
            return bench
    pytest.skip("no python here has torch: GPU_PYTHON=/path/to/python names one")


def blueprint(gpu: Any, text: str) -> Path:
    path = Path(gpu.unknown(text, metric="reward"))
    path.write_text(path.read_text().replace(sys.executable, gpu.torch))
    return path


def test_doctor_names_it(gpu: Any) -> None:
    assert gpu.ask("doctor", check=None)["gpus"]


def test_torch_trains_on_a_leased_one(gpu: Any) -> None:
    done = gpu.ask("run", blueprint(gpu, STEPS + SEEN), "--gpus", "1")
    log = (Path(done["run_dir"]) / "run.log").read_text()
    assert "devices 0 PCI_BUS_ID" in log and done["verdict"] == "keep"
    assert not [one for one in done["warnings"] if "no GPU was used" in one]


def test_the_tiny_trl_trains_on_one(gpu: Any) -> None:
    if subprocess.run([gpu.torch, "-c", "import trl, tensorboard"], capture_output=True, check=False).returncode:
        pytest.skip(f"{gpu.torch} has no trl or no tensorboard (tests/real/trl.txt): GPU_PYTHON names another python")
    for name in SHIPPED:
        place = gpu.repo / "blueprints" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "blueprints" / name, place)
    change(gpu.repo / "blueprints/recipes/trl-tiny.yaml", "use_cpu: true", "use_cpu: false")
    tiny = change(gpu.repo / "blueprints/examples/trl_tiny.md", ".venv-trl/bin/python", gpu.torch)
    gpu.git("add", "-A")
    gpu.git("commit", "-qm", "TRL's GRPO on a random model")
    gpu.env["HF_HUB_OFFLINE"] = "1"
    done = gpu.ask("run", tiny, "--gpus", "1")
    assert done["verdict"] == "keep" and done["metrics"]["step"] == 20
    assert not [one for one in done["warnings"] if "no GPU was used" in one]


def test_cuda_and_nccl_start_in_the_sandbox_of_an_agent(gpu: Any) -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("bwrap is not installed: apt-get install bubblewrap")
    blueprint(gpu, FLAGS + STEPS + NCCL)
    (gpu.repo / "boxed.yaml").write_text(CAMPAIGN)
    gpu.git("add", "-A")
    gpu.git("commit", "-qm", "all")
    said = gpu.ask("campaign", "boxed.yaml", "--count", "1", "--yes", "--detach")
    place = Path(said["directory"])
    gpu.until(lambda: (place / "finish.flag").exists())
    ledger = Path(said["ledger"]).read_text()
    assert "\tkeep\t" in ledger and "no GPU was used" not in ledger, (place / "controller.log").read_text()


def test_out_of_memory_is_explained(gpu: Any) -> None:
    done = gpu.ask("run", blueprint(gpu, MORE_THAN_THERE_IS), "--gpus", "1", check=10)
    assert "memory" in done["failure_line"].lower()


def test_a_child_that_holds_memory_and_ignores_term_is_ended(gpu: Any) -> None:
    before = memory_used()
    run = gpu.ask("run", blueprint(gpu, HOLDER), "--gpus", "1", "--detach")
    gpu.until(lambda: "it holds" in (Path(run["run_dir"]) / "run.log").read_text())
    assert memory_used() > before + 3000
    gpu.ask("stop", run["run"], check=None)
    gpu.until(lambda: memory_used() < before + 500)


def test_a_leased_one_that_nobody_used_is_said(gpu: Any) -> None:
    done = gpu.ask("run", blueprint(gpu, IDLE), "--gpus", "1", check=None)
    assert any("no GPU was used" in one for one in done["warnings"])
