"""What `Client` and `AsyncClient` share: requests for httpx, answers read, downloads resumed."""

from __future__ import annotations

import hashlib
import io
import os
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

import httpx

from ._calls import Call, FileSource
from ._errors import ApiError, ConnectionLost, DamagedDownload, SkillRunnerError, api_error
from ._retry import Retry

#: Seconds of silence after which a stream is taken for dead; a living one has a heartbeat.
SILENCE = 60.0
#: What httpx raises where a connection cannot be made, breaks or is silent for too long.
BROKEN = (httpx.TransportError, httpx.DecodingError)


class Exchange:
    """Makes requests of calls for one service."""

    def __init__(self, url: str, token: str | None, timeout: float, retry: Retry) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ValueError(f"{url!r} is not the URL of a service: it must begin with http:// or https://")
        self.base = url.rstrip("/").removesuffix("/v1")
        self.timeout = timeout
        self.retry = retry
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def options(self) -> dict[str, Any]:
        """What a client of httpx is made with."""
        # No proxy of the environment and no .netrc: the token is for the service alone.
        return {"trust_env": False, "follow_redirects": False, "timeout": self.timeout}

    def request(self, call: Call, open_files: ExitStack) -> dict[str, Any]:
        """The arguments for httpx."""
        wait = call.wait or 0.0
        given: dict[str, Any] = {
            "method": call.method,
            "url": self.base + call.path,
            "params": dict(call.query),
            "headers": {**self._headers, **call.headers},
            "timeout": httpx.Timeout(self.timeout, read=self.timeout + wait),
        }
        if call.files is not None:
            given["files"] = [(name, _opened(name, source, open_files)) for name, source in call.files.items()]
        elif call.json is not None:
            given["json"] = call.json
        return given

    def stream(self, call: Call, silence: float = SILENCE) -> dict[str, Any]:
        """The arguments for httpx where the answer is read as it comes."""
        with ExitStack() as nothing:
            given = self.request(call, nothing)
        return {**given, "timeout": httpx.Timeout(self.timeout, read=min(silence, SILENCE))}

    def lost(self, error: Exception) -> ConnectionLost:
        return ConnectionLost(f"the service at {self.base} cannot be reached: {error or type(error).__name__}")


def _opened(name: str, source: FileSource, open_files: ExitStack) -> tuple[str, BinaryIO]:
    """The name and the content of a part, from its beginning."""
    if isinstance(source, bytes):
        return name, io.BytesIO(source)
    if isinstance(source, (str, os.PathLike)):
        return Path(source).name, open_files.enter_context(open(source, "rb"))
    source.seek(0)
    return os.path.basename(str(getattr(source, "name", name))), source


def left(end: float | None) -> float:
    """Seconds until a deadline, with a moment to get there."""
    return SILENCE if end is None else max(0.0, end - time.monotonic()) + 0.05


def look_at(end: float | None, run: str) -> None:
    """Raises at the end of the time that a caller gave."""
    if end is not None and time.monotonic() > end:
        raise TimeoutError(f"run {run} has not ended in time; it goes on")


def may_repeat(call: Call, failure: SkillRunnerError) -> bool:
    """Whether another attempt makes sense."""
    if isinstance(failure, ConnectionLost):
        return call.repeatable
    # The service was busy and has done nothing.
    return isinstance(failure, ApiError) and failure.status in (429, 503) and failure.code != "INSUFFICIENT_STORAGE"


def answered(call: Call, response: httpx.Response, second: bool) -> Any:
    """The body of a success; raises a refusal. None where the first copy of a request has done it."""
    if response.is_success:
        return response.json() if response.content else None
    failure = api_error(response.status_code, response.headers, response.content)
    if second and failure.code in call.done_codes:
        return None
    raise failure


class Download:
    """A file that is being fetched into memory or to a place on the disk; a cut connection goes on where it was."""

    def __init__(self, call: Call, to: str | os.PathLike[str] | None) -> None:
        self._call = call
        self._place = Path(to) if to is not None else None
        self._part = self._place.with_name(f".{self._place.name}.part") if self._place else None
        self._out: BinaryIO = open(self._part, "w+b") if self._part else io.BytesIO()
        self._tag: str | None = None
        self._hash = hashlib.sha256()
        self.size = 0

    def call(self) -> Call:
        """The request for what is missing."""
        if self.size == 0 or self._tag is None:
            return self._call
        headers = {**self._call.headers, "Range": f"bytes={self.size}-", "If-Range": self._tag}
        return Call(self._call.method, self._call.path, self._call.query, headers)

    def begins(self, response: httpx.Response) -> None:
        if response.status_code != 206:
            # The whole file: what is there is not part of it, or there is nothing.
            self._out.seek(0)
            self._out.truncate()
            self._hash = hashlib.sha256()
            self.size = 0
        self._tag = response.headers.get("etag")

    def takes(self, piece: bytes) -> None:
        self._out.write(piece)
        self._hash.update(piece)
        self.size += len(piece)

    def ends(self) -> bytes:
        """Puts the file in its place, or returns its content."""
        tag = (self._tag or "").strip('"')
        if len(tag) == 64 and self._hash.hexdigest() != tag:
            raise DamagedDownload(f"{self._call.path} has another hash than {tag}")
        if self._place is None or self._part is None:
            self._out.seek(0)
            return self._out.read()
        self._out.close()
        os.replace(self._part, self._place)
        return b""

    def abandon(self) -> None:
        """Leaves nothing behind of a download that did not end."""
        self._out.close()
        if self._part is not None:
            self._part.unlink(missing_ok=True)
