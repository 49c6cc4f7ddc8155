"""The client against a real service, directly and through a proxy that cuts its connections.

Needs SKILL_RUNNER_URL, the address of a service with the skills that tests/it/clients.rs gives it.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import tempfile
import threading
import unittest
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cutting_proxy import CuttingProxy

import skill_runner_client as api
from skill_runner_client import AsyncClient, Client, Retry
from skill_runner_client._sse import Gap, Log, Parser

URL = os.environ["SKILL_RUNNER_URL"]
#: Cuts are what is tried here: many in a row are no reason to give up.
STUBBORN = Retry(attempts=500, first_pause=0.001, longest_pause=0.02)
#: The script of this skill writes so many lines.
LINES = 300


class Case(unittest.TestCase):
    def setUp(self) -> None:
        self.direct = Client(URL)
        parts = urlsplit(URL)
        assert parts.hostname and parts.port
        self.proxy = CuttingProxy(parts.hostname, parts.port, seed=7)
        self.label = uuid.uuid4().hex
        self.addCleanup(self.direct.close)
        self.addCleanup(self.proxy.close)

    def cut(self) -> Client:
        """A client behind the proxy."""
        client = Client(self.proxy.url, retry=STUBBORN)
        self.addCleanup(client.close)
        return client

    def whole_log(self, run: str) -> list[Any]:
        return list(self.direct.history(run))

    def mine(self) -> list[Any]:
        """The runs of this test."""
        return list(self.direct.runs(label=[f"test:{self.label}"], limit=100))


class Streams(Case):
    def test_a_log_is_followed_without_loss_or_double_while_hundreds_of_connections_are_cut(self) -> None:
        self.proxy.most = (600, 6000)
        client = self.cut()
        run = self.direct.create("talks", input={"n": 1}, runtime_options={"no_cache": True})["run_id"]
        live = list(client.follow(run))
        logs = [live]
        # The first one ran while the log grew; the others read it from its beginning.
        while self.proxy.cuts < 300:
            logs.append(list(client.follow(run)))
        whole = self.whole_log(run)
        self.assertGreater(len(whole), LINES)
        for log in logs:
            self.assertEqual(log, whole)

    def test_tasks_follow_logs_side_by_side_while_connections_are_cut(self) -> None:
        async def follow_all() -> list[tuple[str, list[Any]]]:
            async with AsyncClient(self.proxy.url, retry=STUBBORN) as client:

                async def one(n: int) -> tuple[str, list[Any]]:
                    run = (await client.create("talks", input={"n": n}, runtime_options={"no_cache": True}))["run_id"]
                    return run, [event async for event in client.follow(run)]

                found = list(await asyncio.gather(*(one(n) for n in (2, 3, 4))))
                while self.proxy.cuts < 300:
                    found.append((found[0][0], [event async for event in client.follow(found[0][0])]))
                return found

        self.proxy.most = (600, 6000)
        for run, log in asyncio.run(follow_all()):
            self.assertEqual(log, self.whole_log(run))
            self.assertGreater(len(log), LINES)

    def test_a_log_is_followed_from_any_cursor(self) -> None:
        run = self.direct.run("demo-echo", input={"text": "cursor"})["run_id"]
        whole = self.whole_log(run)
        for cursor in range(len(whole) + 1):
            self.assertEqual(list(self.direct.follow(run, cursor=cursor)), whole[cursor:])

    def test_a_stream_that_never_brings_an_event_is_given_up_with_an_error(self) -> None:
        self.proxy.most = (40, 40)
        client = Client(self.proxy.url, retry=Retry(attempts=3, first_pause=0.001))
        self.addCleanup(client.close)
        run = self.direct.create("demo-echo", input={"text": "gone"})["run_id"]
        with self.assertRaises(api.ConnectionLost) as raised:
            list(client.follow(run))
        self.assertIn(self.proxy.url, str(raised.exception))


class Writes(Case):
    def test_no_run_is_created_twice_or_lost_while_connections_are_cut(self) -> None:
        self.proxy.most = (1500, 1500)
        client = self.cut()
        names = [f"run-{n}" for n in range(60)]
        made = {}
        for name in names:
            labels = {"test": self.label, "name": name}
            made[name] = client.create("demo-prime-number", await_upload=True, labels=labels)["run_id"]
        self.assertGreater(self.proxy.cuts, 60)
        self.assertEqual(sorted((job["labels"]["name"], job["run_id"]) for job in self.mine()), sorted(made.items()))
        for run in made.values():
            self.assertTrue(client.cancel(run)["status"] == "canceled")

    def test_files_arrive_whole_and_once_while_connections_are_cut(self) -> None:
        numbers = " ".join(str(n) for n in range(4000)).encode()
        self.proxy.most = (40_000, 12_000)
        client = self.cut()
        for n in range(8):
            labels = {"test": self.label, "name": str(n)}
            job = client.run("demo-prime-number", files={"input_file": numbers}, labels=labels, timeout=300)
            self.assertEqual(job["status"], "succeeded", job)
            self.assertEqual(len(job["result"]["data"]["primes"]), 550)
            events = [event["type"] for event in self.whole_log(job["run_id"])]
            self.assertEqual(events.count("input.uploaded"), 1)
        self.assertEqual(len(self.mine()), 8)
        self.assertGreater(self.proxy.cuts, 8)

    def test_a_question_is_answered_once_while_connections_are_cut(self) -> None:
        self.proxy.most = (1500, 2500)
        client = self.cut()
        options = {"execution_mode": "interactive", "no_cache": True}
        job = client.run("demo-interview", engine="codex", runtime_options=options, timeout=300)
        self.assertEqual(job["status"], "waiting_user")
        asked = client.pending(job["run_id"])
        assert asked is not None
        self.assertEqual(asked["prompt"], "What is your name?")
        self.assertTrue(client.reply(job["run_id"], asked["interaction_id"], "Ann")["accepted"])
        done = client.wait(job["run_id"], timeout=300)
        self.assertEqual((done["status"], done["result"]["data"]["name"]), ("succeeded", "Ann"))
        types = [event["type"] for event in self.whole_log(job["run_id"])]
        self.assertEqual(types.count("interaction.reply.accepted"), 1)

    def test_a_run_that_is_deleted_is_gone_though_the_answer_was_cut(self) -> None:
        self.proxy.most = (800, 800)
        client = self.cut()
        for n in range(5):
            run = self.direct.run("demo-echo", input={"text": f"deleted {n}"})["run_id"]
            client.delete(run)
            with self.assertRaises(api.NotFound) as raised:
                self.direct.job(run)
            self.assertEqual((raised.exception.code, raised.exception.status), ("REQUEST_NOT_FOUND", 404))

    def test_files_are_downloaded_whole_while_connections_are_cut(self) -> None:
        job = self.direct.run("talks", input={"n": 1})
        big = next(each for each in job["result"]["artifacts"] if each["filename"] == "big.bin")
        self.proxy.most = (2000, 60_000)
        client = self.cut()
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "big.bin"
            client.download(job["run_id"], big["path_rel"], place)
            self.assertEqual(hashlib.sha256(place.read_bytes()).hexdigest(), big["sha256"])
            self.assertEqual(list(Path(folder).iterdir()), [place])
        content = client.download(job["run_id"], big["path_rel"])
        self.assertEqual((len(content), hashlib.sha256(content).hexdigest()), (big["size"], big["sha256"]))
        self.assertEqual(self.direct.bundle(job["run_id"])[:2], b"PK")
        self.assertGreater(self.proxy.cuts, 10)


class Refusals(Case):
    def test_a_refusal_is_an_exception_with_code_hint_details_and_the_run(self) -> None:
        with self.assertRaises(api.InvalidRequest) as wrong:
            self.direct.create("demo-echo", input={"text": 5})
        self.assertEqual((wrong.exception.code, wrong.exception.status), ("INPUT_VALIDATION_FAILED", 400))
        self.assertEqual(wrong.exception.details[0]["path"], "/input/text")
        self.assertIn("correct the places", wrong.exception.hint)
        with self.assertRaises(api.NotFound) as unknown:
            self.direct.create("nothing")
        self.assertIn("GET /v1/skills lists", unknown.exception.hint)
        run = self.direct.create("demo-prime-number", await_upload=True)
        with self.assertRaises(api.Conflict) as early:
            self.direct.result(run["run_id"])
        self.assertEqual((early.exception.code, early.exception.request_id), ("RESULT_NOT_READY", run["request_id"]))
        self.direct.cancel(run["run_id"])

    def test_a_key_that_another_run_has_is_a_conflict(self) -> None:
        key = uuid.uuid4().hex
        first = self.direct.create("demo-echo", input={"text": "one"}, idempotency_key=key)
        again = self.direct.create("demo-echo", input={"text": "one"}, idempotency_key=key)
        self.assertEqual(first["run_id"], again["run_id"])
        with self.assertRaises(api.Conflict) as raised:
            self.direct.create("demo-echo", input={"text": "two"}, idempotency_key=key)
        self.assertEqual(raised.exception.code, "IDEMPOTENCY_CONFLICT")

    def test_a_failed_run_is_an_answer_and_not_an_exception(self) -> None:
        job = self.direct.run("demo-fail-exit")
        self.assertEqual((job["status"], job["result"]["status"]), ("failed", "failed"))
        assert job["error"] is not None
        self.assertEqual(self.direct.explain(job["run_id"])["code"], job["error"]["code"])

    def test_waiting_ends_in_time_and_the_run_goes_on(self) -> None:
        run = self.direct.create("demo-prime-number", await_upload=True)["run_id"]
        with self.assertRaises(TimeoutError):
            self.direct.wait(run, timeout=0.2)
        self.assertEqual(self.direct.job(run)["status"], "queued")
        self.direct.cancel(run)
        self.assertEqual(self.direct.wait(run)["status"], "canceled")

    def test_no_service_and_another_service_are_told_apart(self) -> None:
        quick = Retry(attempts=2, first_pause=0.001)
        with Client("http://127.0.0.1:9", retry=quick) as client, self.assertRaises(api.ConnectionLost):
            client.system()
        with self.assertRaises(ValueError):
            Client("127.0.0.1:8000")
        with self.assertRaises(api.NotFound) as raised:
            self.direct.request("GET", "/v1/colour")
        self.assertEqual(raised.exception.code, "ROUTE_NOT_FOUND")

    def test_several_threads_use_one_client(self) -> None:
        found: list[str] = []

        def run(n: int) -> None:
            found.append(self.direct.run("demo-echo", input={"text": f"thread {n}"})["result"]["data"]["text"])

        threads = [threading.Thread(target=run, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(found), [f"thread {n}" for n in range(4)])


class Parsing(unittest.TestCase):
    STREAM = (
        'retry: 2000\nevent: snapshot\ndata: {}\n\n: a comment\nid: 1\nevent: chat_event\r\ndata: {"seq": 1, "type": "a", "t": "é"}\n\n'
        'event: heartbeat\ndata: {}\n\nevent:chat_event\ndata:{"seq": 2, "type": "conversation.failed"}\n\nevent: chat_event\ndata: {"seq": 3'
    ).encode()

    def test_events_are_the_same_however_their_bytes_come(self) -> None:
        whole = Log(0).feed(self.STREAM)
        self.assertEqual([event["seq"] for event in whole], [1, 2])
        for at in range(len(self.STREAM)):
            log = Log(0)
            self.assertEqual(log.feed(self.STREAM[:at]) + log.feed(self.STREAM[at:]), whole)
            self.assertTrue(log.ended)

    def test_events_that_come_again_are_left_out_and_a_gap_is_seen(self) -> None:
        self.assertEqual([event["seq"] for event in Log(1).feed(self.STREAM)], [2])
        with self.assertRaises(Gap):
            Log(0).feed(b'event: chat_event\ndata: {"seq": 2, "type": "a"}\n\n')
        self.assertEqual(Parser().feed(b"data: a\ndata: b\n\n"), [("message", "a\nb")])


if __name__ == "__main__":
    unittest.main()
