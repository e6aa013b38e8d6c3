"""A bit flipped, bytes cut out or doubled in any file of a campaign: no false number, no accusation, no traceback."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autoresearch.commands import ledger, output
from autoresearch.commands.campaign_view import payload_of, state_of
from autoresearch.errors import AutoresearchError
from autoresearch.lab.campaign_report import memory
from autoresearch.lab.campaign_report.report import page_data
from autoresearch.records import campaign_records
from autoresearch.records.files import write_json
from autoresearch.records.rundir import RunDir

pytestmark = pytest.mark.system

MUTATIONS = 200
ACCUSING = ("tampered", "forged", "somebody", "cheat")


def seen(made: Any) -> dict[str, Any]:
    """What the commands show of it, number by number."""
    state = state_of(made.place)
    shown = payload_of(made.place, state)
    memory.brief(state, made.stand(state))
    page = page_data(made.place, state, made.stand(state), made.clock)
    rows = ledger.show(str(made.place.ledger), last=0).payload["rows"]
    return {
        "ideas": {idea.slug: (tuple(idea.values), idea.status, idea.confirmed, idea.marked) for idea in state.ideas},
        "rows": [(row["run_id"], row["metric_value"], row["status"], row["index"]) for row in rows],
        **{name: shown[name] for name in ("attempted", "best", "best_value", "remaining")},
        "report": {name: page[name] for name in ("outcome", "cautions", "ideas", "claims", "progress", "cost")},
    }


def mutated(chance: random.Random, data: bytes) -> bytes:
    at = chance.randrange(len(data))
    end = min(len(data), at + chance.choice((1, 7, 300, 5000)))
    match chance.choice(("flip", "flip", "cut", "tail", "double", "line")):
        case "flip":
            return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
        case "cut":
            return data[:at] + data[end:]
        case "tail":
            return data[:at]
        case "double":
            return data[:end] + data[at:end] + data[end:]
        case _:
            lines = data.splitlines(keepends=True)
            n = chance.randrange(len(lines))
            return b"".join([*lines[: n + 1], lines[n], *lines[n + 1 :]])


def files_of(made: Any) -> dict[Path, bytes]:
    own = [path for path in made.place.path.rglob("*") if path.is_file() and path.name != "run.log"]
    return {path: path.read_bytes() for path in (*own, campaign_records.seal_path(made.place.events))}


@pytest.mark.filterwarnings("ignore::autoresearch.plugins.PluginWarning")  # a letter of a format was flipped
@pytest.mark.parametrize("phase", ["paused", "ended"])
def test_two_hundred_of_them(
    lived: Any, phase: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(phase)
    monkeypatch.setattr(output.typed, "as_json", True)
    for row in lived.state().rows:
        if Path(row.run_dir).is_dir():
            write_json(RunDir(Path(row.run_dir)).collected, {"metric_value": row.metric_value})
    lived.tell("state", state=phase, reason="so it was asked")
    truth, whole = seen(lived), files_of(lived)
    records = [lived.place.events, lived.place.ledger]
    refused = 0
    for _ in range(MUTATIONS):
        path = chance.choice(records if chance.random() < 0.7 else [one for one in whole if one.stat().st_size])
        path.write_bytes(mutated(chance, whole[path]))
        capsys.readouterr()
        try:
            found = seen(lived)
        except AutoresearchError as error:
            assert path == lived.place.events and str(path) in error.message, error
            refused += 1
            continue
        finally:
            told = capsys.readouterr()
            assert not [word for word in ACCUSING if word in (told.out + told.err).lower()]
            for other in [one for one in lived.place.path.rglob("*") if one.is_file() and one not in whole]:
                other.unlink()
            for other, data in whole.items():
                other.write_bytes(data)
        if path == lived.place.events and "are missing" in told.err:  # it was cut: the rest is as it was
            assert set(found["rows"]) == set(truth["rows"])
        else:
            assert found == truth, path
    assert refused < MUTATIONS / 3


def test_what_was_cut_off_goes_on_from_the_ledger(campaign: Callable[..., Any]) -> None:
    """The rows stay, and so do the ideas, with what the ledger tells of them."""
    made = campaign()
    made.idea("lr-up", "A larger step")
    made.run("lr-up", 0.58)
    lines = made.place.events.read_bytes().splitlines(keepends=True)
    made.place.events.write_bytes(b"".join(lines[:3]))
    state = made.state()
    assert [(idea.slug, idea.values) for idea in state.ideas] == [("baseline", [0.50, 0.52, 0.48]), ("lr-up", [0.58])]
    made.tell("state", state="running", reason="")
    assert made.state().phase == "running" and len(made.state().rows) == 4
