"""The records of a run that is over, killed at every system call that touches them, then written again."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import sys
from pathlib import Path
from autoresearch.core.run.ledger_row import LedgerRow
from autoresearch.records import finish_flag
from autoresearch.records.ledger import Ledger
place = Path(sys.argv[1])
Ledger(place / "results.tsv").append_once(LedgerRow(index=2, run_id="r-2", description="d" * 3000))
finish_flag.write(place / "out", {"schema": 1, "run": "r-2", "ending": "finished"})
"""


@pytest.mark.real
@pytest.mark.parametrize(
    "call", ["openat", "flock", "pread64", "write", "fsync", "ftruncate", "rename", "unlink", "close"]
)
def test_killed_at_every_system_call_and_repeated(tmp_path: Path, strace: list[str], call: str) -> None:
    from autoresearch.core.run.ledger_row import LedgerRow
    from autoresearch.records import finish_flag
    from autoresearch.records.ledger import Ledger

    points = 0
    for n in range(1, 40):
        place = tmp_path / "place"
        shutil.rmtree(place, ignore_errors=True)
        ledger = Ledger(place / "results.tsv")
        ledger.append_once(LedgerRow(index=1, run_id="r-1"))
        with ledger.path.open("ab") as file:
            file.write(b"2\ttorn")
        (place / "out").mkdir()
        files = ("results.tsv", "results.tsv.torn", "out/finish.flag")
        traced = [part for name in files for part in ("-P", str(place / name))]
        kill = [*strace, *traced, "-e", f"inject={call}:signal=KILL:when={n}"]
        done = subprocess.run([*kill, sys.executable, "-c", CODE, str(place)], capture_output=True, check=False)
        assert done.returncode in (0, -9), done.stderr
        points += done.returncode != 0
        Ledger(place / "results.tsv").append_once(LedgerRow(index=2, run_id="r-2", description="d" * 3000))
        finish_flag.write(place / "out", {"schema": 1, "run": "r-2", "ending": "finished"})
        assert [r.run_id for r in ledger.rows()] == ["r-1", "r-2"], n
        assert "2\ttorn" in (place / "results.tsv.torn").read_text()
        assert json.loads((place / "out" / "finish.flag").read_text())["run"] == "r-2"
        assert [p.name for p in (place / "out").iterdir() if p.suffix != ".tmp"] == ["finish.flag"]
        if done.returncode == 0:
            break
    assert points > 0
