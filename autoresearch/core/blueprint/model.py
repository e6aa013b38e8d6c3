"""Blueprint: markdown in seven sections that states why and how to run one experiment, and notes.

The format is AgentJet's (skills auto-research-blueprint-execute-classic and -swarm) and that of
Alpha-RL-Research, whose blueprints fill the same sections with typed keys. Of its texts only commands
(`launch_command`, `notes.prepare`, `notes.cleanup` ...) are ever run by a shell.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from autoresearch.core.blueprint.finding import Finding
from autoresearch.core.keys import Key, ValueType
from autoresearch.core.run.limits import EVALUATE_S, FIRST_STEP_S, MAX_TIME_S
from autoresearch.core.run.swarm import DEBUG_S, HEALTH_S, POLL_S, Swarm
from autoresearch.core.run.trainer import Source
from autoresearch.core.text.durations import spoken

RESULT_ROOT = "./auto_agent/exp_results/"
_PATH_WORDS = "dir directory path folder file value codebase python venv yaml recipe config 目录 路径"


@dataclass(frozen=True, slots=True)
class SectionKind:
    """One of the seven sections. `words`: the labels that may stand in front of its value."""

    name: str
    key: str  # of the item with its value
    meaning: str
    default: str  # what is taken where it is missing
    words: str = _PATH_WORDS
    is_path: bool = False


SECTION_KINDS = (
    SectionKind(
        *("exp_purpose", "purpose", "what it is for and how it differs from the others", ""),
        words="purpose 目的",
    ),
    SectionKind("exp_codebase_dir", "dir", "the directory that the command runs in", "./", is_path=True),
    SectionKind(
        *("exp_venv_exe", "path", "the trainer's python, or auto"),
        "the active environment, then <codebase>/.venv or venv, then PATH",
        is_path=True,
    ),
    SectionKind(
        *("exp_yaml_path", "path", "the recipe: in the codebase, the base, or beside the blueprint", "NA"), is_path=True
    ),
    SectionKind(
        *("exp_launch_command", "command", "one shell command, the only text that a shell reads", ""),
        words="command cmd 命令",
    ),
    SectionKind(
        *("exp_result_dir", "path", "where log, results and finish.flag go", f"{RESULT_ROOT}<slug>/"), is_path=True
    ),
    SectionKind(
        *("exp_max_time", "time"),
        "the time in all; a limit to the first step too, if it is to be enforced as written; each with its label",
        f"{spoken(MAX_TIME_S)} in all, {spoken(FIRST_STEP_S)} to the first step",
        words="time 时间",
    ),
)
SECTIONS = tuple(kind.name for kind in SECTION_KINDS)


@dataclass(frozen=True, slots=True)
class Notes:
    """The values that the notes declare; empty where not declared. `text` is all notes as text, for readers."""

    trainer: str = ""
    launcher: str = ""  # the target, in the syntax of `--launcher`
    metric: str = ""
    direction: str = ""  # maximize, minimize or ""
    constraint: tuple[str, ...] = ()  # limits on other metrics (`core.metrics.constraint`)
    slug: str = ""
    prepare: tuple[str, ...] = ()  # shell commands that run before the trainer
    evaluate: tuple[str, ...] = ()  # shell commands that measure the run after its trainer has exited
    evaluate_s: float = EVALUATE_S
    cleanup: tuple[str, ...] = ()  # shell commands that run after any ending
    env: Mapping[str, str] = field(default_factory=dict)
    requires_env: tuple[str, ...] = ()
    include: tuple[str, ...] = ()  # what a worktree shows of the checkout, as `parse_include` takes it
    exclude: tuple[str, ...] = ()
    hide: tuple[str, ...] = ()  # what only the evaluation may read, such as its answers
    artifacts: tuple[str, ...] = ()  # files of a run that a coding agent is shown, beyond those below `artifacts/`
    writable: tuple[str, ...] = ()  # directories outside its own that a sandboxed trainer may write to
    seed: str = ""  # how a seed is passed to the training: a recipe key, --flag or $NAME; or a number, the first seed
    first_step: str = ""  # "kl": only a printed KL counts as the first step, as published
    keep_children: bool = False
    resume: bool = False  # the run may continue from what an earlier run left
    source: tuple[Source, ...] = ()  # files of metrics, preferred over all others
    swarm: Swarm | None = None  # the server side of a run in AgentJet's swarm mode
    step_line: tuple[str, ...] = ()  # format of the training-step lines of an unknown trainer
    validation_line: tuple[str, ...] = ()
    text: str = ""

    @property
    def lines(self) -> tuple[str, ...]:
        """The declared line formats, each prefixed with its kind, `step` or `validation`."""
        return (*(f"step {text}" for text in self.step_line), *(f"validation {text}" for text in self.validation_line))


@dataclass(frozen=True, slots=True, kw_only=True)
class Blueprint:
    """One experiment as its author wrote it: paths are neither resolved nor checked. Times in seconds.

    A new one needs title, purpose and launch_command.
    """

    name: str = ""  # the file's name, for messages
    title: str
    slug: str = ""  # of the notes, or made of title, purpose or name by the parser
    purpose: str
    codebase_dir: str = "./"
    venv_exe: str = ""  # "" = look for one
    yaml_path: str = ""  # "" = there is no recipe
    launch_command: str
    result_dir: str = ""  # "" = the default one, until it is written
    max_time_s: float = MAX_TIME_S
    first_step_s: float = FIRST_STEP_S
    max_time_given: bool = False
    first_step_given: bool = False
    campaign_time_s: float | None = None  # of all runs of a campaign together: `10h total, 1h each`
    run_time_s: float | None = None  # of each of them: one that takes longer has failed
    campaign_count: int | None = None  # of its ideas: `50 experiments`
    notes: Notes = field(default_factory=Notes)
    lines: Mapping[str, int] = field(default_factory=dict)  # section -> line of its value, else of its heading
    findings: tuple[Finding, ...] = ()  # warnings


SWARM = "swarm_"
DIRECTIONS: Mapping[str, str] = {  # other words for them
    **dict.fromkeys(("max", "maximise", "higher", "higher is better", "up", "最大", "最大化"), "maximize"),
    **dict.fromkeys(("min", "minimise", "lower", "lower is better", "down", "最小", "最小化"), "minimize"),
}
_STEPS = {**dict.fromkeys(("any", "step", "metric", "auto"), ""), **dict.fromkeys(("kl_loss", "kl loss"), "kl")}


def directed(metric: str, direction: str = "") -> tuple[str, str]:
    """The metric and its direction, which may stand behind it where nothing else says it: `latency_ms min`."""
    match = re.fullmatch(r"(.*[^\s,]),?\s+(min(?:imi[sz]e)?|max(?:imi[sz]e)?)", metric.strip())
    return (match[1], f"{match[2][:3]}imize") if match and not direction else (metric.strip(), direction)


def _text(name: str, meaning: str, field: str = "") -> Key:
    return Key(name, ValueType.TEXT, "", meaning, spec_field=field)


def _texts(name: str, meaning: str, field: str = "") -> Key:
    return Key(name, ValueType.TEXTS, (), meaning, spec_field=field)


def _switch(name: str, meaning: str) -> Key:
    return Key(name, ValueType.SWITCH, False, meaning)


def _choice(name: str, meaning: str, choices: tuple[str, ...], **more: Any) -> Key:
    return Key(name, ValueType.CHOICE, "", meaning, choices=choices, **more)


def _time(name: str, default: float, meaning: str, field: str) -> Key:
    return Key(name, ValueType.DURATION, default, f"{meaning}; {spoken(default)} if left out", spec_field=field)


NOTE_KEYS = (
    _text("slug", "the short name for branch, session and directories"),
    _text("trainer", "the framework, such as verl or tinygrpo; if left out, it is recognised by the command"),
    _text("launcher", "where the run goes: local, slurm, ray, ssh:HOST or a target of autoresearch.yaml"),
    _text("metric", "the metric to optimise, by the name that the trainer gives it"),
    _choice("direction", "maximize or minimize", ("maximize", "minimize"), others=DIRECTIONS),
    _texts("constraint", "what no run may break to be kept: `memory_gb <= 40`, `val/toxicity < 0.1`; may be repeated"),
    _choice("first_step", "kl: only a printed KL counts as the first step", ("kl", "any"), others=_STEPS),
    _text(
        "seed",
        "how the training takes its seed: KEY of the recipe, `--flag` or `$NAME`; the first seed, a number; "
        "or `random` (each run draws anew), `fixed` (it seeds itself)",
    ),
    _switch("keep_children", "true: processes that the command leaves behind are kept"),
    _switch("resume", "true: the run may continue from what an earlier one left; otherwise such a run is refused"),
    _texts("env", "NAME=value for the trainer; may be repeated"),
    _texts("prepare", "a shell command that runs before the trainer; may be repeated"),
    _texts("evaluate", "a shell command that measures the run after the trainer; only its output gives the metric"),
    _time("evaluate_time", EVALUATE_S, "how long `evaluate` may take, in addition to the limits", "evaluate_s"),
    _texts("cleanup", "a shell command that runs after any ending; may be repeated"),
    _texts("requires_env", "names of variables that must be set, separated by commas"),
    Key("include", ValueType.PATHS, (), "what no commit holds and runs see: a path, a pattern, {path: P, write: copy}"),
    Key("exclude", ValueType.PATHS, (), "what no commit holds and runs do not see: a path or a pattern"),
    _texts(
        "hide", "what only `evaluate` may read, such as its answers: untracked; in a campaign whose runs are sandboxed"
    ),
    _texts("artifacts", "a file of a run, or a pattern, that a coding agent is shown beside those below `artifacts/`"),
    _texts("writable", "a directory outside the project that a sandboxed run may write to, such as a cache"),
    _texts("source", "a file of metrics that is preferred over all others: `jsonl PATH`, `dict_lines PATH`"),
    _texts(
        "step_line",
        "how a training step is printed: `json KEY`, `pairs KEY` (KEY names the step) or a regular expression",
    ),
    _texts("validation_line", "how a validation is printed, in the same forms"),
    _texts(
        *("swarm_server", "the command that starts AgentJet's swarm server, in its own session; it ends with the run"),
        "server",
    ),
    _text("swarm_url", "the address of the swarm server; if left out, it follows from the port in the command", "url"),
    _texts(
        "swarm_debug",
        "a command that runs one episode before the client starts, prints `reward: NUMBER` and aborts it",
        "debug",
    ),
    _time("swarm_debug_timeout", DEBUG_S, "how long that may take, and the start of the engine", "debug_timeout_s"),
    _choice(
        "swarm_on_busy",
        "refuse or stop: what to do with an engine that is already running; it is never used as it is",
        ("refuse", "stop"),
        spec_field="on_busy",
    ),
    _text(
        *("swarm_ssh", "arguments for ssh: the swarm server is on that host, and its port is forwarded to this one"),
        "ssh",
    ),
    _text("swarm_retries", "COUNT in DURATION: an exception this often without progress ends the run", "retries"),
    _time("swarm_poll", POLL_S, "how often the engine is polled", "poll_s"),
    _time("swarm_health_timeout", HEALTH_S, "how long the server may take to become healthy", "health_s"),
)  # fmt: skip
BY_NAME = {key.name: key for key in NOTE_KEYS}
LIST_KEYS = tuple(key.name for key in NOTE_KEYS if key.type in (ValueType.TEXTS, ValueType.PATHS))
TEXT_KEYS = tuple(name for name in BY_NAME if name not in LIST_KEYS)


def note_key(word: str) -> str:
    """The key of the notes that a word names; "" for any other word."""
    key = re.sub(r"[ -]+", "_", word.strip().lower())
    return key if key in BY_NAME else ""


def schema() -> dict[str, object]:
    """The format as JSON-serialisable data: sections, notes, defaults."""
    return {
        "format": "markdown with seven sections, each headed `## [name]`, and notes",
        "sections": [
            {
                **{"name": kind.name, "key": kind.key, "meaning": kind.meaning},
                **{"required": kind.key == "command", "default": kind.default},
            }
            for kind in SECTION_KINDS
        ],
        "items": "each section: `- description:` (why), `- KEY:` (the value), `- hint:`, `- warning:`",
        "notes_heading": "## Other Notes",
        "notes": [{"name": key.name, "meaning": key.meaning, "list": key.name in LIST_KEYS} for key in NOTE_KEYS],
        "durations": "90s, 20m, 1h30m, 24 hours, 1.5 days, 01:30:00, 24小时",
        "labels": "24 hours in all, 20 minutes to the first step",
        "relative_paths": "from the root of the repository that holds the blueprint, else from its folder",
        "limits": {"max_time_s": MAX_TIME_S, "first_step_s": FIRST_STEP_S},
    }
