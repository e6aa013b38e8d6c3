"""The scratch repository of `autoresearch demo`: the quickstart's blueprints in one commit."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from autoresearch.errors import EnvironmentUnusable
from autoresearch.git_repo.commit_object import commit_tree
from autoresearch.git_repo.git import Git
from autoresearch.lab.render import data_dir
from autoresearch.launchers.program import install_line
from autoresearch.records.index import state_home

BLUEPRINT = "blueprints/quickstart.md"
CAMPAIGN = "blueprints/quickstart-campaign.yaml"
_FILES = (BLUEPRINT, CAMPAIGN, "blueprints/campaign.md", "blueprints/recipes/quickstart.yaml",
          "blueprints/recipes/campaign.yaml")  # fmt: skip
_README = """# A scratch repository of `autoresearch demo`

`autoresearch run blueprints/quickstart.md` and `autoresearch campaign blueprints/quickstart-campaign.yaml --count 24`
do here again what the demo did, and whatever you change in the files. Remove the directory when you are done with it.
"""


def demo_project(environ: Mapping[str, str]) -> Path:
    """A new repository with one commit, below the state directory; each demo gets its own.

    EnvironmentUnusable where git or tmux is missing, OSError where the directory cannot be written.
    """
    if missing := [tool for tool in ("git", "tmux") if shutil.which(tool) is None]:
        message = f"the demo keeps its code in git and trains in tmux; here is no {' and no '.join(missing)}"
        raise EnvironmentUnusable(message, hint="install it", fix=install_line(*missing), code=f"no_{missing[0]}")
    root = _new_directory(state_home(environ) / "demo")
    for name in _FILES:
        target = root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        text = (data_dir("blueprints").parent / name).read_text(encoding="utf-8")
        own = text.replace("- path: auto\n", f"- path: {sys.executable}\n")  # it has the embedded trainer
        target.write_text(own, encoding="utf-8")
    (root / "README.md").write_text(_README, encoding="utf-8")
    (root / ".gitignore").write_text("/auto_agent/\n/reports/\n", encoding="utf-8")
    git = Git(root)
    git.run("init", "-q")
    git.run("add", "--all")
    git.run("update-ref", "HEAD", commit_tree(git, git.line("write-tree"), "", "The quickstart"))
    return root


def _new_directory(parent: Path) -> Path:
    """A directory that nobody else has, named after the time."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    parent.mkdir(parents=True, exist_ok=True)
    for name in (stamp, *(f"{stamp}-{n}" for n in range(2, 100))):
        try:
            (parent / name).mkdir()
        except FileExistsError:
            continue
        return parent / name
    raise FileExistsError(f"{parent / stamp}: a hundred demos began in this second")
