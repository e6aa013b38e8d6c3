"""`autoresearch init`: the files of a project's first run and first campaign."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autoresearch.commands import output
from autoresearch.errors import AutoresearchError, ConflictError, UsageError
from autoresearch.lab import settings as project

if TYPE_CHECKING:
    from autoresearch.lab.campaign_setup.campaign_file import CampaignFile

BLUEPRINT, CAMPAIGN = "experiment.md", "campaign.yaml"
_COMMIT = "git init && git add -A && git commit -m start"


def init(
    directory: Annotated[str, typer.Argument(metavar="DIR")] = ".",
    command: Annotated[str, typer.Option(help="How it is trained, if not by train.py, main.py or run.sh.")] = "",
    metric: Annotated[str, typer.Option(help="The objective; by default, what the script prints last.")] = "",
    as_json: Annotated[bool, typer.Option("--json")] = False,
) -> int:
    """Write autoresearch.yaml, a blueprint of the training script, and a campaign.yaml that varies what it takes.

    The script's text is read, and its --help is asked where the text shows no flag. Files that exist are kept.
    """
    root = Path(directory).absolute()
    wrote, asking = _settings_file(root), not output.agent_or_pipe()
    first = _blueprint(root / BLUEPRINT, command, metric, wrote, asking=asking)
    campaign = _campaign(root, wrote) if first["blueprint"] else {"campaign": None, "varies": [], "remarks": []}
    if not wrote:
        raise ConflictError(f"{root / project.FILE} exists already", hint="edit it; nothing was changed")
    remarks = [*first.pop("remarks", ()), *campaign["remarks"]]
    payload: dict[str, Any] = {"path": str(root / project.FILE), "files": [*wrote], **first, **campaign}
    payload["remarks"] = remarks
    near = root == Path.cwd()
    here = {name: name if near else shlex.quote(str(root / name)) for name in (BLUEPRINT, CAMPAIGN)}
    if first["blueprint"]:
        plan = "" if asking else " --dry-run"  # on a terminal it shows the plan and asks
        payload["next"] = [f"autoresearch run {here[BLUEPRINT]}", f"autoresearch campaign start {here[CAMPAIGN]}{plan}"]
    else:
        new = f"autoresearch blueprint new {BLUEPRINT} --purpose WHY --command COMMAND"
        payload["next"] = ["autoresearch config show", new]
    shown = {os.path.relpath(path) if near else path: words for path, words in wrote.items()}
    lines = [f"wrote {path}{words and f': {words}'}" for path, words in shown.items()]
    output.emit("init", payload, as_json=as_json, lines=[*lines, *(f"note: {one}" for one in remarks)])
    output.remark_path()
    return 0


def _settings_file(root: Path) -> dict[str, str]:
    """Write autoresearch.yaml unless it is there; what was written, with a word about it."""
    from autoresearch.lab.json_schemas import write_schema

    path = root / project.FILE
    if path.exists():
        return {}
    with path.open("x", encoding="utf-8") as file:
        file.write(f"{write_schema(root)}\n{project.template()}")
    return {str(path): "every setting, commented out"}


def campaign_file_here(
    source: str, flags: Mapping[str, Any], pairs: Sequence[str], now: float, *, asking: bool, yes: bool
) -> CampaignFile:
    """The campaign file that is named, or that of this directory; where that has none, as `init` writes it."""
    from autoresearch.lab.campaign_setup.campaign_file import NoCampaignFile, read_campaign_file

    here = Path.cwd()
    try:
        return read_campaign_file(source, flags, start=here, now=now, pairs=pairs)
    except NoCampaignFile as none:
        first_files(none, here / BLUEPRINT, asking=asking, yes=yes, campaign=True)
        first_commit(here, asking=asking)
        return read_campaign_file(source, flags, start=here, now=now, pairs=pairs)


def first_files(none: AutoresearchError, blueprint: Path, *, asking: bool, yes: bool, campaign: bool) -> None:
    """Write what `init` does, for a `run` or a `campaign` of a project that has no blueprint; first ask, if `asking`.

    Raises UsageError, with nothing written, where nobody agreed or there is nothing to train. `none`: what to say.
    """
    from autoresearch.lab.campaign_setup.first_blueprint import SCRIPTS, training_command

    root = blueprint.parent
    if not (asking or yes):
        words = [word for word in output.typed if word not in ("--json", "--dry-run")]
        raise UsageError(
            f"nothing was started: {none.message}",
            hint="`autoresearch init` writes what is needed, for you to read first; --yes writes it and starts",
            fix=shlex.join(["autoresearch", *words, "--yes"]) if training_command(root) else none.fix,
            code=none.code,
        )
    if not asking and not training_command(root):
        raise UsageError(
            f"nothing was started: {root} has neither {', '.join(SCRIPTS[:4])} nor a single Python file to train with",
            hint="name the command that trains",
            fix="autoresearch init --command 'python YOUR_SCRIPT.py'",
            code=none.code,
        )
    output.remark(f"{none.message}: this is what `autoresearch init` does")
    wrote: dict[str, str] = {}
    first = _blueprint(blueprint, "", "", wrote, asking=asking)
    if not first["blueprint"]:
        raise UsageError("nothing was started: no command that trains was named", code=none.code)
    wrote |= _settings_file(root)
    remarks = [*first.get("remarks", ()), *(_campaign(root, wrote)["remarks"] if campaign else ())]
    remarks = [one for one in remarks if _COMMIT not in one]  # `first_commit` comes next
    lines = [f"wrote {os.path.relpath(path)}{words and f': {words}'}" for path, words in wrote.items()]
    for line in (*lines, *remarks):
        output.remark(line)


def first_commit(root: Path, *, asking: bool) -> None:
    """Make a folder that is in no repository one, with a commit of its files, if that is wanted."""
    from autoresearch.git_repo import checkout
    from autoresearch.git_repo.snapshot import begin_repository

    found = checkout.locate(root)
    if not isinstance(found, checkout.NoCheckout) or found.remedy != checkout.INIT or root == Path.home():
        return
    if asking and not typer.confirm(f"A campaign keeps each idea on a git branch; `git init` in {root}?", default=True):
        return
    commit, left_out = begin_repository(root)
    left = f"; left out: {', '.join(map(str, left_out[:5]))}" if left_out else ""
    output.remark(f"{root} is a git repository now; its first commit is {commit[:12]}, of what is there{left}")


def _blueprint(path: Path, command: str, metric: str, wrote: dict[str, str], *, asking: bool) -> dict[str, Any]:
    """Write the blueprint, unless there is one or nothing to train; first ask, if `asking`."""
    from autoresearch.lab.campaign_setup import first_blueprint as first
    from autoresearch.lab.render import render_blueprint

    if path.exists():
        return {"blueprint": str(path), "launch_command": command, "metric": metric, "direction": ""}
    root, purpose = path.parent, ""
    command = command or first.training_command(root)
    if asking:
        command = _answer("Which command trains it (empty: none)?", command)
    if not command:
        return {"blueprint": None, "launch_command": "", "metric": metric, "direction": ""}
    likely = [metric] if metric else first.metric_candidates(command, root)
    metric = likely[0] if len(likely) == 1 else ""
    if asking:
        shown = f"{', '.join(likely)}; " if len(likely) > 1 else ""
        metric = _answer(f"Which metric that it prints is the objective ({shown}empty: none)?", metric)
        purpose = _answer("What is the experiment for, in a sentence (may be empty)?", "")
    fields = first.first_blueprint(root, command, metric, purpose, path)
    path.write_text(render_blueprint(fields), encoding="utf-8")
    counts = f"{metric} counts ({fields.direction})" if metric else "no metric is named in it"
    wrote[str(path)] = f"`{command}`; {counts}"
    told: dict[str, Any] = {
        "blueprint": str(path),
        "launch_command": command,
        "metric": metric,
        "direction": fields.direction,
    }
    if not metric and likely:
        told["remarks"] = [f"the objective may be {' or '.join(likely)}: name it as `- metric:` in {path.name}"]
    return told


def _answer(question: str, default: str) -> str:
    return str(typer.prompt(question, default=default, show_default=bool(default))).strip()


def _campaign(root: Path, wrote: dict[str, str]) -> dict[str, Any]:
    """Write the campaign file of the blueprint, unless there is one."""
    from autoresearch.git_repo import checkout
    from autoresearch.lab.campaign_setup.first_campaign import first_campaign

    path, remarks = root / CAMPAIGN, []
    found = checkout.find(root)
    if found is None or not found.head:  # `campaign` in a folder without any file of ours offers to do it
        remarks.append(f"a campaign keeps each idea on a git branch, and there is no commit yet; type: {_COMMIT}")
    if path.exists():
        return {"campaign": str(path), "varies": [], "remarks": remarks}
    campaign = first_campaign(root / BLUEPRINT, os.environ, path.name)
    path.write_text(campaign.text, encoding="utf-8")
    for name, text in campaign.files.items():
        if not (root / name).exists():
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_text(text, encoding="utf-8")
    varied = ", ".join(campaign.varies)
    wrote[str(path)] = f"ideas vary {varied}" if varied else ""
    remarks += [campaign.remark] if campaign.remark else []
    return {"campaign": str(path), "varies": list(campaign.varies), "remarks": remarks}
