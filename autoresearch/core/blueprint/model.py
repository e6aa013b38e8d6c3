"""Blueprint: markdown in seven sections that states why and how to run one experiment, and notes.

The format is AgentJet's (skills auto-research-blueprint-execute-classic and -swarm) and that of
Alpha-RL-Research, whose blueprints fill the same sections with typed keys. Of its texts only commands
(`launch_command`, `notes.prepare`, `notes.cleanup` ...) are ever run by a shell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from autoresearch.core.blueprint.finding import Finding
from autoresearch.core.run.limits import EVALUATE_S, FIRST_STEP_S, MAX_TIME_S, Limits
from autoresearch.core.run.swarm import Swarm
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


@dataclass(frozen=True, slots=True)
class Blueprint:
    """One experiment as its author wrote it: paths are neither resolved nor checked. Times in seconds."""

    name: str  # the file's name, for messages
    title: str
    slug: str
    purpose: str
    codebase_dir: str
    venv_exe: str  # "" = look for one
    yaml_path: str  # "" = there is no recipe
    launch_command: str
    result_dir: str
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

    @property
    def limits(self) -> Limits:
        """The two limits of the blueprint, and autoresearch's defaults for the others."""
        return Limits(first_step_s=self.first_step_s, max_s=self.max_time_s)
