"""Logs of pods as the way back: whole, however long one is and whoever else has none. No kubectl is needed."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from autoresearch.core.run.job_launcher import Handle, Want
from autoresearch.core.run.targets import Kind, Target
from autoresearch.launchers import kubernetes_files
from autoresearch.launchers.kubernetes import KubernetesLauncher
from autoresearch.launchers.kubernetes_names import RUN, TELLS

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
PLACE = Target("k8s", Kind.KUBERNETES, 2, {"image": "x", "root": "/pods"})


class Cluster:
    """A kubectl that lists pods and hands out their logs, each cut at --limit-bytes as a kubelet cuts it."""

    def __init__(self) -> None:
        self.logs: dict[str, list[tuple[datetime, str]]] = {}
        self.phases: dict[str, str] = {}

    def ask(self, *words: str, timeout_s: float = 0.0) -> bytes:
        return self._logs(words) if words[0] == "logs" else json.dumps({"items": self._items()}).encode()

    def _items(self) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        for run, phase in self.phases.items():
            labels = {RUN: run, TELLS: "yes"}
            items.append({"kind": "Job", "metadata": {"name": f"ajet-{run}", "labels": labels}})
            items.append({"kind": "Pod", "metadata": {"name": run, "labels": labels}, "status": {"phase": phase}})
        return items

    def _logs(self, words: tuple[str, ...]) -> bytes:
        said = dict(word.removeprefix("--").partition("=")[::2] for word in words)
        since = datetime.fromisoformat(said["since-time"]) if "since-time" in said else NOON
        out = ""
        for run, lines in self.logs.items():
            told = "".join(f"{at.strftime('%Y-%m-%dT%H:%M:%SZ')} {text}\n" for at, text in lines if at >= since)
            cut = told[: int(said["limit-bytes"])]
            out += "".join(f"[pod/{run}/runner] {line}" for line in re.findall("[^\n]*\n|[^\n]+", cut))
        return out.encode()


@pytest.mark.parametrize("phase", ["Running", "Pending"])
def test_a_long_log_comes_whole_beside_one_that_is_short_or_not_there_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phase: str
) -> None:
    """A Follower that comes late reads all of it, in pieces, while others have come to the end of theirs."""
    monkeypatch.setattr(kubernetes_files, "MOST_LOG", 1000)
    cluster = Cluster()
    cluster.logs["long"] = [(NOON + timedelta(seconds=n), f"line {n}") for n in range(200)]
    cluster.phases = {"long": "Running", "other": phase}
    if phase == "Running":
        cluster.logs["other"] = [(NOON + timedelta(hours=1), "I am here")]
    launcher = KubernetesLauncher(PLACE, {"XDG_STATE_HOME": str(tmp_path)}, lambda *_: {})
    launcher.kubectl = cluster  # type: ignore[assignment]
    assert launcher.carried is not None
    launcher.carried.kubectl = cluster  # type: ignore[assignment]
    handles = [Handle(run, f"ajet-{run}") for run in cluster.phases]
    log = b""
    for _ in range(20):
        launcher.poll(handles)
        found = launcher.reach.look([Want("long", "/pods/l", {"run.log": len(log)}), Want("other", "/pods/o")])
        log += found["long"].grown.get("run.log", b"")
    assert log.decode().splitlines() == [f"line {n}" for n in range(200)]


def test_a_progress_bar_hides_nothing(tmp_path: Path) -> None:
    """It ends in a carriage return, and what the Runner tells next stands behind it on the same line."""
    cluster = Cluster()
    record = json.dumps({"told": "one", "file": "exit.json", "record": {"ending": "finished"}})
    cluster.logs["one"] = [(NOON, "begun"), (NOON, f"10%\r20%\r\x1e{record}")]
    cluster.phases = {"one": "Running"}
    launcher = KubernetesLauncher(PLACE, {"XDG_STATE_HOME": str(tmp_path)}, lambda *_: {})
    launcher.kubectl = cluster  # type: ignore[assignment]
    assert launcher.carried is not None
    launcher.carried.kubectl = cluster  # type: ignore[assignment]
    launcher.poll([Handle("one", "ajet-one")])
    seen = launcher.reach.look([Want("one", "/pods/o", {"run.log": 0})])["one"]
    assert seen.grown["run.log"] == b"begun\n10%\r20%\r" and seen.exit == {"ending": "finished"}
