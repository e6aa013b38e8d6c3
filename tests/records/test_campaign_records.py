"""events.jsonl: appended to by many, killed anywhere, damaged, cut, lost; and what is read of it then."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.errors import EnvironmentUnusable
from autoresearch.records import campaign_records
from autoresearch.records.campaign_records import CampaignDir, append, append_row, read, write_ledger
from autoresearch.records.files import write_json
from autoresearch.records.ledger import Ledger
from autoresearch.records.rundir import RunDir

Row = Callable[..., LedgerRow]
Forked = Callable[[Callable[[], object]], int]
Dying = Callable[[Callable[[], object], int, bool], Callable[[], None]]


@pytest.fixture
def campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CampaignDir:
    """One that has begun."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    campaign_dir = CampaignDir(tmp_path / "one")
    campaign_dir.path.mkdir()
    append(campaign_dir, "campaign", spec={"name": "one"})
    write_json(campaign_dir.spec, {"name": "one"})
    return campaign_dir


def kinds(campaign_dir: CampaignDir) -> list[str]:
    return [one["do"] for one in read(campaign_dir).events]


def recorded(campaign_dir: CampaignDir, row: LedgerRow) -> None:
    """The row of a run that was collected."""
    rundir = RunDir(campaign_dir.path / Path(row.run_dir).name)
    rundir.path.mkdir()
    write_json(rundir.collected, {"metric_value": row.metric_value})
    append_row(campaign_dir, row)


def lines_of(campaign_dir: CampaignDir) -> list[bytes]:
    return campaign_dir.events.read_bytes().splitlines(keepends=True)


@pytest.mark.system
def test_ten_writers_at_once_lose_and_break_nothing(campaign: CampaignDir) -> None:
    children = []
    for writer in range(10):
        if (pid := os.fork()) == 0:
            try:
                for n in range(20):
                    append(campaign, "note", text=f"{writer} {n} " + "x" * (n % 7) * 1000)
            finally:
                os._exit(0)
        children.append(pid)
    for pid in children:
        os.waitpid(pid, 0)
    record = read(campaign)
    assert record.as_written and not record.remarks
    assert len({one["text"].strip() for one in record.events[1:]}) == 200


@pytest.mark.system
@pytest.mark.parametrize("after", [False, True])
def test_killed_at_every_call_and_repeated_there_is_one_row(
    campaign: CampaignDir, row: Row, forked: Forked, dying: Dying, after: bool
) -> None:
    """Neither the record nor the ledger loses a row or has one twice."""
    for n in range(1, 200):
        one = row(f"r-{n}")
        code = forked(dying(lambda one=one: append_row(campaign, one), n, after))
        append_row(campaign, one)
        record = read(campaign)
        assert [e["row"]["run_id"] for e in record.events if e["do"] == "ran"] == [f"r-{i}" for i in range(1, n + 1)]
        assert [found.run_id for found in Ledger(campaign.ledger).rows()] == [f"r-{i}" for i in range(1, n + 1)]
        if code == 0:
            break
        assert code == -signal.SIGKILL
    assert n > 15 and not record.remarks


def test_half_a_line_a_line_that_is_none_and_one_twice_cost_nothing(campaign: CampaignDir) -> None:
    append(campaign, "first")
    with campaign.events.open("ab") as file:
        file.write(b'{"t": 1, "do": "ha')
    append(campaign, "second")
    lines = lines_of(campaign)
    campaign.events.write_bytes(b"".join([*lines[:1], b"\0\0\n", lines[1], lines[1], *lines[2:], lines[-1]]))
    assert kinds(campaign) == ["campaign", "first", "second"]
    append(campaign, "third")
    assert kinds(campaign)[-1] == "third" and not read(campaign).remarks


def test_what_a_damaged_row_was_is_taken_from_the_runs_own_record(campaign: CampaignDir, row: Row) -> None:
    for n in range(3):
        recorded(campaign, row(f"r-{n}", metric_value=0.5 + n, run_dir=f"/elsewhere/r-{n}"))
        append(campaign, "started", run="next")
    whole, line = read(campaign).events, lines_of(campaign)[3]
    campaign.events.write_bytes(campaign.events.read_bytes().replace(line, line.replace(b'"1.5"', b'"7.5"')))
    record = read(campaign)
    assert [one["row"] for one in record.events if one["do"] == "ran"] == [
        one["row"] for one in whole if one["do"] == "ran"
    ]
    assert "line 4, is damaged: the row of r-1" in record.remarks[0]
    assert "line 4" in campaign_records.make_whole(campaign)[0] and not read(campaign).remarks
    write_json(RunDir(campaign.path / "r-1").collected, {"metric_value": 9.0})
    line = lines_of(campaign)[3]
    campaign.events.write_bytes(campaign.events.read_bytes().replace(line, line.replace(b'"1.5"', b'"7.5"')))
    with pytest.raises(EnvironmentUnusable, match="line 4, is damaged, and nothing else"):
        read(campaign)


@pytest.mark.parametrize("where", [1, 2, -1])
def test_any_other_damage_is_an_error_that_names_the_line(campaign: CampaignDir, where: int) -> None:
    for n in range(3):
        append(campaign, "rules", count=40 + n)
    lines = lines_of(campaign)
    lines[where] = lines[where].replace(b'"count": 4', b'"count": 5')
    campaign.events.write_bytes(b"".join(lines))
    with pytest.raises(EnvironmentUnusable) as caught:
        read(campaign)
    assert caught.value.code == "record_damaged" and f"line {where % 4 + 1}, is damaged" in caught.value.message


@pytest.mark.parametrize("left", [0, 1, 3])
def test_of_a_record_that_was_cut_or_removed_the_ledger_is_taken_in(campaign: CampaignDir, row: Row, left: int) -> None:
    """Never is the ledger overwritten by a record that knows less."""
    rows = [row(f"idea-{n}", index=n, campaign="one", metric_value=float(n)) for n in (1, 2, 3)]
    for one in rows:
        append_row(campaign, one)
    shown = campaign.ledger.read_bytes()
    campaign.events.write_bytes(b"".join(lines_of(campaign)[:left])) if left else campaign.events.unlink()
    record = read(campaign)
    assert [asdict(one) for one in campaign_records.rows(campaign).values()] == [asdict(one) for one in rows]
    assert any("missing" in text for text in record.remarks) == bool(left)
    assert not write_ledger(campaign) and campaign.ledger.read_bytes() == shown
    append(campaign, "more")
    assert kinds(campaign)[-1] == "more" and [*campaign_records.rows(campaign)] == [one.run_id for one in rows]
    assert not read(campaign).remarks


def test_without_its_last_hash_it_is_unsealed_and_used(campaign: CampaignDir) -> None:
    append(campaign, "first")
    campaign_records.seal_path(campaign.events).unlink()
    assert "is unsealed" in read(campaign).remarks[0] and kinds(campaign) == ["campaign", "first"]
    forged = [{**json.loads(line), "do": "forged"} for line in lines_of(campaign)]
    append(campaign, "second")
    assert not read(campaign).remarks
    text, own = b"", ""
    for n, event in enumerate(forged, 1):
        line, own = campaign_records.chained({k: v for k, v in event.items() if k not in ("n", "prev", "hash")}, n, own)
        text += line
    campaign.events.write_bytes(text)
    assert "missing" in read(campaign).remarks[0], "a chain of others"


def test_a_ledger_is_put_right_and_what_was_changed_is_kept(campaign: CampaignDir, row: Row) -> None:
    for n in range(4):
        append_row(campaign, row(f"r-{n}", index=n, metric_value=0.25 + n))
    Ledger(campaign.ledger).append_once(row("of nobody", metric_value=8.0))
    header, *body = campaign.ledger.read_text().splitlines()
    body[1] = body[1].replace("1.25", "99.5")
    campaign.ledger.write_text("\n".join([f"{header}\tremark", *(f"{line}\tmine" for line in body)]) + "\n")
    assert write_ledger(campaign) and not write_ledger(campaign)
    whole = campaign.ledger.read_bytes()
    assert [(one.run_id, one.metric_value) for one in Ledger(campaign.ledger).rows()] == [
        (f"r-{n}", 0.25 + n) for n in range(4)
    ]
    edited = campaign.ledger.with_name("results.tsv.edited").read_text()
    assert "99.5" in edited and "of nobody" in edited and "\tmine" in edited
    lines = whole.splitlines(keepends=True)
    lacking = b"".join(lines[:2] + lines[3:])
    for other in (whole.replace(b"branch", b"brunch", 1), whole + lines[-1], lacking):
        campaign.ledger.write_bytes(other)
        assert write_ledger(campaign) == (other != lacking) and campaign.ledger.read_bytes() == whole
    campaign.ledger.write_bytes(b"".join(line.replace(b"\n", b"\tmine\r\n") for line in lines[:3]))
    assert not write_ledger(campaign), "a column of somebody, and a last row that lacks, are no change"
    assert [one.run_id for one in Ledger(campaign.ledger).rows()] == [f"r-{n}" for n in range(4)]


def test_what_was_removed_is_not_made_anew(campaign: CampaignDir) -> None:
    campaign.events.unlink()
    campaign.spec.unlink()
    with pytest.raises(EnvironmentUnusable):
        append(campaign, "started", run="x")
    assert not campaign.events.exists()
