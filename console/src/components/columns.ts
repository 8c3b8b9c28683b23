// Which columns of a table are shown in the room there is, and how wide each one is.

export type Sized = {
  id: string;
  /** The least width in pixels. */
  min: number;
  /** The share of the room that is left; without it the column keeps its least width. */
  grow?: number;
  /** Columns with the highest number are left out first; one without a number always stays. */
  drop?: number;
};

export type Layout<C> = { columns: C[]; widths: number[]; /** The whole width: more than the room if the table scrolls. */ total: number };

/** Leaves out columns until the least widths fit, then shares what is left. */
export function layoutOf<C extends Sized>(all: C[], room: number): Layout<C> {
  const columns = [...all];
  const least = () => columns.reduce((sum, column) => sum + column.min, 0);
  while (least() > room) {
    const next = columns.reduce<C | undefined>((found, column) => ((column.drop ?? 0) > (found?.drop ?? 0) ? column : found), undefined);
    if (!next) break;
    columns.splice(columns.indexOf(next), 1);
  }
  const total = Number.isFinite(room) ? Math.max(least(), room) : least();
  const shares = columns.reduce((sum, column) => sum + (column.grow ?? 0), 0);
  const rest = total - least();
  const widths = columns.map((column, i) => column.min + (shares > 0 ? (rest * (column.grow ?? 0)) / shares : i === 0 ? rest : 0));
  return { columns, widths, total };
}
