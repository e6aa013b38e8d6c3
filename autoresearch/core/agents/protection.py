"""Protection: what an agent's hypothesis may not change, and why.

Protected are the things that determine an idea's score (tests, evaluation, data, seeds, step counts, the blueprint) and
those that take effect unnoticed (what Python loads by itself, git's own files, instructions to the next agent). Paths
are protected by patterns and compared by mode and content (`git_repo.history`), so that renames, new files and
deletions are detected, too. Letter case is ignored: on some disks `Tests/` is `tests/`.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from autoresearch.core.campaign.recipe_edits import diff_recipes
from autoresearch.core.text.regex import later

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

# Protected recipe keys: validation, what is measured, seeds, step counts, recognised by the words of a key. The words
# are from the recipes of the supported trainers: `data.val_files`, `trainer.test_freq`, `eval_interval`, `data.seed`,
# `grpo.max_num_steps`, `num_train_epochs`, `num_rollout`, `total_training_steps`, `ajet.task_judge`. Not protected are
# similar keys: `critic.value_loss_coef`, `gradient_clip_val`, `ppo_epochs`, `warmup_steps`, `multi_turn.max_steps` (of
# an episode), `num_iterations` (of TRL: over one batch).


def _set_of(words: str) -> frozenset[str]:
    return frozenset(words.split())


_WORDS = later(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_VALIDATION = _set_of("valid validation validate validating eval evals evaluation evaluate evaluator")
_TEST = _set_of("test tests heldout holdout")
_VALUE = _set_of("init max min clip default grad gradient loss")  # `clip_val` is a value
_MEASURED = _set_of("judge grader metric metrics")
_AMOUNT = _set_of("max total num n number train training")
_UNIT = _set_of(
    "step steps epoch epochs iteration iterations iter iters episode episodes rollout rollouts update updates batches"
)
_OTHER_STEPS = _set_of(
    "warmup lr decay accumulation accum logging log save saving ppo inner minibatch mini grad gradient critic per "
    "interval every freq frequency ema sync offset env environment turn turns tool agent denoising diffusion sampling"
)
_OF_EPISODES = _set_of("agent env environment tool turn multi rollout scheduler optim optimizer")
_ALONE = frozenset(("steps", "epochs", "iterations", "iters", "max_time", "exit_duration_in_mins"))
_REWARD = frozenset(("custom_reward_function", "reward_manager"))


def why_protected(key: str) -> str:
    """Why a dotted key is protected, as a phrase for what it decides; "" for any other key."""
    parts = [part for part in key.split(".") if not part.isdigit()]
    words = [[word.lower() for word in _WORDS.findall(part)] for part in parts]
    if any("seed" in part or "seeds" in part for part in words):
        return "a seed"
    if any(_validates(part) for part in words):
        return "validation"
    if any(_MEASURED & set(part) for part in words) or _REWARD & {part.lower() for part in parts}:
        return "what is measured"
    if parts and _counts_steps(parts[-1].lower(), words):
        return "how long it trains"
    return ""


def _validates(words: list[str]) -> bool:
    if (_VALIDATION | _TEST) & set(words):
        return True
    if "val" not in words:
        return False
    return words[-1] != "val" or not _VALUE & set(words)


def _counts_steps(last: str, words: list[list[str]]) -> bool:
    own, above = set(words[-1]), {word for part in words[:-1] for word in part}
    if last == "num_iterations" or above & _OF_EPISODES:
        return False
    return last in _ALONE or bool(own & _AMOUNT and own & _UNIT and not own & _OTHER_STEPS)


OURS = (".autoresearch/", "autoresearch.yaml", "reports/auto_research/", ".git/")
"""Always protected: `allow` makes no exception for these."""

BUILT_IN: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("a test", ("test/", "tests/", "test_*.py", "*_test.py", "conftest.py", "test_*.sh")),
    (
        "how tests are run",
        (
            *("pytest.ini", ".pytest.ini", "pytest.toml", "tox.ini", "setup.cfg", "pyproject.toml", "noxfile.py"),
            *("Makefile", "GNUmakefile", "*.mk", "justfile", "Taskfile.yml", ".coveragerc"),
        ),
    ),
    (
        "evaluation",
        (
            *("eval/", "evals/", "evaluation/", "evaluations/", "evaluator/", "evaluators/", "validation/", "val/"),
            *("eval.*", "evals.*", "eval_*", "*_eval.*", "*_evals.*", "evaluat*", "*_evaluat*", "validate*.py"),
            *("metric.py", "metrics.py", "*_metric.py", "*_metrics.py", "metrics/", "scorer*.py", "scoring*"),
            *("grader*", "judge*.py", "*_judge.py", "benchmark.py", "benchmark_*.py"),
        ),
    ),
    (
        "data",
        (
            *("/data/", "/dataset/", "/datasets/", "*.parquet", "*.jsonl", "*.arrow", "*.csv", "*.tsv", "*.npy"),
            *("*.npz", "*.h5", "*.hdf5", "*.tfrecord", "*.feather", "*.pkl", "*.pickle"),
        ),
    ),
    ("what Python loads by itself", ("sitecustomize.py", "usercustomize.py", "*.pth", "*.pyc", "__pycache__/")),
    ("the environment", (".env", ".env.*", ".envrc")),
    ("git's own", (".git*",)),
    (
        "continuous integration",
        (
            *(".circleci/", ".buildkite/", ".travis.yml", ".drone.yml", "Jenkinsfile", "azure-pipelines.yml"),
            ".pre-commit-config.yaml",
        ),
    ),
    (
        "what agents are told",
        (
            *("CLAUDE.md", "CLAUDE.local.md", "AGENTS.md", "AGENTS.override.md", "GEMINI.md", "QWEN.md", ".mcp.json"),
            *(".claude/", ".codex/", ".gemini/", ".qwen/", ".opencode/", "opencode.json*", ".cursor/", ".agents/"),
            *(".aider.conf.yml", ".cursorrules", ".windsurfrules"),
        ),
    ),
)
_A_PLACE = later(r"[^\s/]/[^\s/]|\.[A-Za-z]\w*$")  # `data/val.parquet`, `val.jsonl`, `openai/gsm8k`
_WORD = later(r"[\w.@+~-]+(?:/[\w.@+~-]+)*/?")


@dataclass(frozen=True, slots=True)
class Protection:
    """What is protected in one campaign. Patterns are those of gitignore(5): `tests/`, `*.csv`, `/data/**`.

    A pattern without a slash, or with only a trailing one, matches at any depth; a directory includes all below it.
    """

    protect: tuple[str, ...] = ()  # beyond the built-in ones
    allow: tuple[str, ...] = ()  # exceptions from the built-in ones: patterns of paths, or recipe keys
    blueprint: tuple[str, ...] = ()  # paths in the repository: the blueprint and the files that describe the campaign
    named: tuple[str, ...] = ()  # files that the commands of the guard and of the evaluation name
    keys: tuple[str, ...] = ()  # recipe keys beyond the built-in ones: the trainer's seed, the run's output path

    def why(self, path: str) -> str:
        """Why a path is protected, as a noun phrase; "" if it may be changed."""
        name = path.casefold()
        if _is_below(name, self.blueprint):
            return "the blueprint"
        if _spec(OURS).match_file(name):
            return "the campaign's own"
        if _spec(self.protect).match_file(name):
            return "protected by the campaign"
        if _spec(self.allow).match_file(name):
            return ""
        if _is_below(name, self.named):
            return "named by the guard or by the evaluation"
        return next((reason for reason, patterns in BUILT_IN if _spec(patterns).match_file(name)), "")

    def touched(self, paths: Iterable[str]) -> tuple[str, ...]:
        """The protected ones of the changed paths, each with the reason: `tests/test_a.py (a test)`."""
        reasons = ((path, self.why(path)) for path in sorted(set(paths)))
        return tuple(f"{shown(path)} ({reason})" for path, reason in reasons if reason)

    def why_key(self, key: str) -> str:
        """What a protected recipe key decides, as a phrase; "" if it may be changed."""
        name = key.removeprefix("+").removeprefix("$")
        if any(fnmatchcase(name, pattern) for pattern in self.allow):
            return ""
        if any(name == own or name.startswith(f"{own}.") for own in self.keys if own):
            return "the harness sets it for each run"
        return why_protected(name)

    def keys_changed(self, before: Mapping[str, object], after: Mapping[str, object]) -> tuple[str, ...]:
        """The forbidden differences between two recipes: `max_steps: 100 -> 500 (how long it trains)`.

        These are every protected key, and any other key that now names validation data.
        """
        held_out = self.validation_data(before)
        changes = diff_recipes(dict(_leaves(before)), dict(_leaves(after)))
        reasons = ((change, self.why_key(change.key) or _leak(change.new, held_out)) for change in changes)
        return tuple(f"{change} ({reason})" for change, reason in reasons if reason)

    def validation_data(self, recipe: Mapping[str, object]) -> tuple[str, ...]:
        """Paths and names of data in the recipe keys that concern validation."""
        values = (value for key, value in _leaves(recipe) if why_protected(key) == "validation")
        return tuple(dict.fromkeys(value for value in values if isinstance(value, str) and _A_PLACE.search(value)))


def is_data(path: str) -> bool:
    """Whether a path is one of data, by its name."""
    return _spec(dict(BUILT_IN)["data"]).match_file(path.casefold())


def named_in(commands: Iterable[str], tracked: Collection[str]) -> set[str]:
    """Files that commands name, as paths or as Python modules. `tracked`: every path of the commit."""
    words = {word.removeprefix("./") for command in commands for word in _WORD.findall(command)}
    return {name for word in words for name in (word, f"{word.replace('.', '/')}.py") if name in tracked}


def shown(path: str) -> str:
    """A path for display and JSON: bytes that are not UTF-8 are written as `\\xNN`."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _leaves(value: object, key: str = "") -> Iterator[tuple[str, object]]:
    """Every value below with its dotted key, also in lists: a group that is new must not hide what is in it."""
    inner: Iterable[tuple[object, object]] = ()
    if isinstance(value, Mapping):
        inner = value.items()
    elif isinstance(value, list | tuple):
        inner = enumerate(value)
    if not inner or not value:
        yield key, value
        return
    for name, item in inner:
        yield from _leaves(item, f"{key}.{name}" if key else str(name))


def _leak(value: object, held_out: Collection[str]) -> str:
    return "validation data" if isinstance(value, str) and value in held_out else ""


def _is_below(name: str, directories: Iterable[str]) -> bool:
    folded = (directory.casefold().strip("/") for directory in directories)
    return any(directory and (name == directory or name.startswith(f"{directory}/")) for directory in folded)


@functools.cache
def _spec(patterns: tuple[str, ...]) -> GitIgnoreSpec:
    from pathspec import GitIgnoreSpec

    return GitIgnoreSpec.from_lines(pattern.casefold() for pattern in patterns)
