import { Link, type LinkProps } from "@tanstack/react-router";
import {
  type ColumnDef,
  createSortedRowModel,
  type Row,
  rowSortingFeature,
  type SortingState,
  tableFeatures,
  useTable,
} from "@tanstack/react-table";
import { useVirtualizer } from "@tanstack/react-virtual";
import { ArrowDown, ArrowUp, ChevronsUpDown } from "lucide-react";
import { type ReactNode, useLayoutEffect, useMemo, useState } from "react";
import { Button } from "./Button";
import { type Layout, layoutOf, type Sized } from "./columns";
import { EmptyState, ErrorState, Skeleton } from "./States";
import "./Table.css";

type Sortable = string | number | bigint | undefined;

export type Column<T> = Sized & {
  /** Empty for an action column. */
  header: string;
  cell: (row: T) => ReactNode;
  /** The sort key. If it is missing, the column is not sortable. */
  value?: (row: T) => Sortable;
  align?: "left" | "right";
  /** Hidden on phones, where a row is a card. */
  wideOnly?: boolean;
};

/** The link target of a row. */
export type RowLink = Pick<LinkProps, "to" | "params" | "search">;

type TableProps<T> = {
  /** The accessible name. */
  label: string;
  columns: Column<T>[];
  rows: T[] | undefined;
  rowKey: (row: T) => string;
  /** Makes the row clickable with a link in its first column. */
  rowLink?: (row: T) => RowLink | undefined;
  error?: unknown;
  onRetry?: () => void;
  /** Shown when there are no rows. */
  empty?: ReactNode;
  sort?: { id: string; desc?: boolean };
  /** Set when the API has more rows. */
  more?: { load: () => void; loading: boolean };
  selected?: (row: T) => boolean;
};

const features = tableFeatures({ rowSortingFeature, sortedRowModel: createSortedRowModel() });
const virtualFrom = 100; // number of rows from which the body is virtualized
const rowHeight = 41;
const none: never[] = [];

/**
 * A table with sortable headings, linked rows, and a virtualized body for long lists. It renders
 * its own loading, error and empty states. Columns have minimum widths: columns that do not fit
 * are dropped by priority, and beyond that the table scrolls horizontally with a sticky first
 * column. On a phone each row is a card.
 */
export function Table<T extends object>(props: TableProps<T>) {
  const { rows, error, onRetry, empty } = props;
  if (error && !rows) return <ErrorState error={error} onRetry={onRetry} />;
  if (!rows) {
    return (
      <div className="Table-loading">
        <Skeleton lines={6} />
      </div>
    );
  }
  if (rows.length === 0) return empty ?? <EmptyState title="Nothing here yet" />;
  return <Rows {...props} rows={rows} />;
}

function Rows<T extends object>({ label, columns: all, rows, rowKey, rowLink, sort, more, selected }: TableProps<T> & { rows: T[] }) {
  const [sorting, setSorting] = useState<SortingState>(sort ? [{ id: sort.id, desc: sort.desc ?? false }] : none);
  const defs = useMemo(() => all.map((column) => definition(column)), [all]);
  const table = useTable({
    features,
    columns: defs,
    data: rows,
    getRowId: rowKey,
    state: { sorting },
    onSortingChange: setSorting,
  });
  const [scroller, setScroller] = useState<HTMLDivElement | null>(null); // state, not a ref: the virtualizer needs a render when it is set
  const { layout, scrolls } = useLayout(all, scroller);
  const { columns } = layout;
  const list = table.getRowModel().rows;
  const many = list.length > virtualFrom;
  return (
    <div className={["Table", many && "Table-many", scrolls && "Table-scrolls"].filter(Boolean).join(" ")} ref={setScroller}>
      <table role="table" aria-label={label} aria-rowcount={list.length + 1} style={{ width: layout.total }}>
        <Headings layout={layout} sorting={sorting} onSort={setSorting} />
        {many ? (
          <VirtualBody all={list} columns={columns} rowLink={rowLink} selected={selected} scroller={scroller} />
        ) : (
          <tbody role="rowgroup">
            {list.map((row, i) => (
              <TableRow key={row.id} index={i} row={row.original} columns={columns} rowLink={rowLink} selected={selected} />
            ))}
          </tbody>
        )}
      </table>
      {more && (
        <div className="Table-more">
          <Button size="s" variant="quiet" busy={more.loading} onClick={more.load}>
            Show more
          </Button>
        </div>
      )}
    </div>
  );
}

/** Fits the columns into the measured width. The cards on phones show all columns. */
function useLayout<T>(all: Column<T>[], scroller: HTMLDivElement | null): { layout: Layout<Column<T>>; scrolls: boolean } {
  const [room, setRoom] = useState(0);
  useLayoutEffect(() => {
    if (!scroller) return;
    const measure = () => setRoom(scroller.clientWidth);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(scroller);
    return () => observer.disconnect();
  }, [scroller]);
  const cards = room > 0 && window.matchMedia("(max-width: 720px)").matches;
  const layout = useMemo(() => layoutOf(all, cards || room === 0 ? Infinity : room), [all, room, cards]);
  return { layout, scrolls: !cards && layout.total > room };
}

function definition<T extends object>(column: Column<T>): ColumnDef<typeof features, T> {
  const { id, value } = column;
  return { id, accessorFn: value ?? (() => undefined), enableSorting: value !== undefined, sortFn: compareRows, sortUndefined: "last" };
}

function compareRows<T extends object>(a: Row<typeof features, T>, b: Row<typeof features, T>, id: string): number {
  const [x, y] = [a.getValue<Sortable>(id), b.getValue<Sortable>(id)];
  if (typeof x === "string" && typeof y === "string") return x.localeCompare(y, "en", { numeric: true });
  return x! < y! ? -1 : x! > y! ? 1 : 0;
}

/** Cycles through ascending, descending and the API's order. */
function nextSort(now: SortingState, id: string): SortingState {
  if (now[0]?.id !== id) return [{ id, desc: false }];
  return now[0].desc ? none : [{ id, desc: true }];
}

type HeadingsProps<T> = { layout: Layout<Column<T>>; sorting: SortingState; onSort: (next: SortingState) => void };

function Headings<T>({ layout: { columns, widths }, sorting: [sorted], onSort }: HeadingsProps<T>) {
  return (
    <>
      <colgroup>
        {columns.map((column, i) => (
          <col key={column.id} style={{ width: widths[i] }} />
        ))}
      </colgroup>
      <thead role="rowgroup">
        <tr role="row">
          {columns.map((column) => (
            <Heading
              key={column.id}
              column={column}
              sorted={sorted?.id === column.id ? (sorted.desc ? "descending" : "ascending") : undefined}
              onSort={() => onSort(nextSort(sorted ? [sorted] : none, column.id))}
            />
          ))}
        </tr>
      </thead>
    </>
  );
}

type HeadingProps<T> = { column: Column<T>; sorted: "ascending" | "descending" | undefined; onSort: () => void };

function Heading<T>({ column, sorted, onSort }: HeadingProps<T>) {
  const Icon = sorted === "ascending" ? ArrowUp : sorted === "descending" ? ArrowDown : ChevronsUpDown;
  return (
    <th role="columnheader" scope="col" aria-sort={sorted} data-min={column.min} className={cellClass(column)}>
      {column.value ? (
        <button type="button" className="Table-sort" onClick={onSort}>
          {column.header}
          <Icon aria-hidden="true" className={sorted ? "" : "Table-unsorted"} />
        </button>
      ) : (
        column.header || <span className="unseen">Actions</span>
      )}
    </th>
  );
}

type BodyProps<T extends object> = {
  all: Row<typeof features, T>[];
  columns: Column<T>[];
  rowLink: TableProps<T>["rowLink"];
  selected: TableProps<T>["selected"];
  scroller: HTMLDivElement | null;
};

function VirtualBody<T extends object>({ all, columns, rowLink, selected, scroller }: BodyProps<T>) {
  const rows = useVirtualizer({
    count: all.length,
    getScrollElement: () => scroller,
    estimateSize: () => rowHeight,
    getItemKey: (i) => all[i]?.id ?? i,
    overscan: 12,
  });
  const items = rows.getVirtualItems();
  const before = items[0]?.start ?? 0;
  const after = rows.getTotalSize() - (items.at(-1)?.end ?? 0);
  return (
    <tbody role="rowgroup">
      <Spacer height={before} columns={columns.length} />
      {items.map((item) => {
        const row = all[item.index];
        if (!row) return null;
        return (
          <TableRow key={row.id} index={item.index} row={row.original} columns={columns} rowLink={rowLink} selected={selected} measure={rows.measureElement} />
        );
      })}
      <Spacer height={after} columns={columns.length} />
    </tbody>
  );
}

function Spacer({ height, columns }: { height: number; columns: number }) {
  if (height <= 0) return null;
  return (
    <tr className="Table-spacer" aria-hidden="true">
      <td colSpan={columns} style={{ height }} />
    </tr>
  );
}

type TableRowProps<T> = {
  index: number;
  row: T;
  columns: Column<T>[];
  rowLink: ((row: T) => RowLink | undefined) | undefined;
  selected: ((row: T) => boolean) | undefined;
  measure?: (element: HTMLElement | null) => void;
};

function TableRow<T>({ index, row, columns, rowLink, selected, measure }: TableRowProps<T>) {
  const link = rowLink?.(row);
  const names = [link && "Table-linked", selected?.(row) && "Table-selected"].filter(Boolean).join(" ");
  return (
    <tr role="row" ref={measure} data-index={index} aria-rowindex={index + 2} className={names || undefined}>
      {columns.map((column, i) => (
        <td key={column.id} role="cell" className={cellClass(column)} data-label={column.header || undefined}>
          {i === 0 && link ? (
            <Link {...link} className="Table-link">
              {column.cell(row)}
            </Link>
          ) : (
            column.cell(row)
          )}
        </td>
      ))}
    </tr>
  );
}

function cellClass<T>(column: Column<T>): string | undefined {
  return [column.align === "right" && "Table-right", column.wideOnly && "Table-wide"].filter(Boolean).join(" ") || undefined;
}
