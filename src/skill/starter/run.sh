#!/usr/bin/env bash
# Reads one request on standard input and answers with one JSON object on standard output.
set -euo pipefail

request=$(cat)

# The value of a text field, as it is written in JSON: with quotes and escapes. For anything more than flat texts use jq.
field() {
    local pattern="\"$1\":[[:space:]]*(\"([^\"\\\\]|\\\\.)*\")"
    [[ $request =~ $pattern ]] && printf '%s' "${BASH_REMATCH[1]}"
}

fail() {
    printf '{"success":false,"error":{"code":"%s","message":"%s"}}\n' "$1" "$2"
    exit 0
}

[[ $(field action) == '"run"' ]] || fail UNKNOWN_ACTION "there is no such action"
text=$(field text) || fail MISSING_PARAM "text is missing"

echo "50% counting" >&2
# The escapes of a line end and a tab are spaces between words.
words=$(printf '%b' "${text:1:${#text}-2}" | wc -w)

printf '{"success":true,"action":"run","data":{"text":%s,"words":%d}}\n' "$text" "$words"
