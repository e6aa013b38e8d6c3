"""What every command prints beside its answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoresearch.commands import output


@pytest.mark.parametrize(
    ("where", "on_path", "advice"), [("venv", True, False), ("venv", False, True), ("cache", True, True)]
)
def test_how_to_type_what_the_shell_would_not_find(
    where: str,
    on_path: bool,
    advice: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """uvx puts the environment in its cache on the PATH of the one process that it starts."""
    program = tmp_path / where / "bin" / "autoresearch"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    (tmp_path / "cache").mkdir(exist_ok=True)
    (tmp_path / "cache" / "CACHEDIR.TAG").touch()
    monkeypatch.setattr("sys.argv", [str(program)])
    monkeypatch.setenv("PATH", f"{program.parent if on_path else ''}:/usr/bin:/bin")
    output.remark_path()
    assert (f"export PATH={program.parent}:" in capsys.readouterr().err) is advice
