"""Records of an earlier version stay readable: a lone run and a campaign of November 2026.

`samples/records/2026-11.tar.gz` holds a project (`repo.bundle`, `reports/`, `results/`) and the account's `state/`, as
they were left below /tmp/rec; the recorded interpreter was given another name. `2026-11-paused.tar.gz` holds a campaign
that was paused in the last version without events.jsonl: five ideas, a request for a proof that nobody has answered.
"""

from __future__ import annotations

import json
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from autoresearch.records.campaign_records import CampaignDir, entries

pytestmark = pytest.mark.system
SAMPLES = Path(__file__).parents[1] / "samples" / "records"


@pytest.fixture
def older(bench: Any) -> Any:
    """A bench whose project is the recorded one, at another path; that its paths change is all that differs."""
    return unpacked(bench, "2026-11.tar.gz")


def unpacked(bench: Any, sample: str) -> Any:
    there = bench.root / "older"
    with tarfile.open(SAMPLES / sample) as tar:
        safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # from 3.11.4 on; Debian 12 has 3.11.2
        tar.extractall(there, **safely)
    project, state = bench.root / "project", Path(bench.env["XDG_STATE_HOME"])
    moved = {"/tmp/rec/repo": project, "/tmp/rec/state": state, "/tmp/rec/sock": bench.socket}
    for path in there.rglob("*"):
        if path.is_file() and path.suffix != ".bundle":
            text = path.read_text()
            for old, new in moved.items():
                text = text.replace(old, str(new))
            path.write_text(text)
    subprocess.run(["git", "clone", "-q", "--mirror", there / "repo.bundle", project / ".git"], check=True)
    for words in (["config", "core.bare", "false"], ["reset", "-q", "--hard"]):
        subprocess.run(["git", "-C", project, *words], check=True)
    for folder in ("reports", "results"):
        (there / folder).rename(project / folder)
    state.mkdir(parents=True, exist_ok=True)
    (there / "state").rename(state / "autoresearch")
    bench.repo = project
    return bench


def files(bench: Any) -> dict[Path, bytes]:
    """What is recorded, but for what a look at it may write anew."""
    found = (path for folder in ("reports", "results") for path in (bench.repo / folder).rglob("*"))
    return {path: path.read_bytes() for path in found if path.is_file() and path.name != "collect.lock"}


def test_a_run_and_its_row(older: Any) -> None:
    before = files(older)
    run = older.ask("status", "exp-737ue2")
    assert (run["state"], run["ending"], run["verdict"], run["returncode"]) == ("ended", "finished", "keep", 0)
    assert run["metrics"] == {"reward": 1.0025, "best": 1.0025, "step": 10}
    steps = older.ask("metrics", "exp-737ue2")["steps"]
    assert (len(steps), steps[-1]) == (10, {"step": 10, "metrics": {"reward": 1.0025, "loss": 0.1}})
    events = [event["event"] for event in older.ask("logs", "exp-737ue2", "--events")["events"]]
    assert events == ["started", "first_step", "ended", "recorded"]
    assert "step:10 " in older.here("logs", "exp-737ue2")[1]
    assert older.ask("explain", "too-high-9pjhpm")["failure"] == "program"
    (row,) = older.ask("ledger", "show", "exp-737ue2")["rows"]
    assert (row["metric_name"], row["metric_value"], row["status"]) == ("reward", 1.0025, "keep")
    both = older.ask("compare", "baseline-kwsmnu", "higher-rxaa26")
    assert both["metrics"]["difference"] == pytest.approx(1.0003) and both["config"] == {"lr": [0.1, 0.2]}
    assert older.ask("status")["runs"] == []
    assert files(older) == before, "nothing that was recorded changes by being read"


def test_a_campaign(older: Any) -> None:
    told = older.ask("campaign", "status", "old")
    assert (told["state"], told["attempted"], told["best"], told["best_value"]) == ("ended", 3, "higher", 2.0019)
    rows = older.ask("ledger", "show", told["ledger"])["rows"]
    assert [(row["run_id"].rpartition("-")[0], row["status"]) for row in rows] == [
        *[("baseline", "keep")] * 2,
        ("higher", "keep"),
        ("too-high", "crash"),
    ]
    assert "higher" in older.here("campaign", "status", "old", "--full")[1]
    report = older.ask("report", "old")["files"][0]
    assert "2.002" in Path(report).read_text()
    assert older.ask("campaign", "resume", "old", "--detach", check=5)["error"]["message"].startswith("old has ended")


@pytest.mark.parametrize(
    ("direction", "change", "ends"),
    [
        ("maximize", "+0.9 against the baseline's 1", "+0.4 to +1.4"),
        ("minimize", "-0.9 against the baseline's 2.8", "-1.4 to -0.4"),
    ],
)
def test_every_command_shows_the_estimate_of_a_claim(older: Any, direction: str, change: str, ends: str) -> None:
    ledger = Path(older.ask("campaign", "status", "old")["ledger"])
    spec = ledger.parent / "campaign.json"
    spec.write_text(spec.read_text().replace('"maximize"', f'"{direction}"'))
    numbers = {"gain": 0.9, "gain_low": 0.4, "gain_high": 1.4, "coverage": 0.9, "value": 1.9}
    runs = {"n": 3, "n_baseline": 4, "failed": 1, "failed_baseline": 0}
    verdict = {"do": "confirmed", "index": 2, "slug": "higher", "delta": 1.0, **numbers, **runs}
    (ledger.parent / "verdicts.jsonl").write_text(json.dumps(verdict) + "\n")
    words = f"#2 lr=0.2: confirmed, reward 1.9, {change} "
    words += f"(90 % interval {ends}; 3 fresh runs"
    for line in (("campaign", "status", "old"), ("campaign", "status", "old", "--full"), ("ledger", "show", ledger),
                 ("ledger", "show", ledger, "--format", "md"), ("compare", "old:1", "old:2")):  # fmt: skip
        out = older.here(*line)[1]
        assert words in out, (line, out)
    better = "higher is better" if direction == "maximize" else "lower is better"
    assert f"difference of the search means (B - A): +1, {better};" in older.here("compare", "old:1", "old:2")[1]
    told = older.ask("campaign", "status", "old")
    assert (told["best_shown"]["gain"], told["best_shown"]["failed"]) == (pytest.approx(0.9), 1)
    assert told["best_value"] == 1.9, "as the verdict has it"
    assert told["best_shown"]["search_mean"] == pytest.approx(2.0019)
    assert [claim["sentence"][: len(words)] for claim in told["claims"]] == [words]
    notes = [row["claim_note"][: len(words)] for row in older.ask("ledger", "show", ledger)["rows"]]
    assert notes == ["", "", words, ""]
    report = Path(older.ask("report", "old")["files"][0]).read_text()
    assert words in report


def test_a_campaign_goes_on_in_this_version(older: Any) -> None:
    older.ask("campaign", "add", "old", "--set", "lr=0.3", "--slug", "more")
    older.ask("campaign", "set", "old", "count=4")
    older.until(lambda: older.ask("campaign", "status", "old")["attempted"] == 4)
    older.until(lambda: older.ask("campaign", "status", "old")["state"] == "ended")
    assert older.ask("campaign", "status", "old")["best"] == "more"


def test_a_paused_campaign_is_read_and_goes_on(bench: Any) -> None:
    """What was written before is read as it lies; the first line that is added makes one record of it."""
    bench = unpacked(bench, "2026-11-paused.tar.gz")
    before, place = files(bench), CampaignDir(bench.repo / "reports/auto_research/paused")
    told = bench.ask("campaign", "status", "paused")
    assert (told["state"], told["attempted"], told["best"]) == ("paused", 5, "higher")
    assert told["best_value"] == pytest.approx(1.99826667)
    bench.ask("ledger", "show", told["ledger"])
    assert files(bench) == before, "nothing that was recorded changes by being read"
    bench.ask("campaign", "resume", "paused", "--detach")
    bench.until(lambda: bench.ask("campaign", "status", "paused")["state"] == "ended")
    assert place.events.exists() and "higher" in {one["slug"] for one in entries(place, "confirmed")}
    rows, shown = before[place.ledger], place.ledger.read_bytes()
    assert shown.startswith(rows) and len(shown.splitlines()) > len(rows.splitlines())
    assert bench.ask("campaign", "status", "paused")["best"] == "last", "its re-tests went on"
