"""When a request is sent again, and after which pause."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from ._errors import Busy, SkillRunnerError


@dataclass(frozen=True)
class Retry:
    """How often a broken connection or a busy service is tried again.

    Only requests that can be repeated are: reads, and writes whose second copy changes nothing (a create has an
    idempotency key). A stream counts its failures anew after each event that it brought.
    """

    #: Attempts in a row, the first one included.
    attempts: int = 8
    #: Seconds before the second attempt; doubled each time.
    first_pause: float = 0.2
    #: Longest pause.
    longest_pause: float = 10.0

    def pauses(self) -> Iterator[float]:
        """The pause before each further attempt, scattered so that many clients do not come back at once."""
        pause = self.first_pause
        for _ in range(self.attempts - 1):
            yield pause * random.uniform(0.5, 1.0)
            pause = min(pause * 2, self.longest_pause)


class Attempts:
    """The attempts of one request or stream."""

    def __init__(self, retry: Retry) -> None:
        self._retry = retry
        self._pauses = retry.pauses()

    def progress(self) -> None:
        """Something came through: failures are counted anew."""
        self._pauses = self._retry.pauses()

    def pause_after(self, failure: SkillRunnerError) -> float:
        """The pause before the next attempt; raises the failure where there is none."""
        pause = next(self._pauses, None)
        if pause is None:
            raise failure
        if isinstance(failure, Busy) and failure.retry_after is not None:
            return max(pause, failure.retry_after)
        return pause
