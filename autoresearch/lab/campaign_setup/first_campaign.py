"""The first campaign file of a project: what its launch can vary stands in it as a comment, or as a person says it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from autoresearch.core.campaign.space import on_one_line, read_space
from autoresearch.lab.campaign_setup.first_blueprint import settings_of
from autoresearch.lab.campaign_setup.proposer_spec import offered
from autoresearch.lab.json_schemas import first_line
from autoresearch.lab.resolve.resolve_blueprint import base_of, read_blueprint
from autoresearch.lab.yaml_files import parse_mapping

COUNT = 8
MOST_LISTED = 16  # settings, in the comment
_AGENTS = ("claude", "codex", "opencode", "gemini", "qwen", "goose")
_HEAD = """{schema}
# A campaign of `autoresearch`: the unchanged baseline first, then one idea after another, each on a branch of its own.
# `autoresearch campaign start {name}` prints the plan and asks; `autoresearch config schema` lists all keys.
blueprint: {blueprint}
count: {count}  # ideas, the baseline among them; or, for a night: deadline: 10h
{metric}"""
_NOTHING = """\
# No setting is known. `space: {--lr: [0.1, 0.3]}` passes `--lr 0.1` on as it stands (`--lr=` as `--lr=0.1`), `queue:`
# takes ideas of your own, and a coding agent changes the code.
"""
_SPACE = """\
# What the ideas vary is for you to say: remove the first `# ` of `space:` and of each key that may vary, and write its
# values, as a list (`[8, 16]`) or a range (`{low: 1e-5, high: 1e-3, log: true}`). This launch takes, as it is now:
# space:
"""


@dataclass(frozen=True, slots=True)
class FirstCampaign:
    """The text of a campaign file, what its ideas may vary (None: of an unknown value), and why nothing is varied yet.
    """

    text: str
    settings: Mapping[str, int | float | None] = field(default_factory=dict)
    remark: str = ""


def first_campaign(blueprint: Path, environ: Mapping[str, str], name: str) -> FirstCampaign:
    """The campaign file of this name beside a blueprint.

    The program's `--help` is asked for its flags. Raises BlueprintError for a blueprint that is invalid.
    """
    settings = settings_of(read_blueprint(blueprint), environ)
    trainer = settings.trainer
    metric = "" if settings.objective else (
        "# metric: NAME  # the number that counts; without it, the first runs show what there is to choose from\n"
    )  # fmt: skip
    head = _HEAD.format(schema=first_line("campaign"), name=name, blueprint=blueprint.name, count=COUNT, metric=metric)
    if trainer.space(settings.whole):
        return FirstCampaign(f"{head}# space: left out, so it is that of {trainer.name}: low-risk keys of the recipe\n")
    if known := offered(settings.with_flags(environ).launch(base_of(blueprint))):
        lines = [f"#   {key}: [{'' if one is None else on_one_line(one)}]\n" for key, one in known.items()]
        remark = f"what the ideas vary is for you to say: `space:` in {name}"
        return FirstCampaign("".join([head, _SPACE, *lines[:MOST_LISTED]]), known, remark)
    agent = next((one for one in _AGENTS if shutil.which(one, path=environ.get("PATH"))), "")
    ideas = f"proposer: agent\nagent: {agent}\n" if agent else "# proposer: agent\n# agent: claude\n"
    command, none = settings.resolved.blueprint.launch_command, "" if agent else "; none is installed"
    remark = f"no setting of `{command}` is known: a coding agent has to change the code{none}"
    return FirstCampaign(f"{head}{_NOTHING}{ideas}", remark=remark)


def space_line(text: str) -> str:
    """What somebody types as a space, `lr: [0.1, 0.3]`, as a line of a campaign file; UsageError for what is none."""
    line = f"space: {text if text.startswith('{') else f'{{{text}}}'}\n"
    read_space(parse_mapping(line.encode(), "the answer")["space"])
    return line
