"""A Runner whose stdout is the only way back: its files can be read from that alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autoresearch.launchers import ray

pytestmark = pytest.mark.system

ALL = {"run.log": 0, "events.jsonl": 0, "evaluation.log": 0, "journal.md": 0}


def output(live: Any) -> bytes:
    """What the Runner wrote on stdout; the test's fixture keeps stdout and stderr in one file."""
    return Path(live.dir / "stderr").read_bytes()


def test_everything_comes_back(yard: Any) -> None:
    """Log, events, journal, exit record: the same as in the run directory, after a line that ends without an end."""
    command = r"printf 'step:1 - actor/kl_loss:0.1\n half a line'; sleep 1.5; printf ' and \036{its end'; exit 3"
    live = yard.make(command, told=True)
    spec = json.loads((live.dir / "spec.json").read_bytes())
    (live.dir / "spec.json").write_text(json.dumps({**spec, "journal": str(live.dir / "journal.md")}))
    record = yard.launch(live).record()
    seen = ray.read(output(live), live.run).seen(ALL, 1 << 20)
    assert seen.exit == record and seen.claimed and not seen.more
    assert seen.beat and seen.runner["started"] <= seen.beat + 1.0 <= record["ended"] + 60.0
    assert seen.runner == json.loads((live.dir / "runner.json").read_bytes())
    assert seen.grown["run.log"] == live.log() and b"and \x1e{its end" in live.log()
    assert seen.grown["journal.md"] == (live.dir / "journal.md").read_bytes()
    events = [json.loads(line) for line in seen.grown["events.jsonl"].splitlines()]
    assert events == live.events()


def test_what_is_no_text_is_replaced(yard: Any) -> None:
    """A character that is written in two pieces is one; a byte that is none cannot keep the log from being read."""
    live = yard.start("printf 'gr\\303'; sleep 1.5; printf '\\274n \\377 x'", told=True)
    assert live.record()["ending"] == "finished"
    log = ray.read(output(live), live.run).files["run.log"].decode()
    assert log == "grün \N{REPLACEMENT CHARACTER} x"
