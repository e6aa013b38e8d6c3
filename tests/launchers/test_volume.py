"""The big volume: where it is used, and that nothing goes there that somebody sent elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from autoresearch.errors import UsageError
from autoresearch.launchers import host
from autoresearch.launchers.host import find
from autoresearch.runner import remote_files


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    (tmp_path / "big").mkdir()
    return tmp_path / "home"


def sizes(monkeypatch: pytest.MonkeyPatch, big: Path, of_big: int, of_home: int) -> None:
    """Two disks of these many blocks."""

    class Numbers:
        def __init__(self, blocks: int) -> None:
            self.f_blocks, self.f_frsize, self.f_bavail = blocks, 4096, blocks

    monkeypatch.setattr(os, "statvfs", lambda path: Numbers(of_big if Path(path) == big else of_home))


def test_a_large_one_takes_the_caches(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    big = home.parent / "big"
    sizes(monkeypatch, big, 1000, 10)
    found = find("auto", {"HOME": str(home)}, big)
    assert set(found.variables) == set(remote_files.CACHES)
    assert found.variables["HF_HOME"] == f"{big}/autoresearch-{os.getuid()}/cache/hf"
    assert len(set(found.variables.values())) == len(found.variables)
    assert str(big) in found.sentence and "HF_HOME" in found.sentence


def test_one_that_is_missing_small_or_read_only_is_left_alone(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    big = home.parent / "big"
    found = find("auto", {"HOME": str(home)}, home / "nowhere")
    assert (found.path, dict(found.variables)) == ("", {}) and "there is no" in found.sentence
    sizes(monkeypatch, big, 10, 10)
    assert "no larger" in find("auto", {"HOME": str(home)}, big).why
    monkeypatch.setattr(host.host_sandbox_check, "can_write", lambda _: False)
    assert "cannot be written" in find("auto", {"HOME": str(home)}, big).why


def test_what_somebody_set_or_uses_stays(home: Path) -> None:
    (home / ".cache/uv").mkdir(parents=True)
    (home / ".cache/uv/wheels").mkdir()
    (home / ".cache/torch").mkdir()
    environ = {"HOME": str(home), "HF_HUB_CACHE": "/models", "TRITON_CACHE_DIR": "/t"}
    found = find(str(home.parent / "big"), environ)
    assert set(found.variables) == {"TORCH_HOME", "TORCHINDUCTOR_CACHE_DIR", "VLLM_CACHE_ROOT"}
    assert find(str(home.parent / "big"), {"HOME": str(home), "XDG_CACHE_HOME": "/c"}).variables.keys() == {
        "TORCHINDUCTOR_CACHE_DIR",
        "TRITON_CACHE_DIR",
    }


def test_a_login_is_no_cache(home: Path) -> None:
    (home / ".cache/huggingface").mkdir(parents=True)
    (home / ".cache/huggingface/token").write_text("secret")
    found = find(str(home.parent / "big"), {"HOME": str(home)}).variables
    assert found["HF_TOKEN_PATH"] == str(home / ".cache/huggingface/token") and "HF_HOME" in found
    (home / ".cache/huggingface/hub").mkdir()
    assert "HF_HOME" not in find(str(home.parent / "big"), {"HOME": str(home)}).variables


def test_it_can_be_said(home: Path) -> None:
    assert find("none", {"HOME": str(home)}).sentence == "none: the setting big_volume says so"
    for bad in ("big", str(home / "nowhere"), "yes"):
        with pytest.raises(UsageError, match="big_volume"):
            find(bad, {"HOME": str(home)})
