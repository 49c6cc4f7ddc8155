"""Reads one request on standard input and answers with one JSON object on standard output."""

import json
import sys


class Failure(Exception):
    """A failure with a code that the caller sees."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def run(params):
    """The skill's work: from the values of input and parameter to what the output schema describes."""
    text = params.get("text")
    if not isinstance(text, str):
        raise Failure("MISSING_PARAM", "text is missing")
    print("50% counting", file=sys.stderr)
    return {"text": text, "words": len(text.split())}


def answer(line):
    try:
        request = json.loads(line)
        action, params = request["action"], dict(request["params"])
    except (ValueError, KeyError, TypeError):
        return {"success": False, "error": {"code": "INVALID_JSON", "message": "the request is not one JSON object"}}
    try:
        if action != "run":
            raise Failure("UNKNOWN_ACTION", f"there is no action {action!r}")
        return {"success": True, "action": action, "data": run(params)}
    except Failure as failure:
        return {"success": False, "action": action, "error": {"code": failure.code, "message": str(failure)}}


print(json.dumps(answer(sys.stdin.read())))
