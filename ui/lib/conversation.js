// What of a log is conversation: messages, tools, progress, questions and answers, in order.

/**
 * One thing to show, made of one or more events.
 * @typedef {{key: number, seq: number, kind: string, ts: string, data: any, count: number}} Item
 */

/** @type {Record<string, string>} */
const KINDS = {
  'assistant.message.final': 'message',
  'assistant.reasoning': 'reasoning',
  'assistant.tool_call': 'tool',
  'assistant.command_execution': 'command',
  'run.progress': 'progress',
  'usage.reported': 'usage',
  'user.input.required': 'question',
  'interaction.reply.accepted': 'answer',
  'interaction.auto_decide.timeout': 'auto',
  'diagnostic.warning': 'warning',
  'run.recovered': 'recovered',
  'run.retry.scheduled': 'retry',
  'run.cancel.requested': 'cancel',
  'run.cache_hit': 'cache',
  'turn.started': 'turn',
  'conversation.completed': 'end',
  'conversation.failed': 'end',
};

/**
 * What a message says to people: the form of a question is left out, since the question follows as an event of its own.
 * @param {string} text
 */
export function words(text) {
  return text.replace(/<ASK_USER_YAML>[^]*?(<\/ASK_USER_YAML>|$)/g, '').trim();
}

/**
 * Adds what events say behind what was said before. Progress that follows progress replaces it.
 * @param {Item[]} items
 * @param {import('./run-log.js').Event[]} events
 * @returns {Item[]}
 */
export function extended(items, events) {
  const all = items.slice();
  for (const event of events) {
    const kind = KINDS[event.type];
    if (!kind || (kind === 'message' && !words(event.data.text))) continue;
    const last = all[all.length - 1];
    if (kind === 'progress' && last?.kind === 'progress') {
      all[all.length - 1] = { ...last, seq: event.seq, ts: event.ts, data: event.data, count: last.count + 1 };
    } else {
      all.push({ key: event.seq, seq: event.seq, kind, ts: event.ts, data: event.data, count: 1 });
    }
  }
  return all;
}

/**
 * One line on an event, for lists.
 * @param {import('./run-log.js').Event} event
 * @returns {string}
 */
export function summary({ type, data }) {
  switch (type) {
    case 'conversation.started': return `${data.skill?.id ?? ''} ${data.skill?.version ?? ''} · ${data.engine}`;
    case 'input.uploaded': return (data.files ?? []).map((/** @type {any} */ file) => file.file_name ?? file.name).join(', ');
    case 'conversation.state.changed': return `${data.from} → ${data.to}`;
    case 'turn.started': return (data.command ?? []).join(' ');
    case 'session.bound': return data.handle;
    case 'assistant.tool_call': return `${data.tool} ${JSON.stringify(data.input)}`;
    case 'assistant.command_execution': return data.command;
    case 'run.progress': return `${data.percent}% ${data.message}`;
    case 'usage.reported': return `${data.input_tokens} + ${data.output_tokens}`;
    case 'user.input.required': return data.prompt;
    case 'interaction.reply.accepted': return data.response_preview;
    case 'output.normalized': return `${data.level} · ${data.valid ? '✓' : '✕'} · ${data.source ?? ''}`;
    case 'artifact.indexed': return data.path_rel;
    case 'diagnostic.warning': return `${data.code}: ${data.message}`;
    case 'conversation.failed': return `${data.error?.code}: ${data.error?.message}`;
    case 'conversation.completed': return data.completion;
    default: return data?.text ?? data?.message ?? '';
  }
}
