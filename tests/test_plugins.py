"""Plug-ins are found by name, and a broken one is named and left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoresearch import plugins
from autoresearch.errors import EnvironmentUnusable
from tests.plugin_dirs import distribution, on_path

READERS = plugins.PluginGroup("readers", ("jsonl",))

GOOD = """
class Good:
    suffix = "x"
"""

BROKEN = {
    "raise RuntimeError('no\\nCUDA')": "RuntimeError: no CUDA",
    "import sys; sys.exit(3)": "SystemExit: 3",
    "import there_is_no_such_module": "ModuleNotFoundError: No module named 'there_is_no_such_module'",
    "class Other: pass": "AttributeError: module 'mine' has no attribute 'Good'",
    "class Good:\n    def __init__(self, needed): ...": "TypeError: Good.__init__() missing",
}


def installed(tmp_path: Path, text: str, **points: str) -> None:
    distribution(tmp_path, "their-readers", {"readers": points or {"Mine": "mine:Good"}}, version="2.1", mine=text)


def test_a_plugin_is_found_by_name_and_made(tmp_path: Path) -> None:
    installed(tmp_path, GOOD)
    with on_path(tmp_path):
        found = READERS.find(" MINE ")
        assert found is not None
        assert (found.name, found.origin, found.fault()) == ("mine", "their-readers 2.1", "")
        assert READERS.get("mine").suffix == "x"
        assert list(READERS.usable()) == ["mine"]
        assert READERS.get("other") is None
        assert plugins.PluginGroup("trainers").names() == ()
    assert READERS.names() == ()


@pytest.mark.parametrize("text", BROKEN)
def test_a_broken_plugin_is_named_and_left_out(text: str, tmp_path: Path) -> None:
    installed(tmp_path, text)
    with on_path(tmp_path):
        with pytest.raises(EnvironmentUnusable) as caught:
            READERS.get("mine")
        said = "the plug-in mine (readers) of their-readers 2.1 cannot be used: "
        assert caught.value.message.startswith(said + BROKEN[text])
        assert "\n" not in caught.value.message
        with pytest.warns(plugins.PluginWarning, match="the plug-in mine"):
            assert READERS.usable() == {}
        assert READERS.usable() == {}  # it was named once


def test_no_plugin_takes_a_name_of_ours_or_of_another(tmp_path: Path) -> None:
    installed(tmp_path, GOOD, jsonl="mine:Good", csv="mine:Good")
    distribution(tmp_path, "zz-late", {"readers": {"csv": "late:Good"}}, late="raise RuntimeError")
    with on_path(tmp_path):
        assert READERS.get("jsonl") is None
        assert list(READERS.usable()) == ["csv"]
        found = READERS.find("csv")
        assert found is not None
        assert found.distribution == "their-readers"
