"""Marks the result directory of a refused blueprint as finished: whoever polls for finish.flag is not left waiting."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from autoresearch.core.blueprint.parser import BlueprintInvalid
from autoresearch.errors import AutoresearchError, BlueprintError
from autoresearch.git_repo import checkout as repository
from autoresearch.lab.resolve.resolve_blueprint import base_of, read_blueprint, resolve_blueprint
from autoresearch.lab.resolve.resolved_run import RunOptions
from autoresearch.records import finish_flag, journal
from autoresearch.runner.masking import mask_text


@contextlib.contextmanager
def refusals_marked(path: Path, run_options: RunOptions) -> Iterator[None]:
    """Write finish.flag for a blueprint that is refused, unless a run was, is or is being started there.

    Nobody waits for the one of a typed command, whose directory they do not know.
    """
    try:
        yield
    except BlueprintError as refusal:
        with contextlib.suppress(AutoresearchError, OSError):  # the refusal matters more
            result_dir = _result_dir(path, run_options)
            known = result_dir is None or run_options.parts.index.by_directory(str(result_dir))
            if result_dir and not known and not journal.has_run(result_dir):
                from autoresearch.git_repo.snapshot import exclude, pattern_for

                checkout = repository.find(base_of(path.absolute()))
                if checkout and (pattern := pattern_for(checkout, result_dir)):
                    exclude(checkout, pattern)
                reason, t = mask_text(refusal.message), run_options.parts.clock()
                finish_flag.write_refusal(result_dir, blueprint=str(path.absolute()), reason=reason, t=t)
        raise


def _result_dir(path: Path, run_options: RunOptions) -> Path | None:
    """The result directory of the refused run; None if nobody knows it."""
    try:
        file = read_blueprint(path)
    except BlueprintInvalid as error:
        return base_of(path.absolute()) / Path(error.result_dir).expanduser() if error.result_dir else None
    if file.is_typed:
        return None
    resolved = resolve_blueprint(file, environ=run_options.parts.environ)
    bad = any(finding.code == "bad_result_dir" for finding in resolved.findings)
    return None if bad else resolved.result_dir
