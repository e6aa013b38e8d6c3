"""A Kubernetes API server that the real kubectl talks to: discovery, create, get, list, patch, delete.

It knows batch/v1 Jobs, pods and namespaces, keeps them in memory, and refuses unknown
fields as a server does that is asked for strict validation. What makes pods of jobs is `controller`. Answers have the
shapes that kube-apiserver 1.20 gave, see `meta/v1` Status and APIResourceList in kubernetes/apimachinery.
"""

from __future__ import annotations

import copy
import json
import re
import threading
import urllib.parse
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Object = dict[str, Any]

KINDS = {  # resource: (group, version, kind, short names)
    "pods": ("", "v1", "Pod", ["po"]),
    "namespaces": ("", "v1", "Namespace", ["ns"]),
    "persistentvolumeclaims": ("", "v1", "PersistentVolumeClaim", ["pvc"]),
    "jobs": ("batch", "v1", "Job", []),
}
VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]
_PATH = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/v1(?:/namespaces/(?P<namespace>[^/]+))?/(?P<resource>[a-z]+)"
    r"(?:/(?P<name>[^/]+))?(?:/(?P<sub>[a-z]+))?\Z"
)


def now() -> str:
    """A time as Kubernetes writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Refused(Exception):  # noqa: N818 - it is what the server does
    """A Status with an HTTP code."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason, self.message = code, reason, message


class Store:
    """Every object, by resource, namespace and name."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Object] = {}
        self.version = 100
        self.lock = threading.RLock()

    def put(self, resource: str, item: Object) -> Object:
        """Write one down under a new resourceVersion."""
        with self.lock:
            self.version += 1
            item["metadata"]["resourceVersion"] = str(self.version)
            self.objects[resource, item["metadata"].get("namespace", ""), item["metadata"]["name"]] = item
            return item

    def find(self, resource: str, namespace: str = "", selector: str = "") -> list[Object]:
        """Those that a label selector of `a=b` and `a` terms takes, copied."""
        with self.lock:
            items = [o for (r, n, _), o in sorted(self.objects.items()) if r == resource and namespace in ("", n)]
            return copy.deepcopy([o for o in items if _selected(o, selector)])

    def get(self, resource: str, namespace: str, name: str) -> Object | None:
        """One of them, copied."""
        with self.lock:
            return copy.deepcopy(self.objects.get((resource, namespace, name)))

    def change(self, resource: str, namespace: str, name: str, patch: Object) -> None:
        """Merge into one that is still there."""
        with self.lock:
            item = self.objects.get((resource, namespace, name))
            if item is not None:
                self.put(resource, merge(copy.deepcopy(item), patch))

    def remove(self, resource: str, namespace: str, name: str) -> None:
        """It is gone."""
        with self.lock:
            self.objects.pop((resource, namespace, name), None)


def _selected(item: Object, selector: str) -> bool:
    labels = item["metadata"].get("labels") or {}
    terms = [term.partition("=") for term in selector.split(",") if term]
    return all((labels.get(key) == value) if equals else key in labels for key, equals, value in terms)


def merge(item: Object, patch: Object) -> Object:
    """A JSON merge patch (RFC 7396)."""
    for key, value in patch.items():
        if value is None:
            item.pop(key, None)
        elif isinstance(value, dict):
            item[key] = merge(item[key] if isinstance(item.get(key), dict) else {}, value)
        else:
            item[key] = value
    return item


class ApiServer:
    """The server; `start` and `stop` may be called again and again, the port stays."""

    def __init__(self, check: Callable[[str, Object], str], namespaces: tuple[str, ...] = ("default",)) -> None:
        self.check = check  # (resource, object) -> complaint
        self.store = Store()
        self.fault: Refused | None = None  # what every request is answered with
        self.forbidden: set[tuple[str, str]] = set()  # (verb, resource)
        self.asked: list[str] = []  # "GET /api/v1/..."
        self.port = 0
        self._http: ThreadingHTTPServer | None = None
        for name in namespaces:
            self.store.put("namespaces", _named("v1", "Namespace", name))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Listen."""
        server = self

        class Request(_Request):
            api = server

        self._http = ThreadingHTTPServer(("127.0.0.1", self.port), Request)
        self._http.daemon_threads = True
        self.port = self._http.server_address[1]
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        """Connections are refused from now on."""
        if self._http is not None:
            self._http.shutdown()
            self._http.server_close()
            self._http = None

    def kubeconfig(self) -> Object:
        """A kubeconfig for it (JSON is YAML)."""
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "fake", "cluster": {"server": self.url}}],
            "users": [{"name": "me", "user": {}}],  # kubectl sends a token over TLS only
            "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "me", "namespace": "default"}}],
            "current-context": "fake",
        }

    # -- verbs ---------------------------------------------------------------------------------------------------

    def create(self, resource: str, namespace: str, item: Object, *, dry: bool = False) -> Object:
        """A new object; `dry`: only what would become of it."""
        meta = item.setdefault("metadata", {})
        if resource != "namespaces" and self.store.get("namespaces", "", namespace) is None:
            raise Refused(404, "NotFound", f'namespaces "{namespace}" not found')
        if complaint := self.check(resource, item):
            raise Refused(400, "BadRequest", complaint)
        _check_name(resource, str(meta.get("name", "")))
        with self.store.lock:
            if self.store.get(resource, namespace, meta["name"]) is not None:
                raise Refused(409, "AlreadyExists", f'{_plural(resource)} "{meta["name"]}" already exists')
            meta |= {"namespace": namespace, "uid": str(uuid.uuid4()), "creationTimestamp": now()}
            return item if dry else self.store.put(resource, item)

    def delete(self, resource: str, namespace: str, name: str, grace_s: int | None = None) -> Object:
        """Pods, and what owns some, stay until whoever runs them has seen it."""
        item = self.store.get(resource, namespace, name)
        if item is None:
            raise Refused(404, "NotFound", f'{_plural(resource)} "{name}" not found')
        if resource in ("pods", "jobs"):
            about = {"deletionTimestamp": item["metadata"].get("deletionTimestamp") or now()}
            about |= {} if grace_s is None else {"deletionGracePeriodSeconds": grace_s}
            if any(item["metadata"].get(key) != value for key, value in about.items()):
                self.store.change(resource, namespace, name, {"metadata": about})
        else:
            self.store.remove(resource, namespace, name)
        return item


class _Request(BaseHTTPRequestHandler):
    api: ApiServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _answer(self, code: int, body: Object | bytes, kind: str = "application/json") -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _serve(self, verb: str) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        self.api.asked.append(f"{verb} {self.path}")
        try:
            if self.api.fault:
                raise self.api.fault
            self._route(verb, body)
        except Refused as no:
            status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
            self._answer(no.code, {**status, "message": no.message, "reason": no.reason, "code": no.code})
        except (BrokenPipeError, ConnectionResetError):
            pass

    def do_GET(self) -> None:
        self._serve("GET")

    def do_POST(self) -> None:
        self._serve("POST")

    def do_PATCH(self) -> None:
        self._serve("PATCH")

    def do_DELETE(self) -> None:
        self._serve("DELETE")

    def _route(self, verb: str, body: bytes) -> None:
        url = urllib.parse.urlsplit(self.path)
        query = {key: values[-1] for key, values in urllib.parse.parse_qs(url.query).items()}
        if verb == "GET" and (found := _discovery(url.path)) is not None:
            return self._answer(200, found)
        match = _PATH.match(url.path)
        if match is None or match["resource"] not in KINDS or KINDS[match["resource"]][0] != (match["group"] or ""):
            raise Refused(404, "NotFound", "the server could not find the requested resource")
        resource, namespace, name = match["resource"], match["namespace"] or "", match["name"] or ""
        asks = {"GET": "get" if name else "list", "POST": "create", "PATCH": "patch", "DELETE": "delete"}[verb]
        if (asks, resource) in self.api.forbidden or (asks, match["sub"]) in self.api.forbidden:
            where = f'cannot {asks} resource "{resource}" in API group "{match["group"] or ""}"'
            raise Refused(403, "Forbidden", f'{_plural(resource)} is forbidden: User "me" {where}')
        if match["sub"] not in (None, "status"):
            raise Refused(403, "Forbidden", f'pods "{name}" is forbidden: no {match["sub"]} here')
        if verb == "POST":
            dry = "dryRun" in query
            return self._answer(201, self.api.create(resource, namespace, json.loads(body), dry=dry))
        if verb == "DELETE" and name:
            grace_s = json.loads(body or b"{}").get("gracePeriodSeconds")
            return self._answer(200, self.api.delete(resource, namespace, name, grace_s))
        if verb == "GET" and not name:
            return self._list(resource, namespace, query)
        item = self.api.store.get(resource, namespace, name)
        if item is None:
            raise Refused(404, "NotFound", f'{_plural(resource)} "{name}" not found')
        if verb == "PATCH":
            patch = json.loads(body)
            self.api.store.change(resource, namespace, name, patch)
            item = self.api.store.get(resource, namespace, name) or item
        return self._answer(200, item)

    def _list(self, resource: str, namespace: str, query: dict[str, str]) -> None:
        group, version, kind, _ = KINDS[resource]
        items = self.api.store.find(resource, namespace, query.get("labelSelector", ""))
        whole = {"kind": f"{kind}List", "apiVersion": f"{group}/{version}".lstrip("/")}
        meta = {"resourceVersion": str(self.api.store.version)}
        return self._answer(200, {**whole, "metadata": meta, "items": items})


def _discovery(path: str) -> Object | None:
    """What kubectl asks before it asks for anything."""
    if path == "/version":
        return {"major": "1", "minor": "32", "gitVersion": "v1.32.0", "platform": "linux/amd64"}
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
    if path == "/apis":
        groups = [_group(group) for group in sorted({group for group, *_ in KINDS.values() if group})]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
    if path == "/openapi/v3":
        roots = {f"apis/{group}/v1" if group else "api/v1" for group, *_ in KINDS.values()}
        return {"paths": {root: {"serverRelativeURL": f"/openapi/v3/{root}"} for root in sorted(roots)}}
    if path.startswith("/openapi/v3/"):
        return _openapi(path.removeprefix("/openapi/v3"))
    match = re.fullmatch(r"/(?:api|apis/([^/]+))/v1", path)
    if match is None:
        return None
    group = match[1] or ""
    resources = [_resource(name) for name, (known, *_) in KINDS.items() if known == group]
    known = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{group}/v1".lstrip("/")}
    return {**known, "resources": resources} if resources else None


def _openapi(root: str) -> Object:
    """No more of it than says that fields are checked here (`fieldValidation`), so that kubectl does not do it."""
    paths = {}
    for name, (group, version, kind, _) in KINDS.items():
        own = f"/apis/{group}/v1" if group else "/api/v1"
        if own == root:
            about = {"group": group, "version": version, "kind": kind}
            check = {"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}
            patch = {"parameters": [check], "x-kubernetes-group-version-kind": about, "responses": {}}
            paths[f"{own}/namespaces/{{namespace}}/{name}/{{name}}"] = {"patch": patch}
    return {"openapi": "3.0.0", "info": {"title": "fake", "version": "1"}, "paths": paths}


def _group(name: str) -> Object:
    version = {"groupVersion": f"{name}/v1", "version": "v1"}
    return {"name": name, "versions": [version], "preferredVersion": version}


def _resource(name: str) -> Object:
    _, _, kind, short = KINDS[name]
    one = {"name": name, "singularName": kind.lower(), "namespaced": name != "namespaces", "kind": kind}
    return {**one, "verbs": VERBS, "shortNames": short}


def _named(version: str, kind: str, name: str) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}}


def _plural(resource: str) -> str:
    group = KINDS[resource][0]
    return f"{resource}.{group}" if group else resource


def _check_name(resource: str, name: str) -> None:
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", name):
        kind = KINDS[resource][2]
        raise Refused(422, "Invalid", f'{kind} "{name}" is invalid: metadata.name: Invalid value: "{name}"')
