"""Every request of the API as a value; `Client` and `AsyncClient` send them. All paths stand here."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Union
from urllib.parse import quote

#: The content of a file to upload: a path, bytes, or an open file.
FileSource = Union[str, Path, bytes, BinaryIO]


@dataclass(frozen=True)
class Call:
    """A request."""

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    json: Any = None
    #: Each part's name and content.
    files: Mapping[str, FileSource] | None = None
    #: Whether a second copy changes nothing, so that it may be sent again.
    repeatable: bool = True
    #: Codes that say, to a second copy, that the first one has done it.
    done_codes: Sequence[str] = ()
    #: Seconds that the service may hold the answer back.
    wait: float | None = None


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _run(run: str, rest: str = "") -> str:
    return f"/v1/jobs/{quote(str(run), safe='')}{rest}"


def get(path: str, **query: Any) -> Call:
    return Call("GET", path, _given(query))


def new_key() -> str:
    """A key that no other request has."""
    return str(uuid.uuid4())


def _creating(path: str, body: Mapping[str, Any], key: str | None, wait: float | None) -> Call:
    headers = {"Idempotency-Key": key or new_key()}
    return Call("POST", path, _given({"wait": _seconds(wait)}), headers, json=dict(body), wait=wait)


def _seconds(wait: float | None) -> int | None:
    return None if wait is None else max(0, int(wait))


def create(body: Mapping[str, Any], key: str | None, wait: float | None) -> Call:
    return _creating("/v1/jobs", body, key, wait)


def create_temporary(body: Mapping[str, Any], key: str | None) -> Call:
    return _creating("/v1/temp-skill-runs", body, key, None)


def rerun(run: str, changes: Mapping[str, Any], key: str | None, wait: float | None) -> Call:
    return _creating(_run(run, "/rerun"), changes, key, wait)


def upload(run: str, files: Mapping[str, FileSource]) -> Call:
    # Whoever sends the files again after a lost answer is told that they are there.
    return Call("POST", _run(run, "/upload"), files=files, done_codes=("ALREADY_UPLOADED", "RUN_FINAL"))


def job(run: str, at_seq: int | None = None) -> Call:
    return get(_run(run), at_seq=at_seq)


def runs(filters: Mapping[str, Any]) -> Call:
    return get("/v1/jobs", **filters)


def result(run: str) -> Call:
    return get(_run(run, "/result"))


def cancel(run: str) -> Call:
    return Call("POST", _run(run, "/cancel"))


def delete(run: str) -> Call:
    return Call("DELETE", _run(run), done_codes=("REQUEST_NOT_FOUND",))


def pending(run: str) -> Call:
    return get(_run(run, "/interaction/pending"))


def reply(run: str, interaction_id: int, response: Any, key: str | None) -> Call:
    body = {"interaction_id": interaction_id, "response": response, "idempotency_key": key or new_key()}
    return Call("POST", _run(run, "/interaction/reply"), json=body)


def events(run: str, cursor: int) -> Call:
    return Call("GET", _run(run, "/events"), {"cursor": cursor}, {"Accept": "text/event-stream"})


def history(run: str, from_seq: int, to_seq: int | None, limit: int | None) -> Call:
    return get(_run(run, "/events/history"), from_seq=from_seq, to_seq=to_seq, limit=limit)


def logs(run: str) -> Call:
    return get(_run(run, "/logs"))


def log_range(run: str, stream: str, byte_from: int, byte_to: int | None) -> Call:
    return get(_run(run, "/logs/range"), stream=stream, byte_from=byte_from, byte_to=byte_to)


def explain(run: str, path: str | None) -> Call:
    return Call("GET", _run(run, "/explain"), _given({"path": path}))


def artifacts(run: str) -> Call:
    return get(_run(run, "/artifacts"))


def artifact(run: str, path: str) -> Call:
    return get(_run(run, f"/artifacts/{quote(path)}"))


def bundle(run: str) -> Call:
    return get(_run(run, "/bundle"))


def skills() -> Call:
    return get("/v1/skills")


def skill(skill_id: str) -> Call:
    return get(f"/v1/skills/{quote(skill_id, safe='')}")


def install_skill(package: FileSource, wait: float) -> Call:
    # A second copy is refused because its version is in place, so it is not sent by itself.
    query = {"wait": _seconds(wait)}
    return Call("POST", "/v1/skill-packages/install", query, files={"file": package}, repeatable=False, wait=wait)


def engines() -> Call:
    return get("/v1/engines")


def system() -> Call:
    return get("/v1/system")
