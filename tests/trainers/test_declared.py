"""Lines that a blueprint declares: each way to say it, on lines that match and on lines that only look so."""

from __future__ import annotations

import pytest

from autoresearch.core.metrics.signal import NO_STEP, SignalKind
from autoresearch.core.shell import read_shell
from autoresearch.errors import BlueprintError
from autoresearch.trainers import registry
from autoresearch.trainers.generic import Generic
from tests.line_signals import read_line, told

ROWS = {
    "json": ("json iteration", 'INFO {"iteration": 12, "loss": 0.5, "tag": "x"}', (12, {"loss": 0.5})),
    "a dict": ("json it", "{'it': 3, 'score': np.float64(0.25)}", (3, {"score": 0.25})),
    "another key": ("json iteration", '{"step": 12, "loss": 0.5}', None),
    "half a step": ("json it", '{"it": 1.5, "loss": 0.5}', None),
    "torn": ("json it", '{"it": 1, "loss": 0.', None),
    "pairs": ("pairs it", "it: 7 loss=0.5, lr: 1e-06", (7, {"loss": 0.5, "lr": 1e-06})),
    "pairs behind a bracket": ("pairs it", "[12:00] it=7 loss=0.5", (7, {"loss": 0.5})),
    "a longer word": ("pairs it", "unit: 7 loss: 0.5", None),
    "padded pairs": ("pairs it", "it    :   7   loss    =   0.5", (7, {"loss": 0.5})),
    "the usual key": ("pairs", "step: 7 | reward: 0.5", (7, {"reward": 0.5})),
    "thousands": ("pairs", "step: 1,000 | reward: 1,200.25", (1000, {"reward": 1200.25})),
    "millions": ("pairs it", "it=1,234,567, tokens=-2,000,000 lr=1e-5", (1234567, {"tokens": -2e6, "lr": 1e-5})),
    "no thousands": ("pairs it", "it=7 a=12,34 b=1,0005 c=0,123 d=1,2,3 e=1234,567 f=2", (7, {"f": 2.0})),
    "a step that is no number": ("pairs it", "it: 12,34 loss: 0.5", None),
    "a step, then a comma": ("pairs it", "it: 12, loss: 0.5,lr: 2", (12, {"loss": 0.5, "lr": 2.0})),
    "thousands in quotes": ("json it", '{"it": 7, "tokens": "1,200"}', (7, {"tokens": 1200.0})),
    "named thousands": (r"^iter (?P<step>\S+) (?P<loss>\S+)$", "iter 1,005 1,000.5", (1005, {"loss": 1000.5})),
    "named and beside": (r"^iter (?P<step>\d+) ", "iter 5 loss: 0.25 kl=0.1", (5, {"loss": 0.25, "kl": 0.1})),
    "named, and no number": (r"^iter (?P<step>\d+) (?P<a>\S+) (?P<b>\S+)", "iter 5 0.25, 3", (5, {"b": 3.0})),
    "named, and no step": (r"^iter (?P<step>\S+) (?P<a>\S+)", "iter 5/9 0.25", None),
    "named, and no whole step": (r"^iter (?P<step>\S+) (?P<a>\S+)", "iter inf 0.25", None),
    "no step": (r"^epoch done", "epoch done, reward: 0.5", (NO_STEP, {"reward": 0.5})),
    "another line": (r"^iter (?P<step>\d+)", "the iter 5", None),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_declared_step(name: str) -> None:
    text, line, wanted = ROWS[name]
    trainer = registry.choose("", read_shell("python train.py"), (f"step {text}",))
    found = read_line(trainer, line)
    assert (found and (found.step, found.metrics)) == wanted
    seen = [one.step for one in told(trainer, line, "step")]  # what is measured is seen by the Runner
    assert not wanted or seen == [None if wanted[0] == NO_STEP else wanted[0]]


def test_what_is_declared_is_all_there_is() -> None:
    line = "step: 10 | loss: 0.3"
    assert read_line(Generic(lines=("step pairs it",)), line) is None
    both = Generic(lines=("validation json after",))
    found = read_line(both, '{"after": 4, "accuracy": 0.5}')
    assert found is not None and (found.kind, found.step) == (SignalKind.VALIDATION, 4)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [("", "iter (", "not a regular expression"), ("", "(iter)?", "empty line"), ("verl", "pairs", "knows its own")],
)
def test_useless_declarations(name: str, text: str, said: str) -> None:
    with pytest.raises(BlueprintError) as caught:
        registry.choose(name, read_shell("python train.py"), (f"step {text}",))
    assert said in f"{caught.value.message} {caught.value.hint}"
