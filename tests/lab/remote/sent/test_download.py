"""What a run left over there comes back, whole or not at all; and the whole way with a real Runner."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autoresearch.core.run.job_launcher import Unreachable
from autoresearch.core.run.trainer import Source, SourceFormat
from autoresearch.git_repo import checkout as repository
from autoresearch.git_repo.worktrees import slot
from autoresearch.lab.parts import Parts
from autoresearch.lab.remote.refresh import Refresher
from autoresearch.lab.remote_files import download, remote_host
from autoresearch.lab.remote_files.download import gather
from autoresearch.launchers import shared
from autoresearch.records import order_file
from autoresearch.records.files import read_json
from autoresearch.records.index import Index
from autoresearch.records.recorded_run import RecordedRun

pytestmark = pytest.mark.system

TAMPERING = """
import os, sys
place = sys.argv[1]
os.makedirs(place, exist_ok=True)
open(place + "/measure.py", "w").write("print('whatever I like')")
open("measure.py", "w").write("print('whatever I like')")
"""


def left_there(yard: Any, **files: bytes) -> Any:
    """A run that is over, and left these files in its results."""
    order, _ = yard.ship()
    order_file.write(yard.rundir, order)
    results = Path(order.paths[yard.spec.result_dir])
    for name, data in files.items():
        path = results / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    Path(order.directory, "exit.json").write_text("{}")
    return order


SAME = b"y" * (1 << 20) + b"z" * 1000
FILES = {
    "metrics/metrics.jsonl": b'{"step": 1}\n',
    "big.bin.log": b"x" * (3 << 20),
    "empty": b"",
    "eval/one.json": SAME,
    "eval/two.json": SAME,
    "checkpoint-10/model.safetensors": b"w" * (5 << 20),
    "checkpoint-10/trainer_state.json": b"{}",
    "plots/a b.png": b"\x00\xff",
}
CAME = ["big.bin.log", "checkpoint-10/trainer_state.json", "empty", "eval/one.json", "eval/two.json"]
CAME += ["metrics/metrics.jsonl", "plots/a b.png"]


def names(place: str) -> list[str]:
    found = (p for p in Path(place).rglob("*") if p.is_file() and p.name != "experiment_log.md")
    return sorted(str(path.relative_to(place)) for path in found)


def gathered(yard: Any, order: Any, **options: Any) -> bool:
    return gather(RecordedRun(yard.rundir, yard.spec), order, yard.reach, **options)


@pytest.fixture(autouse=True)
def _of_up_to_4_mb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "LARGEST", 4 << 20)


def test_results_come_back_and_what_is_large_stays_there(yard: Any) -> None:
    order = left_there(yard, **FILES)
    environment = Path(order.directory, "environment")
    assert environment.exists() and gathered(yard, order)
    assert not environment.exists(), "nobody comes to read it any more"
    assert names(yard.spec.result_dir) == CAME
    for name in CAME:
        assert Path(yard.spec.result_dir, name).read_bytes() == FILES[name]
    weights = f"{order.paths[yard.spec.result_dir]}/checkpoint-10/model.safetensors"
    assert f"left on gpu1: {weights} (5.2 MB)" in yard.said()
    assert "copied from gpu1: 7 files, 5.2 MB" in yard.said()
    assert not list(Path(order.code).parent.glob("*.run")), "its code directory may be another run's now"
    assert gathered(yard, order) and yard.said().count("copied from gpu1") == 1, "a second copy is no other"


@pytest.mark.parametrize(
    ("options", "stays", "comes"),
    [
        (
            {"collect": ["checkpoint-10/*"]},
            {name for name in CAME if not name.startswith(("checkpoint", "metrics"))},
            ["checkpoint-10/model.safetensors", "checkpoint-10/trainer_state.json", "metrics/metrics.jsonl"],
        ),
        ({"collect_max_gb": 0.0025}, {"big.bin.log"}, [name for name in CAME if name != "big.bin.log"]),
    ],
)
def test_what_is_collected_can_be_said(yard: Any, options: Any, stays: set[str], comes: list[str]) -> None:
    yard.place = replace(yard.place, options={**yard.place.options, **options})
    order = left_there(yard, **FILES)
    assert gathered(yard, order)
    assert names(yard.spec.result_dir) == comes, "files of metrics always come"
    assert all(f"left on gpu1: {order.paths[yard.spec.result_dir]}/{name}" in yard.said() for name in stays)


def test_metrics_come_however_large_they_are(yard: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "LARGEST", 10)
    pairs = ((SourceFormat.JSONL, "m.jsonl"), (SourceFormat.TENSORBOARD, "tb"))
    sources = tuple(Source(kind, f"{yard.spec.result_dir}/{name}") for kind, name in pairs)
    yard.spec = replace(yard.spec, sources=sources)
    large = dict.fromkeys(("m.jsonl", "other.jsonl", "tb/events.out.tfevents.1", "tb/model.pt"), b"x" * 100)
    order = left_there(yard, **large)
    assert gathered(yard, order)
    assert names(yard.spec.result_dir) == ["m.jsonl", "tb/events.out.tfevents.1"]


def test_a_stream_that_is_cut_is_fetched_again_as_a_whole(yard: Any) -> None:
    order = left_there(yard, **FILES)
    for at in (0, 1, 5000, 200_000):
        yard.reach.cut_bytes = at
        with pytest.raises(Unreachable):
            gathered(yard, order)
        assert names(yard.spec.result_dir) == []
    yard.reach.cut_bytes = -1
    assert gathered(yard, order)
    assert names(yard.spec.result_dir) == CAME


def test_a_kill_while_files_are_put_in_their_places_doubles_and_loses_nothing(
    yard: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = yard.repo / "outputs/m.jsonl"
    source.parent.mkdir()
    source.write_text("mine\n")
    yard.spec = replace(yard.spec, sources=(Source(SourceFormat.JSONL, str(source)),))
    order = left_there(yard, a=b"1", b=b"2")
    Path(order.code, "outputs").mkdir()
    Path(order.code, "outputs/m.jsonl").write_text("theirs\n")
    for kill_at in (1, 2, 3):
        left = iter(range(kill_at))

        def dies(name: str, left: Any = left) -> None:
            if name == "gather.put" and next(left, None) is None:
                raise KeyboardInterrupt

        monkeypatch.setattr(download, "failpoint", dies)
        with contextlib.suppress(KeyboardInterrupt):
            assert gathered(yard, order)
    assert names(yard.spec.result_dir) == ["a", "b"]
    assert source.read_text() == "theirs\n"
    assert source.with_name(f"m.jsonl.before-{yard.spec.run}").read_text() == "mine\n"
    assert yard.said().count("copied from gpu1: 3 files") == 1
    assert len(list(source.parent.iterdir())) == 2


def test_a_name_from_there_never_leads_out_of_here(yard: Any) -> None:
    order = left_there(yard, fine=b"1")
    results = Path(order.paths[yard.spec.result_dir])
    (results / "away").symlink_to("/etc")
    (results / "out").symlink_to("../../../x")
    (results / "latest").symlink_to("fine")
    # each lies inside, as its text reads; together they lead out
    for name, target in {"q/d": "../a", "w/L": "../q/d/..", "z/M": "../w/L/.."}.items():
        (results / name).parent.mkdir()
        (results / name).symlink_to(target)
    (results / "experiment_log.md").write_text("not ours")
    assert gathered(yard, order)
    here = Path(yard.spec.result_dir)
    assert names(yard.spec.result_dir) == ["fine", "latest"]
    assert not (here / "away").exists() and not (here / "out").is_symlink() and not (here / "z/M").is_symlink()
    assert (here / "latest").read_bytes() == b"1"
    assert "not ours" not in (here / "experiment_log.md").read_text()


def test_a_link_of_ours_leads_no_file_from_there_out_of_the_results(yard: Any) -> None:
    order = left_there(yard, **{"evil/x": b"1", "fine": b"2"})
    outside = yard.root / "outside"
    outside.mkdir()
    Path(yard.spec.result_dir, "evil").symlink_to(outside)
    assert gathered(yard, order)
    assert Path(yard.spec.result_dir, "fine").exists() and not list(outside.iterdir())


def test_a_host_that_was_emptied_is_told_of(yard: Any) -> None:
    order = left_there(yard, **FILES)
    shutil.rmtree(yard.far)
    assert gathered(yard, order)
    assert "results were not copied" in yard.said()


def look_until_it_is_over(yard: Any, started: Any, eventually: Callable[..., None]) -> None:
    """Looks until the run has its last word."""
    refresher = Refresher(Parts({}, Index(), lambda _: None, launcher_for=lambda *_: started))  # type: ignore[arg-type,return-value]

    def over() -> bool:
        refresher.look([yard.rundir], within_s=0.0)
        return bool(yard.rundir.exit_record.exists())

    eventually(over)


def test_the_whole_way(yard: Any, started: Any, eventually: Callable[..., None]) -> None:
    yard.order()
    look_until_it_is_over(yard, started, eventually)
    record = read_json(yard.rundir.exit_record) or {}
    assert (record["ending"], record["returncode"]) == ("finished", 0)
    (source,) = yard.spec.sources
    assert [json.loads(line)["step"] for line in Path(source.path).read_text().splitlines()] == [1, 2, 3]
    order = order_file.read(yard.rundir)
    log = yard.rundir.log.read_text()
    assert order is not None and f"in {order.code} with t0p at {yard.root}/there/home" in log
    assert "step:3 - actor/kl_loss" in log
    assert not yard.rundir.environment.exists() and not Path(order.directory, "environment").exists()
    assert "trainer exited with 0" in yard.said() or "recorded: finished" in yard.said()
    assert "copied from gpu1" in yard.said()


def test_an_evaluation_has_a_tree_of_its_own_made_afresh_over_there(
    yard: Any, started: Any, eventually: Callable[..., None]
) -> None:
    (yard.repo / "measure.py").write_text("print('the measure that was committed')\n")
    base = yard.commit()
    (yard.repo / "train.py").write_text(TAMPERING)
    idea = yard.commit()
    checkout = repository.find(yard.repo)
    assert checkout is not None
    trees = yard.root / "here/trees"
    trained, apart = (slot(checkout, trees / name, reason="test") for name in ("slot-1", "evaluation-1"))
    trained.switch(idea)
    apart.switch(base)
    yard.order(
        cwd=str(trained.path),
        command=f"python {trained.path}/train.py {apart.path}",
        recipe="",
        evaluate=(f"python {apart.path}/measure.py",),
        evaluate_in=str(apart.path),
        evaluate_place=f"{sys.executable} -P -m autoresearch evaluation-place {apart.path}",
        sources=(),
    )
    look_until_it_is_over(yard, started, eventually)
    order = order_file.read(yard.rundir)
    assert order is not None
    there = Path(order.paths[str(apart.path)])
    assert there == Path(f"{order.code}-evaluation")
    assert yard.rundir.evaluation.read_text().endswith("the measure that was committed\n")
    record = read_json(yard.rundir.exit_record) or {}
    assert record["evaluation"]["returncode"] == 0
    assert str(yard.repo) not in yard.rundir.evaluation.read_text()
    trained.remove()
    apart.remove()


def test_a_file_that_cannot_be_read_keeps_no_other_there(yard: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    order = left_there(yard, **{"a": b"fine", "b": b"denied", "c": b"fine"})
    opened, asked = b"open(path, ", shared.program

    def denying(call: str, **values: Any) -> bytes:
        return asked(call, **values).replace(opened, b'open(path + "/" * path.endswith("/b"), ')

    monkeypatch.setattr(remote_host, "program", denying)
    assert gathered(yard, order)
    assert names(yard.spec.result_dir) == ["a", "c"]
    assert f"left on gpu1: {order.paths[yard.spec.result_dir]}/b" in yard.said()


def test_a_disk_that_stays_full_is_told_once(yard: Any) -> None:
    order = left_there(yard, a=b"fine")
    shutil.rmtree(yard.spec.result_dir)
    Path(yard.spec.result_dir).touch()
    for _ in range(5):
        assert not gathered(yard, order)
    assert yard.rundir.events.read_text().count("results cannot be written here") == 1
