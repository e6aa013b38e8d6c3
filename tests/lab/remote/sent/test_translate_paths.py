from __future__ import annotations

import pytest

from autoresearch.lab.remote_files.translate_paths import Translation, far_environment, far_spec

HERE = Translation(
    {"/home/u/repo": "/far/code", "/home/u/repo/results": "/far/results", "/home/u/my data": "/d"}, "/home/u"
)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("python /home/u/repo/train.py", "python /far/code/train.py"),
        ("--out=/home/u/repo/results/a", "--out=/far/results/a"),  # the longest root
        ("cd ~/repo && ls $HOME/repo/x ${HOME}/repo", "cd /far/code && ls /far/code/x /far/code"),
        ("PYTHONPATH=/home/u/repo:/home/u/repo/src", "PYTHONPATH=/far/code:/far/code/src"),
        ("x='/home/u/repo/a b' y=\"/home/u/repo\"", "x='/far/code/a b' y=\"/far/code\""),
        ("cat /home/u/my\\ data/x '/home/u/my data/y'", "cat /d/x '/d/y'"),
        ("out: /home/u/repo/results\n", "out: /far/results\n"),
        ("[/home/u/repo/a, /home/u/repo/b]", "[/far/code/a, /far/code/b]"),
        ("file:///home/u/repo/a", "file:///far/code/a"),
        # near misses
        ("/home/u/repo2/x /home/u/repository", "/home/u/repo2/x /home/u/repository"),
        ("/mnt/home/u/repo/x", "/mnt/home/u/repo/x"),
        ("~/other ~", "~/other ~"),
    ],
)
def test_whole_paths_are_translated_and_nothing_else(text: str, meant: str) -> None:
    assert HERE.text(text) == meant


def test_a_translation_of_nothing_changes_nothing() -> None:
    assert Translation({}).text("/a /b") == "/a /b"


def test_a_far_spec_names_far_paths_only() -> None:
    record = {
        "run": "r",
        "command": "python /home/u/repo/t.py",
        "cwd": "/home/u/repo",
        "ledger": "/home/u/repo/reports/results.tsv",
        "notes": "see /home/u/repo",
        "prepare": ["ls /home/u/repo"],
        "sources": [{"format": "jsonl", "path": "/home/u/repo/results/m.jsonl"}],
        "limits": {"max_s": 3.0},
    }
    found = far_spec(record, HERE)
    assert found["command"] == "python /far/code/t.py"
    assert found["prepare"] == ["ls /far/code"]
    assert found["sources"] == [{"format": "jsonl", "path": "/far/results/m.jsonl"}]
    assert found["limits"] == {"max_s": 3.0}
    assert "/home/u" not in str(found)


def test_only_declared_variables_go_there() -> None:
    pairs = {"HOME": "/home/u", "PYTHONPATH": "/home/u/repo:/opt/lib", "X": "~/repo/a", "PATH": "/bin"}
    found = far_environment(pairs, ("PYTHONPATH", "X", "unset"), HERE)
    assert found == {"PYTHONPATH": "/far/code:/opt/lib", "X": "/far/code/a"}
