"""Is a gain real? Two versions of code, or two commands, as a campaign whose one idea is put to the proof.

The campaign, its blueprint and the idea are written among the records, where the same words find them again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autoresearch.core.blueprint.fields import blueprint_like, default_result_dir
from autoresearch.core.campaign.spec import CONFIRM_RUNS, CampaignPhase
from autoresearch.core.controller.proof import proof_of
from autoresearch.core.text.regex import later
from autoresearch.core.text.session_and_branch_names import SLUG_LEAST, first_free, slugify
from autoresearch.errors import BlueprintError, UsageError
from autoresearch.git_repo.history import diff
from autoresearch.lab.campaign_setup.campaign_registry import known
from autoresearch.lab.campaign_setup.campaign_spec import other_code
from autoresearch.lab.campaign_setup.first_files import first_blueprint
from autoresearch.lab.campaign_setup.read_setup import campaign_checkout, code_of
from autoresearch.lab.campaign_setup.resolve_campaign import ProposedCampaign
from autoresearch.lab.campaigns.campaign_history import CampaignHistory
from autoresearch.lab.parts import Parts
from autoresearch.lab.render import render_blueprint
from autoresearch.lab.resolve.resolve_blueprint import TYPED, base_of, read_blueprint
from autoresearch.lab.yaml_files import dump
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.hostile import read_readable

# The blueprint of a command that somebody typed: what it leaves open is found as `init` finds it.

_STARTERS = later(r"\A(?:(?:uv run|python3?(?:\.\d+)?|bash|sh)\s+(?:-\w+\s+)?)+")
_SUFFIX = later(r"\.(?:py|sh)\b")


def typed_blueprint(command: str, directory: Path, metric: str = "") -> tuple[Path, bool]:
    """Write the blueprint that runs a command in this directory as it stands; the one of an earlier time is kept.

    Also returns whether it was written now.

    metric: the objective; "" leaves it to the trainer, as in any blueprint.
    """
    root = next((folder for folder in (directory, *directory.parents) if (folder / ".git").exists()), directory)
    folder = root / TYPED
    slug = slugify(short_name(command))
    slug = slug if len(slug) >= SLUG_LEAST else f"run-{slug}"  # else its purpose, a sentence, would name the run
    name = first_free(slug, lambda one: _other(folder / f"{one}.md", command, directory))
    path = folder / f"{name}.md"
    if path.exists():
        return path, False
    folder.mkdir(parents=True, exist_ok=True)
    blueprint = first_blueprint(directory, command, metric, "", path)
    path.write_text(render_blueprint(blueprint), encoding="utf-8")
    return path, True


@contextlib.contextmanager
def provisional(path: Path, is_new: bool, *, planned: bool) -> Iterator[None]:
    """Remove a new file or directory, and those above that hold nothing else, if the typed line is wrong or planned."""
    stays = not (is_new and planned)
    try:
        yield
    except (UsageError, BlueprintError):
        stays = not is_new
        raise
    finally:
        if not stays:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                for folder in list(path.parents)[:3]:  # reports/auto_research/typed
                    folder.rmdir()


def short_name(command: str) -> str:
    """A command without the interpreter before its program: `train --lr 0.1`."""
    return _SUFFIX.sub("", _STARTERS.sub("", command))


def _other(path: Path, command: str, directory: Path) -> bool:
    """Whether a blueprint is there that runs another command, or runs it elsewhere."""
    if not path.exists():
        return False
    own = read_blueprint(path).blueprint
    return own.launch_command != command or not directory.samefile(base_of(path) / own.codebase_dir)


RUNS_IN_BUDGET, RUNS_TO_EXCEED = 80, 40  # fresh runs at most
BASELINE_RUNS = 3  # they show whether the seed does anything; the proof has runs of its own
MOST_DIFF = 64 * 2**20
_NAME = 30  # characters before the digest


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two: the command that trains it, and of which code.

    revision: a commit of the repository, or `read_setup.WORKING_TREE`; "" where both sides have the code that is there.
    """

    command: str
    revision: str = ""

    @property
    def shown(self) -> str:
        """What was typed for it."""
        return self.revision or f"`{self.command}`"

    @property
    def name(self) -> str:
        """What a person calls it."""
        return self.revision or short_name(self.command)


def proof_file(
    candidate: Side,
    baseline: Side,
    directory: Path,
    metric: str = "",
    blueprint: Path | None = None,
    at_least: str = "",
    budget: str = "",
    direction: str = "",
    seed: str = "",
) -> tuple[Path, bool]:
    """Write the campaign that tells whether one side is better than the other; one that is there is the same.

    Also returns whether its directory is new.

    blueprint: of the project, for all that the command does not say. Where a time or a gain is named, more runs are
    allowed, so that the time is used, and a gain just above that one is seen. Raises UsageError, EnvironmentUnusable.
    """
    checkout = campaign_checkout(directory)
    commits = [code_of(checkout, side.revision) for side in (candidate, baseline)] if candidate.revision else []
    like = read_readable(blueprint).decode("utf-8", "replace") if blueprint else ""
    bounds = {key: value for key, value in (("at_least", at_least), ("direction", direction)) if value}
    fresh = RUNS_IN_BUDGET if budget else RUNS_TO_EXCEED if at_least else CONFIRM_RUNS
    told = json.dumps([commits, candidate.command, baseline.command, str(directory), metric, like, bounds, fresh, seed])
    name = f"{slugify(f'prove-{candidate.name}')[:_NAME].strip('-')}-{hashlib.sha256(told.encode()).hexdigest()[:6]}"
    folder = checkout.root / TYPED / name
    is_new = not folder.exists()
    entry: dict[str, Any] = {"slug": _slug(candidate.name), "sentence": candidate.name, "parent": "baseline"}
    change = diff(checkout, commits[1], commits[0], max_bytes=MOST_DIFF) if commits else ""
    if commits and not change:
        raise UsageError(f"{candidate.name} and {baseline.name} have the same code: there is nothing to prove")
    folder.mkdir(parents=True, exist_ok=True)
    if commits:
        (folder / "change.diff").write_text(change, encoding="utf-8", errors="surrogateescape")
        entry["patches"] = ["change.diff"]
    else:
        _write(candidate.command, directory, folder / "candidate.md", metric, blueprint, seed)
        entry["blueprint"] = "candidate.md"
    _write(baseline.command, directory, folder / "baseline.md", metric, blueprint, seed)
    campaign = {
        "blueprint": "baseline.md",
        **({"base": commits[1]} if commits else {}),
        **{"proposer": "queue", "count": 2, "baseline": BASELINE_RUNS, "retests": 0, "prove": True},
        **{"confirm_runs": fresh, **bounds},
        "queue": [entry],
    }
    path = folder / f"{name}.yaml"
    path.write_text(dump(campaign), encoding="utf-8")
    return path, is_new


def _slug(name: str) -> str:
    slug = slugify(name)
    return f"{slug}-idea" if slug in ("baseline", "best") else slug


def _write(command: str, directory: Path, path: Path, metric: str, like: Path | None, seed: str) -> None:
    """Write a blueprint of this command; `like`: with all else as that one has it."""
    title = path.parent.name if path.stem == "baseline" else f"{path.parent.name} {path.stem}"
    purpose = f"One side of a proof, see {path.parent.name}.yaml: `{command}`"
    if like is not None:
        own = read_blueprint(like).blueprint
        blueprint = blueprint_like(own, launch_command=command, title=title, purpose=purpose, slug="", result_dir="")
        below = os.path.relpath(directory / default_result_dir(blueprint), base_of(path))
        blueprint = replace(blueprint, result_dir=f"./{below}")
    else:
        blueprint = first_blueprint(directory, command, metric, purpose, path, title)
    if seed:
        blueprint = replace(blueprint, notes=replace(blueprint.notes, seed=seed))
    path.write_text(render_blueprint(blueprint), encoding="utf-8")


def same_before(path: Path, proposed: ProposedCampaign, parts: Parts, *, committed: bool) -> CampaignDir | None:
    """The newest campaign of this file (whose name may hold both commits) and this code, unless it ended undecided."""
    for one in (one for one in known(parts) if path.stem in one.name):  # others may be damaged
        state = CampaignHistory(one.campaign_dir).state()
        spec, claimed = state.spec, any(idea.confirmed for idea in state.ideas)
        undecided = state.phase is CampaignPhase.ENDED and not claimed and proof_of(state).difference is None
        if Path(spec.blueprint).parent != path.parent or undecided:
            continue
        if committed or not other_code(spec.base_commit, proposed.spec, proposed.base):
            return one.campaign_dir
    return None
