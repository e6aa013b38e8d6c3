"""Which paths and recipe keys a researcher may not change, each kind with near misses; patterns as git has them."""

from __future__ import annotations

import pytest

from autoresearch.core.agents.protection import BUILT_IN, Protection, named_in

PROTECTED = {
    "a test": [
        "tests/a.py",
        "pkg/tests/deep/a.txt",
        "test/x",
        "test_a.py",
        "pkg/test_a.py",
        "a_test.py",
        "conftest.py",
    ],
    "how tests are run": ["pytest.ini", "pyproject.toml", "sub/setup.cfg", "Makefile", "rules.mk", "tox.ini"],
    "evaluation": [
        *("eval.py", "eval.sh", "pkg/eval/x.py", "evaluate.py", "evaluator.py", "math_eval.py", "run_evals.sh"),
        *("eval_math.py", "lib/evaluation/a/b.py", "metrics.py", "reward_metrics.py", "val/x", "my_evaluator.py"),
        *("grader.py", "llm_judge.py", "validate_model.py", "scorer.py"),
    ],
    "data": ["data/x", "datasets/a/b.txt", "deep/down/x.parquet", "x.jsonl", "a.csv", "v.npz", "x.pkl"],
    "what Python loads by itself": ["sitecustomize.py", "a/usercustomize.py", "x.pth", "a/b.pyc", "a/__pycache__/b"],
    "the environment": [".env", "a/.envrc", ".env.local"],
    "git's own": [".gitignore", "a/.gitattributes", ".gitmodules", ".github/workflows/x.yml", ".gitlab-ci.yml"],
    "continuous integration": [".circleci/config.yml", "Jenkinsfile", ".pre-commit-config.yaml"],
    "what agents are told": ["CLAUDE.md", "sub/AGENTS.md", ".claude/settings.json", ".mcp.json", "opencode.jsonc"],
    "the campaign's own": [".autoresearch/blueprint.md", "autoresearch.yaml", "reports/auto_research/x/results.tsv"],
}
FREE = [
    *("train.py", "contest/a.py", "latest.py", "testament.md", "pkg/testing.py", "interval.py", "evaluable/x.py"),
    *("medieval.py", "src/data_loader.py", "pkg/data/loader.py", "symmetrics.txt", "config/data.yaml", "recipe.yaml"),
    *("githooks/x", "makefile.py", "prejudge.txt", "reports/x.md", "x.json", "environment.yml", "agents.py"),
]


def test_what_is_protected_and_why() -> None:
    for reason, paths in PROTECTED.items():
        assert {path: Protection().why(path) for path in paths} == dict.fromkeys(paths, reason)
        assert {Protection().why(path.upper()) for path in paths} == {reason}, "letter case means nothing"
    assert {path: Protection().why(path) for path in FREE} == dict.fromkeys(FREE, "")


def test_every_kind_was_seen() -> None:
    assert {reason for reason, _ in BUILT_IN} | {"the campaign's own"} == set(PROTECTED)


@pytest.mark.parametrize(
    ("pattern", "paths", "others"),
    [
        ("secret", ["secret", "a/secret", "a/secret/b", "secret/x/y"], ["secrets", "a/secret.py", "xsecret"]),
        ("/top", ["top", "top/x"], ["a/top"]),
        ("a/**/z.py", ["a/z.py", "a/b/z.py", "a/b/c/z.py"], ["z.py", "xa/z.py"]),
        ("", [], ["x"]),
        ("a\nb", ["a\nb"], ["ab"]),
    ],
)
def test_patterns(pattern: str, paths: list[str], others: list[str]) -> None:
    rules = Protection(protect=(pattern,), allow=("*",))
    assert [path for path in paths if rules.why(path) != "protected by the campaign"] == []
    assert [path for path in others if rules.why(path)] == []


def test_what_beats_what() -> None:
    rules = Protection(
        protect=("tests/gold/",), allow=("tests/", "*.csv", "rewards/val.py"), blueprint=("exp.md",), named=("rewards",)
    )
    told = {path: rules.why(path) for path in ("tests/a.py", "a/x.csv", "tests/gold/a.py", "exp.md", "x/exp.md")}
    assert told == {
        "tests/a.py": "",
        "a/x.csv": "",
        "tests/gold/a.py": "protected by the campaign",
        "exp.md": "the blueprint",
        "x/exp.md": "",
    }
    assert rules.why("rewards/a.py") == "named by the guard or by the evaluation" and rules.why("rewards/val.py") == ""
    everything = Protection(allow=("*", "**", ".autoresearch/", "exp.md"), blueprint=("exp.md",))
    for path in (".autoresearch/blueprint.md", "exp.md", "autoresearch.yaml"):
        assert everything.why(path), "nobody may allow these"


def test_what_was_touched_is_told_once_and_in_order() -> None:
    paths = ["tests/b.py", "train.py", "tests/a.py", "tests/b.py", "data/caf\udce9"]
    told = ("data/caf\\xe9 (data)", "tests/a.py (a test)", "tests/b.py (a test)")
    assert Protection().touched(paths) == told


def test_what_commands_name() -> None:
    tracked = {"src/train.py", "judge/a.py", "check.sh", "README.md", "lib/score.py"}
    assert named_in(["bash ./check.sh --all src/train.py", "python -m lib.score judge/"], tracked) == {
        "check.sh", "src/train.py", "lib/score.py",
    }  # fmt: skip


KEYS = {
    "a seed": ["seed", "data.seed", "rollout_seed", "randomSeed", "$SEED", "+trainer.seed", "seeds.0"],
    "validation": [
        *("data.val_files", "trainer.test_freq", "eval_interval", "grpo.val_period", "validation.0.name", "do_eval"),
        *("$VAL_DATA", "actor_rollout_ref.rollout.val_kwargs.n", "n_samples_per_eval_prompt", "val_at_start"),
    ],
    "what is measured": ["ajet.task_judge.judge_type", "metric_for_best_model", "custom_reward_function.path"],
    "how long it trains": [
        *("max_steps", "trainer.total_training_steps", "num_train_epochs", "num_rollout", "grpo.max_num_steps"),
        *("train_iters", "steps", "$MAX_STEPS", "stages.0.steps", "+max_steps"),
    ],
}
FREE_KEYS = [
    *("optim.lr", "critic.value_loss_coef", "gradient_clip_val", "init_val", "ppo_epochs", "lr_warmup_steps"),
    *("save_steps", "multi_turn.max_steps", "num_iterations", "retrieval.k", "latest", "max_new_tokens", "contest.x"),
    *("steps_per_generation", "lr_decay_steps", "seedling", "env.max_steps", "metrical", "scheduler.total_steps"),
]


def test_protected_keys() -> None:
    for reason, keys in KEYS.items():
        assert {key: Protection().why_key(key) for key in keys} == dict.fromkeys(keys, reason)
    assert {key: Protection().why_key(key) for key in FREE_KEYS} == dict.fromkeys(FREE_KEYS, "")


def test_keys_of_the_harness_and_exceptions() -> None:
    rules = Protection(allow=("data.val_batch_size", "tests/"), keys=("output_dir", "logger.wandb"))
    assert rules.why_key("output_dir") == rules.why_key("logger.wandb.name") == "the harness sets it for each run"
    assert rules.why_key("data.val_batch_size") == rules.why_key("output_directory") == ""


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ({"max_steps": 1}, {"max_steps": 1.0}, ()),
        ({"max_steps": 1, "lr": 1}, {"max_steps": 2, "lr": 2}, ("max_steps: 1 -> 2 (how long it trains)",)),
        ({}, {"trainer": {"deep": {"max_steps": 5}}}, ("trainer.deep.max_steps: (absent) -> 5 (how long it trains)",)),
        ({"a": [{"lr": 1}]}, {"a": [{"lr": 1}, {"seed": 2}]}, ("a.1.seed: (absent) -> 2 (a seed)",)),
        (
            {"eval": {"every": 5}},
            {"eval": {}},
            ("eval.every: 5 -> (absent) (validation)", "eval: (absent) -> {} (validation)"),
        ),
        ({"val": {"x": 1}}, {"lr": 1}, ("val.x: 1 -> (absent) (validation)",)),
        ({"seed": None}, {"seed": None, "x": {}}, ()),
    ],
)
def test_what_differs_between_recipes(
    before: dict[str, object], after: dict[str, object], told: tuple[str, ...]
) -> None:
    assert Protection().keys_changed(before, after) == told


RECIPE = {
    "data": {"val_files": ["data/val.parquet", "gsm8k/test"], "train_files": "data/train.parquet"},
    "eval": {"strategy": "steps", "every": 5, "on": True, "file": "val.jsonl"},
}


def test_validation_data_is_known_from_the_recipe() -> None:
    assert Protection().validation_data(RECIPE) == ("data/val.parquet", "gsm8k/test", "val.jsonl")


def test_validation_data_does_not_become_training_data() -> None:
    rules = Protection()
    leak = {**RECIPE, "data": {**RECIPE["data"], "train_files": ["data/train.parquet", "data/val.parquet"]}}
    assert any(line.endswith("(validation data)") for line in rules.keys_changed(RECIPE, leak))
    assert rules.keys_changed(RECIPE, {**RECIPE, "schedule": "steps"}) == ()
