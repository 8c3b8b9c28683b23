import { Fragment, useMemo } from "react";
import { Code } from "../../components/Code";
import { visible } from "../../format/visible";
import { type Inline, markdown, type MarkdownBlock } from "./markdown";
import "./Markdown.css";

/** Untrusted Markdown rendered as elements: no HTML, no images, links with their host. */
export function Markdown({ text }: { text: string }) {
  const blocks = useMemo(() => markdown(text), [text]);
  return <div className="Markdown">{blocks.map((block, i) => <Block key={i} block={block} />)}</div>;
}

function Block({ block }: { block: MarkdownBlock }) {
  switch (block.kind) {
    case "heading": return <p className={`Markdown-h${Math.min(block.level, 3)}`} role="heading" aria-level={Math.min(block.level + 2, 6)}><Parts list={block.inline} /></p>;
    case "text": return <p><Parts list={block.inline} /></p>;
    case "quote": return <blockquote><Parts list={block.inline} /></blockquote>;
    case "code": return <Code text={block.text} label="Code" />;
    case "rule": return <hr />;
    case "list": return block.ordered ? <ol start={block.start}>{block.items.map((item, i) => <li key={i}><Parts list={item} /></li>)}</ol> : <ul>{block.items.map((item, i) => <li key={i}><Parts list={item} /></li>)}</ul>;
    case "table": return <TableBlock head={block.head} rows={block.rows} />;
  }
}

function TableBlock({ head, rows }: { head: Inline[][]; rows: Inline[][][] }) {
  return (
    <div className="Markdown-table" tabIndex={0} role="region" aria-label="Table">
      <table>
        <thead><tr>{head.map((cell, i) => <th key={i}><Parts list={cell} /></th>)}</tr></thead>
        <tbody>{rows.map((row, i) => <tr key={i}>{row.map((cell, n) => <td key={n}><Parts list={cell} /></td>)}</tr>)}</tbody>
      </table>
    </div>
  );
}

function Parts({ list }: { list: Inline[] }) {
  return list.map((part, i) => <Fragment key={i}><Part part={part} /></Fragment>);
}

function Part({ part }: { part: Inline }) {
  const text = visible(part.text);
  switch (part.kind) {
    case "code": return <code>{text}</code>;
    case "strong": return <strong>{text}</strong>;
    case "em": return <em>{text}</em>;
    case "image": return <span className="faint">[Image {text && `“${text}” `}from {part.host}, not loaded]</span>;
    case "link": return <><a href={part.url} target="_blank" rel="noopener noreferrer nofollow">{text}</a>{!text.includes(part.host) && <span className="faint"> ({part.host})</span>}</>;
    default: return text;
  }
}
