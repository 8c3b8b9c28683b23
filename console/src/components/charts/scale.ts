/** The top of an axis: the next round number, so that its half is one too. */
export function niceTop(largest: number): number {
  if (largest <= 4) return 4;
  const power = 10 ** Math.floor(Math.log10(largest));
  for (const step of power === 1 ? [6, 8, 10] : [1, 2, 3, 4, 5, 6, 8, 10]) {
    if (step * power >= largest) return step * power;
  }
  return 10 * power;
}
