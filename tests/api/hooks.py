"""What schemathesis needs to know of this service: real ids, short waits, and event streams that end.

API_TEST_KNOWN is a JSON object with what exists: `ended` and `open` (run ids), `kept` (every id of these runs), `victims` (runs that may be
canceled and deleted), `skills`, `skill_victim`, `installation` (an id), `artifact` and `file` (paths in the run that is the first of `ended`).
"""

import json
import os
import zlib
from urllib.parse import quote

import requests
import schemathesis
from schemathesis.core.parameters import ParameterLocation
from schemathesis.generation import GenerationMode

KNOWN = json.loads(os.environ["API_TEST_KNOWN"])
RUNS = ("/v1/jobs/{id}", "/v1/temp-skill-runs/{id}", "/v1/management/runs/{id}")


def is_valid(case, part):
    """Whether a part of the request is meant to fit the document; what is wrong on purpose is sent as it is."""
    found = case.meta.components.get(part) if case.meta is not None else None
    return found is None or found.mode is GenerationMode.POSITIVE


def choose(options, case):
    """One of them; the same one for the same request."""
    return options[zlib.crc32(repr((case.path, case.path_parameters, case.query, case.body)).encode()) % len(options)]


def with_real_ids(case):
    path, parameters = case.operation.path, dict(case.path_parameters or {})
    if path.startswith(RUNS):
        ends = path.endswith(("/{id}/events", "/{path}", "/file", "/bundle", "/export", "/result"))
        parameters["id"] = choose(KNOWN["ended"] if ends else KNOWN["ended"] + KNOWN["open"], case)
        if path.endswith("/artifacts/{path}"):
            parameters.update(id=KNOWN["ended"][0], path=KNOWN["artifact"])
        if path.endswith("/file") and is_valid(case, ParameterLocation.QUERY):
            parameters["id"] = KNOWN["ended"][0]
            case.query = {**(case.query or {}), "path": KNOWN["file"]}
    elif path.startswith(("/v1/skills/{id}", "/v1/management/skills/{id}")):
        parameters["id"] = choose(KNOWN["skills"], case)
    elif path == "/v1/skill-packages/{id}":
        parameters["id"] = KNOWN["installation"]
    elif "{engine}" in path:
        parameters["engine"] = choose(["codex", "claude", "script"], case)
    case.path_parameters = parameters


def sparing_what_is_needed(case):
    """Sends what would end or delete the runs and skills that are tried to others, which schemathesis may have learned of or not."""
    path, parameters = case.operation.path, dict(case.path_parameters or {})
    ends_run = case.method == "DELETE" or path.endswith("/cancel")
    if path.startswith(RUNS) and ends_run and parameters.get("id") in KNOWN["kept"]:
        parameters["id"] = KNOWN["victims"].pop() if KNOWN["victims"] else "0192f0c1-2d3e-7f40-8a51-6b7c8d9e0f11"
    if path.startswith("/v1/skills/{id}") and case.method != "GET" and parameters.get("id") in KNOWN["skills"]:
        parameters["id"] = KNOWN["skill_victim"]
    case.path_parameters = parameters
    if path == "/v1/jobs/cleanup":
        if isinstance(case.body, dict) and isinstance(case.body.get("keep_last", 0), (int, type(None))):
            case.body["keep_last"] = 10_000
        elif not isinstance(case.body, (dict, list, str, int, float)):
            case.body = {"keep_last": 10_000}


def with_short_waits(case):
    query = dict(case.query or {})
    if str(query.get("wait", "")).isdigit():
        query["wait"] = min(int(query["wait"]), 1)
        case.query = query
    headers = case.headers
    if headers and "wait=" in str(headers.get("Prefer", "")):
        headers["Prefer"] = "wait=1"


@schemathesis.hook
def before_call(context, case, kwargs):
    with_short_waits(case)
    # Three of four requests go to something that is there.
    if is_valid(case, ParameterLocation.PATH) and choose([True, True, True, False], case):
        with_real_ids(case)
    sparing_what_is_needed(case)
    if case.operation.path.endswith("/{id}/events"):
        # A run that was just made may never end, and neither would its stream.
        run = str((case.path_parameters or {}).get("id", ""))
        if run in KNOWN["kept"] and run not in KNOWN["ended"]:
            case.path_parameters = {**case.path_parameters, "id": KNOWN["ended"][0]}
        elif run not in KNOWN["ended"] and len(run) == 36:
            cancel(run)


def cancel(run):
    at = f"{os.environ['API_TEST_URL']}/v1/jobs/{quote(run, safe='')}/cancel"
    requests.post(at, headers={"Authorization": f"Bearer {os.environ['API_TEST_TOKEN']}"}, timeout=60)
