"""What can go wrong: a refusal of the service, or a connection that does not come back."""

from __future__ import annotations

import json
from typing import Any

from ._codes import HINTS


class SkillRunnerError(Exception):
    """Any error of this package."""


class ConnectionLost(SkillRunnerError):
    """The service could not be reached, or the connection broke, more often than `Retry` allows."""


class DamagedDownload(SkillRunnerError):
    """A file that was downloaded is not the one that the service has a hash of."""


class ApiError(SkillRunnerError):
    """The service refused a request. What was refused has changed nothing."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        details: Any = None,
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.status = status
        #: One of the codes of docs/errors.md; programs go by it.
        self.code = code
        #: What was wrong, and what to do.
        self.message = message
        #: What to do about this code; empty for a code that this version does not know.
        self.hint = HINTS.get(code, "")
        #: A list of `{"path", "message"}`, or an object with more about the cause.
        self.details = {} if details is None else details
        #: The request id of the run that it is about.
        self.request_id = request_id
        #: Seconds after which to try again, where the service says so.
        self.retry_after = retry_after


class InvalidRequest(ApiError):
    """The request is wrong in itself: 400, 404 of a route, 405, 413, 415, 416, 422 and their like."""


class Unauthorized(ApiError):
    """401: a token is needed, or another one."""


class Forbidden(ApiError):
    """403: the token does not allow it, or the host or origin is refused."""


class NotFound(ApiError):
    """404 and 410: there is no such thing, or not any more."""


class Conflict(ApiError):
    """409: the run is not in a state that allows it."""


class Busy(ApiError):
    """429 and 503: try again after `retry_after` seconds."""


class ServerError(ApiError):
    """Any other 5xx: the service itself failed."""


def _kind(status: int) -> type[ApiError]:
    kinds: dict[int, type[ApiError]] = {
        401: Unauthorized,
        403: Forbidden,
        404: NotFound,
        409: Conflict,
        410: NotFound,
        429: Busy,
        503: Busy,
    }
    return kinds.get(status, ServerError if status >= 500 else InvalidRequest)


def api_error(status: int, headers: Any, body: bytes) -> ApiError:
    """The error that an answer tells of."""
    after = headers.get("retry-after")
    retry_after = float(after) if after is not None and after.isdigit() else None
    try:
        error = json.loads(body)["error"]
        code, message = str(error["code"]), str(error["message"])
        details, request_id = error.get("details"), error.get("request_id")
    except (ValueError, KeyError, TypeError):
        # Not the service's own words: a proxy stands before it, or it is another service.
        code, details, request_id = "UNKNOWN", {}, None
        message = f"status {status} without an error of the service; is this its address?"
    return _kind(status)(status, code, message, details, request_id, retry_after)
