// What the user interface uses of this library, for the type checker.
declare const hljs: {
  configure(options: object): void;
  registerLanguage(name: string, grammar: object): void;
  getLanguage(name: string): object | undefined;
  highlight(text: string, options: { language: string; ignoreIllegals: boolean }): { _emitter: unknown };
};
export default hljs;
