/** Round tick values from zero to at least the largest value. */
export function ticksOf(largest: number, { most = 4, whole = false }: { most?: number; whole?: boolean } = {}): number[] {
  const top = largest > 0 ? largest : 1;
  const power = 10 ** Math.floor(Math.log10(top / most));
  const steps = [1, 2, 2.5, 5, 10].map((step) => step * power).filter((step) => !whole || Number.isInteger(step));
  const step = steps.find((each) => Math.ceil(top / each) <= most) ?? Math.ceil(top / most);
  const count = Math.max(1, Math.ceil(top / step - 1e-9));
  return Array.from({ length: count + 1 }, (_, i) => Number((i * step).toPrecision(12)));
}

/** The bands that get a label, chosen so that centered labels do not overlap. */
export function labelledBands(count: number, bandWidth: number, labelWidth: number): number[] {
  const every = Math.max(1, Math.ceil((labelWidth + 14) / bandWidth));
  const inset = Math.max(0, Math.ceil(labelWidth / 2 / bandWidth - 0.5)); // number of bands to the right of the last label
  const last = Math.max(0, count - 1 - inset);
  return Array.from({ length: count }, (_, i) => i).filter((i) => i <= last && (last - i) % every === 0);
}
