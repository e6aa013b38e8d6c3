"""Campaigns on hosts by ssh: a real sshd, real GRPO, and faults in the middle; a host is one place among others."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.commands.rows import counted, rows_of

pytestmark = pytest.mark.real


def test_eight_ideas_on_two_hosts_whose_connections_are_cut(sshd: Any, camp: Any) -> None:
    bench = camp.bench
    recipe = {"task": "sort", "sft_steps": 5, "hidden": 8, "total_steps": 2, "batch_size": 2, "group_size": 4}
    more = {"lr": 0.001, "kl_coef": 0.01, "temperature": 1.0, "test_freq": 1, "val_tasks": 4, "val_pass_n": 2}
    where = {"metrics_jsonl_path": "out/metrics.jsonl", "experiment_name": "tiny"}
    text = "".join(f"{key}: {value}\n" for key, value in {**recipe, **more, **where}.items())
    (bench.repo / "tiny.yaml").write_text(text)
    started = bench.root / "started"
    started.mkdir()
    # after the baseline, which is alone, no run trains before three were started: two fill the first host
    together = f"""touch "{started}/$$"
    [ "$(ls "{started}" | wc -l)" -eq 1 ] || until [ "$(ls "{started}" | wc -l)" -ge 4 ]; do sleep 0.1; done
    """
    (bench.repo / "together.sh").write_text(together)
    command = "sh together.sh && python -m autoresearch.tinygrpo --conf tiny.yaml"
    bench.blueprint("tiny", name="tiny.md", command=command, trainer="tinygrpo", recipe="tiny.yaml")
    hosts = "".join(
        f"  {name}: {{kind: ssh, host: {host}, config: {sshd.config}, shared: true, slots: 2}}\n"
        for name, host in (("gpu1", "far"), ("gpu2", "far2"))
    )
    (bench.repo / "autoresearch.yaml").write_text(f"launchers:\n{hosts}")
    bench.commit("two hosts")

    keys = {"blueprint": "tiny.md", "count": 8, "baseline": 1, "retests": 0, "confirm": False}
    camp.start("--launcher", "gpu1,gpu2", **keys)
    camp.until(lambda: len(camp.state().rows) >= 2)
    camp.kill()
    sshd.cut()
    bench.ask("campaign", "resume", camp.place.path.name, "--detach")
    camp.until(lambda: len(camp.state().rows) >= 5)
    sshd.cut()
    state = camp.over()

    assert [row["ending"] for row in counted(rows_of(camp.place))] == ["finished"] * 8
    assert {row.launcher for row in state.rows} == {"ssh/gpu1", "ssh/gpu2"}
    for row in state.rows:
        if row.failure == "launch_interrupted":  # the controller was killed before it was ordered
            continue
        told = [json.loads(line) for line in Path(row.log_path).with_name("events.jsonl").read_text().splitlines()]
        assert [one["event"] for one in told].count("started") == 1


def test_one_campaign_on_this_machine_a_host_and_a_cluster(
    sshd: Any, slurm: Any, camp: Any, tiny: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A mixed pool: the host sees none of our files, the cluster all of them; every place does its share."""
    bench, root = camp.bench, tmp_path_factory.mktemp("far_root")
    bench.env |= slurm.env
    host = {"kind": "ssh", "host": "far", "config": str(sshd.config), "root": str(root), "venv": sys.executable}
    (bench.repo / "autoresearch.yaml").write_text(json.dumps({"launchers": {"gpu1": host}}))
    words = ("campaign", tiny(8), "--yes", "--detach", "--launcher", "local:1, gpu1:1, slurm:2")
    camp.known(bench.ask(*words))
    camp.until(lambda: len(camp.state().rows) >= 3)
    camp.kill()
    bench.ask("campaign", "resume", camp.place.path.name, "--detach")
    camp.over()
    rows = counted(rows_of(camp.place))
    assert [row["ending"] for row in rows] == ["finished"] * 8
    assert {row["launcher"] for row in rows} == {"tmux", "ssh/gpu1", "slurm"}
    assert list(root.rglob("tiny.yaml")), "the host ran on a copy"


def test_a_host_gets_a_copy_of_code_and_of_included_data(sshd: Any, camp: Any) -> None:
    bench = camp.bench
    environment = bench.root / "elsewhere/venv"
    (environment / "bin").mkdir(parents=True)
    (environment / "bin/python").symlink_to(sys.executable)
    own = bench.repo / ".venv"  # the host's has another place, and its name here in the command
    (own / "bin").mkdir(parents=True)
    (own / "pyvenv.cfg").touch()
    (own / "bin/python").symlink_to(sys.executable)
    (bench.repo / ".gitignore").write_text("data/\nreports/\n.venv/\n")
    (bench.repo / "data").mkdir()
    (bench.repo / "data/set.txt").write_text("the ignored data\n")
    command = "cat data/set.txt && echo '{\"n\": '$$'}' > n.json && .venv/bin/python train.py recipe.yaml"
    blueprint = bench.blueprint("data", name="data.md", command=command)
    text = blueprint.read_text().replace("- path: NA", "- path: recipe.yaml")
    text = text.replace(f"- path: {sys.executable}", f"- path: {own}/bin/python")
    blueprint.write_text(f"{text}\n## Other Notes\n- source: json n.json\n")
    root = bench.root / "elsewhere/root"
    host = {"kind": "ssh", "host": "far", "config": str(sshd.config), "root": str(root)}
    host |= {"venv": str(environment), "gpus_per_run": 0}
    (bench.repo / "autoresearch.yaml").write_text(json.dumps({"launchers": {"gpu1": host}}))
    bench.git("add", "-A")
    bench.git("commit", "-qm", "data and a host")
    keys = {"count": 3, "baseline": 1, "retests": 0, "confirm": False, "space": {"lr": [0.1, 0.2, 0.3]}}
    camp.start("--launcher", "gpu1:2", blueprint="data.md", include=["data"], **keys)
    camp.until(lambda: camp.state().rows)
    camp.kill()
    sshd.cut()
    bench.ask("campaign", "resume", camp.place.path.name, "--detach")
    state = camp.over()
    assert [row["ending"] for row in counted(rows_of(camp.place))] == ["finished"] * 3
    logs = [camp.log(row) for row in state.rows if row.failure != "launch_interrupted"]
    assert all(log.count("the ignored data") == 1 for log in logs)
    # the worktree of a run is the next one's: what the source held is read again, as to tell seeds apart
    numbers = [Path(row["run_dir"], "outputs/n.json").read_text() for row in counted(rows_of(camp.place))]
    assert len({*numbers}) == 3, numbers
    assert len(list(root.glob("repositories/*.git"))) == 1
