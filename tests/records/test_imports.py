"""Start-up: what the room of records, and what commands that are typed all night, never import."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.system

HEAVY = {
    *("pandas", "numpy", "rich", "typer", "pydantic", "git", "libtmux", "yaml", "jinja2", "psutil"),
    *("asyncio", "unittest", "urllib.request"),
}


def test_records_import_nothing_heavy() -> None:
    code = (
        "import sys; sys.path.insert(0, '.')\n"
        "from autoresearch.records import events, exit_record, index, journal, ledger, recorded_run\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert "autoresearch.records.recorded_run" in done.stdout.split()
    assert not HEAVY & set(done.stdout.split())


@pytest.mark.parametrize(
    "line",
    ["status --json", "wait no-such-run", "collect no-such-run", "run --dry-run no-such.md", "campaign no-such.yaml"],
)
def test_a_plain_line_imports_nothing_that_takes_long(line: str) -> None:
    code = (
        "import sys; sys.path.insert(0, '.')\n"
        "from autoresearch import cli\n"
        f"cli.run({line.split()!r})\n"
        "print('', *sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    modules = done.stdout.splitlines()[-1].split()
    assert not {"typer", "pydantic", "rich", "pandas", "numpy", "optuna", "jinja2", "matplotlib", "plotly"} & set(
        modules
    )
