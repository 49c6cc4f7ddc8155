"""Server-sent events, read from pieces of any size."""

from __future__ import annotations

import json
from typing import Any, cast

from .types import Event

#: The events that a log ends with.
LAST = ("conversation.completed", "conversation.failed")


class Parser:
    """Makes events of bytes. What is not ended by an empty line is no event: it was cut off."""

    def __init__(self) -> None:
        self._rest = b""
        self._name = ""
        self._data: list[str] = []

    def feed(self, piece: bytes) -> list[tuple[str, str]]:
        """The name and data of each event that this piece completes."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        found: list[tuple[str, str]] = []
        for line in lines:
            text = line.removesuffix(b"\r").decode("utf-8")
            field, _, value = text.partition(":")
            value = value.removeprefix(" ")
            if not text:
                if self._data:
                    found.append((self._name or "message", "\n".join(self._data)))
                self._name, self._data = "", []
            elif field == "event":
                self._name = value
            elif field == "data":
                self._data.append(value)
        return found


class Gap(Exception):
    """An event was left out: the stream must be opened again at the cursor."""


class Log:
    """The events of a run in their order, each once, whatever the connections bring."""

    def __init__(self, cursor: int) -> None:
        #: The number of the last event that was handed out.
        self.cursor = cursor
        #: Whether that was the last one of the run.
        self.ended = False
        self._parser = Parser()

    def connected(self) -> None:
        """Half an event of the connection before is forgotten."""
        self._parser = Parser()

    def feed(self, piece: bytes) -> list[Event]:
        """The new events that this piece completes."""
        new: list[Event] = []
        for name, data in self._parser.feed(piece):
            if name != "chat_event" or self.ended:
                continue
            event = cast(Event, json.loads(data))
            seq = int(cast(Any, event)["seq"])
            if seq <= self.cursor:
                continue
            if seq != self.cursor + 1:
                raise Gap(f"event {seq} followed event {self.cursor}")
            self.cursor = seq
            self.ended = cast(Any, event)["type"] in LAST
            new.append(event)
        return new
