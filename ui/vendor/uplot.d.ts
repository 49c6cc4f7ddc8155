// What the user interface uses of this library, for the type checker.
declare class uPlot {
  constructor(options: object, data: number[][], place: HTMLElement);
  over: HTMLElement;
  select: { left: number; width: number };
  cursor: { idx: number | null | undefined };
  setData(data: number[][], resetScales?: boolean): void;
  setScale(key: string, limits: { min: number; max: number }): void;
  setSelect(select: { left: number; top: number; width: number; height: number }, fire?: boolean): void;
  setSize(size: { width: number; height: number }): void;
  posToVal(place: number, scale: string): number;
  destroy(): void;
}
export default uPlot;
