"""The tasks: prompts, rule-based verifiers, and demonstrations for the base model.

An answer is a row of tokens that ends with the task's END token, repeated to fill the row. A verifier uses only prompt
and answer. Prompts and answers are int64 arrays of shapes (N, prompt_slots) and (N, answer_slots).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from autoresearch.tinygrpo.arrays import Bools, Ints
from autoresearch.tinygrpo.recipe import RecipeError


@dataclass(frozen=True, slots=True)
class Grades:
    """The verifier's results, per answer (N,). A correct answer is always well-formed."""

    correct: Bools
    well_formed: Bools


@dataclass(frozen=True, slots=True)
class Split:
    """Training and validation prompts; no prompt is in both."""

    train: Ints
    validation: Ints


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


class Task(Protocol):
    """What the trainer needs from a task."""

    @property
    def name(self) -> str:
        """The task's name in the recipe."""

    @property
    def sizes(self) -> Sizes:
        """Sizes of prompts and answers."""

    def prompts(self, count: int, rng: np.random.Generator) -> Ints:
        """(count, prompt_slots) random prompts, possibly repeated; each has a correct answer."""

    def demonstrations(self, prompts: Ints, rng: np.random.Generator) -> Ints:
        """(N, answer_slots): a correct answer to each prompt."""

    def grade(self, prompts: Ints, answers: Ints) -> Grades:
        """Verify the answers."""


def answer_mask(answers: Ints, end: int) -> Bools:
    """(N, L): which tokens belong to the answer, including the first END but not those after it."""
    before = np.zeros_like(answers, dtype=np.bool_)
    before[:, 1:] = np.logical_or.accumulate(answers[:, :-1] == end, axis=1)
    return ~before


def split_prompts(task: Task, train: int, validation: int, rng: np.random.Generator) -> Split:
    """Distinct prompts, split into training and validation. Raises RecipeError if the task has too few."""
    wanted = train + validation
    drawn = task.prompts(20 * wanted, rng)
    # One number per prompt: finding unique numbers is many times faster than finding unique rows.
    digits = task.sizes.prompt_alphabet ** np.arange(task.sizes.prompt_slots)[::-1]
    distinct = drawn[np.unique(drawn @ digits, return_index=True)[1]]
    if len(distinct) < wanted:
        raise RecipeError(
            f"'train_prompts' + 'val_tasks' is {wanted}, but {task.name} has only {len(distinct)} prompts."
        )
    dealt = rng.permutation(distinct)[:wanted]
    return Split(train=dealt[validation:], validation=dealt[:validation])


@dataclass(frozen=True, slots=True)
class Sort:
    """Three to six digits from 0 to 7: write them in ascending order, then END.

    Well-formed: the prompt's digits in any order, then END.
    """

    name: str = "sort"
    sizes: Sizes = Sizes(prompt_slots=6, prompt_alphabet=9, answer_slots=7, answer_alphabet=9)

    def prompts(self, count: int, rng: np.random.Generator) -> Ints:
        """Prompts of uniformly distributed length; unused slots hold the blank 8."""
        digits = rng.integers(0, 8, (count, 6))
        return np.where(np.arange(6) < rng.integers(3, 7, (count, 1)), digits, 8)

    def demonstrations(self, prompts: Ints, rng: np.random.Generator) -> Ints:
        """The sorted digits. Blank and END are both 8, the largest number, so sorting moves them to the end."""
        ends = np.full((len(prompts), 1), self.sizes.end)
        return np.concatenate([np.sort(prompts, axis=1), ends], axis=1)

    def grade(self, prompts: Ints, answers: Ints) -> Grades:
        """Correct only if equal to the sorted digits with END after them."""
        gold = self.demonstrations(prompts, np.random.default_rng(0))
        same_digits = (np.sort(answers, axis=1) == gold).all(axis=1)
        return Grades((answers == gold).all(axis=1), same_digits)


MODULUS = 31


@dataclass(frozen=True, slots=True)
class ModAdd:
    """(a + b + c) mod 31, written as one token, then END. A small network memorises it and never generalises.

    Well-formed: any residue, then END.
    """

    name: str = "modadd"
    sizes: Sizes = Sizes(prompt_slots=3, prompt_alphabet=MODULUS, answer_slots=2, answer_alphabet=MODULUS + 1)

    def prompts(self, count: int, rng: np.random.Generator) -> Ints:
        """Three uniformly random residues."""
        return rng.integers(0, MODULUS, (count, 3))

    def demonstrations(self, prompts: Ints, rng: np.random.Generator) -> Ints:
        """The only correct answer."""
        return np.stack([prompts.sum(axis=1) % MODULUS, np.full(len(prompts), self.sizes.end)], axis=1)

    def grade(self, prompts: Ints, answers: Ints) -> Grades:
        """Correct if the residue is that of the sum."""
        well_formed = (answers[:, 0] < MODULUS) & (answers[:, 1] == self.sizes.end)
        return Grades(well_formed & (answers[:, 0] == prompts.sum(axis=1) % MODULUS), well_formed)


TARGETS = range(1, 41)
PLUS, MINUS, TIMES, END = 3, 4, 5, 6


@dataclass(frozen=True, slots=True)
class Countdown:
    """Three numbers from 1 to 9 and a target up to 40: combine some of the numbers by + - * to reach the target.

    Answer tokens: 0, 1, 2 stand for the numbers, 3, 4, 5 for + - *, 6 is END. Expressions are evaluated strictly from
    left to right, each number is used at most once, and the target equals none of the numbers. The numbers of a prompt
    are in ascending order, so no validation prompt is a reordered training prompt. Well-formed: any such expression,
    whatever its value.
    """

    name: str = "countdown"
    sizes: Sizes = Sizes(prompt_slots=4, prompt_alphabet=41, answer_slots=6, answer_alphabet=7)

    def prompts(self, count: int, rng: np.random.Generator) -> Ints:
        """Prompts drawn uniformly from all solvable ones."""
        pool = _solvable_prompts()
        return pool[rng.integers(0, len(pool), count)]

    def demonstrations(self, prompts: Ints, rng: np.random.Generator) -> Ints:
        """One correct expression per prompt, drawn uniformly."""
        reached = _values_of_all(prompts[:, :3]) == prompts[:, 3:]
        chosen: Ints = EXPRESSIONS[(reached * rng.random(reached.shape)).argmax(axis=1)]
        return chosen

    def grade(self, prompts: Ints, answers: Ints) -> Grades:
        """Correct if the expression is well-formed and its value is the target."""
        well_formed = _well_formed(answers)
        return Grades(well_formed & (_values(prompts[:, :3], answers) == prompts[:, 3]), well_formed)


def _well_formed(answers: Ints) -> Bools:
    """Number (operator number)* END, no number twice, for (N, 6) answers."""
    body = answers < END
    right_kind = np.where(np.arange(6) % 2 == 0, answers < PLUS, answers >= PLUS) | ~body
    closed = body.sum(axis=1) % 2 == 1  # an odd number of tokens ends with a number and leaves room for END
    used_once = np.stack([(answers == number).sum(axis=1) <= 1 for number in range(3)]).all(axis=0)
    well_formed: Bools = right_kind.all(axis=1) & closed & used_once
    return well_formed


def _values(numbers: Ints, answers: Ints) -> Ints:
    """Value (N,) of each expression, evaluated from left to right; arbitrary if it is not well-formed."""
    picks = np.minimum(answers[:, ::2], 2)
    return _evaluated(np.take_along_axis(numbers, picks, axis=1), answers)


def _evaluated(chosen: Ints, answers: Ints) -> Ints:
    """Apply the operators of answers (..., 6) to the chosen numbers (..., 3), from left to right."""
    value = chosen[..., 0]
    for position in (1, 3):
        operator, operand = answers[..., position], chosen[..., (position + 1) // 2]
        by_sign = np.where(operator == PLUS, value + operand, value - operand)
        value = np.where(operator == END, value, np.where(operator == TIMES, value * operand, by_sign))
    return value


def _all_expressions() -> Ints:
    """(75, 6): every well-formed expression."""
    rows = [
        [*itertools.chain(*zip(picks, (*operators, END), strict=True)), *[END] * (6 - 2 * used)]
        for used in (1, 2, 3)
        for picks in itertools.permutations(range(3), used)
        for operators in itertools.product((PLUS, MINUS, TIMES), repeat=used - 1)
    ]
    return np.array(rows, dtype=np.int64)


EXPRESSIONS = _all_expressions()


def _values_of_all(numbers: Ints) -> Ints:
    """(N, 75): the value of every expression for every row of three numbers."""
    return _evaluated(numbers[:, np.minimum(EXPRESSIONS[:, ::2], 2)], EXPRESSIONS)


def _solvable_prompts() -> Ints:
    """(M, 4): every ascending triple with each target that an expression reaches."""
    triples = np.array(list(itertools.combinations_with_replacement(range(1, 10), 3)), dtype=np.int64)
    values = _values_of_all(triples)
    rows = np.concatenate([np.repeat(triples, values.shape[1], axis=0), values.reshape(-1, 1)], axis=1)
    fits = np.isin(rows[:, 3], TARGETS) & (rows[:, :3] != rows[:, 3:]).all(axis=1)
    return np.unique(rows[fits], axis=0)


def task_named(name: str) -> Task:
    """The task for a recipe's `task` key."""
    tasks: dict[str, Task] = {"sort": Sort(), "modadd": ModAdd(), "countdown": Countdown()}
    return tasks[name]
