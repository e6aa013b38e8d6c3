"""Lines of a log as trainers read them: see `core.text.lines`, which the failure classes and sinks share."""

from __future__ import annotations

from autoresearch.core.text.lines import logical_lines, plain

__all__ = ["logical_lines", "plain"]
