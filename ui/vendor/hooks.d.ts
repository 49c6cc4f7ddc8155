// What the user interface uses of this library, for the type checker.
export function useState<T>(begin: T | (() => T)): [T, (next: T | ((old: T) => T)) => void];
export function useEffect(effect: () => void | (() => void), on?: unknown[]): void;
export function useLayoutEffect(effect: () => void | (() => void), on?: unknown[]): void;
export function useMemo<T>(make: () => T, on: unknown[]): T;
export function useRef<T>(begin: T): { current: T };
export function useCallback<T>(call: T, on: unknown[]): T;
export function useId(): string;
