"""Chaos on one account: projects, clones and campaigns of one name, here and on a host, killed at random.

Whatever happens, every number in a ledger is what the commit in its row yields, worked out again from the commit.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import random
import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.real, pytest.mark.waits]

KILLS = 6  # rounds of kill -9, each of a controller, a Runner or a collector, whichever lives


def prepared(camp: Any, sshd: Any) -> list[Any]:
    """The project, a clone of it, and another repository with the same files; each one's trainer has its own offset."""
    bench = camp.bench
    trainer = bench.repo / "train.py"
    text = trainer.read_text().replace("score = 0.5 -", "score = float(open('offset').read()) + 0.5 -")
    trainer.write_text(text)
    host = {"kind": "ssh", "host": "far", "config": str(sshd.config), "shared": True}
    (bench.repo / "autoresearch.yaml").write_text(json.dumps({"launchers": {"gpu1": host}}))
    (bench.repo / "offset").write_text("0.0")
    camp.recipe(sleep=0.3)
    bench.commit("it knows whose it is")
    found = [camp]
    for number, name in enumerate(("clone", "copy"), 1):
        root = bench.root / name
        if name == "clone":
            bench.git("clone", "-q", str(bench.repo), str(root / "repo"))
        else:
            shutil.copytree(bench.repo, root / "repo")
        one = replace(camp, bench=replace(bench, repo=root / "repo", root=root), places=[])
        blueprint = one.bench.repo / "exp.md"
        words = blueprint.read_text().replace(str(bench.repo), str(one.bench.repo))
        blueprint.write_text(words.replace(f"{bench.root}/results", f"{root}/results"))
        (one.bench.repo / "offset").write_text(f"{number}.0")
        one.bench.git("commit", "-qam", "another project")
        found.append(one)
    return found


def yields(bench: Any, row: Any) -> float:
    """What the trainer of a commit prints with the commit's own recipe."""
    lines = (line.split("#")[0].partition(": ") for line in bench.git("show", f"{row.commit}:recipe.yaml").splitlines())
    recipe = {key: value.strip(" '") for key, sign, value in lines if sign}
    lr, noise = float(recipe["lr"]), float(recipe["noise"])
    score = float(bench.git("show", f"{row.commit}:offset")) + 0.5 - 0.1 * (math.log10(lr) + 2) ** 2
    return score + float(recipe["bonus"]) + random.Random(f"{lr} {recipe['data.seed']}").gauss(0, noise)


def kill_one(camps: list[Any], chance: random.Random) -> None:
    """kill -9 of something of ours that lives now."""
    pids = []
    for camp in camps:
        for path in (camp.place.controller, *camp.place.path.glob("*/runner.json")):
            with contextlib.suppress(OSError, ValueError, KeyError):
                record = json.loads(path.read_bytes())
                stat = Path(f"/proc/{record['pid']}/stat").read_text().rpartition(")")[2].split()
                if stat[0] != "Z" and record.get("start_ticks", int(stat[19])) == int(stat[19]):
                    pids.append(int(record["pid"]))
    if pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(chance.choice(pids), signal.SIGKILL)


def test_every_number_belongs_to_its_commit(sshd: Any, camp: Any) -> None:
    chance = random.Random(1)
    camps = prepared(camp, sshd)
    keys = {"count": 4, "baseline": 2, "retests": 1, "confirm": False, "proposer": "random"}
    keys |= {"space": {"lr": {"low": 0.001, "high": 1.0, "log": True}}, "parallel": 2, "gpus_per_run": 0}
    for one in chance.sample(camps, len(camps)):
        one.start("--launcher", "local:1,gpu1:1", **keys)
        again = one.bench.ask("campaign", one.bench.repo / "campaign.yaml", "--yes", "--detach", check=None)
        assert again["exit_code"] in (0, 5), again  # one that runs is not begun twice
    for _ in range(KILLS):
        time.sleep(chance.uniform(0.2, 3.0))
        kill_one(camps, chance)
        resumed(camps)
    for one in camps:
        one.bench.until(lambda one=one: ended(one, camps))
    for one in camps:
        state = one.state()
        assert state.attempted == 4, one.said()
        rows = [row for row in state.rows if row.metric_value is not None]
        assert len(rows) >= 5 and len({row.run_id for row in state.rows}) == len(state.rows), one.said()
        for row in rows:
            assert row.metric_value == pytest.approx(yields(one.bench, row), abs=1e-5), row.run_id
            assert Path(row.run_dir).is_relative_to(one.bench.repo) and not row.flags, row.run_id
        for idea in state.ideas:
            assert one.bench.git("rev-parse", idea.branch)
        assert not list(Path(state.spec.trees).glob("slot-*"))


def resumed(camps: list[Any]) -> None:
    """Whoever lost its controller gets another one."""
    for one in camps:
        if not one.place.controlled and one.state().phase != "ended":
            one.bench.ask("campaign", "resume", one.place.path, "--detach", check=None)


def ended(one: Any, camps: list[Any]) -> bool:
    resumed(camps)
    return one.state().phase == "ended" and not one.place.controlled
