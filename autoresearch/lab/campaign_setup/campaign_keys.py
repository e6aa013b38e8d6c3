"""The campaign file with the flags laid over it: every key, its value, and where that came from."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autoresearch.core.agents.agent import AgentSpec
from autoresearch.core.blueprint.document import NEW_BLUEPRINT
from autoresearch.core.blueprint.model import DIRECTIONS
from autoresearch.core.campaign.spec import (
    AT_LEAST,
    BASELINE_RUNS,
    CONFIRM_RUNS,
    LEAST_CONFIRM_RUNS,
    too_few_to_confirm,
)
from autoresearch.core.keys import Key, ValueType, in_known_words, unknown_key
from autoresearch.core.metrics.constraint import parse_constraint
from autoresearch.core.run.json_record import as_recorded, from_record
from autoresearch.errors import NotFoundError, UsageError
from autoresearch.lab.resolve.resolve_blueprint import is_blueprint
from autoresearch.lab.yaml_files import load_mapping, parse_pairs
from autoresearch.plugins import Registry

# The keys of a campaign file in one table.

PROPOSERS = ("queue", "grid", "random", "tpe", "agent", "hybrid")


_OWN = ("program", "model", "extra", "template", "keep")  # of each of several agents


def _of_agent(
    name: str, value_type: ValueType, field: str, meaning: str, least: int = 0, choices: tuple[str, ...] = ()
) -> Key:
    """A key whose value is a field of the AgentSpec, and whose default is that field's."""
    default = getattr(AgentSpec(), field)
    shown = list(default) if isinstance(default, tuple) else default
    return Key(name, value_type, shown, meaning, least, choices, spec_field=field, by_name=field in _OWN)


_T = ValueType
_SEARCHES = ("chain", "tip")
_CAMPAIGN_KEYS = (
    Key("count", _T.COUNT, None, "stop after so many attempted ideas; the baseline is one", 1),
    Key("deadline", _T.DEADLINE, None, "time from the start, or a date and time, to stop by"),
    Key("timeout", _T.DURATION, None, "limit of each run; beyond it the idea failed"),
    Key("budget_gpu_hours", _T.AMOUNT, None, "stop when all runs together have used so many"),
    Key("target", _T.TEXT, None, "stop when a kept idea reaches it: 'METRIC >= X', or X"),
    Key("metric", _T.TEXT, "", "the objective; else the blueprint's, else the trainer's"),
    Key("direction", _T.CHOICE, "", "which values are better", choices=("maximize", "minimize"), others=DIRECTIONS),
    Key("constraints", _T.TEXTS, [], "what no idea may break to be kept: 'memory_gb <= 40'; else the blueprint's"),
    Key("prefix", _T.TEXT, "", "of the branches; else autoresearch/<date>-<slug>"),
    Key("base", _T.TEXT, "", "commit to start from; else the working tree as it is"),
    Key("earlier", _T.SWITCH, True, "use what earlier campaigns on the same question measured and tried"),
    Key("proposer", _T.CHOICE, "", "where ideas come from", choices=PROPOSERS, plugins=Registry("proposers")),
    Key("space", _T.SPACE, None, "recipe keys and what they may be; else the trainer's own space"),
    Key("queue", _T.QUEUE, "", "folder of blueprints, YAML list of ideas, or the list itself"),
    Key("seed", _T.COUNT, 0, "of the proposer"),
    Key("baseline", _T.COUNT, BASELINE_RUNS, "runs of the baseline; 4 in a campaign of fewer than 8 ideas", 1),
    Key("retests", _T.COUNT, 6, "further runs, at most, of an idea that looks better"),
    Key("search", _T.CHOICE, "", "tip: ideas run once, on all that seems good; else by proposer", choices=_SEARCHES),
    Key("max_machine_retries", _T.COUNT, 2, "tries again, at most, of a run that the machine ended"),
    Key("confirm", _T.SWITCH, True, "prove the best idea at the end with fresh seeds"),
    Key("prove", _T.SWITCH, False, "put the queue's ideas to the proof, whatever their first runs show"),
    Key("at_least", _T.TEXT, "", "the gain that a claim has to exceed: 0.02, or 0.5% of the baseline's mean"),
    Key("confirm_runs", _T.COUNT, CONFIRM_RUNS, "fresh runs of a round of that proof, at most; from 8 on", 1),
    Key("resolution", _T.AMOUNT, None, "where seeds do nothing: a gain must exceed it; else as the runs show"),
    Key("parallel", _T.COUNT, 1, "runs at a time", 1),
    Key("launcher", _T.TEXT, None, "where runs go, with slots: local:2, ssh:gpu1:4, slurm:8"),
    Key("gpus", _T.TEXT, "none", "pool of GPUs: none, all, N, 0,1 or UUIDs"),
    Key("gpus_per_run", _T.COUNT, None, "GPUs that one run needs"),
    Key("runs_per_gpu", _T.COUNT, 1, "runs that share one GPU", 1),
    Key("gpu_busy_mib", _T.COUNT, 0, "a GPU of which others use so much is not taken; 0: 1 GiB, or 5 %"),
    Key("include", _T.PATHS, [], "what no commit holds and runs see: paths, patterns, {path: P, write: copy}"),
    Key("exclude", _T.PATHS, [], "what no commit holds and runs do not see: paths, patterns"),
    Key("screen", _T.SCREEN, None, "no whole run of what is clearly behind after so long, or with these settings"),
    Key("keep_gb", _T.AMOUNT, 20.0, "checkpoints and other files of all runs that are kept, in GB"),
    Key("trees", _T.TEXT, "", "directory of the worktrees; else below the state directory"),
    Key("gpu_check", _T.SWITCH, True, "refuse recipes that ask for more GPUs than there are"),
)
AGENT_KEYS = (
    Key("budget_usd", _T.AMOUNT, None, "stop when the agent has cost so much"),
    Key("budget_tokens", _T.COUNT, None, "stop when the agent has read and written so many", 1),
    Key("agent", _T.TEXTS, [], "claude, codex, opencode, gemini, qwen, goose, acp, command, plug-in; or several"),
    _of_agent("editors", _T.COUNT, "editors", "edits at a time, at most; else 3, or as many as there are slots", 1),
    _of_agent("agent_program", _T.TEXT, "program", "path of the agent, where it is not on PATH"),
    _of_agent("agent_model", _T.TEXT, "model", "model of the agent, if not its own default"),
    _of_agent("agent_args", _T.COMMAND, "extra", "further words of the agent's command line"),
    _of_agent(
        "agent_command", _T.COMMAND, "template", "of the agents `command` ({prompt_file}, {last_file}, ...) and `acp`"
    ),
    _of_agent("agent_env", _T.TEXTS, "keep", "secret variables that the agent may see, beside its own key"),
    _of_agent("agent_share", _T.SHARE, "share", "hybrid: the agent's part of the ideas"),
    _of_agent("ideas_per_turn", _T.COUNT, "ideas", "ideas that the agent is asked for at a time", 1),
    _of_agent("turn_timeout", _T.DURATION, "turn_s", "of each turn of the agent"),
    _of_agent("turn_steps", _T.COUNT, "turn_steps", "steps of the agent in one turn, at most", 1),
    _of_agent("turn_usd", _T.AMOUNT, "turn_usd", "cost of one turn, at most; a tenth of budget_usd, if that is set"),
    _of_agent("max_fixes", _T.COUNT, "max_fixes", "tries of the agent to repair a failed guard, or a crash"),
    _of_agent("guard", _T.TEXTS, "guard", "commands that must pass on each edit"),
    _of_agent("guard_timeout", _T.DURATION, "guard_s", "of each guard command"),
    _of_agent("protect", _T.TEXTS, "protect", "patterns of files that no edit may touch"),
    _of_agent("allow", _T.TEXTS, "allow", "patterns of protected files that edits may touch all the same"),
    _of_agent("review", _T.SWITCH, "review", "a second turn judges each edit"),
    _of_agent("sandbox", _T.CHOICE, "sandbox", "of the agent", choices=("auto", "need", "off")),
    _of_agent("research", _T.SWITCH, "web", "turns for ideas may use the agent's own tools that search the web"),
    _of_agent("tell", _T.TEXTS, "notes", "notes that the agent reads from its first turn on"),
)
CAMPAIGN_KEYS = {key.name: key for key in (*_CAMPAIGN_KEYS, *AGENT_KEYS)}
TYPES = {key.name: key.type for key in CAMPAIGN_KEYS.values()}  # of `--set`
DEFAULTS: dict[str, Any] = {key.name: key.default for key in CAMPAIGN_KEYS.values()}


FILES = ("campaign.yaml", "campaign.yml")
_BAD = "bad_campaign_file"


@dataclass(frozen=True, slots=True)
class CampaignFile:
    """A campaign file with the flags laid over it: every key, its value and its source; paths are absolute."""

    blueprint: Path
    path: Path | None  # None if only a blueprint was named
    values: Mapping[str, Any]
    sources: Mapping[str, str] = field(default_factory=dict)
    typed: Mapping[str, tuple[Any, str]] = field(default_factory=dict)  # what was laid over it: value and source
    start: Path = Path()  # where
    now: float = 0.0  # when it was read: durations begin then

    @property
    def read_from(self) -> dict[str, Any]:
        """All that reading it again takes; see `CampaignSpec`."""
        origin = {"file": os.path.abspath(self.source), "start": str(self.start), "typed": self.typed}  # noqa: PTH100
        return dict(as_recorded(origin))

    @property
    def source(self) -> Path:
        """The file that was named: the campaign file or the blueprint."""
        return self.path or self.blueprint

    @property
    def agent(self) -> AgentSpec:
        """The coding agents and their terms. UsageError for a value of one that is none of them."""
        names = dict.fromkeys(name.strip() for word in self.values["agent"] or () for name in word.split(","))
        fields, own = dict[str, Any](), {name: dict[str, Any]() for name in names if name}
        for key in AGENT_KEYS:
            if not key.spec_field:
                continue
            value = self.values[key.name]
            if not (isinstance(value, Mapping) and key.by_name):
                fields[key.spec_field] = value
                continue
            for name, one in value.items():
                if name not in own:
                    known = ", ".join(own) or "none"
                    message = f"{self.sources[key.name]}: {key.name} names {name!r}, which is no agent of this campaign"
                    raise UsageError(message, hint=f"its agents: {known}", code=_BAD)
                own[name][key.spec_field] = one
        fields |= {"agent": ",".join(own), "own": {name: values for name, values in own.items() if values}}
        return from_record(AgentSpec, fields)

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def is_set(self, name: str) -> bool:
        """Whether the key was given, rather than left at its default."""
        return name in self.sources


def read_campaign_file(
    name: str,
    flags: Mapping[str, Any],
    *,
    start: Path,
    now: float,
    pairs: Sequence[str] = (),
    before: Mapping[str, tuple[Any, str]] | None = None,
) -> CampaignFile:
    """Read the campaign file (or take the blueprint) that `name` is, and lay flags and `--set KEY=VALUE` pairs over it.

    `name` "" is looked for in `start`. before: what was typed when it was read before. Raises UsageError, NotFoundError
    or BlueprintError with one sentence.
    """
    typed = {**(before or {}), **_typed(flags, pairs)}
    path = (start / name) if name else _find(start)
    if not path.exists():
        hint = NEW_BLUEPRINT if path.suffix else "`autoresearch campaign --help` lists what `campaign` may do"
        raise NotFoundError(f"there is no campaign file or blueprint {path}", hint=hint)
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
    return CampaignFile(Path(os.path.abspath(blueprint)), file, values, sources, typed, start, now)  # noqa: PTH100


def _typed(flags: Mapping[str, Any], pairs: Sequence[str]) -> dict[str, tuple[Any, str]]:
    """Value and source of each key on the command line; None as a value restores the default."""
    flagged = {key: value for key, value in flags.items() if value not in (None, "", (), [])}
    paired = parse_pairs(pairs, TYPES, mapped={key.name for key in AGENT_KEYS if key.by_name})
    if twice := next((key for key in paired if key in flagged), None):
        raise UsageError(f"{twice} is given twice: --{twice.replace('_', '-')} and --set {twice}=")
    return {
        **{key: (value, f"flag --{key.replace('_', '-')}") for key, value in flagged.items()},
        **{key: (value, "flag --set") for key, value in paired.items()},
    }


def _refuse_contradictions(values: dict[str, Any], sources: Mapping[str, str]) -> None:
    """Check the keys that several others bear on, and those with a notation of their own. Raises UsageError."""
    if values["at_least"] and not AT_LEAST.match(str(values["at_least"])):
        raise UsageError(f"{sources['at_least']}: at_least is no gain: {values['at_least']!r}", hint="0.02, or 0.5%")
    try:
        values["constraints"] = [str(parse_constraint(text)) for text in values["constraints"]]
    except ValueError as error:
        raise UsageError(f"{sources['constraints']}: constraints: {error}", code="bad_constraint") from None
    if values["confirm"] and values["baseline"] == 1:
        raise UsageError(
            f"{sources['baseline']}: baseline: 1 with `confirm: true`: one run of the baseline shows no noise, and "
            "without it no idea can be confirmed",
            hint="`baseline: 4` or more (5 is usual), or `confirm: false`: then nothing may be claimed",
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
        message = "here is neither a campaign file nor a blueprint"
        raise UsageError(message, fix="autoresearch init", code="no_campaign_file")
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
