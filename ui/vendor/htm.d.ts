// What the user interface uses of this library, for the type checker.
declare const htm: { bind(h: any): (strings: TemplateStringsArray, ...values: any[]) => any };
export default htm;
