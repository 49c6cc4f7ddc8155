"""The client that blocks."""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, closing
from types import TracebackType
from typing import Any, cast

import httpx

from . import _calls as calls
from . import types
from ._calls import Call, FileSource
from ._errors import SkillRunnerError, api_error
from ._exchange import BROKEN, Download, Exchange, answered, left, look_at, may_repeat
from ._retry import Attempts, Retry
from ._sse import LAST, Gap, Log


class Client:
    """A client of one service, for use by several threads.

    >>> with Client("http://127.0.0.1:8000") as client:
    ...     job = client.run("demo-echo", input={"text": "hello"})
    ...     print(job["status"], job["result"]["data"])
    """

    def __init__(
        self, url: str = "http://127.0.0.1:8000", token: str | None = None, *, timeout: float = 30.0, retry: Retry = Retry()
    ) -> None:
        self._exchange = Exchange(url, token, timeout, retry)
        self._http = httpx.Client(**self._exchange.options())

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    # --- runs -------------------------------------------------------------------------------------------------------

    def create(
        self,
        skill_id: str,
        *,
        input: Mapping[str, Any] | None = None,
        parameter: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
        wait: float | None = None,
        **options: Any,
    ) -> types.JobWithResult:
        """Creates a run, once, even if its answer is lost and the request is sent again.

        `options` are further members of the body: engine, model, runtime_options, labels, priority, metadata, await_upload.
        With `wait`, the answer comes when the run has ended or asks, or after so many seconds (600 at most).
        """
        body = {"skill_id": skill_id, "input": input, "parameter": parameter, **options}
        call = calls.create({name: value for name, value in body.items() if value is not None}, idempotency_key, wait)
        return self._created(self._send(call))

    def create_temporary(
        self, package: FileSource, *, files: FileSource | None = None, idempotency_key: str | None = None, **options: Any
    ) -> types.Job:
        """Creates a run of a skill that is not installed: its package is a zip, and so are its input files."""
        created = self._send(calls.create_temporary(options, idempotency_key))
        parts: dict[str, FileSource] = {"skill_package": package}
        return self.upload(created["run_id"], parts if files is None else {**parts, "file": files})

    def rerun(
        self, run: str, *, idempotency_key: str | None = None, wait: float | None = None, **changes: Any
    ) -> types.JobWithResult:
        """Creates a run that asks for the same, but for the changes."""
        return self._created(self._send(calls.rerun(run, changes, idempotency_key, wait)))

    def upload(self, run: str, files: Mapping[str, FileSource]) -> types.Job:
        """Uploads the files of a run, each under the name of its input; that starts the run."""
        self._send(calls.upload(run, files))
        return self.job(run)

    def run(
        self,
        skill_id: str,
        *,
        files: Mapping[str, FileSource] | None = None,
        timeout: float | None = None,
        **options: Any,
    ) -> types.JobWithResult:
        """Creates a run, uploads its files, and waits until it has ended or asks its user."""
        if files is None:
            return self.wait(self.create(skill_id, **options)["run_id"], timeout=timeout)
        created = self.create(skill_id, await_upload=True, **options)
        return self.wait(self.upload(created["run_id"], files)["run_id"], timeout=timeout)

    def job(self, run: str, *, at_seq: int | None = None) -> types.Job:
        """A run as it is now, or as it was after an event. Every `run` is a request id or a run id."""
        return cast(types.Job, self._send(calls.job(run, at_seq)))

    def runs(self, **filters: Any) -> Iterator[types.Job]:
        """Runs, newest first, page by page: status, skill_id, engine, label (a list), since, until; limit is the size of a page."""
        before = filters.pop("before", None)
        while True:
            page = cast(types.JobList, self._send(calls.runs({**filters, "before": before})))
            yield from page["jobs"]
            before = page["next_before"]
            if before is None:
                return

    def wait(self, run: str, *, timeout: float | None = None) -> types.JobWithResult:
        """Waits until a run has ended or asks its user. Raises `TimeoutError` after `timeout` seconds; the run goes on."""
        end = None if timeout is None else time.monotonic() + timeout
        job = self.job(run)
        while job["status"] in ("queued", "running"):
            with closing(self._follow(run, job["head_seq"], end)) as events:
                for event in events:
                    if event["type"] in ("user.input.required", *LAST):
                        break
            job = self.job(run)
        done = cast(types.JobWithResult, dict(job))
        if job["status"] != "waiting_user":
            done["result"] = self.result(run)
        return done

    def result(self, run: str) -> types.Result:
        """The result of a run that has ended; one that failed has `error`."""
        return cast(types.RunResult, self._send(calls.result(run)))["result"]

    def cancel(self, run: str) -> types.Canceled:
        """Cancels a run; one that has ended stays as it is, and `accepted` is false."""
        return cast(types.Canceled, self._send(calls.cancel(run)))

    def delete(self, run: str) -> None:
        """Deletes a run that has ended."""
        self._send(calls.delete(run))

    def pending(self, run: str) -> types.Interaction | None:
        """The question that a run waits with."""
        return cast(types.Pending, self._send(calls.pending(run)))["pending"]

    def reply(self, run: str, interaction_id: int, response: Any, *, idempotency_key: str | None = None) -> types.Replied:
        """Answers a question, once."""
        return cast(types.Replied, self._send(calls.reply(run, interaction_id, response, idempotency_key)))

    # --- events and files -------------------------------------------------------------------------------------------

    def follow(self, run: str, *, cursor: int = 0) -> Iterator[types.Event]:
        """The events of a run after the cursor as they come, each once and in order, until its last one.

        Broken connections are opened again where they were. To go on later, keep the `seq` of the last event as the cursor.
        """
        return self._follow(run, cursor, None)

    def history(self, run: str, *, from_seq: int = 1, to_seq: int | None = None) -> Iterator[types.Event]:
        """The events that a run has by now."""
        at: int | None = from_seq
        while at is not None:
            page = cast(types.History, self._send(calls.history(run, at, to_seq, None)))
            yield from page["events"]
            at = page["next_seq"]

    def artifacts(self, run: str) -> types.Artifacts:
        """The files that a run made."""
        return cast(types.Artifacts, self._send(calls.artifacts(run)))

    def download(self, run: str, path: str, to: str | os.PathLike[str] | None = None) -> bytes:
        """A file that a run made, by its `path_rel`. With `to`, it is written there, whole or not at all, and b"" is returned."""
        return self._download(calls.artifact(run, path), to)

    def bundle(self, run: str, to: str | os.PathLike[str] | None = None) -> bytes:
        """Result and artifacts as one zip; `to` as for `download`."""
        return self._download(calls.bundle(run), to)

    def logs(self, run: str) -> types.Logs:
        """The prompt and the output of the engine."""
        return cast(types.Logs, self._send(calls.logs(run)))

    def log_range(self, run: str, stream: str, byte_from: int = 0, byte_to: int | None = None) -> types.LogRange:
        """A part of an output, and the events made of it."""
        return cast(types.LogRange, self._send(calls.log_range(run, stream, byte_from, byte_to)))

    def explain(self, run: str, path: str | None = None) -> types.Explained:
        """Why a run failed, or where a field of its result came from."""
        return cast(types.Explained, self._send(calls.explain(run, path)))

    # --- skills, engines, the service -------------------------------------------------------------------------------

    def skills(self) -> list[types.SkillSummary]:
        """The installed skills."""
        return cast(types.Skills, self._send(calls.skills()))["skills"]

    def skill(self, skill_id: str) -> types.Skill:
        """A skill with its schemas."""
        return cast(types.Skill, self._send(calls.skill(skill_id)))

    def install_skill(self, package: FileSource, *, wait: float = 60.0) -> types.Installation:
        """Installs a skill package, which is a zip."""
        return cast(types.Installation, self._send(calls.install_skill(package, wait)))

    def engines(self) -> types.Engines:
        """The engines, with version and login."""
        return cast(types.Engines, self._send(calls.engines()))

    def system(self) -> types.System:
        """Version, load, limits and disk of the service."""
        return cast(types.System, self._send(calls.system()))

    def request(self, method: str, path: str, *, json: Any = None, **query: Any) -> Any:
        """Any other route of `/v1/openapi.json`. A request that is not a GET is not repeated by itself."""
        return self._send(Call(method, path, query, json=json, repeatable=method == "GET"))

    # --- how ----------------------------------------------------------------------------------------------------------

    def _created(self, answer: Any) -> types.JobWithResult:
        # After a wait the answer is the job; else its ids.
        return cast(types.JobWithResult, answer if "head_seq" in answer else self.job(answer["run_id"]))

    def _send(self, call: Call) -> Any:
        attempts = Attempts(self._exchange.retry)
        second = False
        while True:
            try:
                with ExitStack() as open_files:
                    response = self._http.request(**self._exchange.request(call, open_files))
                return answered(call, response, second)
            except BROKEN as error:
                failure: SkillRunnerError = self._exchange.lost(error)
            except SkillRunnerError as refused:
                failure = refused
            if not may_repeat(call, failure):
                raise failure
            time.sleep(attempts.pause_after(failure))
            second = True

    def _follow(self, run: str, cursor: int, end: float | None) -> Generator[types.Event, None, None]:
        log, attempts = Log(cursor), Attempts(self._exchange.retry)
        while not log.ended:
            try:
                log.connected()
                asked = self._exchange.stream(calls.events(run, log.cursor), left(end))
                with self._http.stream(**asked) as response:
                    if response.status_code == 204:
                        return
                    if not response.is_success:
                        raise api_error(response.status_code, response.headers, response.read())
                    for piece in response.iter_raw():
                        for event in log.feed(piece):
                            attempts.progress()
                            yield event
                        look_at(end, run)
                if log.ended:
                    return
                failure: SkillRunnerError = self._exchange.lost(EOFError("the stream ended before the run"))
            except (*BROKEN, Gap) as error:
                failure = self._exchange.lost(error)
            except SkillRunnerError as refused:
                failure = refused
            if not may_repeat(calls.events(run, log.cursor), failure):
                raise failure
            look_at(end, run)
            time.sleep(attempts.pause_after(failure))

    def _download(self, call: Call, to: str | os.PathLike[str] | None) -> bytes:
        download, attempts = Download(call, to), Attempts(self._exchange.retry)
        try:
            while True:
                try:
                    before = download.size
                    with self._http.stream(**self._exchange.stream(download.call())) as response:
                        if not response.is_success:
                            raise api_error(response.status_code, response.headers, response.read())
                        download.begins(response)
                        for piece in response.iter_bytes():
                            download.takes(piece)
                    return download.ends()
                except BROKEN as error:
                    failure: SkillRunnerError = self._exchange.lost(error)
                except SkillRunnerError as refused:
                    failure = refused
                if download.size > before:
                    attempts.progress()
                if not may_repeat(call, failure):
                    raise failure
                time.sleep(attempts.pause_after(failure))
        except BaseException:
            download.abandon()
            raise
