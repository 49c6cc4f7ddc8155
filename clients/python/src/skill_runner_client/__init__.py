"""A client of the skill-runner service. `Client` blocks, `AsyncClient` is for asyncio."""

from . import types
from ._async_client import AsyncClient
from ._client import Client
from ._errors import (
    ApiError,
    Busy,
    Conflict,
    ConnectionLost,
    DamagedDownload,
    Forbidden,
    InvalidRequest,
    NotFound,
    ServerError,
    SkillRunnerError,
    Unauthorized,
)
from ._retry import Retry

__all__ = [
    "ApiError",
    "AsyncClient",
    "Busy",
    "Client",
    "Conflict",
    "ConnectionLost",
    "DamagedDownload",
    "Forbidden",
    "InvalidRequest",
    "NotFound",
    "Retry",
    "ServerError",
    "SkillRunnerError",
    "Unauthorized",
    "types",
]
