"""Plug-ins are found by name, checked against their protocol, and a broken one is named and left out."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Protocol

import pytest

from autoresearch import plugins
from autoresearch.errors import EnvironmentUnusable
from tests.plugin_dirs import distribution, on_path


class Reader(Protocol):
    """A small protocol."""

    suffix: str

    def read(self, path: str, *, offset: int) -> list[float]:
        """Numbers."""


READERS = plugins.PluginGroup("readers", Reader, ("jsonl",))

GOOD = """
class Good:
    suffix = "x"
    def read(self, path, *, offset=0, more=None):
        return []
"""

BROKEN = {
    "raise RuntimeError('no\\nCUDA')": "RuntimeError: no CUDA",
    "import sys; sys.exit(3)": "SystemExit: 3",
    "import there_is_no_such_module": "ModuleNotFoundError: No module named 'there_is_no_such_module'",
    "class Other: pass": "AttributeError: module 'mine' has no attribute 'Good'",
    "class Good: suffix = ''": "Good has no `read`",
    "class Good:\n    suffix = ''\n    read = 3": "`read` is no function",
    "class Good:\n    suffix = ''\n    def read(self, path): ...": "`read` does not take (path, offset)",
    "class Good:\n    def read(self, path, *, offset): ...": "Good has no `suffix`",
    "class Good:\n    def __init__(self, needed): ...": "TypeError: Good.__init__() missing",
    "Good = 4": "int has no `suffix`",
}


def installed(tmp_path: Path, text: str, **points: str) -> None:
    distribution(tmp_path, "their-readers", {"readers": points or {"Mine": "mine:Good"}}, version="2.1", mine=text)


def test_a_plugin_is_found_by_name_and_made(tmp_path: Path) -> None:
    installed(tmp_path, GOOD)
    with on_path(tmp_path):
        found = READERS.find(" MINE ")
        assert found == plugins.Plugin("readers", "mine", "mine:Good", "their-readers", "2.1")
        assert found.origin == "their-readers 2.1"
        assert READERS.get("mine").suffix == "x"
        assert list(READERS.usable()) == ["mine"]
        assert READERS.faults() == {found: ""}
        assert READERS.get("other") is None
        assert plugins.PluginGroup("trainers", Reader, ()).installed() == ()
    assert READERS.installed() == ()


@pytest.mark.parametrize(
    "kind", ["x-1.dist-info", "x-1.DIST-INFO", "x.egg-info", "x-1.egg/EGG-INFO", "x.zip", "nothing"]
)
def test_a_plugin_is_found_however_it_was_installed(kind: str, tmp_path: Path) -> None:
    place = tmp_path / kind
    files = {
        "METADATA": "Metadata-Version: 2.1\nName: x\nVersion: 1\n",
        "entry_points.txt": "[autoresearch.readers]\nmine = mine:Good\n",
    }
    files["PKG-INFO"] = files["METADATA"]
    if kind == "x.zip":
        with zipfile.ZipFile(place, "w") as archive:
            for name, text in files.items():
                archive.writestr(f"x-1.dist-info/{name}", text)
    else:
        place.mkdir(parents=True)
        for name, text in files.items():
            (place / name).write_text(text)
    with on_path(place if kind == "x.zip" else place.parent):
        assert [one.name for one in READERS.installed()] == ([] if kind == "nothing" else ["mine"])


@pytest.mark.parametrize("text", BROKEN)
def test_a_broken_plugin_is_named_with_what_is_wrong_and_left_out(text: str, tmp_path: Path) -> None:
    installed(tmp_path, text)
    with on_path(tmp_path):
        with pytest.raises(EnvironmentUnusable) as caught:
            READERS.get("mine")
        assert caught.value.code == "plugin_broken"
        assert caught.value.message.startswith(
            f"the plug-in mine (readers) of their-readers 2.1 cannot be used: {BROKEN[text]}"
        )
        assert "\n" not in caught.value.message
        with pytest.warns(plugins.PluginWarning, match="the plug-in mine"):
            assert READERS.usable() == {}
        assert READERS.usable() == {}  # it was named once


def test_no_plugin_takes_a_name_of_ours_or_of_another(tmp_path: Path) -> None:
    installed(tmp_path, GOOD, jsonl="mine:Good", csv="mine:Good")
    distribution(tmp_path, "zz-late", {"readers": {"csv": "late:Good"}}, late="raise RuntimeError")
    with on_path(tmp_path):
        assert {str(plugin): fault for plugin, fault in READERS.faults().items()} == {
            "the plug-in jsonl (readers) of their-readers 2.1": "that name is one of autoresearch's own",
            "the plug-in csv (readers) of their-readers 2.1": "",
            "the plug-in csv (readers) of zz-late 1.0": "their-readers 2.1 has that name, too, and comes first",
        }
        assert READERS.get("jsonl") is None
        with pytest.warns(plugins.PluginWarning) as warned:
            assert list(READERS.usable()) == ["csv"]
        assert len(warned) == 2


def test_a_function_may_be_a_plugin(tmp_path: Path) -> None:
    def like(path: str, offset: int) -> None:
        """What it is called with."""

    installed(tmp_path, "def two(path, at): ...\ndef one(path): ...", two="mine:two", one="mine:one")
    with on_path(tmp_path):
        faults = plugins.PluginGroup("readers", like, ()).faults()
        assert {one.name: fault for one, fault in faults.items()} == {
            "two": "",
            "one": "it does not take (path, offset)",
        }


def test_the_page_about_plugins_shows_the_example_as_it_is() -> None:
    root = Path(__file__).parents[1]
    page = (root / "docs" / "plugins.md").read_text()
    files = [root / "tests/example_plugin/pyproject.toml", *(root / "tests/example_plugin").rglob("[a-z]*.py")]
    assert len(files) == 7
    for file in files:
        assert f"\n{file.read_text()}```\n" in page, file
