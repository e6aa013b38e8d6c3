"""Make `autoresearch/runner/secret_rules.json` from the rules of gitleaks: `python -m tests.secret_rules CHECKOUT`.

gitleaks (MIT licence) keeps `config/gitleaks.toml` up to date with the token formats of some 150 services. Its
expressions are Go's; the few things that Python spells otherwise are translated. Left out are rules that need a file's
name, those whose job masking.py does by structure (generic assignments, curl, private keys), and any rule that would
mask a bare hash, as commits and run ids are shown.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

RULES = Path(__file__).parents[1] / "autoresearch/runner/secret_rules.json"
BY_STRUCTURE = {"generic-api-key", "curl-auth-header", "curl-auth-user", "private-key", "kubernetes-secret-yaml"}
GO_ENDS = (r"""(?:[\x60'"\s;]|\\[nr]|$)""", r"""(?:$|[\\'"\x60\s<),])""")
HASHES = ("3f9a1c7e5b2d8064" * 4, "3f9a1c7e5b2d8064" * 2, "3f9a1c7e5b2d8064a9e1f3c5d7b90246e8ac1357")
SHOWN = (*HASHES, *map(str.upper, HASHES), "0b7c0f6e-3a52-4d0e-9d1b-7f6a2f4c9e11", "20261126-070000-a1b2c3d4")


def python_form(expression: str) -> str:
    """A Go expression in Python's spelling, without the unlimited look back for a name, which masks nothing."""
    expression = expression.replace(r"\z", r"\Z").replace("[[:alnum:]]", "[A-Za-z0-9]")
    expression = expression.replace(r"[\w.-]{0,50}?", "", 1)
    for end in GO_ENDS:  # a token may also be the end of a sentence
        expression = expression.replace(end, r"(?![\w~+/=-])")
    head = "(?i)" if expression.startswith("(?i)") else ""
    rest = expression.removeprefix(head)
    while (at := rest.find("(?i)")) >= 0:  # Go: from here to the end of the group; Python: a group of its own
        end = _end_of_group(rest, at)
        rest = f"{rest[:at]}(?i:{rest[at + 4 : end]}){rest[end:]}"
    return head + rest


def _end_of_group(expression: str, at: int) -> int:
    depth, in_set = 0, False
    while at < len(expression):
        char = expression[at]
        if char == "\\":
            at += 1
        elif in_set:
            in_set = char != "]"
        elif char == "[":
            in_set = True
        elif char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
            if depth < 0:
                return at
        at += 1
    return at


def rules_of(config: dict[str, Any]) -> list[dict[str, Any]]:
    """[{"id", "keywords", "regex", "entropy" in bits a character, "group" of the secret}]"""
    rules = []
    for rule in config["rules"]:
        if rule["id"] in BY_STRUCTURE or "regex" not in rule or "path" in rule:
            continue
        expression = python_form(rule["regex"])
        compiled = re.compile(expression)
        if any(compiled.search(shown) for shown in SHOWN):
            continue
        group = rule.get("secretGroup") or min(1, compiled.groups)
        rules.append(
            {
                "id": rule["id"],
                "keywords": sorted({word.lower() for word in rule["keywords"]}),
                "regex": expression,
                "entropy": rule.get("entropy", 0),
                "group": group,
            }
        )
    return rules


def main(checkout: Path) -> None:
    """Write the rules of a checkout of gitleaks."""

    def show(*words: str) -> str:
        return subprocess.run(["git", "-C", checkout, *words], check=True, capture_output=True, text=True).stdout

    document = {
        "source": "gitleaks, config/gitleaks.toml at " + show("log", "-1", "--format=%h of %cs").strip(),
        "licence": show("show", "HEAD:LICENSE").splitlines(),
        "rules": rules_of(tomllib.loads(show("show", "HEAD:config/gitleaks.toml"))),
    }
    RULES.write_text(json.dumps(document, indent=1, ensure_ascii=True) + "\n")
    print(f"{len(document['rules'])} rules, {RULES.stat().st_size >> 10} KiB")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
