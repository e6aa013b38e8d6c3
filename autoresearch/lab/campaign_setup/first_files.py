"""The first files of a project, for `init` and for who runs a script: a blueprint of the training script that it has,
and a campaign file, in which what its launch can vary stands as a comment, or as a person says it.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from textwrap import shorten

from autoresearch.core.blueprint.fields import default_result_dir
from autoresearch.core.blueprint.model import Blueprint, Notes
from autoresearch.core.blueprint.parser import needed_variables, parse_blueprint
from autoresearch.core.campaign.space import on_one_line, read_space
from autoresearch.core.metrics.objective import usual_direction
from autoresearch.core.text.regex import later
from autoresearch.errors import ConflictError
from autoresearch.lab.campaign_setup.proposer_spec import offered
from autoresearch.lab.json_schemas import first_line
from autoresearch.lab.render import render_blueprint
from autoresearch.lab.resolve.resolve_blueprint import BlueprintFile, base_of, read_blueprint, resolve_blueprint
from autoresearch.lab.resolve.trainer_settings import TrainerSettings, ask_trainer
from autoresearch.lab.yaml_files import parse_mapping
from autoresearch.records.files import read_json, write_json
from autoresearch.records.hostile import read_plain
from autoresearch.records.index import state_home, state_usable
from autoresearch.trainers import registry

SCRIPTS = ("train.py", "main.py", "train.sh", "run.sh", "src/train.py", "scripts/train.py", "scripts/train.sh")
README_BYTES, LEAST_WORDS = 16 << 10, 5  # of a README that are read, and of a paragraph that says something
_UNDERLINED = later(r"(?m)^(?:=+|-+)$")  # a title
_WRITTEN = "init.json"  # in the state directory: the digest of each file that `init` wrote, by its path


def training_command(directory: Path) -> str:
    """How the first script of a usual name is started; "" if there is none."""
    script = next((name for name in SCRIPTS if (directory / name).is_file()), "")
    if not script or script.endswith(".sh"):
        return script and f"bash {script}"
    return f"{'uv run' if (directory / 'uv.lock').exists() and shutil.which('uv') else 'python'} {script}"


def first_blueprint(
    directory: Path, command: str, metric: str, purpose: str, path: Path, title: str = ""
) -> Blueprint:
    """A blueprint at `path` that runs this command as it is.

    Paths of a directory above it are absolute: relative ones would mean another one once that is a git repository.
    """
    base = base_of(path)
    codebase = f"./{directory.relative_to(base)}" if directory.is_relative_to(base) else str(directory)
    direction = usual_direction(metric, None).value if metric else ""
    blueprint = Blueprint(
        title=title or path.stem.replace("_", " ").replace("-", " "),
        purpose=purpose or what_it_is(directory) or f"The baseline of {directory.name}: `{command}` as it is.",
        launch_command=command,
        codebase_dir="./" if directory == base else codebase,
        notes=Notes(requires_env=needed_variables(command), metric=metric, direction=direction),
    )
    return replace(blueprint, result_dir="" if directory == base else f"{codebase}/{default_result_dir(blueprint)}")


def what_it_is(directory: Path) -> str:
    """The first paragraph of a project's README, on one line; "" where it has none. Titles and badges are none."""
    for name in ("README.md", "README.rst", "README.txt", "README"):
        text = read_plain(directory / name, README_BYTES).decode("utf-8", "replace")
        for paragraph in text.split("\n\n"):
            words = paragraph.split()
            if len(words) >= LEAST_WORDS and words[0].strip("*_`[")[:1].isalnum() and not _UNDERLINED.search(paragraph):
                return shorten(" ".join(words), 400, placeholder=" ...")
    return ""


def as_read(blueprint: Blueprint, path: Path, environ: Mapping[str, str]) -> TrainerSettings:
    """What a blueprint would mean at `path`, where nothing is written."""
    data = render_blueprint(blueprint).encode()
    return settings_of(BlueprintFile(path, data, parse_blueprint(data, path.name)), environ)


def settings_of(file: BlueprintFile, environ: Mapping[str, str]) -> TrainerSettings:
    """A blueprint as its trainer understands it."""
    resolved = resolve_blueprint(file, environ=environ)
    return ask_trainer(registry.for_blueprint(resolved.blueprint, resolved.shell_reading), resolved)


def command_of(path: Path) -> str:
    """The command of a blueprint."""
    return read_blueprint(path).blueprint.launch_command


def write_file(path: Path, text: str) -> None:
    """Write a file of a project, which may be written anew as long as nobody edits it."""
    path.write_text(text, encoding="utf-8")
    record = state_home() / _WRITTEN
    with state_usable(record.parent):
        record.parent.mkdir(parents=True, exist_ok=True)
        write_json(record, {**(read_json(record) or {}), str(path): _digest(path)}, durable=False)


def unedited(root: Path, names: Sequence[str]) -> set[Path]:
    """Of the files of these names, those that are as `write_file` left them.

    Raises ConflictError if a file of these names is not.
    """
    known = read_json(state_home() / _WRITTEN) or {}
    paths = [root / name for name in names]
    own = {path for path in paths if path.is_file() and known.get(str(path)) == _digest(path)}
    if others := [name for name in names if (root / name).exists() and root / name not in own]:
        raise ConflictError(
            f"{' and '.join(others)} in {root} {'is' if len(others) == 1 else 'are'} not as `init` wrote them",
            hint=f"nothing was changed; edit {others[0]}, or move {' and '.join(others)} away and type it again",
        )
    return own


def _digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


# ------------------------------------------------------------------ the campaign file

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
# No setting is known. If it reads a config file (YAML or JSON), name that under [exp_yaml_path] in the blueprint, and
# `space:` takes its keys; `space: {--lr: [0.1, 0.3]}` passes `--lr 0.1` on as it stands (`--lr=` as `--lr=0.1`);
# `queue:` takes ideas of your own, and a coding agent changes the code.
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
    remark = (
        f"no setting of `{command}` is known: name the config file that it reads (YAML or JSON) under [exp_yaml_path] "
        f"in {blueprint.name}, or let a coding agent change the code{none}"
    )
    return FirstCampaign(f"{head}{_NOTHING}{ideas}", remark=remark)


def space_line(text: str) -> str:
    """What somebody types as a space, `lr: [0.1, 0.3]`, as a line of a campaign file; UsageError for what is none."""
    line = f"space: {text if text.startswith('{') else f'{{{text}}}'}\n"
    read_space(parse_mapping(line.encode(), "the answer")["space"])
    return line
