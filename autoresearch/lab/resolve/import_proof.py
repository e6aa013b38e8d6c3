"""Proves that a run trains with the worktree's code: changed Python packages import from it, and nowhere else.

The risk is an editable install of the user's checkout: a .pth file or an import finder in the virtual environment then
redirects every `import` to it, whatever the run changed. The worktree comes first on PYTHONPATH; this check asks the
trainer's own interpreter, in the trainer's environment, where it would find each changed package. None of them is
imported.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from autoresearch.core.blueprint.finding import Finding, Severity

TIMEOUT_S = 30.0  # a cold interpreter on a network file system; a warm one answers in 50 ms
_MARK = "autoresearch-import-proof:"
_NEVER_IMPORTED = frozenset({"setup", "conftest", "__main__", "__init__"})  # as top-level names

# Runs under any Python 3. `python -c` puts "" before PYTHONPATH, which a console script does not do.
_PROBE = f"""
import sys
if sys.path[:1] == [""]: del sys.path[0]
import json
from importlib.util import find_spec
found = {{}}
for name in sys.argv[1:]:
    if name in sys.builtin_module_names: continue
    try: spec = find_spec(name)
    except Exception as error: spec, found[name] = None, {{"error": repr(error)}}
    if spec is not None:
        places = list(spec.submodule_search_locations or [])
        found[name] = {{"origin": spec.origin if spec.has_location else None, "places": places}}
print("\\n{_MARK}" + json.dumps(found))
"""


@dataclass(frozen=True, slots=True)
class TopLevel:
    """A top-level import name of Python code: where it begins, and one changed file in it."""

    name: str
    root: str  # relative to the worktree; "." for the worktree itself
    changed: str  # path relative to the worktree


def import_environment(environment: Mapping[str, str], worktree: Path, roots: Iterable[str] = ()) -> dict[str, str]:
    """The environment with the worktree first on the import path.

    PYTHONPATH is the worktree, its src/ if there is one, further `roots` relative to it, then the previous value.
    Applying it twice changes nothing.
    """
    first = [str(worktree)]
    first += [str(worktree / root) for root in ("src", *roots) if (worktree / root).is_dir() and root != "."]
    before = environment.get("PYTHONPATH", "")
    kept = [part for part in before.split(os.pathsep) if part not in first] if before else []
    return {**environment, "PYTHONPATH": os.pathsep.join(dict.fromkeys([*first, *kept]))}


def top_levels(worktree: Path, changed: Iterable[str]) -> tuple[TopLevel, ...]:
    """The packages and modules that changed .py files belong to, one entry per name.

    A package begins at the topmost directory of an unbroken chain with `__init__.py`, in whatever folder of the
    repository; without one it is the part below the root or src/. Files that no import can name are left out.
    """
    found: dict[str, TopLevel] = {}
    for path in sorted(set(changed)):
        if path.endswith((".py", ".pyi")):
            one = _top_level(worktree, PurePosixPath(path))
            if one.name.isidentifier() and one.name not in _NEVER_IMPORTED:
                found.setdefault(one.name, one)
    return tuple(found.values())


def prove_imports(
    interpreter: Path, worktree: Path, environment: Mapping[str, str], changed: Iterable[str]
) -> tuple[Finding, ...]:
    """An error for each changed package that the trainer would import from elsewhere; empty if there is none.

    `environment` is the trainer's; the worktree is put first in it (`import_environment`). `changed` are paths relative
    to the worktree, whose commit must be checked out. An interpreter that does not answer is an error too: the proof
    must succeed.
    """
    wanted = top_levels(worktree, changed)
    if not wanted:
        return ()
    probe = _ImportProbe(interpreter, worktree, import_environment(environment, worktree))
    try:
        modules = probe.ask([one.name for one in wanted])
        findings = (probe.judge(one, modules.get(one.name)) for one in wanted)
        return tuple(finding for finding in findings if finding is not None)
    except _Unproved as no:
        message = f"it cannot be proved that the worktree's code is imported: {interpreter} {no}"
        return (Finding(Severity.ERROR, "import_unproved", message, "correct [exp_venv_exe]"),)


def shadowed(
    interpreter: Path, worktree: Path, environment: Mapping[str, str], added: Iterable[str], entered: Iterable[str] = ()
) -> str:
    """Which added file would be imported in the place of an installed module, as a clause; "" if none would.

    A new `pytest.py` at the root would be run by `python -m pytest`, and a new `torch/` by every script. `added`: paths
    relative to the worktree that its base does not have. `entered`: directories, relative to it, that commands start
    in or whose programs they run: Python looks there before all others.
    """
    added = [*added]
    if "src" in added and (worktree / "src").is_dir():  # a new link
        added += [f"src/{child.name}" for child in (worktree / "src").iterdir()]
    roots = {PurePosixPath(root) for root in (".", "src", *entered)}
    paths = [PurePosixPath(path) for path in sorted(added)]
    names = {name: path for path in paths for root in roots if (name := _module_name(worktree, root, path))}
    if not names:
        return ""
    ours = [str(worktree), str(worktree / "src"), ""]
    kept = [part for part in environment.get("PYTHONPATH", "").split(os.pathsep) if part not in ours]
    outside = {**environment, "PYTHONPATH": os.pathsep.join(kept), "PYTHONSAFEPATH": "1"}
    try:
        modules = _ImportProbe(interpreter, worktree, outside).ask(list(names))
    except _Unproved as no:
        return f"it cannot be proved that the worktree's code is imported: {interpreter} {no}"
    for name, path in names.items():
        origin = modules.get(name, {}).get("origin")
        if isinstance(origin, str) and not _within(origin, worktree):
            return f"{path} would be imported in the place of the installed {name} ({origin})"
    return ""


def _module_name(worktree: Path, root: PurePosixPath, path: PurePosixPath) -> str:
    """The name by which a file is a module directly below the root, or makes its directory one; "" if it is none."""
    parts = path.relative_to(root).parts if path.is_relative_to(root) else ()
    is_module = path.suffix in (".py", ".so") or (worktree / path).is_dir()  # a link to a package, if it is a directory
    if len(parts) == 1 and is_module:
        name = parts[0].partition(".")[0]
    else:
        name = parts[0] if len(parts) == 2 and parts[1].partition(".")[0] == "__init__" else ""
    return name if name.isidentifier() and name not in _NEVER_IMPORTED else ""


def _top_level(worktree: Path, path: PurePosixPath) -> TopLevel:
    top = path.with_suffix("") if path.name != "__init__.py" else path.parent
    folder = path.parent
    if (worktree / folder / "__init__.py").is_file() or path.name == "__init__.py":
        while str(folder.parent) != "." and (worktree / folder.parent / "__init__.py").is_file():
            folder = folder.parent
        return TopLevel(folder.name, str(folder.parent), str(path))
    root = "src" if top.parts[0] == "src" and len(top.parts) > 1 else "."
    name = top.parts[1] if root == "src" else top.parts[0]
    return TopLevel(name, root, str(path))


class _Unproved(Exception):  # noqa: N818 - what the proof is then
    """Why an interpreter proves nothing, as a clause."""


@dataclass(frozen=True, slots=True)
class _ImportProbe:
    """An interpreter that is asked in a worktree, with these variables, where it would import from."""

    interpreter: Path
    worktree: Path
    environment: Mapping[str, str]

    def ask(self, names: Sequence[str]) -> Mapping[str, Mapping[str, object]]:
        """What it finds under these names."""
        try:
            process = subprocess.Popen(
                [str(self.interpreter), "-c", _PROBE, *names],
                cwd=self.worktree,
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,  # processes started by a .pth file are killed with it
            )
        except OSError as failure:
            raise _Unproved(f"cannot be started: {failure.strerror}") from failure
        with process:
            try:
                out, err = process.communicate(timeout=TIMEOUT_S)
            except subprocess.TimeoutExpired as late:
                raise _Unproved(f"did not answer within {TIMEOUT_S:g} s") from late
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        try:
            return dict(json.loads(out.decode("utf-8", "replace").rpartition(_MARK)[2].strip()))
        except (ValueError, TypeError) as broken:
            last = " ".join(err.decode("utf-8", "replace").split())[-300:]
            raise _Unproved(f"failed ({process.returncode}): {last or 'it said nothing'}") from broken

    def judge(self, top_level: TopLevel, module: Mapping[str, object] | None) -> Finding | None:
        """None if the package is the worktree's, or if nothing can import it by this name: a script in a folder."""
        if module is None:
            return None
        if "error" in module:
            raise _Unproved(f"fails to look for {top_level.name}: {module['error']}")
        parts = module.get("places")  # of a package without `__init__.py`, the first to be looked into first
        source = module.get("origin") or (parts[0] if isinstance(parts, list) and parts else None)
        if not isinstance(source, str) or _within(source, self.worktree):
            return None
        hint = f"let the worktree come first, `env: PYTHONPATH={top_level.root}`, or take that one out: "
        hint += f"`{self.interpreter} -m pip uninstall {top_level.name}` (its distribution may have another name)"
        message = f"the changed package {top_level.name} would be imported from {source}, not from the worktree"
        return Finding(Severity.ERROR, "imports_elsewhere", f"{message} {self.worktree}", hint, top_level.changed)


def _within(path: str, worktree: Path) -> bool:
    real, top = os.path.realpath(path), os.path.realpath(worktree)
    return real.startswith(top + "/") or os.path.abspath(path).startswith(f"{worktree}/")  # noqa: PTH100
