"""What no commit holds, inside the sandbox: bound read-only at its own path, in training and evaluation."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.system

READS = """
import os
import shutil
import tempfile
from pathlib import Path
names = {name for _, _, files in os.walk(".") for name in files}
assert {"x.bin", "y.txt"} <= names, names
assert not os.path.islink("pool/big") and os.path.getsize("pool/big/x.bin") == 60_000_000
for path in (".env", CHECKOUT + "/.env"):
    try:
        print("SECRET", open(path).read())
    except OSError:
        pass
try:
    open("data/cache", "w")
    print("WRITTEN", flush=True)
except OSError as error:
    print(error.strerror, flush=True)
"""


@pytest.fixture
def stranger(lab: Any) -> Any:
    """A project with a large directory among tracked files, a small one, and a key."""
    repo, git = lab.camp.bench.repo, lab.camp.bench.git
    (repo / ".gitignore").write_text("data/\npool/big/\n.env\n")
    for name, text in {"data/y.txt": "1", "pool/code.py": "", "pool/big/x.bin": "2", ".env": "KEY=s3cr3t"}.items():
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_text(text)
    os.truncate(repo / "pool/big/x.bin", 60_000_000)
    (repo / "reads.py").write_text(f"CHECKOUT = {str(repo)!r}\n{READS}")
    (repo / "train.py").write_text("import reads\n" + (repo / "train.py").read_text())
    (repo / "score.py").write_text("import reads\nprint('task_pass_rate@1: 0.4')\n")
    lab.camp.bench.blueprint("ok", command="python train.py recipe.yaml", notes="- evaluate: python score.py")
    path = repo / "exp.md"
    path.write_text(path.read_text().replace("- path: NA", "- path: recipe.yaml"))
    git("add", "-A")
    git("commit", "-qm", "reads")
    return lab


def test_it_is_read_only_and_nothing_of_the_checkout_changes(stranger: Any, bubblewrap: None) -> None:
    stranger.propose(always=True)
    keys = {"count": 1, "baseline": 1, "sandbox": "need"}
    stranger.camp.file(**stranger.keys(**keys))
    before = stranger.camp.checkout()
    state = stranger.run(**keys)
    (row,) = state.rows
    assert (row.metric_value, row.sandbox) == (0.4, "bwrap"), stranger.camp.said()
    for name in ("run.log", "evaluation.log"):
        log = (stranger.camp.place.path / "baseline" / name).read_text()
        assert "Read-only file system" in log and "WRITTEN" not in log
    assert "KEY=" not in stranger.camp.log(row), "an agent's edit could have put this there"
    assert stranger.camp.checkout() == before
    assert row.flags == "", "mount points are no changes of tracked files"


def test_a_refused_write_names_the_line_that_allows_it(stranger: Any, bubblewrap: None) -> None:
    bench = stranger.camp.bench
    (bench.repo / "train.py").write_text("open('data/cache', 'w')\n" + (bench.repo / "train.py").read_text())
    bench.git("commit", "-qam", "writes")
    stranger.propose(always=True)
    stranger.start(count=1, baseline=3, sandbox="need")
    state = stranger.camp.phase("paused")
    assert len(state.rows) == 1
    line = "`include: {path: data/, write: copy}` gives each a copy of its own"
    assert f"runs see data/ read-only, and this one wrote there: {line}" in state.reason
    own = {"include": [{"path": "data/", "write": "copy"}], "prefix": "autoresearch/two"}
    state = stranger.run(count=1, baseline=1, sandbox="need", **own)
    assert [(row.ending, row.sandbox) for row in state.rows] == [("finished", "bwrap")]
    assert not (bench.repo / "data/cache").exists()


def test_an_agent_whose_command_lies_below_tmp_is_seen(lab: Any, bubblewrap: None) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as directory, tempfile.NamedTemporaryFile("w", dir="/tmp") as key:
        for path in lab.place.iterdir():
            shutil.copy(path, directory)
        key.write("here")
        key.flush()
        lab.place = Path(directory)
        used = Path(lab.camp.bench.env["HOME"]) / "used"
        lab.propose(lab.idea("one", parent="baseline"), always=True)
        edit = f"assert open({key.name!r}).read() == 'here'\nopen('knobs.py', 'a').write('# seen')"
        lab.act("edit", always=True, python=edit)
        keys = lab.keys(count=2, baseline=1, sandbox="need")
        keys["agent_command"] = [*keys["agent_command"], f"--key={key.name}"]  # type: ignore[misc]
        state = lab.camp.run(**keys)
        assert not used.exists() and state.by_slug("one").rows[-1].ending == "finished", lab.camp.said()
