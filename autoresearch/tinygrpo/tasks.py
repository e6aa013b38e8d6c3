"""The tasks: prompts, rule-based verifiers, and demonstrations for the base model.

An answer is a row of tokens that ends with the task's END token, repeated to fill the row. A verifier uses only prompt
and answer. Prompts and answers are int64 arrays of shapes (N, prompt_slots) and (N, answer_slots).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from autoresearch.tinygrpo.recipe import RecipeError

Floats = npt.NDArray[np.floating[Any]]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class Grades(NamedTuple):
    """The verifier's results, per answer (N,). A correct answer is always well-formed."""

    correct: Bools
    well_formed: Bools

    def rewards(self, format_reward: float) -> Floats:
        """Rewards (N,): 1 for a correct answer, `format_reward` for a well-formed wrong one, else 0."""
        return np.where(self.correct, 1.0, np.where(self.well_formed, format_reward, 0.0))


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of a task's prompts and answers. END is the last token of the answer's alphabet."""

    prompt_slots: int
    prompt_alphabet: int
    answer_slots: int
    answer_alphabet: int

    @property
    def end(self) -> int:
        """The token that ends an answer."""
        return self.answer_alphabet - 1


@dataclass(frozen=True, slots=True)
class Task:
    """What the trainer needs from a task.

    `prompts(count, rng)` draws random prompts, possibly repeated, each with a correct answer; `demonstrations(prompts,
    rng)` answers each of them correctly; `grade(prompts, answers)` verifies answers.
    """

    name: str
    sizes: Sizes
    prompts: Callable[[int, np.random.Generator], Ints]
    demonstrations: Callable[[Ints, np.random.Generator], Ints]
    grade: Callable[[Ints, Ints], Grades]

    def split(self, train: int, validation: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
        """Distinct prompts for training and for validation. Raises RecipeError if the task has too few."""
        count = train + validation
        drawn = self.prompts(20 * count, rng)
        # One number per prompt: finding unique numbers is many times faster than finding unique rows.
        digits = self.sizes.prompt_alphabet ** np.arange(self.sizes.prompt_slots)[::-1]
        distinct = drawn[np.unique(drawn @ digits, return_index=True)[1]]
        if len(distinct) < count:
            raise RecipeError(
                f"'train_prompts' + 'val_tasks' is {count}, but {self.name} has only {len(distinct)} prompts."
            )
        dealt = rng.permutation(distinct)[:count]
        return dealt[validation:], dealt[:validation]


def answer_mask(answers: Ints, end: int) -> Bools:
    """(N, L): which tokens belong to the answer, including the first END but not those after it."""
    before = np.zeros_like(answers, dtype=np.bool_)
    before[:, 1:] = np.logical_or.accumulate(answers[:, :-1] == end, axis=1)
    return ~before


# sort: three to six digits from 0 to 7 in ascending order, then END. Unused slots of a prompt hold the blank 8.
# Well-formed: the right digits in any order, then END.
SORT_SIZES = Sizes(prompt_slots=6, prompt_alphabet=9, answer_slots=7, answer_alphabet=9)


def _sort_prompts(count: int, rng: np.random.Generator) -> Ints:
    digits = rng.integers(0, 8, (count, 6))
    return np.where(np.arange(6) < rng.integers(3, 7, (count, 1)), digits, 8)


def _sorted(prompts: Ints) -> Ints:
    # Blank and END are both 8, the largest number, so sorting moves them to the end.
    return np.concatenate([np.sort(prompts, axis=1), np.full((len(prompts), 1), SORT_SIZES.end)], axis=1)


def _grade_sort(prompts: Ints, answers: Ints) -> Grades:
    gold = _sorted(prompts)
    return Grades((answers == gold).all(axis=1), (np.sort(answers, axis=1) == gold).all(axis=1))


# countdown: three numbers from 1 to 9 and a target up to 40; combine some of the numbers by + - * to reach the target.
# Answer tokens 0, 1, 2 stand for the numbers, 3, 4, 5 for + - *, 6 is END. Expressions are evaluated strictly from left
# to right, each number is used at most once, and the target equals none of the numbers. The numbers of a prompt are in
# ascending order, so no validation prompt is a reordered training prompt. Well-formed: any such expression, whatever
# its value.
COUNTDOWN_SIZES = Sizes(prompt_slots=4, prompt_alphabet=41, answer_slots=6, answer_alphabet=7)
TARGETS = range(1, 41)
PLUS, MINUS, TIMES, END = 3, 4, 5, 6
EXPRESSIONS: Ints = np.array(
    [
        [*itertools.chain(*zip(picks, (*operators, END), strict=True)), *[END] * (6 - 2 * used)]
        for used in (1, 2, 3)
        for picks in itertools.permutations(range(3), used)
        for operators in itertools.product((PLUS, MINUS, TIMES), repeat=used - 1)
    ],
    dtype=np.int64,
)
"""(75, 6): every well-formed expression."""


def _countdown_prompts(count: int, rng: np.random.Generator) -> Ints:
    """Drawn uniformly from every ascending triple with each target that an expression reaches."""
    triples = np.array(list(itertools.combinations_with_replacement(range(1, 10), 3)), dtype=np.int64)
    values = _values_of_all(triples)
    rows = np.concatenate([np.repeat(triples, values.shape[1], axis=0), values.reshape(-1, 1)], axis=1)
    fits = np.isin(rows[:, 3], TARGETS) & (rows[:, :3] != rows[:, 3:]).all(axis=1)
    solvable = np.unique(rows[fits], axis=0)
    return solvable[rng.integers(0, len(solvable), count)]


def _countdown_demonstrations(prompts: Ints, rng: np.random.Generator) -> Ints:
    """One correct expression per prompt, drawn uniformly."""
    reached = _values_of_all(prompts[:, :3]) == prompts[:, 3:]
    chosen: Ints = EXPRESSIONS[(reached * rng.random(reached.shape)).argmax(axis=1)]
    return chosen


def _grade_countdown(prompts: Ints, answers: Ints) -> Grades:
    body = answers < END
    right_kind = np.where(np.arange(6) % 2 == 0, answers < PLUS, answers >= PLUS) | ~body
    closed = body.sum(axis=1) % 2 == 1  # an odd number of tokens ends with a number and leaves room for END
    used_once = np.stack([(answers == number).sum(axis=1) <= 1 for number in range(3)]).all(axis=0)
    well_formed: Bools = right_kind.all(axis=1) & closed & used_once
    numbers = np.take_along_axis(prompts[:, :3], np.minimum(answers[:, ::2], 2), axis=1)
    return Grades(well_formed & (_evaluated(numbers, answers) == prompts[:, 3]), well_formed)


def _values_of_all(numbers: Ints) -> Ints:
    """(N, 75): the value of every expression for every row of three numbers."""
    return _evaluated(numbers[:, np.minimum(EXPRESSIONS[:, ::2], 2)], EXPRESSIONS)


def _evaluated(numbers: Ints, answers: Ints) -> Ints:
    """Apply the operators of answers (..., 6) to numbers (..., 3), from left to right; arbitrary if not well-formed."""
    value = numbers[..., 0]
    for position in (1, 3):
        operator, operand = answers[..., position], numbers[..., (position + 1) // 2]
        by_sign = np.where(operator == PLUS, value + operand, value - operand)
        value = np.where(operator == END, value, np.where(operator == TIMES, value * operand, by_sign))
    return value


TASKS_BY_NAME = {
    task.name: task
    for task in (
        Task("sort", SORT_SIZES, _sort_prompts, lambda prompts, rng: _sorted(prompts), _grade_sort),
        Task("countdown", COUNTDOWN_SIZES, _countdown_prompts, _countdown_demonstrations, _grade_countdown),
    )
}
