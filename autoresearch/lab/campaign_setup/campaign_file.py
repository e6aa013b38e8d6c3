"""The campaign file with the flags laid over it: every key, its value, and where that came from."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autoresearch.core.agents.agent import AgentSpec
from autoresearch.core.campaign.spec import AT_LEAST, LEAST_CONFIRM_RUNS, too_few_to_confirm
from autoresearch.core.keys import in_known_words, unknown_key
from autoresearch.core.run.json_record import from_record
from autoresearch.errors import NotFoundError, UsageError
from autoresearch.lab.campaign_setup.campaign_keys import AGENT_KEYS, CAMPAIGN_KEYS, DEFAULTS, TYPES
from autoresearch.lab.resolve.resolve_blueprint import NEW_BLUEPRINT, is_blueprint
from autoresearch.lab.yaml_files import load_mapping, parse_pairs

FILES = ("campaign.yaml", "campaign.yml")
_BAD = "bad_campaign_file"


class NoCampaignFile(UsageError):  # noqa: N818 - as InputMissing
    """None was named, and the project has neither a campaign file nor a blueprint."""

    code = "no_campaign_file"


@dataclass(frozen=True, slots=True)
class CampaignFile:
    """A campaign file with the flags laid over it: every key, its value and its source; paths are absolute."""

    blueprint: Path
    path: Path | None  # None if only a blueprint was named
    values: Mapping[str, Any]
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def source(self) -> Path:
        """The file that was named: the campaign file or the blueprint."""
        return self.path or self.blueprint

    @property
    def agent(self) -> AgentSpec:
        """The coding agent and its terms."""
        keys = {key.spec_field: self.values[key.name] for key in AGENT_KEYS if key.spec_field}
        return from_record(AgentSpec, keys)

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def is_set(self, name: str) -> bool:
        """Whether the key was given, rather than left at its default."""
        return name in self.sources


def read_campaign_file(
    name: str, flags: Mapping[str, Any], *, start: Path, now: float, pairs: Sequence[str] = ()
) -> CampaignFile:
    """Read the campaign file (or take the blueprint) that `name` is, and lay flags and `--set KEY=VALUE` pairs over it.

    `name` "" is looked for in `start`. Raises UsageError, NotFoundError or BlueprintError with one sentence.
    """
    typed = _typed(flags, pairs)
    path = (start / name) if name else _find(start)
    if not path.exists():
        raise NotFoundError(f"there is no campaign file or blueprint {path}", hint=NEW_BLUEPRINT)
    file = path if path.suffix in (".yaml", ".yml") else None
    content: dict[str, Any] = in_known_words(load_mapping(file), {*DEFAULTS, "blueprint"}) if file else {}
    if unknown := sorted(content.keys() - {*DEFAULTS, "blueprint"}):
        raise unknown_key(str(file), unknown[0], {*DEFAULTS, "blueprint"})
    blueprint = _blueprint(file, content.get("blueprint")) if file else path
    given = {key: (value, str(file)) for key, value in content.items()} | typed
    sources = {key: source for key, (value, source) in given.items() if value is not None}
    values = {**DEFAULTS, **{key: given[key][0] for key in sources}}
    for name, key in CAMPAIGN_KEYS.items():
        try:
            values[name] = key.read(values[name], now)
        except (ValueError, TypeError, OverflowError) as error:
            raise UsageError(f"{sources.get(name, 'default')}: {name}: {error}", code=_BAD) from None
    _refuse_contradictions(values, sources)
    values["queue"] = _queue(values["queue"], sources.get("queue", ""), file, start)
    if isinstance(values["space"], str):
        root = start if sources["space"].startswith("flag") else path.parent
        values["space"] = load_mapping(root / values["space"])
    return CampaignFile(Path(os.path.abspath(blueprint)), file, values, sources)  # noqa: PTH100


def _typed(flags: Mapping[str, Any], pairs: Sequence[str]) -> dict[str, tuple[Any, str]]:
    """Value and source of each key on the command line; None as a value restores the default."""
    flagged = {key: value for key, value in flags.items() if value not in (None, "", (), [])}
    paired = parse_pairs(pairs, TYPES)
    if twice := next((key for key in paired if key in flagged), None):
        raise UsageError(f"{twice} is given twice: --{twice.replace('_', '-')} and --set {twice}=")
    return {
        **{key: (value, f"flag --{key.replace('_', '-')}") for key, value in flagged.items()},
        **{key: (value, "flag --set") for key, value in paired.items()},
    }


def _refuse_contradictions(values: Mapping[str, Any], sources: Mapping[str, str]) -> None:
    """UsageError for early stopping without a warm-up, and for a proof of the best idea that can never come."""
    if values["at_least"] and not AT_LEAST.match(str(values["at_least"])):
        raise UsageError(f"{sources['at_least']}: at_least is no gain: {values['at_least']!r}", hint="0.02, or 0.5%")
    if values["prune"] and values["warmup"] is None:
        raise UsageError(
            "early stopping needs a warm-up: the steps in which no run is ended for its curve",
            hint="`warmup: 20` in the campaign file, or --set warmup=20",
            code="no_warmup",
        )
    if values["confirm"] and values["baseline"] == 1:
        raise UsageError(
            f"{sources['baseline']}: baseline: 1 with `confirm: true`: one run of the baseline shows no noise, and "
            "without it no idea can be confirmed",
            hint="`baseline: 3` or more (5 is usual), or `confirm: false`: then nothing may be claimed",
            code=_BAD,
        )
    if values["confirm"] and values["confirm_runs"] < LEAST_CONFIRM_RUNS:
        raise UsageError(
            f"{sources['confirm_runs']}: {too_few_to_confirm(values['confirm_runs'])}",
            hint="16 is the default, and `confirm: false` makes none: then nothing may be claimed",
            code=_BAD,
        )


def _queue(queue: Any, source: str, file: Path | None, start: Path) -> str:
    """The path of the queue, absolute; "" without one. A campaign file that lists the ideas is the queue itself."""
    if isinstance(queue, list):
        if file is None or source != str(file):
            raise UsageError("a list of ideas must be in a file: name the file in `queue`", code=_BAD)
        return os.path.abspath(file)  # noqa: PTH100 - the campaign file is the queue: it is read again
    base = file.parent if file and not source.startswith("flag") else start
    return os.path.normpath(base / queue) if queue else ""


def _find(start: Path) -> Path:
    """The project's campaign file, or its only blueprint."""
    folders = (start, start / "blueprints")
    for path in (folder / name for folder in folders for name in FILES):
        if path.is_file():
            return path
    files = [path for folder in folders for path in folder.glob("*-campaign.yaml")]
    blueprints = [path for folder in folders for path in folder.glob("*.md") if is_blueprint(path)]
    if len(files or blueprints) == 1:
        return (files or blueprints)[0]
    found = [str(path.relative_to(start)) for path in (*files, *blueprints)]
    if not found:
        raise NoCampaignFile("here is neither a campaign file nor a blueprint", fix="autoresearch init")
    raise UsageError(
        f"which campaign? several would do: {', '.join(found[:5])}",
        hint="name a blueprint or a campaign.yaml",
        fix=f"autoresearch campaign {found[0]}",
        code="no_campaign_file",
    )


def _blueprint(file: Path, named: object) -> Path:
    if not isinstance(named, str) or not named.strip():
        raise UsageError(f"{file} names no blueprint", hint="add the line `blueprint: my-experiment.md`", code=_BAD)
    path = file.parent / named.strip()
    if not path.is_file():
        raise NotFoundError(f"{file}: the blueprint {path} is not there", code="no_blueprint")
    return path
