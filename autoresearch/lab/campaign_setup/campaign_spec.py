"""The CampaignSpec of a campaign file, and the check that it holds no secret."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

from autoresearch.core.agents.agent import AgentSpec
from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.blueprint.model import Blueprint
from autoresearch.core.campaign.spec import CampaignSpec, ProposerSpec
from autoresearch.core.run.json_record import from_record
from autoresearch.core.text import branch_and_run_names as naming
from autoresearch.git_repo.branches import branch_commit
from autoresearch.git_repo.checkout import Checkout
from autoresearch.lab.campaign_setup.campaign_file import CampaignFile
from autoresearch.lab.campaign_setup.campaign_goal import CampaignGoal
from autoresearch.lab.campaign_setup.campaign_keys import AGENT_KEYS
from autoresearch.lab.parts import Parts
from autoresearch.lab.resolve.resolve_blueprint import ResolvedBlueprint
from autoresearch.lab.resolve.run_names import key_of
from autoresearch.records.campaign_records import CampaignDir
from autoresearch.records.index import state_home
from autoresearch.records.secrets import MASK, mask_text, mask_values
from autoresearch.runner.text import plain


def campaign_spec(
    campaign_file: CampaignFile,
    resolved: ResolvedBlueprint,
    checkout: Checkout,
    goal: CampaignGoal,
    proposer_spec: ProposerSpec,
    parts: Parts,
) -> CampaignSpec:
    """The spec of a campaign that has no targets, GPUs and base commit yet."""
    now = parts.clock()
    slug = naming.slugify(campaign_file.path.stem if campaign_file.path else resolved.blueprint.slug)
    day = time.strftime("%Y%m%d", time.localtime(now))
    usual = f"autoresearch/{naming.campaign_name(day, slug)}"
    prefix = campaign_file["prefix"].strip("/") if campaign_file["prefix"] else _own_prefix(usual, checkout)
    name, directory = prefix.rpartition("/")[2], _directory(prefix, checkout)
    recipe, codebase = _in_repository(resolved.recipe, checkout), _in_repository(resolved.codebase, checkout)
    return CampaignSpec(
        name=name,
        slug=slug,
        directory=str(directory),
        repository=str(checkout.root),
        codebase="" if codebase == "." else codebase,
        trees=campaign_file["trees"] or str(default_trees(directory, parts)),
        blueprint=str(resolved.path),
        blueprint_text=resolved.file.data.decode("utf-8", "replace"),
        prefix=prefix,
        base_commit="",
        base=campaign_file["base"] or "the working tree as it is",
        recipe=recipe,
        interpreter=str(resolved.interpreter),
        result_dir=str(resolved.result_dir),
        objective=goal.objective,
        proposer=proposer_spec,
        rules=goal.rules,
        created=now,
        timeout_s=campaign_file["timeout"],
        replicates=campaign_file["baseline"],
        retests=campaign_file["retests"],
        max_machine_retries=campaign_file["max_machine_retries"],
        confirm=campaign_file["confirm"],
        resolution=campaign_file["resolution"],
        runs_per_gpu=campaign_file["runs_per_gpu"],
        gpu_busy_mib=campaign_file["gpu_busy_mib"],
        include=tuple(dict.fromkeys([*resolved.blueprint.notes.include, *campaign_file["include"]])),
        hide=tuple(dict.fromkeys(resolved.blueprint.notes.hide)),
        min_steps=campaign_file["min_steps"],
        prune=campaign_file["prune"],
        warmup=campaign_file["warmup"] or 0,
        keep_gb=campaign_file["keep_gb"],
        research=_agent_spec(campaign_file),
    )


def _agent_spec(campaign_file: CampaignFile) -> AgentSpec:
    fields = {key.spec_field: campaign_file[key.name] for key in AGENT_KEYS if key.spec_field}
    return from_record(AgentSpec, fields)


def named(campaign_spec: CampaignSpec, prefix: str, checkout: Checkout, parts: Parts) -> CampaignSpec:
    """The campaign under another prefix, with the directories that follow from it."""
    directory = _directory(prefix, checkout)
    own = campaign_spec.trees == str(default_trees(Path(campaign_spec.directory), parts))
    trees = str(default_trees(directory, parts)) if own else campaign_spec.trees
    name = prefix.rpartition("/")[2]
    return replace(campaign_spec, name=name, prefix=prefix, directory=str(directory), trees=trees)


def _directory(prefix: str, checkout: Checkout) -> Path:
    """Where the campaign with this prefix keeps its records."""
    return checkout.root / "reports" / "auto_research" / naming.slugify(prefix.rpartition("/")[2])


def _own_prefix(usual: str, checkout: Checkout) -> str:
    """The usual prefix, or one with a number where lone runs have it."""
    return _first_prefix(usual, lambda one: _is_lone(one, checkout) and not _has_campaign(one, checkout))


def free_prefix(usual: str, checkout: Checkout) -> str:
    """The usual prefix, or the first with a number that is neither a campaign's nor a lone run's."""
    return _first_prefix(usual, lambda one: _has_campaign(one, checkout) or _is_lone(one, checkout))


def _first_prefix(usual: str, is_taken: Callable[[str], bool]) -> str:
    """The usual prefix, or one with a number that stays in the name of its directory."""
    if not is_taken(usual):
        return usual
    above, slash, last = usual.rpartition("/")
    above += slash
    return above + naming.first_free(naming.slugify(last), lambda one: is_taken(above + one), naming.SLUG_MAX)


def _has_campaign(prefix: str, checkout: Checkout) -> bool:
    return CampaignDir(_directory(prefix, checkout)).spec.exists()


def _is_lone(prefix: str, checkout: Checkout) -> bool:
    """Whether lone runs have records there or, of a baseline.md, the branch of the baseline."""
    ledger = CampaignDir(_directory(prefix, checkout)).ledger
    return ledger.exists() or branch_commit(checkout, f"{prefix}/baseline") is not None


def default_trees(directory: Path, parts: Parts) -> Path:
    """Where the worktrees go; a campaign of the same name in another repository has others."""
    return state_home(parts.environ) / "worktrees" / f"{directory.name}-{key_of(directory)}"


def _in_repository(path: Path | None, checkout: Checkout) -> str:
    """The path relative to the repository; absolute if it lies elsewhere, "" for None."""
    if path is None:
        return ""
    real = path.resolve()
    root = checkout.root.resolve()
    return str(real.relative_to(root)) if real == root or root in real.parents else str(real)


def secret_findings(campaign_spec: CampaignSpec, blueprint: Blueprint) -> tuple[Finding, ...]:
    """Errors for secrets in what a campaign executes: its records and the commit of each idea would hold them."""
    notes = blueprint.notes
    commands = (blueprint.launch_command, *notes.prepare, *notes.evaluate, *notes.cleanup)
    variables = (f"{name}={value}" for name, value in notes.env.items())
    keys = {name: value for name, value in asdict(campaign_spec).items() if name != "blueprint_text"}
    holders = [f"its blueprint (`{plain(text, 120)}`)" for text in (*commands, *variables) if mask_text(text) != text]
    holders += [f"its key `{name}`" for name, value in keys.items() if MASK in json.dumps(mask_values(value))]
    hint = "pass it by the environment: `- requires_env: NAME` in the notes of the blueprint, `$NAME` in the command"
    return tuple(
        Finding(
            Severity.ERROR,
            "secret_in_campaign",
            f"{holder} holds what looks like a secret, and each idea of a campaign is committed with it",
            hint,
        )
        for holder in holders
    )
