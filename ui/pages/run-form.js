// The form that runs a skill: fields from its schemas, how to run it, and the same as a command.
import { html, useEffect, useMemo, useState } from '../lib/view.js';
import { t } from '../lib/i18n.js';
import { api, runPath, useApi } from '../lib/api.js';
import { go, href, place } from '../lib/router.js';
import { cli, curl, python, typescript } from '../lib/equivalents.js';
import { Card, Code, Loading, Problem, Tabs } from '../components/basic.js';
import { FileField, ObjectFields, initial, isFile } from '../components/form-fields.js';
import { RunTable } from './home.js';

const NUMBERS = ['hard_timeout_seconds', 'stall_timeout_seconds', 'interactive_reply_timeout_sec'];
/** How long somebody does not write before the request is checked. */
const CHECK_MS = 350;
const SWITCHES = ['no_cache', 'debug', 'interactive_auto_reply'];

/** The fields of a schema that are filled in here or uploaded. @param {any} schema @param {boolean} files */
function part(schema, files) {
  return Object.entries(schema?.properties ?? {}).filter(([, field]) => isFile(field) === files);
}

/** Messages of a refusal by the path of their field. @param {any} error @param {'input' | 'parameter'} place */
function messages(error, place) {
  /** @type {Record<string, string[]>} */
  const found = {};
  for (const { path, message } of error?.details ?? []) {
    if (path !== `/${place}` && !path?.startsWith(`/${place}/`)) continue;
    // What is missing is told of the object; it is shown at the field.
    const missing = MISSING.exec(message);
    const at = `${path}${missing ? `/${missing[1]}` : ''}`.slice(`/${place}`.length);
    (found[at] ??= []).push(message);
  }
  return found;
}

const MISSING = /^"([^"]+)" is a required property$/;

/**
 * What the service would say to this request, asked while it is written. What is missing is not told before it is sent.
 * @param {any} body none: it cannot be asked
 */
function useCheck(body) {
  const [wrong, setWrong] = useState(/** @type {any} */ (null));
  const text = JSON.stringify(body);
  const [begun] = useState(text);
  useEffect(() => {
    if (text === begun || !body) {
      setWrong(null);
      return undefined;
    }
    const abort = new AbortController();
    const timer = setTimeout(() => {
      const refused = (/** @type {any} */ error) => {
        if (!abort.signal.aborted && error.code) setWrong({ details: error.details.filter((/** @type {any} */ one) => !MISSING.test(one.message)) });
      };
      api('/v1/jobs/check', { json: body, signal: abort.signal }).then(() => setWrong(null), refused);
    }, CHECK_MS);
    return () => { clearTimeout(timer); abort.abort(); };
  }, [text]);
  return wrong;
}

/** @param {{id: string}} props */
export function RunForm({ id }) {
  const skill = useApi(`/v1/management/skills/${encodeURIComponent(id)}`);
  const from = place.value.query.get('from');
  const before = useApi(from ? runPath(from, '/events/history?limit=2') : null);
  if (skill.error || before.error) return html`<div class="page stack"><h1>${id}</h1><${Problem} error=${skill.error ?? before.error} /></div>`;
  if (!skill.data || (from && !before.data)) return html`<div class="page"><h1 class="out">${id}</h1><${Loading} /></div>`;
  return html`<${Filled} key=${from ?? ''} skill=${skill.data} from=${from} events=${before.data?.events ?? []} />`;
}

/**
 * The form, with what an earlier run was asked for. A package that comes with the run is sent with its files, and stays uninstalled.
 * @param {{skill: any, from: string | null, events: any[], packed?: File}} props
 */
export function Filled({ skill, from, events, packed }) {
  const asked = events[0]?.data;
  const uploaded = events.find((event) => event.type === 'input.uploaded')?.data.files ?? [];
  const [input, setInput] = useState(() => asked?.input ?? initial({ ...skill.schemas.input, type: 'object', properties: Object.fromEntries(part(skill.schemas.input, false)) }) ?? {});
  const [parameter, setParameter] = useState(() => asked?.parameter ?? initial({ ...skill.schemas.parameter, type: 'object', properties: skill.schemas.parameter.properties ?? {} }) ?? {});
  const [files, setFiles] = useState(/** @type {Record<string, File[]>} */ ({}));
  const [how, setHow] = useState(() => ({ engine: from ? asked.engine : '', model: asked?.model ?? '', mode: asked?.execution_mode ?? skill.execution_modes[0] ?? 'auto', label: '' }));
  const [options, setOptions] = useState(/** @type {Record<string, any>} */ ({}));
  const [error, setError] = useState(/** @type {any} */ (null));
  const [sending, setSending] = useState(false);
  const engines = useApi('/v1/management/engines');
  const models = useApi(how.engine && how.engine !== 'script' ? `/v1/engines/${encodeURIComponent(how.engine)}/models` : null);
  const runs = useApi(packed ? null : `/v1/management/runs?skill_id=${encodeURIComponent(skill.id)}&limit=5`, { every: 3000 });

  const body = useMemo(() => {
    /** @type {any} */
    const made = packed ? {} : { skill_id: skill.id };
    if (Object.keys(input).length) made.input = input;
    if (Object.keys(parameter).length) made.parameter = parameter;
    if (how.engine) made.engine = how.engine;
    if (how.model) made.model = how.model;
    const set = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined && value !== false && value !== ''));
    if (how.mode !== 'auto') set.execution_mode = how.mode;
    if (Object.keys(set).length) made.runtime_options = set;
    const [name, ...value] = how.label.split(':');
    if (name && value.length) made.labels = { [name.trim()]: value.join(':').trim() };
    return made;
  }, [input, parameter, how, options]);
  const chosen = Object.entries(files).flatMap(([name, list]) => list.map((file) => ({ name, file })));
  if (packed) chosen.unshift({ name: 'skill_package', file: packed });

  const wrong = useCheck(packed ? null : body);
  const send = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setSending(true);
    setError(null);
    try {
      let job;
      const keeps = from && uploaded.length > 0 && chosen.length === 0;
      // Files of the earlier run are used again by the service itself.
      if (keeps) job = await api(runPath(from, '/rerun'), { json: { ...body, input, parameter } });
      else if (packed) job = await api('/v1/temp-skill-runs', { json: body });
      else if (chosen.length) job = await api('/v1/jobs', { json: { ...body, await_upload: true } });
      else job = await api('/v1/jobs', { json: body });
      if (chosen.length) {
        const form = new FormData();
        for (const { name, file } of chosen) form.append(name, file, file.name);
        try {
          await api(packed ? `/v1/temp-skill-runs/${encodeURIComponent(job.request_id)}/upload` : runPath(job.request_id, '/upload'), { form });
        } catch (refused) {
          // The run was made and waits for files; one that gets none is of no use.
          await api(runPath(job.request_id, '/cancel'), { json: {} }).catch(() => {});
          throw refused;
        }
      }
      go(href(['runs', job.request_id]));
    } catch (refused) {
      setError(refused);
      setSending(false);
    }
  };
  // The first wrong field is where the work goes on.
  useEffect(() => { if (error) /** @type {HTMLElement | null} */ (document.querySelector('[aria-invalid="true"], .note.bad'))?.scrollIntoView({ block: 'center' }); }, [error]);
  const keys = (/** @type {KeyboardEvent} */ event) => { if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) send(event); };
  const fileFields = part(skill.schemas.input, true);
  const inlineFields = part(skill.schemas.input, false);
  // What is written now counts more than what was sent.
  const shown = wrong ?? error;
  const [inputErrors, parameterErrors] = [messages(shown, 'input'), messages(shown, 'parameter')];
  const known = Object.keys(messages(error, 'input')).length + Object.keys(messages(error, 'parameter')).length > 0;
  const loose = inlineFields.length === 0 && fileFields.length === 0;
  return html`<div class="page stack">
    <div class="row"><div class="grow"><h1>${t('form.title', { skill: skill.name })}</h1><p class="small quiet mono">${skill.id} · ${skill.version}</p></div>${!packed && html`<a href=${href(['skills', skill.id])}>${t('form.about')}</a>`}</div>
    ${from && html`<p class="note">${t('form.from')} <a href=${href(['runs', from])}>${from}</a></p>`}
    <div class="two form">
      <form class="stack" onSubmit=${send} onKeyDown=${keys} noValidate>
        <${Card} title=${t('skill.input')}><div class="stack">
          ${loose && html`<p class="quiet">${t('skill.noinput')}</p>`}
          ${fileFields.map(([name, field]) => html`<${FileField} key=${name} name=${name} schema=${field} required=${skill.schemas.input.required?.includes(name)} files=${files[name] ?? []} set=${(/** @type {File[]} */ list) => setFiles({ ...files, [name]: list })} kept=${uploaded.find((/** @type {any} */ file) => file.name === name)?.file_name} errors=${inputErrors} />`)}
          <${ObjectFields} schema=${skill.schemas.input} path="" value=${input} set=${setInput} errors=${inputErrors} skip=${isFile} /></div><//>
        ${Object.keys(skill.schemas.parameter.properties ?? {}).length > 0 && html`<${Card} title=${t('skill.parameter')}><${ObjectFields} schema=${skill.schemas.parameter} path="" value=${parameter} set=${setParameter} errors=${parameterErrors} /><//>`}
        <${How} skill=${skill} how=${how} set=${setHow} options=${options} setOptions=${setOptions} engines=${engines.data?.engines ?? []} models=${models.data?.models ?? []} />
        ${error && html`<${Problem} error=${error} />${known ? null : html`<ul class="bare small">${(error.details ?? []).map((/** @type {any} */ one) => html`<li key=${one.path}><code>${one.path}</code> ${one.message}</li>`)}</ul>`}`}
        <div class="row"><button type="submit" class="button main" disabled=${sending}>${sending ? t('form.sending') : t('action.run')}</button><span class="small quiet"><kbd>Ctrl</kbd> <kbd>Enter</kbd></span></div>
      </form>
      <div class="stack">${packed ? html`<${Card} title=${t('e2e.packed')}><p>${t('e2e.packedtext', { name: packed.name })}</p><//>` : html`<${Equivalents} body=${body} files=${fileFields.flatMap(([name, field]) => ((files[name]?.length ? files[name] : [{ name: `${name}${/** @type {any} */ (field).extensions?.[0] ?? ''}` }]).map((file) => ({ name, file: file.name }))))} />`}</div>
    </div>
    ${runs.data?.jobs?.length > 0 && html`<${Card} title=${t('skill.runs')} flush><${RunTable} jobs=${runs.data.jobs} /><//>`}
  </div>`;
}

/** Engine, model, mode and options. @param {any} props */
function How({ skill, how, set, options, setOptions, engines, models }) {
  const ready = (/** @type {string} */ name) => name === 'script' || engines.find((/** @type {any} */ engine) => engine.engine === name)?.installed;
  const allowed = skill.models?.[how.engine];
  const names = allowed ?? models.map((/** @type {any} */ model) => model.id);
  return html`<${Card} title=${t('form.how')}><div class="stack">
    <div class="pair">
      <div class="field"><label class="label" for="engine">${t('column.engine')}</label><select id="engine" class="select" onChange=${(/** @type {any} */ event) => set({ ...how, engine: event.currentTarget.value, model: '' })}>
        <option value="" selected=${how.engine === ''}>${t('form.firstengine')}</option>${skill.effective_engines.map((/** @type {string} */ name) => html`<option key=${name} value=${name} selected=${how.engine === name}>${name}${ready(name) ? '' : ` (${t('engine.missing')})`}</option>`)}</select></div>
      <div class="field"><label class="label" for="mode">${t('form.mode')}</label><select id="mode" class="select" onChange=${(/** @type {any} */ event) => set({ ...how, mode: event.currentTarget.value })}>
        ${skill.execution_modes.map((/** @type {string} */ mode) => html`<option key=${mode} value=${mode} selected=${how.mode === mode}>${t(`mode.${mode}`)}</option>`)}</select></div>
      <div class="field"><label class="label" for="model">${t('form.model')}</label><input id="model" class="input" list="models" value=${how.model} disabled=${!how.engine || how.engine === 'script'} placeholder=${t('form.defaultmodel')} onInput=${(/** @type {any} */ event) => set({ ...how, model: event.currentTarget.value })} />
        <datalist id="models">${names.map((/** @type {string} */ name) => html`<option key=${name} value=${name}></option>`)}</datalist></div>
      <div class="field"><label class="label" for="label">${t('form.label')}</label><input id="label" class="input" value=${how.label} placeholder="team:x" onInput=${(/** @type {any} */ event) => set({ ...how, label: event.currentTarget.value })} /></div>
    </div>
    <details><summary>${t('form.options')}</summary><div class="pair gap">
      ${NUMBERS.map((name) => html`<div class="field" key=${name}><label class="label" for=${name}>${t(`option.${name}`)}</label><input id=${name} class="input" inputmode="numeric" value=${options[name] ?? ''} placeholder=${t('form.default')} onInput=${(/** @type {any} */ event) => { const text = event.currentTarget.value.trim(); setOptions({ ...options, [name]: text === '' ? undefined : Number.isFinite(Number(text)) ? Number(text) : text }); }} /></div>`)}
      <div class="stack-s">${SWITCHES.map((name) => html`<label class="check" key=${name}><input type="checkbox" checked=${options[name] === true} onChange=${(/** @type {any} */ event) => setOptions({ ...options, [name]: event.currentTarget.checked })} />${t(`option.${name}`)}</label>`)}</div>
    </div></details></div><//>`;
}

/** @type {Record<string, string>} */
const LANGUAGES = { curl: 'bash', cli: 'bash', python: 'python', typescript: 'typescript' };

/** @param {{body: any, files: {name: string, file: string}[]}} props */
function Equivalents({ body, files }) {
  const [chosen, choose] = useState('curl');
  const ways = { curl, cli, python, typescript };
  const text = /** @type {any} */ (ways)[chosen]({ origin: location.origin, body, files });
  const tabs = [{ id: 'curl', name: 'curl' }, { id: 'cli', name: 'CLI' }, { id: 'python', name: 'Python' }, { id: 'typescript', name: 'TypeScript' }];
  return html`<${Card} title=${t('form.same')} tools=${html`<${Tabs} label=${t('form.same')} tabs=${tabs} chosen=${chosen} choose=${choose} />`}><div role="tabpanel" aria-label=${chosen}><${Code} text=${text} label=${chosen} language=${LANGUAGES[chosen]} /></div><//>`;
}
