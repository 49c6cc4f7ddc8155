// What the user interface uses of this library, for the type checker.
export class Marked {
  constructor(options: object);
  parse(text: string): string;
}
