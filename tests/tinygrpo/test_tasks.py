"""The verifiers, each with near misses, and the prompts that they judge."""

from __future__ import annotations

import numpy as np
import pytest

from autoresearch.tinygrpo.recipe import TASKS, RecipeError
from autoresearch.tinygrpo.tasks import TASKS_BY_NAME, Task, answer_mask

RIGHT, WELL_FORMED, WRONG = (True, True), (False, True), (False, False)


A, B, C, PLUS, MINUS, TIMES = range(6)


@pytest.mark.parametrize(
    ("name", "prompt", "answer", "expected"),
    [
        ("countdown", [2, 3, 5, 30], [A, TIMES, B, TIMES, C], RIGHT),
        ("countdown", [2, 3, 5, 6], [A, TIMES, B], RIGHT),  # not every number is needed
        ("countdown", [2, 3, 5, 25], [A, PLUS, B, TIMES, C], RIGHT),  # from left to right: (2 + 3) * 5
        ("countdown", [2, 3, 5, 17], [A, PLUS, B, TIMES, C], WELL_FORMED),  # as school would have it
        ("countdown", [2, 3, 5, 4], [A, MINUS, B, PLUS, C], RIGHT),  # below zero on the way
        ("countdown", [2, 3, 5, 2], [B, MINUS, C], WELL_FORMED),  # -2
        ("countdown", [3, 3, 5, 9], [A, TIMES, B], RIGHT),  # two numbers of the same value
        ("countdown", [3, 3, 5, 9], [A, TIMES, A], WRONG),  # one number twice
        ("countdown", [2, 3, 5, 11], [A, PLUS, B, PLUS, C], WELL_FORMED),  # off by one
        ("countdown", [2, 3, 5, 5], [A, PLUS, B, PLUS], WRONG),  # no number after the last operator
        ("countdown", [2, 3, 5, 5], [A, PLUS, B, PLUS, C, PLUS], WRONG),  # no END
        ("countdown", [2, 3, 5, 5], [A, B, PLUS], WRONG),
        ("countdown", [2, 3, 5, 5], [], WRONG),
        ("countdown", [2, 3, 5, 5], [C], RIGHT),  # such prompts are never drawn
        ("sort", [5, 2, 7, 8, 8, 8], [2, 5, 7], RIGHT),
        ("sort", [5, 2, 7, 8, 8, 8], [2, 7, 5], WELL_FORMED),
        ("sort", [5, 2, 7, 8, 8, 8], [2, 5], WRONG),
        ("sort", [5, 2, 7, 8, 8, 8], [2, 5, 7, 7], WRONG),
        ("sort", [1, 1, 0, 0, 1, 1], [0, 0, 0, 1, 1, 1], WRONG),  # the right set, the wrong counts
        ("sort", [1, 1, 0, 0, 1, 1], [0, 0, 1, 1, 1, 1, 1], WRONG),  # no END
    ],
)
def test_how_an_answer_is_graded(name: str, prompt: list[int], answer: list[int], expected: tuple[bool, bool]) -> None:
    task = TASKS_BY_NAME[name]
    filled = answer + [task.sizes.end] * (task.sizes.answer_slots - len(answer))
    grades = task.grade(np.array([prompt]), np.array([filled]))
    assert (bool(grades.correct[0]), bool(grades.well_formed[0])) == expected


@pytest.fixture(params=TASKS)
def task(request: pytest.FixtureRequest) -> Task:
    return TASKS_BY_NAME[request.param]


def test_every_demonstration_is_right(task: Task) -> None:
    rng = np.random.default_rng(0)
    prompts = task.prompts(2000, rng)
    assert task.grade(prompts, task.demonstrations(prompts, rng)).correct.all()


def test_prompts_and_answers_stay_in_their_alphabets(task: Task) -> None:
    rng = np.random.default_rng(0)
    prompts = task.prompts(2000, rng)
    answers = task.demonstrations(prompts, rng)
    assert prompts.shape == (2000, task.sizes.prompt_slots)
    assert answers.shape == (2000, task.sizes.answer_slots)
    assert 0 <= prompts.min() <= prompts.max() < task.sizes.prompt_alphabet
    assert 0 <= answers.min() <= answers.max() == task.sizes.end


def test_training_and_validation_share_no_prompt(task: Task) -> None:
    split = task.split(1000, 128, np.random.default_rng(0))
    train, validation = ({tuple(p) for p in part.tolist()} for part in split)
    assert (len(train), len(validation)) == (1000, 128)
    assert not train & validation


def test_countdown_prompts_ascend_and_never_show_their_target() -> None:
    prompts = TASKS_BY_NAME["countdown"].prompts(5000, np.random.default_rng(0))
    assert (np.diff(prompts[:, :3], axis=1) >= 0).all()
    assert (prompts[:, :3] != prompts[:, 3:]).all()
    assert (prompts[:, 3].min(), prompts[:, 3].max()) == (1, 40)


def test_more_prompts_than_there_are_is_an_error() -> None:
    with pytest.raises(RecipeError, match="'train_prompts' \\+ 'val_tasks' is 5128, but countdown has only"):
        TASKS_BY_NAME["countdown"].split(5000, 128, np.random.default_rng(0))


def test_the_mask_keeps_the_first_end_and_nothing_after_it() -> None:
    answers = np.array([[1, 2, 9, 9], [9, 9, 9, 9], [1, 2, 3, 4], [1, 9, 2, 3]])
    kept = [[1, 1, 1, 0], [1, 0, 0, 0], [1, 1, 1, 1], [1, 1, 0, 0]]
    assert answer_mask(answers, 9).astype(int).tolist() == kept
