"""Makes the result of what the engine said: one request on standard input, one JSON object on standard output."""

import json
import sys


class Failure(Exception):
    """A failure with a code that the caller sees."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def run(params, summary):
    """From the values of input and parameter and the words of the engine to what the output schema describes."""
    text = params.get("text")
    if not isinstance(text, str):
        raise Failure("MISSING_PARAM", "text is missing")
    print("50% counting", file=sys.stderr)
    return {"words": len(text.split()), "summary": summary.strip()}


def answer(line):
    try:
        request = json.loads(line)
        action, params = request["action"], dict(request["params"])
        summary = request["context"]["engine_text"]
    except (ValueError, KeyError, TypeError):
        return {"success": False, "error": {"code": "INVALID_JSON", "message": "the request is not one JSON object"}}
    try:
        if action != "run":
            raise Failure("UNKNOWN_ACTION", f"there is no action {action!r}")
        return {"success": True, "action": action, "data": run(params, summary)}
    except Failure as failure:
        return {"success": False, "action": action, "error": {"code": failure.code, "message": str(failure)}}


print(json.dumps(answer(sys.stdin.read())))
