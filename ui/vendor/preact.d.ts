// What the user interface uses of this library, for the type checker.
export const h: any;
export const render: (what: any, into: Element) => void;
export const Fragment: any;
