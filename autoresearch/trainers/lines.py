"""Log lines as trainers see them: re-exports `core.text.lines`, which failure classification and readers also use."""

from __future__ import annotations

from autoresearch.core.text.lines import logical_lines, plain

__all__ = ["logical_lines", "plain"]
