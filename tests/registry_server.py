"""A stand-in for Confluent's schema registry over real HTTP: what the local one cannot do.

It gives Protobuf as descriptors (`format=serialized`), asks for logins and tokens, and fails when it is told to. It
speaks the part of the documented API that readers and Confluent's serializers use.
"""

from __future__ import annotations

import base64
import json
import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

from tests import protos
from tests.local_http import LocalHttp


@dataclass
class Entry:
    """One version of a subject."""

    id: int
    version: int
    schema: dict[str, Any]
    deleted: bool = False


@dataclass
class RegistryServer(LocalHttp):
    """Lives as long as the `with` block. `authorization` is the header it insists on.

    `failing` maps the number of a request (from 0) to the answer it gets; `asked` are the requests, with their headers.
    """

    authorization: str | None = None
    tls: ssl.SSLContext | None = None
    failing: Callable[[int], tuple[int, bytes] | None] = lambda _: None
    asked: list[tuple[str, str, Mapping[str, str]]] = field(default_factory=list)
    subjects: dict[str, list[Entry]] = field(default_factory=dict)

    def __enter__(self) -> Self:
        self._ids: dict[str, int] = {}
        return super().__enter__()

    @property
    def url(self) -> str:
        return self.base

    def register(self, subject: str, kind: str, text: str, references: Any = ()) -> int:
        """Register a schema as `tests.kit.local_registry.LocalRegistry` does."""
        named = [{"name": name, "subject": other, "version": number} for name, other, number in references]
        schema = {"schemaType": str(kind).upper(), "schema": text, "references": named}
        return self._register(subject, schema)["id"]

    def delete(self, subject: str, version: int) -> None:
        """Delete a version softly."""
        self.subjects[subject][version - 1].deleted = True

    def answer(self, method: str, path: str, query: Mapping[str, list[str]], body: Any) -> tuple[int, Any]:
        """Return status and document for a request."""
        deleted = query.get("deleted", ["false"])[0].lower() == "true"
        form = query.get("format", [""])[0]
        parts = [unquote(part) for part in path.strip("/").split("/")]
        match method, parts:
            case "GET", ["schemas", "types"]:
                return 200, ["JSON", "PROTOBUF", "AVRO"]
            case "GET", ["schemas", "ids", number]:
                found = [e for entries in self.subjects.values() for e in entries if e.id == int(number)]
                return (200, self._schema(found[0], form)) if found else (404, _error(40403, "Schema not found"))
            case "POST", ["subjects", subject, "versions"]:
                return 200, self._register(subject, body)
            case _, ["subjects", subject, *further]:
                entries = [item for item in self.subjects.get(subject, []) if deleted or not item.deleted]
                if not entries:
                    return 404, _error(40401, f"Subject '{subject}' not found.")
                return self._of_subject(method, subject, entries, further, form, body)
        return 404, _error(404, "HTTP 404 Not Found")

    def _of_subject(
        self, method: str, subject: str, entries: list[Entry], further: list[str], form: str, body: Any
    ) -> tuple[int, Any]:
        match method, further:
            case "GET", ["versions"]:
                return 200, [item.version for item in entries]
            case "GET", ["versions", wanted]:
                found = [item for item in entries if wanted == str(item.version)]
            case "POST", []:
                found = [item for item in entries if item.schema["schema"] == body["schema"]]
            case _:
                return 405, _error(405, "HTTP 405 Method Not Allowed")
        if not found:
            return 404, _error(40402, "Version not found.")
        kept = {"subject": subject, "id": found[0].id, "version": found[0].version}
        return 200, kept | self._schema(found[0], form)

    def _register(self, subject: str, body: Any) -> dict[str, int]:
        schema = {key: body[key] for key in ("schema", "references") if body.get(key)}
        if body.get("schemaType", "AVRO") != "AVRO":
            schema["schemaType"] = body["schemaType"]
        number = self._ids.setdefault(json.dumps(schema, sort_keys=True), len(self._ids) + 1)
        entries = self.subjects.setdefault(subject, [])
        if not any(item.id == number and not item.deleted for item in entries):
            entries.append(Entry(id=number, version=len(entries) + 1, schema=schema))
        return {"id": number}

    def _schema(self, entry: Entry, form: str) -> dict[str, Any]:
        """Return a schema; a Protobuf file as its descriptor where that is asked for."""
        if form != "serialized" or entry.schema.get("schemaType") != "PROTOBUF":
            return entry.schema
        text = entry.schema["schema"]
        if re.fullmatch(r"[A-Za-z0-9+/=]+", text):
            return entry.schema
        file = protos.compiled("default", {"default": text, **self._imports(entry)}).file[-1]
        return {**entry.schema, "schema": base64.b64encode(file.SerializeToString()).decode()}

    def _imports(self, entry: Entry) -> dict[str, str]:
        found: dict[str, str] = {}
        for item in entry.schema.get("references", ()):
            other = self.subjects[item["subject"]][item["version"] - 1]
            found |= {item["name"]: other.schema["schema"], **self._imports(other)}
        return found

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._answer(None)

            def do_POST(self) -> None:
                self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def _answer(self, body: Any) -> None:
                number = len(server.asked)
                server.asked.append((self.command, self.path, dict(self.headers)))
                parts = urlsplit(self.path)
                failure = server.failing(number)
                if failure is not None:
                    status, data = failure
                elif server.authorization not in {None, self.headers["Authorization"]}:
                    status, data = 401, json.dumps(_error(401, "Unauthorized")).encode()
                else:
                    status, document = server.answer(self.command, parts.path, parse_qs(parts.query), body)
                    data = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *arguments: object) -> None:
                """Say nothing."""

        return Handler


def _error(code: int, message: str) -> dict[str, Any]:
    return {"error_code": code, "message": message}
