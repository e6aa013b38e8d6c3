"""Words behind the trainer's own command: where it ends in scripts, pipes, redirections and comments."""

from __future__ import annotations

import pytest

from autoresearch.core.shell_settings import with_words


def train(text: str) -> bool:
    return "train.py" in text


HERE = "@"  # where the words belong
PLACES = {
    "alone": "python train.py a=1@",
    "redirected": "python train.py a=1@ > log 2>&1",
    "a pipe behind it": "set -o pipefail; python train.py a=1@ | tee log",
    "something before and after": "cd train.py.d && export A=train.py && python train.py@ && echo train.py",
    "in the background": "ray start --head; python train.py@ & wait",
    "a job": "ray job submit --address http://h -- python train.py a=1@",
    "the last of two": "python train.py --prepare && python train.py a=1@",
    "a here-document": "python train.py -@ <<EOF\npython train.py\nEOF",
}


@pytest.mark.parametrize("name", PLACES)
def test_where_the_words_go(name: str) -> None:
    text = PLACES[name]
    assert with_words(text.replace(HERE, ""), ["k=[a,b]"], train) == text.replace(HERE, " 'k=[a,b]'")


@pytest.mark.parametrize(
    "text",
    [
        *("bash train.py.sh", "bash -c 'python train.py a=1'", "ssh host python train.py", ""),
        *(
            "COMMAND='python train.py' sbatch --nodes 2 ray.sub",
            "sbatch --wrap 'python train.py'",
            "nrl-k8s run train.py",
        ),
    ],
)
def test_where_no_word_reaches_it(text: str) -> None:
    assert with_words(text, ["k=1"], train) == ""


def test_what_is_not_recognised() -> None:
    assert with_words("cd x && python other.py | tail", ["k=1"], train) == "cd x && python other.py k=1 | tail"
    assert with_words("python other.py", ["k=1"], train, surely=True) == ""
    assert with_words("bash x.sh", [], train, surely=True) == "bash x.sh"
