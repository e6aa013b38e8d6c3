"""Symptoms: each is seen in a series that shows it, and not in one that nearly does."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from autoresearch.core.diagnosis.families import package_data
from autoresearch.core.diagnosis.symptoms import SymptomEvidence, key_of, symptoms, symptoms_of, trained_by_reward
from autoresearch.core.metrics.objective import Direction, Objective

OBJECTIVE = Objective("val/acc")
NAN, INF = float("nan"), float("inf")


def line(first: float, last: float, n: int = 30) -> list[float]:
    return [first + (last - first) * i / (n - 1) for i in range(n)]


def flat(value: float, n: int = 30) -> list[float]:
    return [value] * n


def seen(**series: Sequence[float]) -> SymptomEvidence:
    found = {key.replace("__", "/"): list(enumerate(values, 1)) for key, values in series.items()}
    return SymptomEvidence(OBJECTIVE, found)


def rough(low: float, high: float, n: int = 30) -> list[float]:
    return [low if i % 2 else high for i in range(n)]


RISE_THEN_FLAT = line(0.1, 0.5, 12) + [0.5, 0.501, 0.499] * 8
VAL_UP = {"val__acc": line(0.2, 0.4, 8)}

# name -> (shows it, does not)
CASES: dict[str, tuple[list[SymptomEvidence], list[SymptomEvidence]]] = {
    "entropy collapse": (
        [seen(actor__entropy=line(0.8, 0.05)), seen(entropy=line(2.0, 0.1)), seen(entropy=[1.0, *line(0.8, 0.02, 9)])],
        [
            seen(actor__entropy=line(0.8, 0.4)),
            seen(actor__entropy=line(0.015, 0.001)),  # it was gone from the beginning
            seen(actor__entropy=[0.8, 0.1]),
            seen(actor__entropy=[*flat(0.8), 0.0]),  # one odd step
        ],
    ),
    "entropy explosion": (
        [seen(entropy=line(0.3, 2.0))],
        [seen(entropy=line(0.3, 0.4)), seen(entropy=line(0.01, 0.1))],
    ),
    "KL blow-up": (
        [seen(actor__kl_loss=line(0.001, 0.9)), seen(kl=line(0.001, 0.3))],
        [seen(actor__kl_loss=line(0.001, 0.08)), seen(kl=[*flat(0.01), 5.0]), seen(ppo_kl=flat(0.9))],
    ),
    "policy hardly moves": (
        [seen(actor__kl_loss=flat(1e-6), actor__ppo_kl=flat(-3e-5))],
        [seen(actor__kl_loss=flat(1e-6)), seen(actor__kl_loss=line(0, 0.01), actor__ppo_kl=flat(0.0))],
    ),
    "reward plateau": (
        [seen(reward=RISE_THEN_FLAT)],
        [seen(reward=line(0.1, 0.5)), seen(reward=flat(0.5)), seen(reward=rough(0.1, 0.5))],
    ),
    "reward still rising at the end": (
        [seen(train__reward=line(0.1, 0.5))],
        [
            seen(reward=RISE_THEN_FLAT),
            seen(reward=line(0.5, 0.1)),
            seen(reward=rough(0.4, 0.5)),
            seen(reward=[0.1, 0.5]),
        ],
    ),
    "no reward at all": (
        [seen(critic__rewards__mean=flat(0.0)), seen(reward=flat(-1.0))],
        [seen(reward=[0.0] * 20 + [0.01]), seen(reward=flat(0.0, 3))],
    ),
    "training reward saturated": (
        [seen(reward=line(0.5, 1.0, 10) + flat(0.99))],
        [seen(reward=flat(0.9)), seen(reward=[0.5] * 29 + [1.0])],
    ),
    "noisy reward": ([seen(reward=rough(0.1, 0.5))], [seen(reward=line(0.1, 0.5)), seen(reward=rough(0.5, 0.5005))]),
    "length explosion": (
        [seen(response_length__mean=line(300, 900)), seen(completions__mean_length=line(300, 900))],
        [seen(response_length__mean=line(300, 450)), seen(response_length__mean=line(3, 9))],
    ),
    "length collapse": ([seen(response_length=line(900, 200))], [seen(response_length=line(900, 600))]),
    "many answers cut at the limit": (
        [seen(rollout__truncated_ratio=flat(0.46))],
        [seen(rollout__truncated_ratio=flat(0.1)), seen(rollout__truncated_ratio=line(0.5, 0.02))],
    ),
    "clip fraction high": ([seen(actor__pg_clipfrac=line(0.0, 0.5))], [seen(actor__pg_clipfrac=flat(0.05))]),
    "groups without a difference": ([seen(frac_reward_zero_std=flat(0.7))], [seen(frac_reward_zero_std=flat(0.3))]),
    "most groups are all right": ([seen(batch__solve_all=flat(0.7))], [seen(batch__solve_all=flat(0.3))]),
    "most groups are all wrong": ([seen(batch__solve_none=flat(0.9))], [seen(batch__solve_none=line(1.0, 0.1))]),
    "gradient spikes": (
        [seen(grad_norm=[0.5] * 20 + [9.0] + [0.5] * 10 + [12.0] + [0.5] * 10)],
        [
            seen(grad_norm=[9.0, 9.0] + [0.5] * 40),  # at the very beginning
            seen(grad_norm=[0.5] * 20 + [9.0] + [0.5] * 20),  # one
            seen(grad_norm=rough(0.5, 9.0)),  # no spikes but the rule
        ],
    ),
    "gradient nearly zero": ([seen(actor__grad_norm=flat(1e-5))], [seen(actor__grad_norm=flat(0.01))]),
    "training gains, objective does not": (
        [seen(reward=line(0.1, 0.9), val__acc=[0.2, 0.3, 0.4, 0.41, 0.4, 0.41])],
        [seen(reward=line(0.1, 0.9), **VAL_UP), seen(reward=line(0.1, 0.9)), seen(val__acc=line(0.1, 0.9))],
    ),
    "objective was better before the end": (
        [seen(val__acc=[0.2, 0.4, 0.5, 0.4, 0.35, 0.3])],
        [seen(val__acc=[0.2, 0.3, 0.4, 0.5, 0.45]), seen(val__acc=[0.5, 0.4, 0.3]), seen(val__acc=line(0.5, 0.2, 9))],
    ),
    "metrics not finite": ([seen(loss=[0.1, NAN]), seen(grad_norm=[1.0, INF, 1.0])], [seen(loss=[0.1, 1e30])]),
    "generation takes most of the time": (
        [seen(timing_s__gen=flat(70.0), timing_s__step=flat(100.0))],
        [
            seen(timing_s__gen=flat(50.0), timing_s__step=flat(100.0)),
            seen(timing_s__gen=flat(70.0)),
            seen(timing_s__gen=flat(900.0), timing_s__step=flat(100.0)),  # of another clock
        ],
    ),
    "updates take most of the time": (
        [seen(timing_s__update_actor=flat(70.0), timing_s__step=flat(100.0))],
        [seen(timing_s__update_actor=flat(40.0), timing_s__step=flat(100.0))],
    ),
    "steps get slower": ([seen(timing_s__step=line(40, 90))], [seen(timing_s__step=[90.0, *flat(40.0)])]),
    "samples are stale": ([seen(actor__ppo_kl=flat(0.2))], [seen(actor__ppo_kl=flat(0.001))]),
    "trainer and engine disagree": (
        [seen(train__train_rollout_logprob_abs_diff=flat(0.2)), seen(train__gen_kl_error=flat(0.05))],
        [seen(train__train_rollout_logprob_abs_diff=flat(0.018)), seen(train__gen_kl_error=flat(0.001))],
    ),
    "importance ratio drifts": (
        [seen(train__token_mult_prob_error=flat(1.3)), seen(sampling__importance_sampling_ratio__mean=flat(0.7))],
        [seen(train__token_mult_prob_error=flat(1.02))],
    ),
    "format reward saturated": (
        [seen(rewards__format_reward__mean=flat(1.0))],
        [seen(rewards__format_reward__mean=flat(0.8))],
    ),
    "repetition": ([seen(rollout__repetition_frac=flat(0.2))], [seen(rollout__repetition_frac=flat(0.0))]),
    "critic explains nothing": (
        [seen(critic__vf_explained_var=flat(-0.3))],
        [seen(critic__vf_explained_var=flat(0.4))],
    ),
    "tool calls fail": ([seen(tools__failure_frequency=flat(0.5))], [seen(tools__failure_frequency=flat(0.01))]),
    "turns grow": ([seen(num_turns__mean=line(2, 6))], [seen(num_turns__mean=line(2, 2.5))]),
}


def names(evidence: SymptomEvidence) -> set[str]:
    return {found.symptom.name for found in symptoms_of(evidence)}


def test_every_symptom_has_a_case() -> None:
    assert {symptom.name for symptom in symptoms()} == set(CASES)
    assert len(symptoms()) >= 26


@pytest.mark.parametrize("name", list(CASES))
def test_it_is_seen_where_it_is(name: str) -> None:
    shows, not_ = CASES[name]
    for evidence in shows:
        assert name in names(evidence), evidence
    for evidence in not_:
        assert name not in names(evidence), evidence


def test_a_healthy_run_shows_nothing() -> None:
    healthy = seen(
        actor__entropy=line(0.8, 0.5),
        actor__kl_loss=line(0.0005, 0.02),
        actor__ppo_kl=flat(0.0004),
        actor__grad_norm=rough(0.2, 0.3),
        critic__rewards__mean=RISE_THEN_FLAT[:12] + line(0.5, 0.56, 12),
        response_length__mean=line(400, 500),
        response_length__clip_ratio=flat(0.02),
        timing_s__step=flat(60.0),
        timing_s__gen=flat(30.0),
        **VAL_UP,
    )
    assert names(healthy) == set()
    assert names(seen()) == set() and names(seen(actor__entropy=[])) == set()


@pytest.mark.parametrize(
    ("trainer", "recorded", "by_reward"),
    [
        *(("verl", (), True), ("agentjet_swarm", (), True), ("generic", (), False), ("trl", (), True)),
        *(("trl", ("train/loss", "eval_loss"), False), ("trl", ("train/loss", "reward"), True)),
        *(("generic", ("critic/rewards/mean",), True), ("generic", ("loss", "grad_norm", "val/acc"), False)),
    ],
)
def test_what_is_trained_by_a_reward(trainer: str, recorded: tuple[str, ...], by_reward: bool) -> None:
    assert trained_by_reward(trainer, recorded) is by_reward


def test_elsewhere_nothing_is_said_of_rewards() -> None:
    rows = symptoms(by_reward=False)
    assert {"metrics not finite", "gradient spikes", "objective was better before the end"} <= {
        row.name for row in rows
    }
    for row in rows:
        words = " ".join((row.name, row.causes, row.disproof, *row.tries))
        assert not [word for word in ("reward", "KL", "entropy", "policy", "answers", "advantage") if word in words]


def test_what_is_to_be_minimized_is_read_the_other_way_round() -> None:
    losing = [(n, v) for n, v in enumerate([0.9, 0.5, 0.4, 0.5, 0.7, 0.8])]
    down = SymptomEvidence(Objective("loss", Direction.MINIMIZE), {"loss": losing})
    up = SymptomEvidence(Objective("loss", Direction.MAXIMIZE), {"loss": losing})
    assert "objective was better before the end" in names(down)
    assert "objective was better before the end" not in names(up)
    (found,) = symptoms_of(down)
    assert found.numbers == "loss was 0.4 and ended at 0.8"


def test_the_words_name_the_numbers_and_the_keys_of_the_framework() -> None:
    (found,) = symptoms_of(seen(actor__entropy=line(0.8, 0.05)))
    lines = found.lines("verl")
    assert lines[0] == "entropy collapse: actor/entropy 0.735 -> 0.115"
    assert "  try: raise the upper clip bound only [actor_rollout_ref.actor.clip_ratio_high]" in lines
    assert lines[-1].startswith("  disproved if: ")
    assert "[" not in "".join(found.lines("generic"))


def test_knobs() -> None:
    used = {knob for symptom in symptoms() for knobs in symptom.tries.values() for knob in knobs}
    assert used == set(package_data("symptoms.yaml")["knobs"])
    assert key_of("lr", "agentjet_swarm") == "ajet.trainer_common.optim.lr"
    assert key_of("lr", "generic") == "" == key_of("nothing", "verl")
    for symptom in symptoms():
        assert len(symptom.tries) >= 2 and symptom.causes and symptom.disproof
