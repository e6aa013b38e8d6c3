"""The keys of a blueprint's notes, each declared once: for parser, rendered blueprints, `config schema`, editors.

`spec_field` is the field of `Notes`, or of `Swarm` for those that begin with `swarm_`, where it has another name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from autoresearch.core.keys import Key, ValueType
from autoresearch.core.run.limits import EVALUATE_S
from autoresearch.core.run.swarm import DEBUG_S, HEALTH_S, POLL_S
from autoresearch.core.text.durations import spoken

SWARM = "swarm_"
DIRECTIONS: Mapping[str, str] = {  # other words for them
    **dict.fromkeys(("max", "maximise", "higher", "higher is better", "up", "最大", "最大化"), "maximize"),
    **dict.fromkeys(("min", "minimise", "lower", "lower is better", "down", "最小", "最小化"), "minimize"),
}
_STEPS = {**dict.fromkeys(("any", "step", "metric", "auto"), ""), **dict.fromkeys(("kl_loss", "kl loss"), "kl")}


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
