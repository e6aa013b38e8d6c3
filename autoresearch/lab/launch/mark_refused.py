"""Marks the result directory of a refused blueprint as finished: whoever polls for finish.flag is not left waiting."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from autoresearch.core.blueprint.parser import BlueprintInvalid
from autoresearch.errors import AutoresearchError, BlueprintError
from autoresearch.git_repo import checkout as repository
from autoresearch.git_repo.snapshot import exclude, pattern_for
from autoresearch.lab.parts import Parts
from autoresearch.lab.remote_files.remote_code import files_of
from autoresearch.lab.resolve.blueprint_file import base_of, read_blueprint
from autoresearch.lab.resolve.resolve_blueprint import resolve_blueprint
from autoresearch.lab.settings import Settings
from autoresearch.records import finish_flag, journal
from autoresearch.records.secrets import mask_text


@contextlib.contextmanager
def refusals_marked(path: Path, settings: Settings, parts: Parts) -> Iterator[None]:
    """Mark the result directory of a refused blueprint as finished: a leader may poll for finish.flag."""
    try:
        yield
    except BlueprintError as refusal:
        with contextlib.suppress(AutoresearchError, OSError):  # the refusal matters more
            _mark_refused(path, _result_dir(path, settings, parts), refusal, parts)
        raise


def _mark_refused(path: Path, result_dir: Path | None, refusal: BlueprintError, parts: Parts) -> None:
    """Write finish.flag, unless a run was, is or is being started there."""
    if result_dir is None or parts.index.by_directory(str(result_dir)) or journal.has_run(result_dir):
        return
    for checkout in filter(None, [repository.find(path.absolute().parent)]):
        if pattern := pattern_for(checkout, result_dir):
            exclude(checkout, pattern)
    reason = mask_text(refusal.message)
    finish_flag.write_refusal(result_dir, blueprint=str(path.absolute()), reason=reason, t=parts.clock())


def _result_dir(path: Path, settings: Settings, parts: Parts) -> Path | None:
    """The result directory of the refused run; None if unknown or on another machine."""
    try:
        file = read_blueprint(path)
    except BlueprintInvalid as error:
        named = Path(error.result_dir).expanduser()
        return base_of(path.absolute()) / named if error.result_dir else None
    with contextlib.suppress(AutoresearchError):
        if not files_of(file.blueprint, settings, parts).here:
            return None
    resolved = resolve_blueprint(file, environ=parts.environ)
    bad = any(finding.code == "bad_result_dir" for finding in resolved.findings)
    return None if bad else resolved.result_dir
