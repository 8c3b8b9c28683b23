import { Download } from "lucide-react";
import { type ReactNode, useState } from "react";
import { isObject, type Json, type JsonObject } from "../../api/json";
import { Button } from "../../components/Button";
import { Code } from "../../components/Code";
import { JsonView } from "../../components/JsonView";
import { bytes, plural } from "../../format";
import { visible } from "../../format/visible";

const mostBlocks = 100;
const longestText = 200_000;
const largestData = 8 << 20; // characters of base64 that are shown as a picture

/** What a tool answered, block by block. Nothing of it is ever taken as HTML. */
export function Content({ content }: { content: JsonObject[] }) {
  if (content.length === 0) return <p className="faint">The answer has no content.</p>;
  return (
    <div className="stack-s">
      {content.slice(0, mostBlocks).map((block, i) => (
        <Block key={i} block={block} />
      ))}
      {content.length > mostBlocks && <p className="faint">{plural(content.length - mostBlocks, "more block")} are in the raw answer.</p>}
    </div>
  );
}

function Block({ block }: { block: JsonObject }) {
  const { type, text, data, mimeType, resource } = block;
  const media = typeof mimeType === "string" ? mimeType : "";
  if (type === "text" && typeof text === "string") return <Words text={text} />;
  if (type === "image" && typeof data === "string") return <Picture data={data} media={media} />;
  if (type === "audio" && typeof data === "string") return <Save data={data} media={media} name="audio" />;
  if (type === "resource_link") return <ResourceLink link={block} />;
  if (type === "resource" && isObject(resource)) return <Resource resource={resource} />;
  return <JsonView value={block} label="A block of another kind" />;
}

function Words({ text }: { text: string }) {
  return (
    <>
      <Code text={text.slice(0, longestText)} wrap label="Text" />
      {text.length > longestText && <p className="faint">{plural(text.length - longestText, "more character")} are in the raw answer.</p>}
    </>
  );
}

// Kinds of pictures that hold nothing but a picture.
const pictures = new Set(["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"]);

function Picture({ data, media }: { data: string; media: string }) {
  const [broken, setBroken] = useState(false);
  if (!pictures.has(media) || data.length > largestData || broken) return <Save data={data} media={media} name="image" />;
  return (
    <Framed title={`Image, ${media}, ${sizeOf(data)}`}>
      <img className="Content-image" src={`data:${media};base64,${data}`} alt="What the tool answered" onError={() => setBroken(true)} />
    </Framed>
  );
}

/** Data that is not shown can be saved as a file. */
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
    <Framed title={`${name[0]?.toUpperCase()}${name.slice(1)}, ${visible(media) || "of no said kind"}, ${sizeOf(data)}`}>
      {failed ? <p className="bad">It is not base64.</p> : <Button size="s" icon={<Download />} onClick={save}>Save as a file</Button>}
    </Framed>
  );
}

function ResourceLink({ link }: { link: JsonObject }) {
  const { uri, name, title, description } = link;
  const address = typeof uri === "string" ? uri : "";
  return (
    <Framed title={`Link to ${visible(words(title) ?? words(name) ?? "a resource")}`}>
      {/^https?:\/\//i.test(address) ? <a className="wrap-anywhere" href={address} target="_blank" rel="noopener noreferrer nofollow">{visible(address)}</a> : <code className="wrap-anywhere">{visible(address)}</code>}
      {words(description) && <p className="soft">{visible(words(description) ?? "")}</p>}
    </Framed>
  );
}

function Resource({ resource }: { resource: JsonObject }) {
  const { uri, text, blob, mimeType } = resource;
  const media = words(mimeType) ?? "";
  return (
    <Framed title={`Resource ${visible(words(uri) ?? "")}${media && `, ${visible(media)}`}`}>
      {typeof text === "string" && <Words text={text} />}
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

function words(value: Json | undefined): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}
