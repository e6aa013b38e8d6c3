"""Ours and plug-ins are found by name, and a broken one is named where it is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoresearch import plugins
from autoresearch.errors import EnvironmentUnusable, UsageError
from tests.plugin_dirs import distribution, on_path

READERS = plugins.Registry("readers", {"jsonl": "tests.plugin_dirs:on_path"})

GOOD = """
class Good:
    suffix = "x"
"""

BROKEN = {
    "raise RuntimeError('no\\nCUDA')": "RuntimeError: no CUDA",
    "import sys; sys.exit(3)": "SystemExit: 3",
    "import there_is_no_such_module": "ModuleNotFoundError: No module named 'there_is_no_such_module'",
    "class Other: pass": "AttributeError: module 'mine' has no attribute 'Good'",
}


def installed(tmp_path: Path, text: str, **points: str) -> None:
    distribution(tmp_path, "their-readers", {"readers": points or {"Mine": "mine:Good"}}, version="2.1", mine=text)


def test_a_plugin_is_found_by_name(tmp_path: Path) -> None:
    installed(tmp_path, GOOD)
    with on_path(tmp_path):
        (found,) = plugins.installed()
        assert (found.name, found.origin, found.fault()) == ("mine", "their-readers 2.1", "")
        assert READERS.get(" MINE ").suffix == "x"
        assert READERS.names() == ("jsonl", "mine") and "mine" in READERS and "other" not in READERS
        assert plugins.Registry("trainers").names() == ()
        for name, hint in (("jsonnl", "did you mean jsonl?"), ("other", "known readers: jsonl, mine")):
            with pytest.raises(UsageError) as caught:
                READERS.get(name)
            assert caught.value.hint == hint and caught.value.code == "unknown_reader"
    assert READERS.names() == ("jsonl",)


@pytest.mark.parametrize("text", BROKEN)
def test_a_broken_plugin_is_named(text: str, tmp_path: Path) -> None:
    installed(tmp_path, text)
    with on_path(tmp_path):
        with pytest.raises(EnvironmentUnusable) as caught:
            READERS.get("mine")
        said = "the plug-in mine (readers) of their-readers 2.1 cannot be used: "
        assert caught.value.message.startswith(said + BROKEN[text])
        assert "\n" not in caught.value.message


def test_no_plugin_takes_a_name_of_ours_or_of_another(tmp_path: Path) -> None:
    installed(tmp_path, GOOD, jsonl="mine:Good", csv="mine:Good")
    distribution(tmp_path, "zz-late", {"readers": {"csv": "late:Good"}}, late="raise RuntimeError")
    with on_path(tmp_path):
        assert READERS.get("jsonl") is on_path
        assert READERS.get("csv").suffix == "x"
