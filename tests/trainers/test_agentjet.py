"""AgentJet in classic mode: its recipe and its six keys, its lines, and what harms nothing."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from autoresearch.core.blueprint.finding import Severity
from autoresearch.core.blueprint.lint import lint_recipe
from autoresearch.core.campaign.recipe_edits import apply_overrides
from autoresearch.core.diagnosis.root import classify, last_traceback
from autoresearch.core.metrics.objective import Direction, Objective
from autoresearch.core.metrics.signal import SignalKind
from autoresearch.core.run.trainer import Output, Recipe, Source, SourceFormat
from autoresearch.runner.text import logical_lines
from autoresearch.trainers import registry
from autoresearch.trainers.agentjet import AgentJet
from tests.line_signals import read_line, told

AJET = AgentJet()
TEMPLATE = Path(__file__).parents[2] / "blueprints" / "recipes" / "agentjet.yaml"
GOOD: dict[str, Any] = yaml.safe_load(TEMPLATE.read_text())
COMMON = "ajet.trainer_common"


def changed(**values: object) -> dict[str, Any]:
    """The template with these keys set, `__` for a dot; None takes one out."""
    overrides = {key.replace("__", "."): value for key, value in values.items()}
    found = apply_overrides(GOOD, {f"+{k}": v for k, v in overrides.items() if v is not None})
    for key in (k for k, v in overrides.items() if v is None):
        *groups, last = key.split(".")
        holder: Any = found
        for group in groups:
            holder = holder[group]
        del holder[last]
    return found


def codes(recipe: Recipe) -> dict[str, str]:
    return {f.code: f.severity.value for f in AJET.lint(recipe, "/code", "/data/results/agentjet_gsm8k")}


def test_the_template_is_clean() -> None:
    assert codes(GOOD) == {}
    assert lint_recipe(GOOD, TEMPLATE.read_text(), where="r.yaml") == []
    assert all(f.hint for f in AJET.lint({"ajet": {}}, "/code", "/r"))
    assert AJET.lint({}, "/code", "/r") == ()


@pytest.mark.parametrize(
    ("change", "code", "severity"),
    [
        ({"ajet__trainer_common__val_before_train": False}, "val_before_train", "warning"),
        ({"ajet__trainer_common__val_before_train": None}, "val_before_train", "warning"),
        ({"ajet__trainer_common__test_freq": None}, "test_freq", "warning"),
        ({"ajet__trainer_common__test_freq": 0}, "never_validates", "warning"),
        ({"ajet__trainer_common__test_freq": 999999}, "never_validates", "warning"),
        ({"ajet__trainer_common__n_gpus_per_node": None}, "n_gpus_per_node", "warning"),
        ({"ajet__trainer_common__save_freq": None}, "saves_checkpoints", "warning"),
        ({"ajet__trainer_common__save_freq": 20}, "saves_checkpoints", "warning"),
        ({"ajet__trainer_common__val_print_to_markdown_file_path": None}, "no_metrics_file", "warning"),
        ({"ajet__trainer_common__train_print_to_markdown_file_path": None}, "no_metrics_file", "warning"),
        ({"ajet__trainer_common__train_print_to_markdown_file_path": "./x.md"}, "outside_result_dir", "warning"),
        (
            {"ajet__trainer_common__val_print_to_markdown_file_path": "/data/results/agentjet_gsm8k2/v.md"},
            "outside_result_dir",
            "warning",
        ),
        ({"ajet__experiment_name": None}, "no_experiment_name", "warning"),
        ({"ajet__experiment_name": "read_yaml_name"}, "no_experiment_name", "warning"),
    ],
)
def test_each_rule(change: dict[str, object], code: str, severity: str) -> None:
    assert codes(changed(**change)) == {code: severity}


def test_what_is_wrong_in_any_recipe_has_its_line() -> None:
    for key, value, code in (
        ("execute_test: False", "execute_test: True", "execute_test"),
        ("/data/results/agentjet_gsm8k/validation.md", "validation.md", "path_without_directory"),
    ):
        text = TEMPLATE.read_text().replace(key, value)
        (found,) = lint_recipe(yaml.safe_load(text), text, where="r.yaml")
        assert (found.code, found.severity) == (code, Severity.ERROR)
        assert value in text.splitlines()[found.line - 1]
    assert lint_recipe({"ajet": {"execute_test": "do_not_test"}}, "", where="r.yaml") == []


@pytest.mark.parametrize(
    "change",
    [
        {"ajet__trainer_common__optim__weight_decay": 0.1},
        {"ajet__rollout__val_kwargs__n": 2},
        {"ajet__task_reader__my_reader__path": "x"},
        {"actor_rollout_ref__actor__optim__lr": 1e-6},
        {"actor_rollout_ref__actor__clip_ratio": 0.3},
        {"ajet__trainer_common__val_before_train": True, "ajet__trainer_common__test_freq": 100},
        {"ajet__trainer_common__total_training_steps": None},
    ],
)
def test_near_misses(change: dict[str, object]) -> None:
    assert codes(changed(**change)) == {}


def test_what_is_measured() -> None:
    assert AJET.objective(GOOD) == Objective("task_pass_rate@1", Direction.MAXIMIZE)
    never = changed(ajet__trainer_common__test_freq=-1)
    assert AJET.objective(never) == Objective("critic/real_reward", Direction.MAXIMIZE)


def test_the_files_that_it_writes() -> None:
    form = SourceFormat.DICT_LINES
    place = "/data/results/agentjet_gsm8k"
    assert AJET.sources(GOOD) == (
        Source(form, f"{place}/validation.md"),
        Source(form, f"{place}/training.md", 1),
    )
    assert AJET.sources({}) == ()


def test_no_two_runs_share_a_place() -> None:
    keys = [output.key for output in AJET.outputs({})]
    assert keys == [f"{COMMON}.val_print_to_markdown_file_path", f"{COMMON}.train_print_to_markdown_file_path",
                    "ajet.experiment_name"]  # fmt: skip
    saved = changed(ajet__trainer_common__checkpoint_base_dir="/c")
    assert Output(f"{COMMON}.checkpoint_base_dir", "checkpoints") in AJET.outputs(saved)


def test_what_would_be_resumed() -> None:
    assert AJET.resumes(GOOD) == ()
    auto = copy.deepcopy(GOOD)
    del auto["trainer"]
    mark = "latest_checkpointed_iteration.txt"
    assert AJET.resumes(auto) == (f"./saved_checkpoints/gsm8k/gsm8k_kl_5e-4/{mark}",)
    auto["ajet"] |= {"experiment_name": "a|b"}
    auto["ajet"]["trainer_common"]["checkpoint_base_dir"] = "/c/"
    assert AJET.resumes(auto) == (f"/c/gsm8k/a-b/{mark}",)
    auto["ajet"]["experiment_name"] = "read_yaml_name"
    assert AJET.resumes(auto) == AJET.resumes({}) == ()


def test_gpus_seed_space() -> None:
    assert AJET.gpus(GOOD) == 4
    assert AJET.gpus({"ajet": {"trainer_common": {"nnodes": 2}}}) == 16
    assert AJET.gpus({}) is None
    assert (AJET.seed(GOOD), AJET.seed_key, AJET.seed({"ajet": {}})) == (1, "data.seed", None)
    assert set(AJET.space(GOOD)) == {f"{COMMON}.optim.lr", f"{COMMON}.kl_loss_coef"}
    assert set(AJET.space(changed(ajet__trainer_common__use_kl_loss=False))) == {f"{COMMON}.optim.lr"}
    assert AJET.space({}) == {}
    assert AJET.arguments({"a": 1}) == ()


BAR = "█▏        "
LOUD = "\x1b[36m(TaskRunner pid=512)\x1b[0m "
PROGRESS = [
    (f"{LOUD}\x1b[32m2026-03-02 10:13:00.000\x1b[0m | \x1b[1mINFO    \x1b[0m | Starting validate rollout", True),
    ("==========start validate rollout==========", True),
    ("Completed validate rollout", True),
    ("==========end validate rollout==========", True),
    (f"validate rollout:  12%|{BAR}| 15/128 [00:40<05:01]", True),
    ("EVAL @ step 0:  49% 1882/3840 [30:48<1:06:14]", True),
    ("Rollout progress (1234.56 tokens/s): [0-5]:60 threads  //  [finished]:4 threads", True),
    ("Rollout progress (0.25 tokens/s): [0-5]:60 threads", True),
    ("Rollout progress (0.00 tokens/s): [0-5]:64 threads", False),
    ("Rollout progress (N/A): [0-5]:64 threads", False),
    (f"epochtest.1.collect_rollout:  12%|{BAR}| 61/512 [00:00<00:01, 300it/s]", True),
    ("\rWaiting for process launch [PGID 4711, PID 4711]... 597s remaining", True),
    ("Loading safetensors checkpoint shards:  25% Completed | 1/4 [00:00<00:02,  1.2it/s]", True),
    (f"{LOUD}Training from scratch", True),
    ("test_gen_batch meta info: {'validate': True}", True),
    ("Training Progress:   0%|          | 0/200 [00:00<?, ?it/s]", False),
    ("404 Client Error: Not Found for url: http://localhost:10086/claim_episode", False),
    ("INFO:     127.0.0.1:5555 - GET /health HTTP/1.1 200 OK", False),
]


def matched(kind: SignalKind, line: str) -> list[float]:
    return [one.hold_s for one in told(AJET, line, kind)]


@pytest.mark.parametrize(("line", "found"), PROGRESS)
def test_boot_and_validation_hold_the_clock(line: str, found: bool) -> None:
    assert bool(matched(SignalKind.PROGRESS, line)) is found


def test_an_announced_validation_may_be_silent_for_longer() -> None:
    assert max(matched(SignalKind.PROGRESS, "Starting validate rollout")) == 1800.0
    assert matched(SignalKind.PROGRESS, "Completed validate rollout") == [120.0]


def read(text: str) -> list[tuple[str, int, dict[str, float]]]:
    found = [read_line(AJET, line) for line in logical_lines(text.encode())]
    return [(r.kind.value, r.step, dict(r.metrics)) for r in found if r]


def test_what_is_printed_for_people_is_no_metric() -> None:
    text = (
        f"{LOUD}(\"Initial validation metrics: {{'global_steps': 0, 'pass_n': 4, \"\n"
        f"{LOUD} \"'task_pass_rate@1': 0.41, 'mean_reward': 0.413}}\")\n"
        f"{LOUD}│ task_pass_rate@1                │ 0.41 │\n"
        f"{LOUD}'kl_loss_coef': 0.002,\n"
        f"{LOUD}\"Final validation metrics: {{'task_pass_rate@1': 0.5}}\"\n"
    )
    assert read(text) == []
    for kind in (SignalKind.STEP, SignalKind.VALIDATION, SignalKind.NAN, SignalKind.ERROR, SignalKind.PROGRESS):
        assert matched(kind, text) == []


HEAD = "Traceback (most recent call last):"
VLLM = "ERROR 11-21 10:00:00 [hermes_tool_parser.py:140] "
PARSER = [
    "Error in extracting tool call from response.",
    HEAD,
    '  File "/v/vllm/entrypoints/openai/tool_parsers/hermes_tool_parser.py", line 110, in extract_tool_calls',
    "    raw = json.loads(text)",
    "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
]
CLAIM = [
    HEAD,
    '  File "/code/ajet/tuner_lib/swarm_client.py", line 80, in claim',
    "requests.exceptions.HTTPError: 404 Client Error: Not Found for url: http://localhost:10086/claim_episode",
]


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        (PARSER, None),
        ([VLLM + line for line in PARSER], None),
        (CLAIM, None),
        ([*CLAIM, *PARSER], None),
        (["episode 3f2 cannot be claimed: 404"], None),
        ([*PARSER, HEAD, '  File "a.py", line 1', "ValueError: boom"], "program"),
        ([HEAD, '  File "a.py", line 1', "FileNotFoundError: x", *PARSER], "program"),
        ([HEAD, '  File "a.py", line 1', "HTTPError: 404 Client Error: Not Found for url: http://h/m"], "program"),
    ],
)
def test_agentjet_and_what_harms_nothing(lines: list[str], kind: str | None) -> None:
    harmless = registry.by_name("agentjet").harmless()
    found = classify(lines, harmless)
    assert (found and found.kind.value) == kind


def test_others_know_nothing_harmless() -> None:
    assert registry.by_name("verl").harmless() == ()
    assert last_traceback(PARSER).endswith(PARSER[-1])
    assert last_traceback([*CLAIM, *PARSER], registry.by_name("agentjet").harmless()) == ""
