"""Path mapping: every path into the codebase, by its boundaries, and none that only looks like one."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from autoresearch.lab.resolve.path_mapping import Mapped, MappedLaunch, PathMap, map_launch


def places(codebase: str = "/repo", worktree: str = "/wt/s0", **more: object) -> PathMap:
    return PathMap(Path(codebase), Path(worktree), **more)  # type: ignore[arg-type]


def command(text: str, where: PathMap | None = None) -> MappedLaunch:
    return map_launch(text, {}, {}, where or places())


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("python /repo/train.py", "python /wt/s0/train.py"),
        ("cd /repo", "cd /wt/s0"),
        ("cd /repo/ && ls", "cd /wt/s0/ && ls"),
        ("cd /repo;ls</repo/x>/repo/b", "cd /wt/s0;ls</wt/s0/x>/wt/s0/b"),
        ("python '/repo/train.py'", "python '/wt/s0/train.py'"),
        ('python "/repo/my data/x"', 'python "/wt/s0/my data/x"'),
        (r"python /repo/my\ data/x", r"python /wt/s0/my\ data/x"),
        ("KEY=/repo/x run", "KEY=/wt/s0/x run"),
        ("PATH=a:/repo/b:/usr/bin", "PATH=a:/wt/s0/b:/usr/bin"),
        ("--files=/repo/x,/repo/b", "--files=/wt/s0/x,/wt/s0/b"),
        ("+data=[/repo/x,/repo/b]", "+data=[/wt/s0/x,/wt/s0/b]"),
        ("url=file:///repo/x", "url=file:///wt/s0/x"),
        ("git -C/repo log", "git -C/wt/s0 log"),
        ('bash -c "cd /repo && python train.py"', 'bash -c "cd /wt/s0 && python train.py"'),
        (r'--json "{\"p\": \"/repo/x\"}"', r'--json "{\"p\": \"/wt/s0/x\"}"'),
        ("ls /repo/data/*.parquet", "ls /wt/s0/data/*.parquet"),
        ("ls /repo/data/$X/y /repo/$X", "ls /wt/s0/data/$X/y /wt/s0/$X"),
        ("ls `ls /repo/b` $(ls /repo/b)", "ls `ls /wt/s0/b` $(ls /wt/s0/b)"),
        ("ls /repo/./data/../x", "ls /wt/s0/./data/../x"),
        ("a\n/repo/x\\\n  --y", "a\n/wt/s0/x\\\n  --y"),
    ],
)
def test_a_path_in_a_command(text: str, becomes: str) -> None:
    done = command(text)
    assert done.command == becomes
    assert done.findings == ()
    assert done.mapped


@pytest.mark.parametrize(
    "text",
    [
        "cd /repo-old/x /repo.bak /repo_1 /repo+x /repoä",
        "cd /mnt/repo/x ./repo/x ../repo repo/x train.py",
        "ls $HOME/repo/x ${X}/repo/x ~/repo/x $(pwd)/repo */repo",
        'ls "$X"/repo/x "a"/repo',
        r"ls /repo\ 2/x",
        "ls /repo/../other/x /repo/..",
        "https://example.org/repo/x",
        "",
    ],
)
def test_what_only_looks_like_one(text: str) -> None:
    done = command(text)
    assert (done.command, done.mapped, done.findings) == (text, (), ())


def test_recipes_and_environments() -> None:
    recipe = {
        "path": "/repo/my data/x",
        "list": ["/repo/x", {"deep": "a:/repo/b"}],
        "number": 3,
        "none": None,
        "relative": "data/train",
        "other": "/data/x",
        "sentence": "see /repo/x and /repo2",
    }
    done = map_launch("python train.py", recipe, {"DATA": "/repo/data", "X": "y"}, places())
    assert done.findings == ()
    assert done.recipe == {
        "path": "/wt/s0/my data/x",
        "list": ["/wt/s0/x", {"deep": "a:/wt/s0/b"}],
        "number": 3,
        "none": None,
        "relative": "data/train",
        "other": "/data/x",
        "sentence": "see /wt/s0/x and /repo2",
    }
    assert done.environment == {"DATA": "/wt/s0/data", "X": "y"}
    assert done.mapped[1:3] == (
        Mapped("list.0", "/repo/x", "/wt/s0/x"),
        Mapped("list.1.deep", "/repo/b", "/wt/s0/b"),
    )
    assert done.mapped[-1] == Mapped("$DATA", "/repo/data", "/wt/s0/data")
    assert recipe["path"] == "/repo/my data/x"


def test_the_virtual_environment_and_results_stay() -> None:
    where = places(never=(Path("/repo/.venv"), Path("/repo/out/results")))
    text = "/repo/.venv/bin/python /repo/train.py --out /repo/out/results/a '/repo/.venv'"
    done = map_launch(text, {"out": "/repo/out/results"}, {"PATH": "/repo/.venv/bin:/repo/b"}, where)
    assert done.command == text.replace("/repo/train.py", "/wt/s0/train.py")
    assert done.recipe == {"out": "/repo/out/results"}
    assert done.environment == {"PATH": "/repo/.venv/bin:/wt/s0/b"}
    assert done.findings == ()
    assert command("/repo/.venv2/x", where).command == "/wt/s0/.venv2/x"


def test_every_spelling_of_the_codebase(tmp_path: Path) -> None:
    """A link to it, its real path, below home, and the root of a checkout that it is a directory of."""
    real = tmp_path / "home/repo/sub"
    real.mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "home/repo")
    where = places(str(tmp_path / "link/sub"), root=tmp_path / "home/repo", home=str(tmp_path / "home"))
    text = f"{tmp_path}/link/sub/x {real}/x {tmp_path}/link/x {tmp_path}/home/repo/x ~/repo/sub/x $HOME/repo/x"
    done = command(text, where)
    assert done.command == "/wt/s0/sub/x /wt/s0/sub/x /wt/s0/x /wt/s0/x /wt/s0/sub/x /wt/s0/x"
    assert done.findings == ()


@pytest.mark.system
@pytest.mark.parametrize("name", ["plain", "jürgen"])
def test_a_shell_reads_the_mapped_path_however_the_codebase_is_quoted(tmp_path: Path, name: str) -> None:
    worktree = tmp_path / name
    worktree.mkdir()
    (worktree / "x").write_text("found")
    codebase = tmp_path / "re po"
    escaped = str(codebase).replace(" ", "\\ ")
    for written in (shlex.quote(f"{codebase}/x"), f'"{codebase}/x"', f"{escaped}/x", f'"{codebase}"/x'):
        done = command(f'F={written}; cat {written}; cat "$F"', places(str(codebase), str(worktree)))
        said = subprocess.run(["bash", "-c", done.command], capture_output=True, text=True, cwd="/")
        assert said.stdout == "foundfound" and done.findings == (), (done.command, said.stderr)


@pytest.mark.parametrize("worktree", ["/with space", "/it's", '/a "b" $HOME `x`', "/(1)&;*"])
def test_a_worktree_that_a_shell_would_not_read_as_one_word_is_refused(worktree: str) -> None:
    done = map_launch("python /repo/x", {"path": "/repo/x"}, {}, places(worktree=worktree))
    assert [one.code for one in done.findings] == ["odd_worktree"] and "trees:" in done.findings[0].hint
    assert done.recipe == {"path": f"{worktree}/x"}


def test_the_codebase_may_hold_anything() -> None:
    for name in ("/re.po", "/re po", "/(re)", "/a+b", "/ü", "/[x]", "/$HOME"):
        done = map_launch("", {"p": f"{name}/x"}, {"P": f"{name}/x"}, places(name))
        assert (done.recipe, done.environment, done.findings) == ({"p": "/wt/s0/x"}, {"P": "/wt/s0/x"}, ())
    assert command("/reXpo/x", places("/re.po")).mapped == ()
