// The same run as a command or a program would ask for it.

/** @param {string} text */
function quoted(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** A value of a flag: the command takes for JSON what is JSON, so a text that looks like it is quoted. @param {any} value */
function written(value) {
  if (typeof value !== 'string') return JSON.stringify(value);
  try {
    JSON.parse(value);
    return JSON.stringify(value);
  } catch {
    return value;
  }
}

/** @typedef {{origin: string, body: any, files: {name: string, file: string}[]}} Asked */

/** @param {Asked} asked */
export function curl({ origin, body, files }) {
  const create = `curl -s '${origin}/v1/jobs${files.length ? '' : '?wait=30'}' -H 'Content-Type: application/json' \\\n  -d ${quoted(JSON.stringify(body))}`;
  if (files.length === 0) return create;
  const parts = files.map(({ name, file }) => `-F ${quoted(`${name}=@${file}`)}`).join(' ');
  return `ID=$(${create} \\\n  | python3 -c 'import json, sys; print(json.load(sys.stdin)["request_id"])')\ncurl -s ${parts} "${origin}/v1/jobs/$ID/upload?wait=30"`;
}

/** @param {Asked} asked */
export function cli({ origin, body, files }) {
  const words = ['skill-runner', 'run', body.skill_id, '--server', origin];
  for (const [name, value] of Object.entries(body.input ?? {})) words.push('--input', `${name}=${written(value)}`);
  for (const { name, file } of files) words.push('--file', `${name}=${file}`);
  for (const [name, value] of Object.entries(body.parameter ?? {})) words.push('--param', `${name}=${written(value)}`);
  for (const [name, value] of Object.entries(body.labels ?? {})) words.push('--label', `${name}=${value}`);
  if (body.engine) words.push('--engine', body.engine);
  if (body.model) words.push('--model', body.model);
  const options = body.runtime_options ?? {};
  if (options.execution_mode === 'interactive') words.push('--interactive');
  if (options.no_cache) words.push('--no-cache');
  if (options.debug) words.push('--debug');
  if (options.hard_timeout_seconds) words.push('--timeout', String(options.hard_timeout_seconds));
  return words.map(quoted).join(' ');
}

/** A JSON value as Python writes it. @param {any} value @returns {string} */
function python_value(value) {
  if (value === null) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (Array.isArray(value)) return `[${value.map(python_value).join(', ')}]`;
  if (typeof value === 'object') return `{${Object.entries(value).map(([key, inner]) => `${JSON.stringify(key)}: ${python_value(inner)}`).join(', ')}}`;
  return JSON.stringify(value);
}

/** @param {Asked} asked */
export function python({ origin, body, files }) {
  const lines = ['import httpx', '', `with httpx.Client(base_url=${JSON.stringify(origin)}, timeout=60) as api:`, `    job = api.post("/v1/jobs"${files.length ? '' : ', params={"wait": 30}'}, json=${python_value(body)}).raise_for_status().json()`];
  if (files.length) {
    const parts = files.map(({ name, file }) => `${JSON.stringify(name)}: open(${JSON.stringify(file)}, "rb")`).join(', ');
    lines.push(`    job = api.post(f"/v1/jobs/{job['request_id']}/upload", params={"wait": 30}, files={${parts}}).raise_for_status().json()`);
  }
  lines.push(`    print(api.get(f"/v1/jobs/{job['request_id']}/result").json())`);
  return lines.join('\n');
}

/** @param {Asked} asked */
export function typescript({ origin, body, files }) {
  const lines = [`const api = ${JSON.stringify(origin)};`, `let answer = await fetch(\`\${api}/v1/jobs${files.length ? '' : '?wait=30'}\`, {`, "  method: 'POST',", "  headers: { 'Content-Type': 'application/json' },", `  body: JSON.stringify(${JSON.stringify(body)}),`, '});', 'if (!answer.ok) throw new Error(await answer.text());', 'let job = await answer.json();'];
  if (files.length) {
    lines.push('const form = new FormData();', ...files.map(({ name, file }) => `form.append(${JSON.stringify(name)}, await openAsBlob(${JSON.stringify(file)}), ${JSON.stringify(file)}); // node:fs`));
    lines.push('answer = await fetch(`${api}/v1/jobs/${job.request_id}/upload?wait=30`, { method: \'POST\', body: form });', 'if (!answer.ok) throw new Error(await answer.text());', 'job = await answer.json();');
  }
  lines.push('console.log(await (await fetch(`${api}/v1/jobs/${job.request_id}/result`)).json());');
  return lines.join('\n');
}
