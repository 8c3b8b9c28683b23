import { BandChart, type Series } from "../../components/charts";
import { count, money, roundedMoney } from "../../format";
import { bucketLabel, bucketTitle, type Grain } from "./range";
import { type Bucket, largestOf, type Share, toNumber } from "./totals";

type SpendChartProps = {
  grain: Grain;
  buckets: Bucket[];
  /** Each bucket's parts by account. */
  parts: Share[];
  /** The previous period, bucket by bucket. */
  previous: string[] | undefined;
};

const colors = [1, 2, 3, 4, 6] as const;

/** Spend by day, week or month, stacked by account, with the previous period behind it. */
export function SpendChart({ grain, buckets, parts, previous }: SpendChartProps) {
  const series = parts.map(({ name }, i): Series => ({ name, color: name === "Other accounts" ? 6 : (colors[i] ?? 6) }));
  const peak = largestOf(buckets.map(({ usd }) => usd));
  const bands = buckets.map((each, i) => ({
    key: each.bucket,
    label: bucketLabel(each.bucket, grain),
    values: parts.map(({ usd }) => toNumber(usd[i] ?? "0")),
    ...(previous && { previous: toNumber(previous[i] ?? "0") }),
    readout: <Readout bucket={each} grain={grain} parts={parts} at={i} previous={previous?.[i]} />,
  }));
  const rows = buckets.map((each, i) => [bucketTitle(each.bucket, grain), money(each.usd), money(previous?.[i] ?? "0"), count(each.calls)]);
  return <BandChart label={`Spend by ${grain}`} bands={bands} series={series} tick={dollars} note={`Peak ${roundedMoney(peak)} per ${grain}`} table={{ columns: ["Period", "Spend", "Previous period", "Calls"], rows }} />;
}

type ReadoutProps = { bucket: Bucket; grain: Grain; parts: Share[]; at: number; previous: string | undefined };

function Readout({ bucket, grain, parts, at, previous }: ReadoutProps) {
  const paid = parts.length > 1 ? parts.filter(({ usd }) => Number(usd[at]) > 0) : [];
  return (
    <>
      <span className="strong">{bucketTitle(bucket.bucket, grain)}</span> {money(bucket.usd)}
      {paid.map(({ name, usd }) => <span key={name} className="faint"> · {name} {money(usd[at])}</span>)}
      {previous !== undefined && <span className="faint"> · previous {money(previous)}</span>}
      <span className="faint"> · {count(bucket.charged)} paid of {count(bucket.calls)} calls</span>
    </>
  );
}

/** Formats a tick with at least two decimal places, unless it is a whole number. */
function dollars(value: number): string {
  if (Number.isInteger(value)) return `$${count(value)}`;
  const text = value.toFixed(9).replace(/0+$/, "");
  return `$${(text.split(".")[1]?.length ?? 0) < 2 ? value.toFixed(2) : text}`;
}
