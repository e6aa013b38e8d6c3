"""Stand-in for ajet/schema/task.py: what pydantic would accept, and no more."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Task:
    main_query: str = ""
    init_messages: list[dict[str, Any]] = field(default_factory=list)
    task_id: str = ""
    env_type: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert isinstance(self.main_query, str) and isinstance(self.task_id, str) and self.task_id
        assert isinstance(self.metadata, dict)


@dataclass
class WorkflowOutput:
    reward: float | None = None
    is_success: bool | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    log_metrics: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert isinstance(self.reward, float) and math.isfinite(self.reward)
