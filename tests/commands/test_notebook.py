"""docs/notebook.ipynb: kept without outputs, and executed by a real Jupyter kernel."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import readme_session

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "docs" / "notebook.ipynb"
EXECUTE = """
import sys, nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], 4)
NotebookClient(notebook, timeout=400, kernel_name="python3").execute()
nbformat.write(notebook, sys.argv[2])
"""


def test_it_is_kept_without_outputs() -> None:
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert len(code) > 4 and all(not cell["outputs"] and cell["execution_count"] is None for cell in code)


@pytest.mark.real
def test_it_runs_from_its_first_cell_to_its_last(bench: Any) -> None:
    python = ROOT / ".venv-notebook" / "bin" / "python"
    if not python.exists():
        # `make test-real` installs it and says so where it cannot be had
        pytest.skip("Jupyter's kernel is not installed: make notebook")
    copy = bench.root / "copy"  # whose demo is short: the notebook makes two runs of it
    for name in ("autoresearch", "blueprints", "templates"):
        shutil.copytree(ROOT / name, copy / name)
    readme_session.shorten(copy / "blueprints", steps=8)
    env = {**bench.env, "PATH": f"{python.parent}:{bench.env['PATH']}", "IPYTHONDIR": str(bench.root / "ipython")}
    env["PYTHONPATH"] = f"{copy}:{bench.env['PYTHONPATH']}"
    env |= {"JUPYTER_DATA_DIR": str(bench.root / "jupyter"), "JUPYTER_RUNTIME_DIR": str(bench.root / "runtime")}
    env |= {"JUPYTER_CONFIG_DIR": str(bench.root / "jupyter-config")}
    out = bench.root / "done.ipynb"
    words = [python, "-c", EXECUTE, NOTEBOOK, out]
    done = subprocess.run(words, env=env, cwd=bench.repo, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr[-3000:]
    outputs = [one for cell in json.loads(out.read_text())["cells"] for one in cell.get("outputs", ())]
    shown = json.dumps(outputs)
    assert "image/png" in shown and shown.count("finished") >= 3
    assert "error" not in {one["output_type"] for one in outputs}
