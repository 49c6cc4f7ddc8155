// A JSON Schema as a table that people can read, and what is wrong with a skill.
import { html } from '../lib/view.js';
import { t } from '../lib/i18n.js';

/** @param {any} schema @returns {string} */
export function typeOf(schema) {
  if (schema === true || schema === undefined) return t('schema.any');
  if (schema.enum) return schema.enum.map((/** @type {unknown} */ value) => JSON.stringify(value)).join(' | ');
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema['x-input-source'] === 'file' || schema['x-input-source'] === 'files') return t(`schema.${schema['x-input-source']}`);
  const type = Array.isArray(schema.type) ? schema.type.join(' | ') : schema.type;
  if (type === 'array') return t('schema.list', { of: typeOf(schema.items) });
  return type ?? (schema.oneOf || schema.anyOf ? (schema.oneOf ?? schema.anyOf).map(typeOf).join(' | ') : t('schema.any'));
}

/** The limits a schema sets, in few words. @param {any} schema */
export function limitsOf(schema) {
  const names = ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'minLength', 'maxLength', 'pattern', 'format', 'minItems', 'maxItems'];
  const said = names.filter((name) => schema?.[name] !== undefined).map((name) => t(`limit.${name}`, { n: schema[name] }));
  if (schema?.extensions) said.push(schema.extensions.join(', '));
  return said.join(', ');
}

/** The fields of a schema, those of nested objects below theirs. @param {any} schema @param {string} before @param {number} depth @returns {any[]} */
function fields(schema, before = '', depth = 0) {
  const inner = schema?.type === 'array' ? schema.items : schema;
  const properties = Object.entries(inner?.properties ?? {});
  if (depth > 6) return [];
  return properties.flatMap(([name, field]) => [{ name: before + name, field, required: inner.required?.includes(name) }, ...fields(field, `${before}${name}.`, depth + 1)]);
}

/** @param {{schema: any, empty: string, label: string}} props */
export function SchemaTable({ schema, empty, label }) {
  const rows = fields(schema);
  if (rows.length === 0) return html`<p class="quiet">${empty}</p>`;
  return html`<div class="scroll-x" tabindex="0" role="group" aria-label=${label}><table class="list"><thead><tr><th scope="col">${t('schema.field')}</th><th scope="col">${t('schema.type')}</th><th scope="col">${t('schema.about')}</th></tr></thead>
    <tbody>${rows.map(({ name, field, required }) => html`<tr key=${name}><td class="mono">${name}${required && html` <span class="tag">${t('schema.required')}</span>`}</td>
      <td class="any">${typeOf(field)}<div class="small quiet">${limitsOf(field)}</div></td>
      <td class="any">${field?.description ?? field?.title ?? ''}${field?.default !== undefined && html`<div class="small quiet">${t('schema.default')} <code>${JSON.stringify(field.default)}</code></div>`}</td></tr>`)}</tbody></table></div>`;
}

/** @param {{of: any[]}} props */
export function Findings({ of }) {
  return html`<ul class="bare stack-s">${of.map((finding, at) => html`<li key=${at} class=${`note ${finding.severity === 'error' ? 'bad' : 'warn'}`}>
    <p class="any">${finding.message}${finding.hint && html` <span class="quiet">${finding.hint}</span>`}</p>
    <p class="small quiet"><code>${finding.code}</code>${finding.file && html` · <code>${finding.file}${finding.pointer && `#${finding.pointer}`}</code>`}</p></li>`)}</ul>`;
}
