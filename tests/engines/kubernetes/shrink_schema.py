"""Make rayjob_v1.json of KubeRay's CRD: `python shrink_schema.py ray.io_rayjobs.yaml > rayjob_v1.json`.

The CRD is ray-operator/config/crd/bases/ray.io_rayjobs.yaml of https://github.com/ray-project/kuberay at commit
feeaf72facab4881ba2b179248bb67315634e229 (Apache-2.0). Of it stays v1 only, without descriptions and rules: which
fields there are, of which type, which are required. What occurs more than once is written once, under `$defs`.
"""

from __future__ import annotations

import collections
import json
import sys
from typing import Any

import yaml

KEPT = ("type", "required", "enum", "minimum", "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields")
SMALL = 120  # characters that are not worth a definition


def shrink(node: dict[str, Any]) -> dict[str, Any]:
    """A schema without what does not say what fits."""
    found = {key: node[key] for key in KEPT if key in node}
    if "properties" in node:
        found["properties"] = {key: shrink(value) for key, value in sorted(node["properties"].items())}
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            found[key] = shrink(node[key])
    return found


def count(node: Any, seen: collections.Counter[str]) -> None:
    if isinstance(node, dict):
        text = json.dumps(node, sort_keys=True)
        seen[text] += 1
        if seen[text] == 1:
            for value in node.values():
                count(value, seen)


def share(node: Any, seen: collections.Counter[str], defs: dict[str, Any], names: dict[str, str]) -> Any:
    if not isinstance(node, dict):
        return node
    text = json.dumps(node, sort_keys=True)
    if seen[text] > 1 and len(text) > SMALL and "type" in node:
        if text not in names:
            names[text] = f"d{len(names)}"
            defs[names[text]] = {key: share(value, seen, defs, names) for key, value in node.items()}
        return {"$ref": names[text]}
    return {key: share(value, seen, defs, names) for key, value in node.items()}


def main(path: str) -> None:
    with open(path) as file:
        crd = yaml.load(file, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    (version,) = [one for one in crd["spec"]["versions"] if one["name"] == "v1"]
    whole = shrink(version["schema"]["openAPIV3Schema"])
    seen: collections.Counter[str] = collections.Counter()
    count(whole, seen)
    defs: dict[str, Any] = {}
    shared = share(whole, seen, defs, {})
    source = "ray-project/kuberay feeaf72facab4881ba2b179248bb67315634e229 ray.io_rayjobs.yaml, v1; Apache-2.0"
    print(json.dumps({"source": source, "schema": shared, "$defs": defs}, separators=(",", ":")))


if __name__ == "__main__":
    main(sys.argv[1])
