"""Start-up: what the room of records, and what commands that are typed all night, never import."""

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


MOST = {
    "status --json": 60,
    "wait no-such-run": 64,
    "collect no-such-run": 149,
    "run --dry-run no-such.md": 115,
    "campaign no-such.yaml": 170,
}


@pytest.mark.parametrize("line, most", MOST.items())
def test_a_plain_line_imports_no_typer_and_no_more_of_the_house_than_this(line: str, most: int) -> None:
    """Count of modules, never a time. Raise it only for what the command cannot do without."""
    code = (
        "import sys; sys.path.insert(0, '.')\n"
        "from autoresearch import cli\n"
        f"cli.run({line.split()!r})\n"
        "print('', *sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    modules = done.stdout.splitlines()[-1].split()
    assert not {"inspect", "dataclasses", "importlib.metadata", "sqlite3", "tarfile", "traceback"} & set(modules)
    assert not {"typer", "pydantic", "rich", "pandas", "numpy", "libtmux", "git", "optuna", "jinja2"} & set(modules)
    assert 40 < sum(module.partition(".")[0] == "autoresearch" for module in modules) <= most
