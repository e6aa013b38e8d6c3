"""The names of ideas that people read."""

from __future__ import annotations

import pytest

from autoresearch.core.campaign.hypothesis import (
    MOST_NAMED,
    Hypothesis,
    baseline_hypothesis,
    idea_index,
    idea_name,
)


@pytest.mark.parametrize(
    ("overrides", "name"),
    [
        ({"lr": 4.4e-3, "kl": 0.018}, "#7 lr=4.4e-3 kl=0.018"),
        ({"optim": {"lr": 3e-5}}, "#7 lr=3e-5"),
        ({"optim.lr": "3e-5"}, "#7 lr=3e-5"),  # YAML reads it as text
        ({"lr": 0.004372918}, "#7 lr=4.37e-3"),  # a sampler's
        ({"lr": 0.01}, "#7 lr=0.01"),
        ({"lr": 0.00999}, "#7 lr=9.99e-3"),
        ({"gamma": 0.99}, "#7 gamma=0.99"),
        ({"gamma": 0.9995}, "#7 gamma=0.9995"),
        ({"gamma": 0.999123456}, "#7 gamma=0.99912"),
        ({"gamma": 0.912345678}, "#7 gamma=0.912"),
        ({"clip": 1.2345678}, "#7 clip=1.23"),
        ({"length": 8192}, "#7 length=8192"),
        ({"length": 1024.0}, "#7 length=1024"),
        ({"tokens": 2_000_000}, "#7 tokens=2e6"),
        ({"tokens": 2_097_152}, "#7 tokens=2.1e6"),
        ({"shift": -1}, "#7 shift=-1"),
        ({"shift": -0.0025}, "#7 shift=-2.5e-3"),
        ({"clip": 0}, "#7 clip=0"),
        ({"clip": 0.0}, "#7 clip=0"),
        ({"clip": float("inf")}, "#7 clip=inf"),
        ({"loss": "dr-grpo"}, "#7 loss=dr-grpo"),
        ({"bonus": True, "decay": None}, "#7 bonus=true decay=null"),
        ({"model": "/data/models/Qwen3-0.6B/"}, "#7 model=Qwen3-0.6B"),
        ({"betas": [0.9, 0.95]}, "#7 betas=[0.9,0.95]"),
        ({"prompt": "Think step by step,\nthen answer."}, "#7 prompt=Think step by step…"),
        ({"prompt": ""}, '#7 prompt=""'),
        ({"+trainer.seed": 3}, "#7 seed=3"),
        ({"actor.optim.lr": 1e-6, "critic.optim.lr": 1e-5}, "#7 actor.optim.lr=1e-6 critic.optim.lr=1e-5"),
        ({"a.x.lr": 1, "b.y.lr": 2, "kl": 3}, "#7 x.lr=1 y.lr=2 kl=3"),
        ({f"setting_{n}": n for n in range(9)}, "#7 setting_0=0 setting_1=1 setting_2=2 +6 more"),
        ({"a" * 60: 1, "kl": 2}, f"#7 {'a' * 60}=1 +1 more"),
    ],
)
def test_an_idea_of_settings_is_named_by_them(overrides: dict[str, object], name: str) -> None:
    assert idea_name(7, Hypothesis("a-slug", "Why it may help.", overrides=overrides)) == name


@pytest.mark.parametrize(
    ("sentence", "name"),
    [
        ("Add an entropy bonus.", "#4 Add an entropy bonus"),
        ("Add a bonus: it keeps exploring. Then decay it.", "#4 Add a bonus"),
        ("Use v1.5 of the loss", "#4 Use v1.5 of the loss"),
        ("Use a bonus that " + "decays " * 9, "#4 Use a bonus that decays decays decays decays…"),
        ("", "#4 wide clip"),
        ("好" * 80, f"#4 {'好' * (MOST_NAMED - 1)}…"),
    ],
)  # fmt: skip
def test_any_other_idea_is_named_by_words(sentence: str, name: str) -> None:
    assert idea_name(4, Hypothesis("wide-clip", sentence, files={"train.py": ""})) == name


@pytest.mark.parametrize(("parent_index", "on"), [(0, ""), (1, ""), (2, " (on #2)")])
def test_an_idea_on_another_one_says_so(parent_index: int, on: str) -> None:
    hypothesis = Hypothesis("beta", "Try it", overrides={"beta": 0.02})
    assert idea_name(5, hypothesis, parent_index) == f"#5 beta=0.02{on}"


def test_the_baseline_and_an_idea_without_a_number() -> None:
    assert idea_name(1, baseline_hypothesis()) == "#1 baseline"
    assert idea_name(0, baseline_hypothesis()) == "baseline"
    assert idea_name(0, Hypothesis("x", "", overrides={"lr": 0.1})) == "lr=0.1"


@pytest.mark.parametrize(
    ("text", "index"),
    [("#7", 7), ("7", 7), ("#0", 0), ("", None), ("#", None), ("lr-7", None), ("7b", None), ("-1", None), ("٣", None)],
)
def test_the_number_in_an_argument(text: str, index: int | None) -> None:
    assert idea_index(text) == index
