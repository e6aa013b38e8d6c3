"""`autoresearch demo`: the quickstart, from any directory, in a scratch repository of its own."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

from autoresearch.commands import Option, output
from autoresearch.commands.output import CommandResult
from autoresearch.commands.wiring import parts as real_parts
from autoresearch.errors import EnvironmentUnusable
from autoresearch.git_repo.commits import commit_tree
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
IDEAS = 5  # with the baseline; one to two minutes on two cores
_OWN = "autoresearch init YOUR-PROJECT"


def demo(
    campaign: Annotated[bool, Option("--campaign", help="A campaign of five ideas, and its report.")] = False,
) -> CommandResult:
    """Train a tiny policy with real GRPO on this machine's CPU, and show what is recorded of it.

    It works in a new git repository below the state directory; the current directory is left alone.
    """
    root = demo_project(os.environ)
    output.remark(f"a scratch repository for the demo: {root}")
    result = _campaign(root) if campaign else _run(root)
    output.remark_path()
    return result


def _run(root: Path) -> CommandResult:
    from autoresearch.commands.run_view import follow_to_end
    from autoresearch.lab import settings
    from autoresearch.lab.launch.experiment import begin
    from autoresearch.lab.resolve.resolve_run import RunOptions

    options = RunOptions(settings.load(root, environ=os.environ, flags={"launcher": "local"}), real_parts())
    with contextlib.chdir(root):  # it belongs to no project of the user's
        launched = begin(root / BLUEPRINT, options).launched
    run = launched.spec.run
    more = {"repository": str(root), "next": [f"autoresearch metrics {run}", "autoresearch demo --campaign", _OWN]}
    with _way_to_stop(f"stop {run} --reason 'enough of the demo'"):
        return follow_to_end(launched, options.parts, more=more)


def _campaign(root: Path) -> CommandResult:
    from autoresearch.commands.campaign import follow
    from autoresearch.lab.campaign_setup import start_campaign
    from autoresearch.lab.campaign_setup.campaign_keys import read_campaign_file
    from autoresearch.lab.campaign_setup.preflight import preflight
    from autoresearch.lab.campaign_setup.resolve_campaign import resolve_campaign

    parts = real_parts()
    flags = {"count": IDEAS, "launcher": "local:2"}
    with contextlib.chdir(root):
        campaign_file = read_campaign_file(CAMPAIGN, flags, start=root, now=parts.clock())
        proposed = preflight(resolve_campaign(campaign_file, parts))
        campaign_dir = start_campaign.create(proposed, parts)
        attach = start_campaign.start_and_wait(campaign_dir, parts)
    output.remark(f"{IDEAS} ideas, the unchanged baseline among them: one to two minutes on two cores; {attach}")
    more = {
        "repository": str(root),
        "next": [f"autoresearch campaign status {shlex.quote(str(campaign_dir.path))} --full", _OWN],
    }
    with _way_to_stop(f"campaign stop {shlex.quote(str(campaign_dir.path))}"):
        return follow(campaign_dir, more)


@contextlib.contextmanager
def _way_to_stop(words: str) -> Iterator[None]:
    """After Ctrl-C, which ends the watching alone, the line that ends the rest."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(f"{error}\nto end it: autoresearch {words}".strip()) from None


def demo_project(environ: Mapping[str, str]) -> Path:
    """A new repository with one commit, below the state directory; each demo gets its own.

    EnvironmentUnusable where git or tmux is missing, OSError where the directory cannot be written.
    """
    if missing := [tool for tool in ("git", "tmux") if shutil.which(tool) is None]:
        message = f"the demo keeps its code in git and trains in tmux; here is no {' and no '.join(missing)}"
        raise EnvironmentUnusable(message, hint="install it", fix=install_line(*missing), code=f"no_{missing[0]}")
    parent = state_home(environ) / "demo"
    parent.mkdir(parents=True, exist_ok=True)
    root = Path(tempfile.mkdtemp(prefix=time.strftime("%Y%m%d-%H%M%S-"), dir=parent))
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
