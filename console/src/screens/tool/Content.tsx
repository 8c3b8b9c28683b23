import { Download } from "lucide-react";
import { type ReactNode, useMemo, useState } from "react";
import { isObject, type Json, type JsonObject } from "../../api/json";
import { Button } from "../../components/Button";
import { Code } from "../../components/Code";
import { Segments } from "../../components/Segments";
import { JsonView } from "../../components/JsonView";
import { bytes, plural } from "../../format";
import { visible } from "../../format/visible";
import { Markdown } from "./Markdown";
import { isMarkdown } from "./markdown";

const maxBlocks = 100;
const maxTextLength = 200_000;
const maxDataLength = 8 << 20; // base64 characters in an image shown inline

/** A result's content blocks. Nothing is interpreted as HTML. */
export function Content({ content }: { content: JsonObject[] }) {
  if (content.length === 0) return <p className="faint">The result has no content.</p>;
  return (
    <div className="stack-s">
      {content.slice(0, maxBlocks).map((block, i) => (
        <Block key={i} block={block} />
      ))}
      {content.length > maxBlocks && <p className="faint">{plural(content.length - maxBlocks, "more block")} in the raw response.</p>}
    </div>
  );
}

function Block({ block }: { block: JsonObject }) {
  const { type, text, data, mimeType, resource } = block;
  const media = typeof mimeType === "string" ? mimeType : "";
  if (type === "text" && typeof text === "string") return <TextBlock text={text} />;
  if (type === "image" && typeof data === "string") return <Picture data={data} media={media} />;
  if (type === "audio" && typeof data === "string") return <Save data={data} media={media} name="audio" />;
  if (type === "resource_link") return <ResourceLink link={block} />;
  if (type === "resource" && isObject(resource)) return <Resource resource={resource} />;
  return <JsonView value={block} label="Content block" />;
}

/** A text block: JSON as a tree, Markdown rendered, other text unchanged. A switch shows the source. */
function TextBlock({ text }: { text: string }) {
  const [view, setView] = useState<"shown" | "source">("shown");
  const json = useMemo(() => jsonOf(text), [text]);
  const rendered = json !== undefined ? <JsonView value={json} label="JSON text" open={3} /> : isMarkdown(text) ? <Markdown text={text} /> : undefined;
  const cut = text.length > maxTextLength && <p className="faint">{plural(text.length - maxTextLength, "more character")} in the raw response.</p>;
  if (!rendered) return <><Code text={text.slice(0, maxTextLength)} wrap label="Text" />{cut}</>;
  return (
    <div className="stack-s">
      <div><Segments label="Text view" value={view} items={[{ value: "shown", label: json !== undefined ? "Parsed" : "Markdown" }, { value: "source", label: "Source" }]} onChange={setView} /></div>
      {view === "shown" ? rendered : <><Code text={text.slice(0, maxTextLength)} wrap label="Text" />{cut}</>}
    </div>
  );
}

/** Parses a text that is a JSON object or array. */
function jsonOf(text: string): Json | undefined {
  if (text.length > maxTextLength || !/^\s*[[{]/.test(text)) return undefined;
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}

// Image formats that have no scripts or references.
const pictures = new Set(["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"]);

function Picture({ data, media }: { data: string; media: string }) {
  const [broken, setBroken] = useState(false);
  if (!pictures.has(media) || data.length > maxDataLength || broken) return <Save data={data} media={media} name="image" />;
  return (
    <Framed title={`Image, ${media}, ${sizeOf(data)}`}>
      <img className="Content-image" src={`data:${media};base64,${data}`} alt="Image returned by the tool" onError={() => setBroken(true)} />
    </Framed>
  );
}

/** A download button for data that is not displayed. */
function Save({ data, media, name }: { data: string; media: string; name: string }) {
  const [failed, setFailed] = useState(false);
  const save = () => {
    try {
      const raw = Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
      const url = URL.createObjectURL(new Blob([raw], { type: "application/octet-stream" }));
      const link = Object.assign(document.createElement("a"), { href: url, download: name });
      link.click();
      URL.revokeObjectURL(url);
    } catch {
      setFailed(true);
    }
  };
  return (
    <Framed title={`${name[0]?.toUpperCase()}${name.slice(1)}, ${visible(media) || "unknown type"}, ${sizeOf(data)}`}>
      {failed ? <p className="bad">The data is not valid base64.</p> : <Button size="s" icon={<Download />} onClick={save}>Save as file</Button>}
    </Framed>
  );
}

function ResourceLink({ link }: { link: JsonObject }) {
  const { uri, name, title, description } = link;
  const address = typeof uri === "string" ? uri : "";
  return (
    <Framed title={`Link to ${visible(nonEmpty(title) ?? nonEmpty(name) ?? "a resource")}`}>
      {/^https?:\/\//i.test(address) ? <a className="wrap-anywhere" href={address} target="_blank" rel="noopener noreferrer nofollow">{visible(address)}</a> : <code className="wrap-anywhere">{visible(address)}</code>}
      {nonEmpty(description) && <p className="soft">{visible(nonEmpty(description) ?? "")}</p>}
    </Framed>
  );
}

function Resource({ resource }: { resource: JsonObject }) {
  const { uri, text, blob, mimeType } = resource;
  const media = nonEmpty(mimeType) ?? "";
  return (
    <Framed title={`Resource ${visible(nonEmpty(uri) ?? "")}${media && `, ${visible(media)}`}`}>
      {typeof text === "string" && <TextBlock text={text} />}
      {typeof blob === "string" && (pictures.has(media) ? <Picture data={blob} media={media} /> : <Save data={blob} media={media} name="resource" />)}
    </Framed>
  );
}

function Framed({ title, children }: { title: string; children: ReactNode }) {
  return (
    <div className="Content-framed">
      <p className="small faint wrap-anywhere">{title}</p>
      {children}
    </div>
  );
}

function sizeOf(base64: string): string {
  return bytes(Math.floor((base64.length * 3) / 4));
}

function nonEmpty(value: Json | undefined): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}
