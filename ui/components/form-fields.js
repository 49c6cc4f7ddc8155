// Fields made from a JSON Schema: text, numbers, choices, switches, lists, objects, and JSON for the rest.
import { html, useId, useState, useRef } from '../lib/view.js';
import { t } from '../lib/i18n.js';
import { bytes } from '../lib/format.js';
import { limitsOf } from './schema-table.js';

/** The value a new field begins with. @param {any} schema @returns {any} */
export function initial(schema) {
  if (schema?.default !== undefined) return structuredClone(schema.default);
  if (schema?.const !== undefined) return schema.const;
  if (schema?.type === 'object' && schema.properties) {
    const begun = Object.entries(schema.properties).map(([name, field]) => [name, initial(field)]).filter(([, value]) => value !== undefined);
    return begun.length ? Object.fromEntries(begun) : undefined;
  }
  return undefined;
}

/** Whether a field is uploaded. @param {any} schema */
export function isFile(schema) {
  return schema?.['x-input-source'] === 'file' || schema?.['x-input-source'] === 'files';
}

/** The type a field is drawn for. @param {any} schema */
function shape(schema) {
  if (schema?.enum) return 'enum';
  const types = (Array.isArray(schema?.type) ? schema.type : [schema?.type]).filter((/** @type {string} */ type) => type !== 'null');
  const [type] = types;
  if (types.length !== 1) return 'json';
  if (type === 'object') return schema.properties ? 'object' : 'json';
  if (type === 'array') return schema.items && !Array.isArray(schema.items) ? 'array' : 'json';
  return ['string', 'number', 'integer', 'boolean'].includes(type) ? type : 'json';
}

/**
 * @typedef {{name: string, schema: any, path: string, value: any, set: (value: any) => void, required?: boolean, errors: Record<string, string[]>}} FieldProps
 */

/** A field with its label, help and what is wrong with it. @param {FieldProps} props */
export function Field(props) {
  const { name, schema, path, value, required, errors } = props;
  const id = useId();
  const kind = shape(schema);
  const wrong = errors[path] ?? [];
  const help = [schema?.description, limitsOf(schema)].filter(Boolean).join(' · ');
  const about = `${id}-help`;
  const mark = required ? html`<span class="small quiet">${t('schema.required')}</span>` : null;
  const notes = html`<div id=${about}>${help && html`<p class="help">${help}</p>`}${wrong.map((message) => html`<p class="wrong" key=${message}>${message}</p>`)}</div>`;
  const control = { ...props, id, about, invalid: wrong.length > 0 };
  if (kind === 'object' || kind === 'array') {
    return html`<fieldset class="group"><legend>${schema.title ?? name} ${mark}</legend>${notes}${kind === 'object' ? html`<${ObjectFields} ...${control} />` : html`<${ListFields} ...${control} />`}</fieldset>`;
  }
  if (kind === 'boolean') {
    return html`<div class="field"><label class="check"><input type="checkbox" id=${id} checked=${value === true} aria-describedby=${about} onChange=${(/** @type {any} */ event) => props.set(event.currentTarget.checked)} />${schema.title ?? name}</label>${notes}</div>`;
  }
  return html`<div class="field"><label class="label" for=${id}>${schema?.title ?? name} ${mark}</label>${one(kind, control)}${notes}</div>`;
}

/** @param {string} kind @param {any} props */
function one(kind, { id, about, schema, value, set, invalid, required }) {
  const same = { id, 'aria-describedby': about, 'aria-invalid': invalid ? 'true' : undefined, 'aria-required': required ? 'true' : undefined };
  if (kind === 'enum') {
    const at = schema.enum.findIndex((/** @type {any} */ option) => JSON.stringify(option) === JSON.stringify(value));
    return html`<select class="select" ...${same} onChange=${(/** @type {any} */ event) => set(event.currentTarget.value === '' ? undefined : schema.enum[Number(event.currentTarget.value)])}>
      <option value="" selected=${at < 0}>${t('form.choose')}</option>${schema.enum.map((/** @type {any} */ option, /** @type {number} */ place) => html`<option key=${place} value=${place} selected=${at === place}>${typeof option === 'string' ? option : JSON.stringify(option)}</option>`)}</select>`;
  }
  if (kind === 'number' || kind === 'integer') {
    const read = (/** @type {any} */ event) => {
      const text = event.currentTarget.value.trim();
      const number = Number(text);
      // What is no number is sent as it is, so that the service says what is wrong with it.
      set(text === '' ? undefined : Number.isFinite(number) ? number : text);
    };
    return html`<input class="input" type="text" inputmode=${kind === 'integer' ? 'numeric' : 'decimal'} ...${same} value=${value ?? ''} onInput=${read} />`;
  }
  if (kind === 'string') {
    const text = (/** @type {any} */ event) => set(event.currentTarget.value === '' ? undefined : event.currentTarget.value);
    const long = (schema.maxLength ?? 0) > 200 || ['prompt', 'text', 'markdown'].includes(schema.format ?? '') || (schema.maxLength === undefined && !schema.format && !schema.pattern);
    return long ? html`<textarea class="area text" rows=${Math.min(8, Math.max(2, String(value ?? '').split('\n').length))} ...${same} value=${value ?? ''} onInput=${text}></textarea>`
      : html`<input class="input" type="text" ...${same} value=${value ?? ''} onInput=${text} />`;
  }
  return html`<${JsonInput} same=${same} value=${value} set=${set} />`;
}

/** @param {any} props */
function JsonInput({ same, value, set }) {
  const [text, setText] = useState(() => (value === undefined ? '' : JSON.stringify(value, null, 2)));
  const [broken, setBroken] = useState('');
  const read = (/** @type {any} */ event) => {
    const written = event.currentTarget.value;
    setText(written);
    try {
      set(written.trim() === '' ? undefined : JSON.parse(written));
      setBroken('');
    } catch (error) {
      setBroken(t('form.notjson', { why: /** @type {Error} */ (error).message }));
    }
  };
  return html`<textarea class="area" rows="4" spellcheck=${false} ...${same} value=${text} onInput=${read}></textarea>${broken && html`<p class="wrong">${broken}</p>`}`;
}

/** The fields of an object. @param {any} props */
export function ObjectFields({ schema, path, value, set, errors, skip = () => false }) {
  const names = Object.keys(schema.properties ?? {}).filter((name) => !skip(schema.properties[name]));
  const change = (/** @type {string} */ name) => (/** @type {any} */ inner) => {
    const changed = { ...(value ?? {}) };
    if (inner === undefined) delete changed[name];
    else changed[name] = inner;
    set(Object.keys(changed).length === 0 && path !== '' ? undefined : changed);
  };
  return html`<div class="stack">${names.map((name) => html`<${Field} key=${name} name=${name} schema=${schema.properties[name]} path=${`${path}/${escape(name)}`} value=${value?.[name]} set=${change(name)} required=${schema.required?.includes(name)} errors=${errors} />`)}</div>`;
}

/** @param {any} props */
function ListFields({ schema, path, value, set, errors }) {
  const list = Array.isArray(value) ? value : [];
  const at = (/** @type {number} */ place, /** @type {any} */ inner) => set(list.map((old, index) => (index === place ? inner ?? null : old)));
  const remove = (/** @type {number} */ place) => set(list.length === 1 ? undefined : list.filter((_, index) => index !== place));
  const add = () => set([...list, initial(schema.items) ?? empty(schema.items)]);
  return html`<div class="stack-s">${list.map((inner, place) => html`<div class="row top" key=${place}><div class="grow"><${Field} name=${String(place + 1)} schema=${schema.items} path=${`${path}/${place}`} value=${inner ?? undefined} set=${(/** @type {any} */ changed) => at(place, changed)} errors=${errors} /></div>
    <button type="button" class="button s" onClick=${() => remove(place)} aria-label=${t('form.remove', { n: place + 1 })}>✕</button></div>`)}
    <div><button type="button" class="button s" onClick=${add}>${t('form.add')}</button></div></div>`;
}

/** @param {any} schema */
function empty(schema) {
  return { string: '', object: {}, array: [], boolean: false }[/** @type {string} */ (schema?.type)] ?? null;
}

function escape(/** @type {string} */ name) {
  return name.replaceAll('~', '~0').replaceAll('/', '~1');
}

/**
 * A field that takes files, dropped or chosen.
 * @param {{name: string, schema: any, required: boolean, files: File[], set: (files: File[]) => void, kept?: string, errors: Record<string, string[]>}} props
 */
export function FileField({ name, schema, required, files, set, kept, errors }) {
  const id = useId();
  const [over, setOver] = useState(false);
  const input = useRef(/** @type {HTMLInputElement | null} */ (null));
  const several = schema['x-input-source'] === 'files';
  const take = (/** @type {FileList | null | undefined} */ list) => {
    const taken = [...(list ?? [])];
    if (taken.length) set(several ? [...files, ...taken] : taken.slice(0, 1));
  };
  const drop = (/** @type {DragEvent} */ event) => {
    event.preventDefault();
    setOver(false);
    take(event.dataTransfer?.files);
  };
  const help = [schema.description, limitsOf(schema)].filter(Boolean).join(' · ');
  return html`<div class="field"><label class="label" for=${id}>${schema.title ?? name} ${required && html`<span class="small quiet">${t('schema.required')}</span>`}</label>
    <div class=${over ? 'drop over' : 'drop'} onDragOver=${(/** @type {Event} */ event) => { event.preventDefault(); setOver(true); }} onDragLeave=${() => setOver(false)} onDrop=${drop}>
      ${files.map((file, at) => html`<div class="row" key=${file.name + at}><span class="mono any">${file.name}</span><span class="quiet small">${bytes(file.size)}</span><button type="button" class="copy" onClick=${() => set(files.filter((_, index) => index !== at))} aria-label=${t('form.removefile', { name: file.name })}>✕</button></div>`)}
      ${files.length === 0 && kept && html`<p class="small">${t('form.kept', { name: kept })}</p>`}
      <p class="quiet small">${t(several ? 'form.dropmany' : 'form.drop')}</p>
      <input ref=${input} id=${id} type="file" multiple=${several} aria-describedby=${`${id}-help`} onChange=${(/** @type {any} */ event) => { take(event.currentTarget.files); event.currentTarget.value = ''; }} />
    </div><div id=${`${id}-help`}>${help && html`<p class="help">${help}</p>`}${(errors[`/${name}`] ?? []).map((message) => html`<p class="wrong" key=${message}>${message}</p>`)}</div></div>`;
}
