// What the user interface uses of this library, for the type checker.
export interface Signal<T> { value: T; peek(): T }
export function signal<T>(begin: T): Signal<T>;
export function computed<T>(make: () => T): Signal<T>;
export function effect(run: () => void): () => void;
export function batch<T>(run: () => T): T;
export function useSignal<T>(begin: T): Signal<T>;
export function useComputed<T>(make: () => T): Signal<T>;
