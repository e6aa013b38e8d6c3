"""The keys of a blueprint's notes in one table: the parser, `config schema blueprint` and editors read it."""

from __future__ import annotations

from dataclasses import dataclass

from autoresearch.core.run.limits import EVALUATE_S
from autoresearch.core.text.durations import spoken

SWITCH, DURATION = "true or false", "duration"


@dataclass(frozen=True, slots=True)
class NoteKey:
    """One key; `several`: it may have more than one value."""

    name: str
    meaning: str
    type: str = "text"
    choices: tuple[str, ...] = ()
    several: bool = False


def _several(name: str, meaning: str) -> NoteKey:
    return NoteKey(name, meaning, several=True)


NOTE_KEYS = (
    NoteKey("trainer", "the framework, such as verl or tinygrpo; if left out, it is recognised by the command"),
    NoteKey("launcher", "where the run goes: local, slurm, ray, ssh:HOST or a target of autoresearch.yaml"),
    NoteKey("metric", "the metric to optimise, by the name that the trainer gives it"),
    NoteKey(
        "direction",
        "maximize or minimize",
        choices=("maximize", "minimize", "max", "min", "higher", "lower", "up", "down"),
    ),
    NoteKey("slug", "the short name for branch, session and directories"),
    NoteKey("first_step", "kl: only a printed KL counts as the first step", choices=("kl", "any")),
    NoteKey("keep_children", "true: processes that the command leaves behind are kept", SWITCH),
    NoteKey(
        "resume", "true: the run may continue from what an earlier one left; otherwise such a run is refused", SWITCH
    ),
    NoteKey("record_metrics", "false: do not switch on a metric writer that the recipe leaves off", SWITCH),
    NoteKey(
        "evaluate_time",
        f"how long that may take, in addition to the limits; {spoken(EVALUATE_S)} if left out",
        DURATION,
    ),
    NoteKey(
        "seed",
        "how the training takes its seed: KEY of the recipe, `--flag` or `$NAME`; the first seed, a number; "
        "or `random` (each run draws anew), `fixed` (it seeds itself)",
    ),
    NoteKey("swarm_url", "the address of the swarm server; if left out, it follows from the port in the command"),
    NoteKey("swarm_ssh", "arguments for ssh: the swarm server is on that host, and its port is forwarded to this one"),
    NoteKey(
        "swarm_on_busy",
        "refuse or stop: what to do with an engine that is already running; it is never used as it is",
        choices=("refuse", "stop"),
    ),
    NoteKey(
        "swarm_debug_timeout",
        "how long that may take, including the start of the engine; 30 minutes if left out",
        DURATION,
    ),
    NoteKey("swarm_retries", "COUNT in DURATION: the same exception this often, without progress, ends the run"),
    NoteKey("swarm_poll", "how often the engine is polled; 2 seconds if left out", DURATION),
    NoteKey(
        "swarm_health_timeout", "how long the server may take to become healthy; 90 seconds if left out", DURATION
    ),
    _several("prepare", "a shell command that runs before the trainer; may be repeated"),
    _several(
        "evaluate", "a shell command that measures the run after the trainer; then only its output gives the metric"
    ),
    _several("cleanup", "a shell command that runs after any ending; may be repeated"),
    _several("env", "NAME=value for the trainer; may be repeated"),
    _several("requires_env", "names of variables that must be set, separated by commas"),
    _several("include", "an ignored or untracked input that an isolated run needs"),
    _several(
        "hide", "what only `evaluate` may read, such as its answers: untracked; in a campaign whose runs are sandboxed"
    ),
    _several("writable", "a directory outside the project that a sandboxed run may write to, such as a cache"),
    _several("source", "a file of metrics that is preferred over all others: `jsonl PATH`, `dict_lines PATH`"),
    _several(
        "step_line",
        "how a training step is printed: `json KEY`, `pairs KEY` (KEY names the step) or a regular expression",
    ),
    _several("validation_line", "how a validation is printed, in the same forms"),
    _several(
        "swarm_server", "the command that starts AgentJet's swarm server, in its own session; it ends with the run"
    ),
    _several(
        "swarm_debug",
        "a command that runs one episode before the client starts, prints `reward: NUMBER` and aborts it",
    ),
)
TEXT_KEYS = tuple(key.name for key in NOTE_KEYS if not key.several)
LIST_KEYS = tuple(key.name for key in NOTE_KEYS if key.several)
