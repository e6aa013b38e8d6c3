"""What the runs of a campaign see of the checkout that no commit holds, and where its command writes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from autoresearch.core.blueprint.finding import Finding, Severity
from autoresearch.core.campaign.overrides import flatten
from autoresearch.core.campaign.spec import CampaignSpec
from autoresearch.core.text.numbers import listed
from autoresearch.errors import AutoresearchError
from autoresearch.lab.campaign_setup.campaign_spec import ProposedBase, not_code
from autoresearch.lab.parts import Parts
from autoresearch.lab.recipes.overrides import LaunchSettings
from autoresearch.lab.resolve.shown_paths import ShowRules, named_paths, paths_to_show
from autoresearch.lab.resolve.trainer_settings import TrainerSettings

_FEW = 5  # paths that a warning names
_WRITES_TO = frozenset(  # keys and flags, with underscores, that name a path to write to
    ["out", "outdir", "out_dir", "out_path", "output", "output_dir", "output_path", "save", "save_dir", "savedir",
     "save_path", "save_file", "checkpoint_dir", "checkpoint_path", "checkpoints_dir", "ckpt_dir", "ckpt_path", "ckpt",
     "logdir", "log_dir", "logging_dir", "results_dir", "result_dir", "run_dir", "work_dir", "workdir",
     "default_local_dir", "default_root_dir", "model_path", "model_dir", "dump_dir"]
)  # fmt: skip


def with_shown(
    campaign_spec: CampaignSpec, base: ProposedBase, trainer_settings: TrainerSettings, launch: LaunchSettings
) -> CampaignSpec:
    """The campaign with what its base commit lacks, and how worktrees show it. UsageError for a bad `include:`."""
    spec, root = campaign_spec, base.checkout.root
    resolved = trainer_settings.resolved
    codebase, notes = resolved.codebase, resolved.blueprint.notes
    outputs = [*named_outputs(launch).values(), *(source.path for source in trainer_settings.sources)]
    written = named_paths(root, codebase, outputs)
    values = [value for value in flatten(launch.settings).values() if isinstance(value, str)]
    named = named_paths(
        root, codebase, [launch.command, *notes.prepare, *notes.evaluate, *spec.research.guard, *values]
    )
    show_rules = ShowRules(
        include=spec.include,
        exclude=spec.exclude,
        own=tuple(os.path.relpath(path, root) for path in map(os.path.realpath, not_code(spec))),
        written=written,
        named=tuple(path for path in named if path not in written or (root / path).is_file()),
        edited=bool(spec.research.agent),
    )
    return replace(spec, shown=paths_to_show(base.checkout, base.entries(), show_rules))


def not_sent(campaign_spec: CampaignSpec, parts: Parts) -> Iterator[Finding]:
    """A warning about what of the checkout runs on hosts that do not share its files will miss."""
    shown = (one.name for one in campaign_spec.shown if one.way.is_shown and not one.included)
    # an environment is looked for there instead
    missing = [name for name in shown if not Path(campaign_spec.repository, name, "pyvenv.cfg").exists()]
    elsewhere = [target for target in campaign_spec.places if missing and not target.is_local]
    with contextlib.suppress(AutoresearchError):  # one that cannot be used is an error elsewhere
        if hosts := [one.name for one in elsewhere if not parts.launcher_for(one, parts.environ).reach.shared]:
            message = f"not in git, and not sent to {', '.join(hosts)}: {listed(missing, _FEW)}"
            hint = f"`include: {missing[0]}` sends it"
            yield Finding(Severity.WARNING, "not_sent", message, hint)


def named_outputs(launch: LaunchSettings) -> dict[str, str]:
    """The settings of a launch that name where it writes: key -> path."""
    whole = launch.settings
    own = {output.key for output in launch.trainer.outputs(whole) if output.name}
    return {
        key: value
        for key, value in flatten(whole).items()
        if isinstance(value, str) and value.strip() and "$" not in value
        if key in own or key.rpartition(".")[2].replace("-", "_").lower() in _WRITES_TO
    }
