// A place that takes files, dropped or chosen.
import { html, useId, useState } from '../lib/view.js';

/** @param {{label: string, accept?: string, several?: boolean, take: (files: File[]) => void}} props */
export function DropZone({ label, accept, several = false, take }) {
  const id = useId();
  const [over, setOver] = useState(false);
  const given = (/** @type {FileList | null | undefined} */ list) => {
    const files = [...(list ?? [])];
    if (files.length) take(several ? files : files.slice(0, 1));
  };
  const drop = (/** @type {DragEvent} */ event) => {
    event.preventDefault();
    setOver(false);
    given(event.dataTransfer?.files);
  };
  return html`<div class=${over ? 'drop over' : 'drop'} onDragOver=${(/** @type {Event} */ event) => { event.preventDefault(); setOver(true); }} onDragLeave=${() => setOver(false)} onDrop=${drop}>
    <label for=${id}>${label}</label>
    <input id=${id} type="file" accept=${accept} multiple=${several} onChange=${(/** @type {any} */ event) => { given(event.currentTarget.files); event.currentTarget.value = ''; }} /></div>`;
}
