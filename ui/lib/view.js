// What every component is written with: Preact, htm and signals.
import { h, render, Fragment } from '../vendor/preact.js';
import htm from '../vendor/htm.js';

export { render, Fragment };
export { useState, useEffect, useLayoutEffect, useMemo, useRef, useCallback, useId } from '../vendor/hooks.js';
export { signal, computed, effect, batch, useSignal, useComputed } from '../vendor/signals.js';

/** Templates that become elements; text in them is always text. */
export const html = htm.bind(h);
