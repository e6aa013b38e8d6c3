"""Start-up: the room of records costs no library, and not even the standard library's heavy parts."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.system

HEAVY = {
    *("pandas", "numpy", "rich", "typer", "pydantic", "git", "libtmux", "yaml", "jinja2", "psutil"),
    *("asyncio", "logging", "subprocess", "tempfile", "unittest", "urllib.request", "importlib.metadata"),
}


def test_records_import_nothing_heavy() -> None:
    code = (
        "import sys; sys.path.insert(0, '.')\n"
        "from autoresearch.records import events, exit_record, finish_flag, index, journal, ledger\n"
        "from autoresearch.records import ledger_views, recorded_run\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert "autoresearch.records.recorded_run" in done.stdout.split()
    assert not HEAVY & set(done.stdout.split())
