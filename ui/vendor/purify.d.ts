// What the user interface uses of this library, for the type checker.
declare const purify: { sanitize(html: string, options: object): unknown };
export default purify;
