"""spec.json as the Runner reads it: commands, limits and environment of a run."""

from __future__ import annotations

import re

from .basics import positive, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


class Spec:
    """The settings of this run, fixed before it started. Raises KeyError if `run` or `command` is missing."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        limits = data.get("limits") or {}
        self.first_step_s = positive(limits.get("first_step_s"))
        self.first_step_cap_s = positive(limits.get("first_step_cap_s")) or 0.0  # all suspensions together
        self.strict_first_step = bool(limits.get("strict_first_step"))
        self.first_step_since_output = bool(limits.get("first_step_since_output"))
        self.max_s = positive(limits.get("max_s"))
        self.stall_s = positive(limits.get("stall_s"))
        self.grace_s = positive(limits.get("grace_s")) or 0.0
        self.needs_kl = data.get("first_step") == "kl"
        self.signals: list[Mapping[str, Any]] = data.get("signals") or []
        # of a trainer that nobody knows, and without declared lines, steps are found by their spelling
        self.finds_steps = data.get("trainer") == "generic" and not any(
            str(line).startswith("step ") for line in data.get("lines") or ()
        )
        metric = str((data.get("objective") or {}).get("metric") or "")
        expression = re.search(r"\s[-+*/]\s|[(),]", metric)
        self.metric_names = re.findall(r"[^\W\d][\w./@%-]*", metric) if expression else [metric]
        self.run = str(data["run"])
        self.command = str(data["command"])
        self.start = str(data.get("start") or self.command)  # a wrapper started in place of `command`, which it starts
        self.cwd = str(data.get("cwd") or "")
        self.interpreter = str(data.get("interpreter") or "")
        self.output = str(data.get("output") or "")  # the file for the trainer's output, if not the log; or "?"
        self.within: list[str] = data.get("within") or []  # where a sandboxed run may have written it
        self.result_dir = str(data.get("result_dir") or "")
        self.journal = str(data.get("journal") or "")
        self.prepare: list[str] = data.get("prepare") or []
        self.before_training = str(data.get("before_training") or "")  # autoresearch's own command, after `prepare`
        self.cleanup: list[str] = data.get("cleanup") or []
        self.cleanup_s = positive(data.get("cleanup_s")) or 120.0  # for all of them
        self.evaluate: list[str] = data.get("evaluate") or []  # after the trainer's end
        self.evaluate_s = positive(data.get("evaluate_s")) or 1800.0  # for all of them
        self.evaluate_in = str(data.get("evaluate_in") or self.cwd)
        self.evaluate_place = str(data.get("evaluate_place") or "")  # autoresearch's command that makes evaluate_in
        # sandbox and options, prefixed to every command that runs the training code, and the evaluation code
        self.inside = [str(word) for word in data.get("inside") or []]
        self.evaluate_inside = [str(word) for word in data.get("evaluate_inside") or []]
        self.timed_by = str(data.get("timed_by") or "")
        self.gpus = [str(word) for word in data.get("gpus") or []]  # that it may be leased, see `gpu_lease.named`
        self.gpu_most = whole(data.get("gpu_most")) or 0  # of those so many, the first ones, at most; 0: all
        self.gpu_count = whole(data.get("gpu_count")) or 0  # how many of them; 0: all
        self.lease_shares = whole(data.get("lease_shares")) or 1  # how many runs may share a GPU
        self.keep_children = bool(data.get("keep_children"))
        self.claim = bool(data.get("claim"))  # use a claim file: the file system's locks may not work across machines
        self.collector = [str(word) for word in data.get("collector") or []]
        self.controller = str(data.get("controller") or "")  # held by flock while a controller lives, which collects
        self.inherit = tuple(str(word) for word in data.get("inherit") or ())  # variables of a scheduler, by prefix
        self.yields = {str(name) for name in data.get("yields") or ()}  # the trainer's that do not outrank these
