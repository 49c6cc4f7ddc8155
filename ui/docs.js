// The reference of the API: the OpenAPI document of the service, to read. It is in English, like the document.
import { html, render, useState } from './lib/view.js';
import { useApi } from './lib/api.js';

const SCHEMAS = '#/components/schemas/';

/** Follows a reference inside the document. @param {any} all @param {any} value */
function resolved(all, value) {
  const place = value?.$ref;
  if (!place) return value;
  return place.slice(2).split('/').reduce((/** @type {any} */ at, /** @type {string} */ part) => at?.[part.replaceAll('~1', '/').replaceAll('~0', '~')], all);
}

/** The type of a value in few words, with links to named schemas. @param {{schema: any}} props */
function Type({ schema }) {
  if (schema === undefined || schema === true || Object.keys(schema).length === 0) return 'anything';
  if (schema.$ref?.startsWith(SCHEMAS)) {
    const name = schema.$ref.slice(SCHEMAS.length);
    return html`<a href=${`#schema-${name.split('/')[0]}`}>${name}</a>`;
  }
  const either = schema.oneOf ?? schema.anyOf;
  if (either) return either.map((/** @type {any} */ one, /** @type {number} */ at) => html`${at > 0 && ' | '}<${Type} schema=${one} />`);
  if (schema.const !== undefined) return html`<code>${JSON.stringify(schema.const)}</code>`;
  if (schema.enum) return html`<code class="any">${schema.enum.map((/** @type {unknown} */ value) => JSON.stringify(value)).join(' | ')}</code>`;
  if (schema.type === 'array') return html`list of <${Type} schema=${schema.items} />`;
  return [].concat(schema.type ?? 'anything').join(' | ');
}

/** The limits of a value. @param {any} schema */
function limits(schema) {
  const names = ['format', 'minimum', 'maximum', 'minLength', 'maxLength', 'maxProperties', 'pattern', 'default'];
  return names.filter((name) => schema?.[name] !== undefined).map((name) => `${name} ${schema[name]}`).join(', ');
}

/** @param {{label: string, heads: string[], rows: any[][]}} props */
function Table({ label, heads, rows }) {
  return html`<div class="scroll-x" tabindex="0" role="group" aria-label=${label}><table class="list"><thead><tr>${heads.map((head) => html`<th scope="col">${head}</th>`)}</tr></thead>
    <tbody>${rows.map((cells, at) => html`<tr key=${at}>${cells.map((cell) => html`<td class="any">${cell}</td>`)}</tr>`)}</tbody></table></div>`;
}

/** @param {{label: string, value: unknown}} props */
function Example({ label, value }) {
  if (value === undefined) return null;
  return html`<details><summary class="small">Example</summary><pre class="code" tabindex="0" role="group" aria-label=${label}>${JSON.stringify(value, null, 2)}</pre></details>`;
}

/** The fields of an object, those it has from another one first. @param {any} all @param {any} schema @returns {any[][]} */
function fields(all, schema) {
  const base = schema.$ref ? fields(all, resolved(all, schema)) : [];
  const own = Object.entries(schema.properties ?? {}).map(([name, field]) => [html`<span class="mono">${name}</span>${schema.required?.includes(name) && html` <span class="tag">required</span>`}`,
    html`<${Type} schema=${field} /><div class="small quiet">${limits(field)}</div>`, field?.description ?? '']);
  return [...base, ...own];
}

/** @param {{all: any, name: string}} props */
function Schema({ all, name }) {
  const schema = all.components.schemas[name];
  const rows = fields(all, schema);
  return html`<section class="card" id=${`schema-${name}`} aria-label=${`Schema ${name}`}><header><h3 class="grow mono">${name}</h3></header><div class="body stack-s">
    ${schema.description && html`<p>${schema.description}</p>`}
    ${rows.length > 0 ? html`<${Table} label=${`Fields of ${name}`} heads=${['field', 'type', 'about']} rows=${rows} />` : html`<p><${Type} schema=${schema} /> <span class="small quiet">${limits(schema)}</span></p>`}
    <${Example} label=${`Example of ${name}`} value=${schema.examples?.[0]} /></div></section>`;
}

/** @param {{all: any, content: any}} props */
function Content({ all, content }) {
  return html`${Object.entries(content ?? {}).map(([media, { schema, examples }]) => html`<div key=${media}><code>${media}</code> <${Type} schema=${schema} />
    ${Object.keys(examples ?? {}).map((code) => html`<details key=${code}><summary class="small mono">${code}</summary><p class="small">${resolved(all, examples[code])?.summary} ${resolved(all, examples[code])?.description}</p></details>`)}</div>`)}`;
}

/** @param {{all: any, method: string, path: string, operation: any}} props */
function Operation({ all, method, path, operation }) {
  const { parameters, requestBody: body, responses } = operation;
  const id = operation.operationId;
  return html`<details class="card" id=${id}><summary class="body"><span class="tag method">${method.toUpperCase()}</span> <span class="mono any">${path}</span> <span class="quiet">${operation.summary}</span></summary>
    <div class="body stack-s"><p class="small quiet">Needs: ${operation['x-needs']}</p>
      ${parameters.length > 0 && html`<${Table} label=${`Parameters of ${id}`} heads=${['parameter', 'in', 'type', 'about', 'example']} rows=${parameters.map((/** @type {any} */ one) => [
    html`<span class="mono">${one.name}</span>${one.required && html` <span class="tag">required</span>`}`, one.in, html`<${Type} schema=${one.schema} /><div class="small quiet">${limits(one.schema)}</div>`, one.description, html`<code>${JSON.stringify(one.example)}</code>`])} />`}
      ${body && html`<p>Body${!body.required && ', which may be left out'}: <${Content} all=${all} content=${body.content} /></p>`}
      <${Table} label=${`Answers of ${id}`} heads=${['status', 'means', 'body']} rows=${Object.entries(responses).map(([status, found]) => {
    const answer = resolved(all, found);
    return [status, answer.description, html`<${Content} all=${all} content=${answer.content} />`];
  })} /></div></details>`;
}

/** The way to the pages for people. */
function Masthead() {
  return html`<header class="masthead"><nav aria-label="Pages"><a class="brand" href="/ui"><img src="/ui/static/icon.svg" alt="" width="20" height="20" /><span>skill-runner</span></a><a href="/docs" aria-current="page">API</a></nav></header>`;
}

function Reference() {
  const { data: all, error } = useApi('/v1/openapi.json');
  const [wanted, setWanted] = useState('');
  if (!all) return html`<${Masthead} /><main class="page stack"><h1>API</h1>${error ? html`<p class="note bad" role="alert">${error.message}</p>` : html`<p class="empty" role="status">Loading…</p>`}</main>`;
  const operations = Object.entries(all.paths).flatMap(([path, methods]) => Object.entries(methods).map(([method, operation]) => ({ path, method, operation })));
  const words = wanted.toLowerCase().split(/\s+/);
  const fits = operations.filter(({ path, method, operation }) => words.every((word) => `${method} ${path} ${operation.summary}`.toLowerCase().includes(word)));
  return html`<${Masthead} /><main class="page stack"><h1>${all.info.title} ${all.info.version}</h1><p>${all.info.description} <a href="/v1/openapi.json">The document itself</a>.</p>
    <label class="field"><span class="label">Find an operation</span><input class="input" type="search" value=${wanted} onInput=${(/** @type {any} */ event) => setWanted(event.target.value)} /></label>
    ${all.tags.map((/** @type {any} */ tag) => {
    const own = fits.filter(({ operation }) => operation.tags.includes(tag.name));
    return own.length > 0 && html`<section class="stack-s" key=${tag.name} aria-label=${`Operations: ${tag.name}`}><h2>${tag.name}</h2><p class="quiet">${tag.description}</p>
      ${own.map(({ path, method, operation }) => html`<${Operation} key=${operation.operationId} all=${all} method=${method} path=${path} operation=${operation} />`)}</section>`;
  })}
    <section class="stack-s" aria-label="Schemas"><h2>Schemas</h2>${Object.keys(all.components.schemas).sort().map((name) => html`<${Schema} key=${name} all=${all} name=${name} />`)}</section></main>`;
}

const root = document.getElementById('app');
if (root) {
  root.replaceChildren();
  render(html`<${Reference} />`, root);
}
