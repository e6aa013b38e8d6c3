"""JSON-RPC on a line: what is read, what is refused and how, and answers that fit."""

from __future__ import annotations

import json
from typing import Any

import pytest

from autoresearch.lab.mcp import messages


def line(**fields: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **fields}).encode() + b"\n"


def test_a_line_is_one_line_of_ascii() -> None:
    said = messages.answer("ü", {"text": "a\nb\u2028\x1b[31mü"})
    assert said.isascii() and said.count(b"\n") == 1 and said.endswith(b"\n")
    assert json.loads(said)["result"]["text"] == "a\nb\u2028\x1b[31mü"


def size(payload: Any) -> int:
    return len(json.dumps(payload, ensure_ascii=False, separators=(",", ":")))


@pytest.mark.parametrize(
    "payload",
    [
        {"lines": [f"line {n}" for n in range(5000)], "run": "r"},
        {"brief": "x" * 50_000, "run": "r"},
        {"lines": ["y" * 60_000], "run": "r"},
        {"metrics": {f"key/{n}": n / 3 for n in range(4000)}, "run": "r"},
        {"a": [{"deep": "z" * 30_000}], "b": ["q"] * 9000, "run": "r"},
        {"a": {"only": "z" * 30_000}, "run": "r"},
        {"error": {"message": "m" * 40_000, "hint": ""}, "ok": False, "run": "r"},
    ],
    ids=lambda payload: next(iter(payload)),
)
def test_a_payload_is_made_to_fit(payload: dict[str, Any]) -> None:
    fitted = messages.fitted(payload, 10_000)
    assert size(fitted) <= 10_000 and fitted["run"] == "r"
    assert fitted["cut"] and set(fitted["cut"]) <= set(payload)
    assert "cut" not in payload


def test_the_newest_lines_stay_and_what_fits_is_left_alone() -> None:
    fitted = messages.fitted({"lines": [f"line {n}" for n in range(5000)]}, 1000)
    assert fitted["lines"][-1] == "line 4999" and len(fitted["lines"]) > 20
    assert messages.fitted({"lines": ["a"]}, 1000) == {"lines": ["a"]}
