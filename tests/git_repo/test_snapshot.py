"""Every state a checkout can be in: the commit holds what is on disk, and .git is left as it was."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from autoresearch.git_repo.snapshot import Snapshot, is_checkpoint, is_secret, snapshot, survey

pytestmark = pytest.mark.system

if TYPE_CHECKING:
    from tests.git_repo.conftest import Files, Repo


@dataclass
class Expect:
    """How the tree differs from the disk: paths without, paths with other content, what is told."""

    without: set[str] = field(default_factory=set)
    instead: Files = field(default_factory=dict)
    told: dict[str, str] = field(default_factory=dict)
    dirty: set[str] | None = None


def take(repo: Repo, **options: object) -> Snapshot:
    return snapshot(repo.checkout, message="snapshot", **options)  # type: ignore[arg-type]


def every_kind_of_change(repo: Repo) -> Expect:
    repo.write("staged.py", "s\n")
    repo.git("add", "staged.py")
    repo.write("train.py", "staged\n")
    repo.git("add", "train.py")
    repo.write("train.py", "staged, then changed\n")
    (repo.root / "lib/a.py").unlink()
    repo.git("rm", "-q", "lib/b.py")
    repo.write("new.py")
    repo.write("deep/er/new.py")
    repo.write("noise.log")
    repo.write("ignored/x.py")
    dirty = {"staged.py", "train.py", "lib/a.py", "lib/b.py", "new.py", "deep/er/new.py"}
    return Expect(without={"noise.log", "ignored/x.py"}, dirty=dirty)


def links_and_modes(repo: Repo) -> Expect:
    (repo.root / "link").symlink_to("train.py")
    (repo.root / "dangling").symlink_to("no/such/file")
    (repo.root / "to_directory").symlink_to("lib")
    repo.write("tool", mode=0o755)
    (repo.root / "run.sh").chmod(0o644)
    (repo.root / "train.py").unlink()
    (repo.root / "train.py").symlink_to("lib/a.py")
    return Expect(dirty={"link", "dangling", "to_directory", "tool", "run.sh", "train.py"})


def file_becomes_directory(repo: Repo) -> Expect:
    (repo.root / "train.py").unlink()
    repo.write("train.py/main.py")
    return Expect(dirty={"train.py", "train.py/main.py"})


def file_becomes_repository(repo: Repo) -> Expect:
    (repo.root / "train.py").unlink()
    repo.git("init", "-q", "train.py")
    identity = ("-c", "user.name=T", "-c", "user.email=t@x")
    repo.git("-C", "train.py", *identity, "commit", "-q", "--allow-empty", "-m", "x")
    return Expect(told={"train.py/": "repository of its own"}, dirty={"train.py"})


def directory_becomes_file(repo: Repo) -> Expect:
    for name in ("a", "b"):
        (repo.root / f"lib/{name}.py").unlink()
    (repo.root / "lib").rmdir()
    repo.write("lib", "file\n")
    return Expect(dirty={"lib", "lib/a.py", "lib/b.py"})


def nasty_names(repo: Repo) -> Expect:
    repo.write(os.fsdecode(b"latin\xe9.py"))
    names = ["new\nline", 'quo"te', "-d", "--", "t\tb", "ünïcödé", "$(x)", "a b", ":(glob)*", "*.py", "b\\s"]
    for name in names:
        repo.write(name)
        repo.write(f"dir {name}/{name}")
    repo.write("-tracked\n'")
    repo.commit()
    repo.write("-tracked\n'", "changed\n")
    for name in names:
        repo.write(name, "changed\n")
        repo.write(f"new {name}/{name}")
    return Expect()


def sparse(repo: Repo) -> Expect:
    repo.write("docs/x.md", "doc\n")
    repo.commit()
    repo.git("sparse-checkout", "set", "--cone", "--sparse-index", "lib")
    assert not (repo.root / "docs").exists()
    repo.write("lib/a.py", "changed\n")
    return Expect(instead={"docs/x.md": (0o100644, b"doc\n")}, dirty={"lib/a.py"})


def unmerged(repo: Repo) -> Expect:
    repo.git("checkout", "-qb", "other")
    repo.write("train.py", "theirs\n")
    repo.write("lib/b.py", "theirs\n")
    repo.commit()
    repo.git("checkout", "-q", "main")
    repo.write("train.py", "ours\n")
    repo.git("rm", "-q", "lib/b.py")
    repo.commit()
    repo.git("merge", "other", check=False)
    assert "<<<<<<<" in (repo.root / "train.py").read_text()
    return Expect(dirty={"train.py", "lib/b.py"})


def lock_left_behind(repo: Repo) -> Expect:
    repo.git("checkout", "-q", "--detach")
    repo.write("train.py", "changed\n")
    for name in ("index.lock", "HEAD.lock", "config.lock", "packed-refs.lock"):
        (repo.git_dir / name).touch()
    return Expect(dirty={"train.py"})


def hooks_and_signing(repo: Repo) -> Expect:
    for hook in ("pre-commit", "commit-msg", "post-index-change", "reference-transaction", "post-commit"):
        repo.write(f".git/hooks/{hook}", "#!/bin/sh\ntouch hook-ran\nexit 1\n", mode=0o755)
    repo.git("config", "commit.gpgsign", "true")
    repo.git("config", "gpg.program", "/bin/false")
    repo.write("train.py", "changed\n")
    return Expect(dirty={"train.py"})


def line_ends(repo: Repo) -> Expect:
    repo.git("config", "core.autocrlf", "true")
    repo.git("config", "core.safecrlf", "true")
    repo.write("new.py", "one\r\ntwo\r\n")
    repo.write("mixed.py", "one\r\ntwo\n")
    mode = 0o100644
    return Expect(instead={"new.py": (mode, b"one\ntwo\n"), "mixed.py": (mode, b"one\ntwo\n")})


def clean_filter(repo: Repo) -> Expect:
    repo.write(".gitattributes", "*.dat filter=pointer\n")
    repo.git("config", "filter.pointer.clean", "sed s/.*/pointer/")
    repo.write("same.dat", "big\n")
    repo.write("changed.dat", "big\n")
    repo.commit()
    repo.write("changed.dat", "bigger\n")
    repo.write("new.dat", "big\n")
    pointer = (0o100644, b"pointer\n")
    return Expect(instead=dict.fromkeys(("same.dat", "changed.dat", "new.dat"), pointer))


def monitor_that_lies(repo: Repo) -> Expect:
    repo.write(".git/monitor", "#!/bin/sh\nprintf 'token\\0'\n", mode=0o755)
    repo.git("config", "core.fsmonitor", ".git/monitor")
    repo.git("update-index", "--fsmonitor")
    repo.git("status")
    repo.write("train.py", "changed\n")
    repo.write("new.py")
    return Expect(dirty={"train.py", "new.py"})


def split_index(repo: Repo) -> Expect:
    repo.git("config", "core.splitIndex", "true")
    repo.git("update-index", "--split-index")
    repo.write("train.py", "changed\n")
    repo.write("new.py")
    return Expect(dirty={"train.py", "new.py"})


def racily_clean(repo: Repo) -> Expect:
    """Same size, same second as the index: only a look at the content tells."""
    repo.git("config", "core.trustctime", "false")
    long_ago = (1_600_000_000, 1_600_000_000)
    os.utime(repo.write("train.py", "aaaa\n"), long_ago)
    repo.git("add", "train.py")
    os.utime(repo.write("train.py", "bbbb\n"), long_ago)
    os.utime(repo.git_dir / "index", long_ago)
    return Expect(dirty={"train.py"})


def secrets(repo: Repo) -> Expect:
    repo.write("deploy.pem", "old\n")
    repo.write("gone.key", "old\n")
    repo.commit()
    repo.write("deploy.pem", "new\n")
    (repo.root / "gone.key").unlink()
    repo.write("staged.key", "new\n")
    repo.git("add", "staged.key")
    untracked = {".env", "cfg/.env.local", "cfg/id_rsa", ".hf_token", "cfg/.aws/config"}
    for path in untracked:
        repo.write(path, "secret\n")
    repo.write(".env.example", "KEY=\n")
    repo.write("tokenizer.json", "{}\n")
    told = dict.fromkeys(untracked | {"staged.key"}, "secret file")
    return Expect(
        without=untracked | {"staged.key"},
        instead={"deploy.pem": (0o100644, b"old\n")},
        told=told | {"deploy.pem": "the commit keeps the version of HEAD"},
        dirty={".env.example", "tokenizer.json", "gone.key"},
    )


def environments(repo: Repo) -> Expect:
    without = set()
    marks = {"venv": "pyvenv.cfg", "envs/py311": "pyvenv.cfg", "conda": "conda-meta/history"}
    for place, mark in marks.items():
        for path in (mark, "lib/python3/x.py", "bin/python"):
            repo.write(f"{place}/{path}")
            without.add(f"{place}/{path}")
    repo.write("envs/make.py")
    told = dict.fromkeys((f"{place}/" for place in marks), "virtual environment")
    return Expect(without=without, told=told, dirty={"envs/make.py"})


def environment_at_the_root(repo: Repo) -> Expect:
    for path in ("pyvenv.cfg", "bin/python", "lib/python3/x.py", "code.py"):
        repo.write(path)
    told = dict.fromkeys(("bin/", "lib/"), "virtual environment")
    return Expect(without={"bin/python", "lib/python3/x.py"}, told=told, dirty={"code.py", "pyvenv.cfg"})


def weights(repo: Repo) -> Expect:
    left = {"checkpoints/last.bin", "saved_checkpoints/global_step_5/a.bin", "out/m.safetensors", "m.ckpt"}
    for path in left:
        repo.write(path)
    repo.write("checkpoints/__init__.py")
    repo.write("checkpointing/a.bin")
    return Expect(without=left, told=dict.fromkeys(left, "checkpoint"))


def nested_repositories(repo: Repo) -> Expect:
    for place in ("nested", "outer/inner"):
        repo.write(f"{place}/x.py")
        repo.git("init", "-q", place)
        repo.git("-C", place, "add", ".")
        repo.git("-C", place, "-c", "user.name=T", "-c", "user.email=t@x", "commit", "-qm", "x")
    repo.write("outer/y.py")
    told = dict.fromkeys(("nested/", "outer/inner/"), "repository of its own")
    return Expect(without={"nested/x.py", "outer/inner/x.py"}, told=told, dirty={"outer/y.py"})


def neither_file_nor_link(repo: Repo) -> Expect:
    (repo.root / "train.py").unlink()
    os.mkfifo(repo.root / "train.py")
    os.mkfifo(repo.root / "pipe")
    return Expect(instead={"train.py": (0o100644, b"print('one')\n")}, told={"train.py": "neither"})


CASES: list[Callable[[Repo], Expect]] = [
    every_kind_of_change,
    links_and_modes,
    file_becomes_directory,
    file_becomes_repository,
    directory_becomes_file,
    nasty_names,
    sparse,
    unmerged,
    lock_left_behind,
    hooks_and_signing,
    line_ends,
    clean_filter,
    monitor_that_lies,
    split_index,
    racily_clean,
    secrets,
    environments,
    environment_at_the_root,
    weights,
    nested_repositories,
    neither_file_nor_link,
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_the_commit_holds_what_runs_and_git_is_untouched(case: Callable[[Repo], Expect], repo: Repo) -> None:
    expect = case(repo)
    disk, before = repo.disk(), repo.private()
    head = repo.git("rev-parse", "HEAD").strip()

    made = take(repo)

    assert repo.private() == before
    assert not (repo.root / "hook-ran").exists()
    assert list((repo.root.parent / "tmp").iterdir()) == []
    for name in ("index.lock", "HEAD.lock", "config.lock", "packed-refs.lock"):
        (repo.git_dir / name).unlink(missing_ok=True)
    wanted = {path: found for path, found in disk.items() if path not in expect.without} | expect.instead
    assert repo.tree(made.commit) == wanted
    assert (made.parent, repo.git("rev-parse", f"{made.commit}^").strip()) == (head, head)
    told = {left.path: left.reason for left in made.left_out}
    assert told.keys() == expect.told.keys()
    for path, reason in expect.told.items():
        assert reason in told[path]
    if expect.dirty is not None:
        assert set(made.dirty) == expect.dirty
    repo.git("fsck", "--strict", "--no-dangling")


def test_a_repository_without_a_commit(make_repo: Callable[[str], Repo]) -> None:
    repo = make_repo("unborn")
    assert repo.tree(take(repo).commit) == {} and not (repo.git_dir / "index").exists()
    repo.write("a.py")
    repo.write("b.py")
    repo.write("c.key")
    repo.git("add", "a.py", "c.key")
    before = repo.private()
    made = take(repo)
    assert repo.private() == before
    assert made.parent == ""
    assert repo.git("rev-list", "--count", made.commit).strip() == "1"
    assert set(repo.tree(made.commit)) == {"a.py", "b.py"}
    assert made.dirty == ("a.py", "b.py")
    second = take(repo, parent=made.commit)
    assert repo.git("rev-parse", f"{second.commit}^").strip() == second.parent == made.commit


@pytest.mark.smoke
def test_a_linked_worktree_has_its_own_head_and_index(repo: Repo) -> None:
    repo.write("train.py", "main checkout\n")
    linked = type(repo)(repo.root.parent / "linked")
    repo.git("worktree", "add", "-q", "-b", "side", str(linked.root))
    linked.write("lib/a.py", "side\n")
    disk, before = linked.disk(), repo.private()
    made = take(linked)
    assert repo.private() == before
    assert linked.tree(made.commit) == disk
    assert made.dirty == ("lib/a.py",)


def test_submodules_are_recorded_as_the_commit_they_stand_on(make_repo: Callable[[str], Repo], repo: Repo) -> None:
    library = make_repo("library")
    library.write("x.py")
    first = library.commit()
    second = library.commit("again")
    allow = ("-c", "protocol.file.allow=always")
    for name in ("same", "moved", "dirty"):
        repo.git(*allow, "submodule", "--quiet", "add", str(library.root), name)
    repo.commit()
    repo.git("-C", "moved", "checkout", "-q", first)
    repo.write("dirty/x.py", "changed\n")
    repo.write("dirty/new.py")
    repo.git("config", "diff.ignoreSubmodules", "all")
    before = repo.private()
    made = take(repo)
    assert repo.private() == before
    tree = repo.tree(made.commit)
    links = {path: oid.decode() for path, (mode, oid) in tree.items() if mode == 0o160000}
    assert links == {"same": second, "moved": first, "dirty": second}
    assert [left.path for left in made.left_out] == ["dirty/"]
    assert made.dirty == ("moved",)


def test_results_are_left_out_whether_tracked_or_not(repo: Repo) -> None:
    repo.write("results/old.md", "old\n")
    repo.commit()
    repo.write("results/old.md", "new\n")
    repo.write("results/run/x.bin")
    repo.write("results_of_thought.py")
    repo.write("deep/records/r.tsv")
    repo.write("deep/code.py")
    ways = [repo.root / "results", repo.root / "deep/records", repo.root, repo.root.parent, Path("/nowhere")]
    made = take(repo, leave_out=ways)
    tree = repo.tree(made.commit)
    assert tree["results/old.md"] == (0o100644, b"old\n")
    assert {"results/run/x.bin", "deep/records/r.tsv"}.isdisjoint(tree)
    assert {"results_of_thought.py", "deep/code.py"} <= set(tree)
    assert {left.path for left in made.left_out} == {"results/old.md", "results/", "deep/records/"}
    assert made.dirty == ("deep/code.py", "results_of_thought.py")


def test_large_untracked_files_are_left_out_and_large_tracked_ones_are_not(repo: Repo) -> None:
    repo.write("tracked.bin", b"x")
    repo.commit()
    repo.write("tracked.bin", b"x" * 2000)
    repo.write("data.bin", b"x" * 1001)
    repo.write("limit.bin", b"x" * 1000)
    made = take(repo, max_bytes=1000)
    assert {"tracked.bin", "limit.bin"} <= set(repo.tree(made.commit))
    assert [(left.path, left.size) for left in made.left_out] == [("data.bin", 1001)]


def test_extra_files_are_in_the_tree_whatever_else_is_there(repo: Repo) -> None:
    repo.git("config", "core.autocrlf", "true")
    repo.write("plan.md", "one\r\n", mode=0o755)
    repo.write("ignored/plan.md", "ignored\n")
    repo.write("train.py", "print('one')\n", mode=0o755)
    on_disk = {"plan.md": b"one\r\n", "ignored/plan.md": b"ignored\n", "train.py": b"print('one')\n"}
    repo.write("lib/b.py", "changed on disk\n")
    on_disk["lib/b.py"] = b"other\n"  # the caller's content wins
    extra = {"lib/a.py": b"other\n", ".autoresearch/outside ü.md": b"outside\n", "run.sh/x": b"below\n"}
    before = repo.private()
    made = take(repo, extra=on_disk | extra)
    assert repo.private() == before
    tree = repo.tree(made.commit)
    assert tree["plan.md"] == (0o100755, b"one\n")  # git's way: it takes this file anyway
    assert tree["train.py"] == (0o100755, b"print('one')\n")
    assert tree["ignored/plan.md"] == (0o100644, b"ignored\n")
    assert tree["lib/a.py"] == tree["lib/b.py"] == (0o100644, b"other\n")
    assert tree[".autoresearch/outside ü.md"] == (0o100644, b"outside\n")
    assert tree["run.sh/x"] == (0o100644, b"below\n")


@pytest.mark.parametrize("configured", [{}, {"user.name": "Only Name"}, {"user.useConfigOnly": "true"}])
def test_without_identity_ours_fills_in_what_is_missing(
    configured: dict[str, str], repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert repo.git("log", "-1", "--format=%an <%ae>", take(repo).commit).strip() == "T <t@example.invalid>"
    with monkeypatch.context() as patched:
        patched.setenv("GIT_AUTHOR_NAME", "Somebody")
        assert repo.git("log", "-1", "--format=%an %cn", take(repo).commit).strip() == "Somebody T"
    for key in ("user.name", "user.email"):
        repo.git("config", "--unset", key)
    for key, value in configured.items():
        repo.git("config", key, value)
    made = take(repo)
    author, committer = repo.git("log", "-1", "--format=%an%n%cn", made.commit).split("\n")[:2]
    assert author == committer != ""
    assert author == configured.get("user.name", author)


def test_a_survey_tells_the_same_and_writes_nothing(repo: Repo) -> None:
    every_kind_of_change(repo)
    secrets(repo)
    checkout = repo.checkout
    before = repo.private()
    objects = sorted((repo.git_dir / "objects").rglob("*"))
    found = survey(checkout)
    assert sorted((repo.git_dir / "objects").rglob("*")) == objects
    assert repo.private() == before
    made = take(repo)
    assert (found.dirty, found.left_out, found.head) == (made.dirty, made.left_out, made.parent)


def test_inherited_variables_do_not_lead_elsewhere(
    make_repo: Callable[[str], Repo], repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make_repo("other")
    other.commit()
    repo.write("new.py")
    disk = repo.disk()
    before = other.private()
    monkeypatch.setenv("GIT_DIR", str(other.root / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other.root))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other.root / ".git/index"))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(other.root / ".git/objects"))
    made = take(repo)
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"):
        monkeypatch.delenv(name)
    assert repo.tree(made.commit) == disk
    assert other.private() == before


SECRETS = """.env .env.local cfg/.env.prod .ENV prod.env .env.sh server.pem certs/Server.PEM id_rsa id_rsa.pub
id_rsa_work id_ed25519 id_ed25519.pub tls.key credentials credentials.json credentials.toml
.credentials.json aws_dir/.aws/config .netrc .hf_token hf_token github-token.txt token .token
token.json api.token .git-credentials .pypirc .ssh/known_hosts"""

NOT_SECRETS = """.env.example .env.sample deploy.env.template environment.py env.py .envrc.md tokenizer.json
tokenizer.py tokens.txt tokens token.py special_tokens_map.json added_tokens.json detokenize.sh
credentials.py credentials_test.py keys.py monkey.txt key.json keyboard pem.py my_id_rsa.py grid_rsa
turkey hockey.csv .ssh_config.md aws/config"""

WEIGHTS = """model.ckpt out/m.safetensors model-00001-of-00002.SAFETENSORS checkpoints/last.bin
a/saved_checkpoints/x.json run/global_step_10/actor/model.bin checkpoint-500/trainer_state.json
megatron/iter_0000100/x.distcp global_step5/x"""

NOT_WEIGHTS = """checkpoint.py checkpoints/__init__.py checkpoints/load.yaml ckpt/a.txt checkpoints.md
global_step/x.bin checkpointing/x.bin my_checkpoints/x.txt global_step_x/y safetensors/x
model.ckpt.py iter_/x checkpoints saved/x.bin checkpoint-final.txt model.pt"""


@pytest.mark.parametrize(("names", "secret"), [(SECRETS, True), (NOT_SECRETS, False)])
def test_secrets_and_their_near_misses(names: str, secret: bool) -> None:
    assert [path for path in names.split() if is_secret(path) is not secret] == []


@pytest.mark.parametrize(("names", "weights"), [(WEIGHTS, True), (NOT_WEIGHTS, False)])
def test_weights_and_their_near_misses(names: str, weights: bool) -> None:
    assert [path for path in names.split() if is_checkpoint(path) is not weights] == []
