"""The keys of a campaign file in one table: type, default and meaning of each, and how a value is checked.

A campaign file, `--set KEY=VALUE` and `config schema` all read this table.
"""

from __future__ import annotations

import datetime
import shlex
from dataclasses import dataclass
from typing import Any

from autoresearch.core.campaign.spec import BASELINE_RUNS, CONFIRM_RUNS
from autoresearch.core.metrics.python_values import truth
from autoresearch.core.text.durations import parse_duration, problem
from autoresearch.lab.key_values import ValueType
from autoresearch.plugins import PluginNames

PROPOSERS = ("queue", "grid", "random", "tpe", "agent", "hybrid")
_DIRECTIONS = {"max": "maximize", "min": "minimize", "higher": "maximize", "lower": "minimize", "up": "maximize",
               "down": "minimize"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class CampaignKey:
    """One key of a campaign file; `least` bounds a whole number, `choices` are the words of a choice."""

    name: str
    type: ValueType
    default: Any
    meaning: str
    least: int = 0
    choices: tuple[str, ...] = ()

    @property
    def takes(self) -> str:
        """Its type in words."""
        if self.type is ValueType.CHOICE:
            return f"{self.type} {', '.join(self.choices)}"
        return f"{self.type} from {self.least}" if self.type is ValueType.COUNT else self.type.value


_T = ValueType
_CAMPAIGN_KEYS = (
    CampaignKey("count", _T.COUNT, None, "stop after so many attempted ideas; the baseline is one", 1),
    CampaignKey("deadline", _T.DEADLINE, None, "time from the start, or a date and time, to stop by"),
    CampaignKey("timeout", _T.DURATION, None, "limit of each run; beyond it the idea failed"),
    CampaignKey("budget_gpu_hours", _T.AMOUNT, None, "stop when all runs together have used so many"),
    CampaignKey("target", _T.TEXT, None, "stop when a kept idea reaches it: 'METRIC >= X', or X"),
    CampaignKey("metric", _T.TEXT, "", "the objective; else the blueprint's, else the trainer's"),
    CampaignKey("direction", _T.CHOICE, "", "which values are better", choices=("maximize", "minimize")),
    CampaignKey("prefix", _T.TEXT, "", "of the branches; else autoresearch/<date>-<slug>"),
    CampaignKey("after", _T.TEXT, "", "begin when this campaign is over"),
    CampaignKey("if", _T.CHOICE, "ended", "with after: only if it confirmed an idea", choices=("ended", "confirmed")),
    CampaignKey("base", _T.TEXT, "", "commit to start from; else the working tree as it is"),
    CampaignKey("proposer", _T.CHOICE, "", "where ideas come from", choices=PROPOSERS),
    CampaignKey("space", _T.SPACE, None, "recipe keys and what they may be; else the trainer's own space"),
    CampaignKey("queue", _T.QUEUE, "", "folder of blueprints, YAML list of ideas, or the list itself"),
    CampaignKey("seed", _T.COUNT, 0, "of the proposer"),
    CampaignKey("baseline", _T.COUNT, BASELINE_RUNS, "runs of the baseline; fewer where 5 are over a fifth of all", 1),
    CampaignKey("retests", _T.COUNT, 6, "further runs, at most, of an idea that looks better"),
    CampaignKey("max_machine_retries", _T.COUNT, 2, "tries again, at most, of a run that the machine ended"),
    CampaignKey("confirm", _T.SWITCH, True, "prove the best idea at the end with fresh seeds"),
    CampaignKey("confirm_runs", _T.COUNT, CONFIRM_RUNS, "fresh runs of a round of that proof, at most; from 8 on", 1),
    CampaignKey("resolution", _T.AMOUNT, None, "where seeds do nothing: a gain must exceed it; else as the runs show"),
    CampaignKey("parallel", _T.COUNT, 1, "runs at a time", 1),
    CampaignKey("launcher", _T.TARGETS, None, "where runs go, with slots: local:2, ssh:gpu1:4, slurm:8"),
    CampaignKey("gpus", _T.TEXT, "none", "pool of GPUs: none, all, N, 0,1 or UUIDs"),
    CampaignKey("gpus_per_run", _T.COUNT, None, "GPUs that one run needs"),
    CampaignKey("runs_per_gpu", _T.COUNT, 1, "runs that share one GPU", 1),
    CampaignKey("gpu_busy_mib", _T.COUNT, 0, "a GPU of which others use so much is not taken; 0: 1 GiB, or 5 %"),
    CampaignKey("include", _T.TEXTS, [], "untracked inputs that worktrees need; linked"),
    CampaignKey("min_steps", _T.COUNT, 0, "a run with fewer steps judges nothing"),
    CampaignKey("prune", _T.CHOICE, "", "end runs whose curve is behind; needs warmup", choices=("median", "halving")),
    CampaignKey("warmup", _T.COUNT, None, "steps in which no run is ended for its curve"),
    CampaignKey("keep_gb", _T.AMOUNT, 20.0, "checkpoints and other files of all runs that are kept, in GB"),
    CampaignKey("trees", _T.TEXT, "", "directory of the worktrees; else below the state directory"),
    CampaignKey("gpu_check", _T.SWITCH, True, "refuse recipes that ask for more GPUs than there are"),
)
AGENT_KEYS = (
    CampaignKey("budget_usd", _T.AMOUNT, None, "stop when the agent has cost so much"),
    CampaignKey("budget_tokens", _T.COUNT, None, "stop when the agent has read and written so many", 1),
    CampaignKey("agent", _T.TEXT, "", "claude, codex, opencode, gemini, qwen, aider, command or a plug-in"),
    CampaignKey("agent_program", _T.TEXT, "", "path of the agent, where it is not on PATH"),
    CampaignKey("agent_model", _T.TEXT, "", "model of the agent, if not its own default"),
    CampaignKey("agent_args", _T.COMMAND, [], "further words of the agent's command line"),
    CampaignKey("agent_command", _T.COMMAND, [], "of the agent `command`: {prompt_file}, {schema_file}, {last_file}"),
    CampaignKey("agent_env", _T.TEXTS, [], "secret variables that the agent may see, beside its own key"),
    CampaignKey("agent_share", _T.SHARE, 0.5, "hybrid: the agent's part of the ideas"),
    CampaignKey("ideas_per_turn", _T.COUNT, 3, "ideas that the agent is asked for at a time", 1),
    CampaignKey("turn_timeout", _T.DURATION, 1800.0, "of each turn of the agent"),
    CampaignKey("turn_steps", _T.COUNT, 60, "steps of the agent in one turn, at most", 1),
    CampaignKey("turn_usd", _T.AMOUNT, None, "cost of one turn, at most"),
    CampaignKey("max_fixes", _T.COUNT, 2, "tries of the agent to repair a run that crashed"),
    CampaignKey("guard", _T.TEXTS, [], "commands that must pass on each edit"),
    CampaignKey("guard_timeout", _T.DURATION, 600.0, "of each guard command"),
    CampaignKey("protect", _T.TEXTS, [], "patterns of files that no edit may touch"),
    CampaignKey("allow", _T.TEXTS, [], "patterns of protected files that edits may touch all the same"),
    CampaignKey("review", _T.SWITCH, False, "a second turn judges each edit"),
    CampaignKey("summarise", _T.SWITCH, True, "let the agent write a summary at the end"),
    CampaignKey("sandbox", _T.CHOICE, "auto", "of the agent", choices=("auto", "need", "off")),
    CampaignKey("hold", _T.SWITCH, False, "code ideas wait for `campaign approve`"),
    CampaignKey("tell", _T.TEXTS, [], "notes that the agent reads from its first turn on"),
)
CAMPAIGN_KEYS = {key.name: key for key in (*_CAMPAIGN_KEYS, *AGENT_KEYS)}
TYPES = {key.name: key.type for key in CAMPAIGN_KEYS.values()}  # of `--set`
DEFAULTS: dict[str, Any] = {key.name: key.default for key in CAMPAIGN_KEYS.values()}


def converted(key: CampaignKey, value: Any, now: float) -> Any:
    """The value in the type of its key. ValueError or TypeError, with one clause, where it has none."""
    if value is None:
        return None
    match key.type:
        case ValueType.COUNT:
            return _count(key, value)
        case ValueType.AMOUNT | ValueType.SHARE:
            return _number(key.type, value)
        case ValueType.DURATION:
            return seconds(value)
        case ValueType.DEADLINE:
            return as_deadline(value, now)
        case ValueType.SWITCH:
            if (switch := truth(value)) is None:
                raise ValueError(f"{value!r} is neither true nor false")
            return switch
        case ValueType.CHOICE:
            return _choice(key, value)
        case ValueType.TEXTS | ValueType.COMMAND:
            return _texts(key.type, value)
        case ValueType.TEXT:
            return str(value).strip()
        case ValueType.QUEUE if not isinstance(value, str | list):
            raise ValueError(f"{value!r} is neither a path nor a list of ideas")
    return value


def _count(key: CampaignKey, value: Any) -> int:
    known = _float(value)
    number = int(known) if not isinstance(value, bool) and known.is_integer() else None
    if number is None or number < key.least:
        raise ValueError(f"{value!r} is not a whole number of at least {key.least}")
    return number


def _float(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{value!r} is not a number") from None


def _number(value_type: ValueType, value: Any) -> float:
    number = _float(value)
    if isinstance(value, bool) or not (0.0 <= number <= 1.0 if value_type is ValueType.SHARE else number > 0):
        raise ValueError(f"{value!r} is not a {value_type}")
    return number


def _choice(key: CampaignKey, value: Any) -> str:
    word = str(value).strip()
    if key.name == "direction":
        word = _DIRECTIONS.get(word.lower(), word.lower())
    if key.name in ("prune", "sandbox") and truth(value) is False:  # `off`, which YAML takes for false
        word = "off" if key.name == "sandbox" else ""
    if key.name == "proposer" and word not in ("", *key.choices) and word in PluginNames("proposers"):
        return word
    if word not in ("", *key.choices) or (not word and key.default):
        neither = len(key.choices) == 2
        words = f"neither {' nor '.join(key.choices)}" if neither else f"not one of {', '.join(key.choices)}"
        raise ValueError(f"{value!r} is {words}")
    return word


def _texts(value_type: ValueType, value: Any) -> list[str]:
    if not isinstance(value, str | list | tuple):
        raise ValueError(f"{value!r} is no list")
    if isinstance(value, str):
        return shlex.split(value) if value_type is ValueType.COMMAND else [value]
    return [str(item) for item in value]


def seconds(value: Any) -> float:
    """A duration, or a number of seconds. ValueError for one that nothing could wait for."""
    found = float(value) if isinstance(value, int | float) else parse_duration(str(value))
    if wrong := problem(found):
        raise ValueError(f"{value!r} {wrong}")
    return found


def as_deadline(value: Any, now: float) -> float:
    """Wall clock seconds: from a duration that begins now, or from a date and time."""
    if isinstance(value, datetime.datetime):
        at = value.timestamp()
    else:
        try:
            at = datetime.datetime.fromisoformat(str(value)).timestamp()
        except ValueError:
            return now + seconds(value)
    if at <= now:
        raise ValueError(f"{value} has passed")
    return at
