// Reads one request on standard input and answers with one JSON object on standard output.

import { readFileSync } from "node:fs";

/** A failure with a code that the caller sees. */
class Failure extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

/** The skill's work: from the values of input and parameter to what the output schema describes. */
function run(params) {
  const { text } = params;
  if (typeof text !== "string") {
    throw new Failure("MISSING_PARAM", "text is missing");
  }
  process.stderr.write("50% counting\n");
  return { text, words: text.split(/\s+/).filter(Boolean).length };
}

function answer(line) {
  let action, params;
  try {
    ({ action, params } = JSON.parse(line));
  } catch {
    return { success: false, error: { code: "INVALID_JSON", message: "the request is not one JSON object" } };
  }
  try {
    if (action !== "run") {
      throw new Failure("UNKNOWN_ACTION", `there is no action ${JSON.stringify(action)}`);
    }
    return { success: true, action, data: run(params ?? {}) };
  } catch (failure) {
    if (!(failure instanceof Failure)) throw failure;
    return { success: false, action, error: { code: failure.code, message: failure.message } };
  }
}

console.log(JSON.stringify(answer(readFileSync(0, "utf8"))));
