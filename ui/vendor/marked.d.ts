// What the user interface uses of this library, for the type checker.
export const marked: { parse(text: string, options: object): string };
