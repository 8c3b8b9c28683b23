// Decides which of a table's columns fit into a given width, and how wide each one is.

export type Sized = {
  id: string;
  /** The minimum width in pixels. */
  min: number;
  /** The share of the spare width. If it is missing, the column keeps its minimum width. */
  grow?: number;
  /** Columns with the highest number are dropped first. A column that has no number always stays. */
  drop?: number;
};

export type Layout<C> = { columns: C[]; widths: number[]; /** The width of the table; larger than the available width if it scrolls. */ total: number };

/** Drops columns until the minimum widths fit, then distributes the spare width. */
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
