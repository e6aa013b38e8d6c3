"""`doctor --launcher` on a real Slurm of the test's own."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.real


def test_a_slurm_cluster(bench: Any, slurm_cluster: Callable[..., Any]) -> None:
    cluster = slurm_cluster(nodes=2)
    said = bench.ask("doctor", "--launcher", "slurm:2", **cluster.env)
    (place,) = said["places"]
    assert place["fit"] and place["latency_s"] < 60
    code, out, _ = bench.here("doctor", "--launcher", "slurm", **cluster.env)
    lines = out.splitlines()
    assert code == 0 and max(map(len, lines[lines.index("slurm: fit") :])) <= 80


def declare(bench: Any, **options: Any) -> None:
    text = json.dumps({"launchers": {"far": options}})
    (bench.repo / "autoresearch.yaml").write_text(text)


def facts_of(place: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["value"] for one in place["facts"]}


@pytest.mark.parametrize("shared", [True, False])
def test_a_host(bench: Any, sshd: Any, shared: bool) -> None:
    root = bench.root / "far-root"
    own = {"shared": shared, "root": str(root), "python": sys.executable}
    declare(bench, kind="ssh", host="far", config=str(sshd.config), **own)
    (place,) = bench.ask("doctor", "--launcher", "far")["places"]
    facts = facts_of(place)
    assert place["fit"] and place["latency_s"] < 60
    assert facts["python"].startswith("3.") and "git" in facts["programs"]
    code, out, _ = bench.here("doctor", "--launcher", "far")
    assert code == 0 and max(map(len, out[out.index("ssh:far: fit") :].splitlines())) <= 80


def test_an_interpreter_that_a_host_lacks_stops_everything_before_it_begins(bench: Any, sshd: Any) -> None:
    blueprint, root = bench.blueprint(), bench.root / "far-root"
    own = {"kind": "ssh", "host": "far", "config": str(sshd.config), "root": str(root), "python": sys.executable}
    declare(bench, **own, venv="/nowhere/venv")
    (bench.repo / "ideas.yaml").write_text("- {slug: more, sentence: Try more, files: {note.txt: more}}\n")
    campaign = bench.repo / "campaign.yaml"
    campaign.write_text(f"{{blueprint: {blueprint.name}, queue: ideas.yaml, count: 2}}\n")
    before = bench.picture("state", ".git/", "home")
    for words in (("run", blueprint), ("run", blueprint, "--dry-run"), ("campaign", campaign, "--yes")):
        told = bench.ask(*words, "--launcher", "far", check=6)["error"]
        assert told["code"] == "missing_interpreter" and "/nowhere/venv" in told["message"] and "venv:" in told["hint"]
    assert bench.picture("state", ".git/", "home") == before and not bench.git("branch", "--list", "autoresearch/*")
    declare(bench, **own)
    assert bench.ask("run", blueprint, "--dry-run", "--launcher", "far")


def test_a_host_that_refuses(bench: Any, sshd: Any) -> None:
    declare(bench, kind="ssh", host="far", config=str(sshd.config))
    sshd.stop()
    (place,) = bench.ask("doctor", "--launcher", "far", check=6)["places"]
    (finding,) = [one for one in place["findings"] if one["severity"] == "error"]
    assert not place["fit"] and finding["code"] and finding["message"] and finding["hint"]
    told = bench.ask("run", bench.blueprint(), "--launcher", "far", check=6)["error"]
    assert told["code"] == finding["code"] and not bench.ask("status")["runs"]
