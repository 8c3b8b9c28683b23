import { useQuery } from "@tanstack/react-query";
import { Download } from "lucide-react";
import { useState } from "react";
import { queries } from "../../api/queries";
import type { ExportFormat } from "../../api/types";
import { Button } from "../../components/Button";
import { Code } from "../../components/Code";
import { Dialog } from "../../components/Dialog";
import { Select } from "../../components/Select";
import { ErrorState, Skeleton } from "../../components/States";
import { bytes } from "../../format";

export const formats: { value: ExportFormat; label: string }[] = [
  { value: "openai", label: "OpenAI" },
  { value: "anthropic", label: "Anthropic" },
  { value: "gemini", label: "Gemini" },
  { value: "ai-sdk", label: "AI SDK" },
  { value: "openai-deferred", label: "OpenAI, with tool search" },
  { value: "anthropic-deferred", label: "Anthropic, with tool search" },
];

export function isFormat(text: string | undefined): text is ExportFormat {
  return formats.some((each) => each.value === text);
}

/** The export source: a toolset as seen at one of its gates, or a gate. */
export type Exported = { toolset: string; gates: string[] } | { gate: string };

type ExportDialogProps = { of: Exported; format: ExportFormat; unsaved?: boolean; onFormat: (format: ExportFormat) => void; onClose: () => void };

const maxPreview = 200_000; // number of characters shown; the download is complete

/** The tools as function definitions for a model API, to copy or download. */
export function ExportDialog({ of, format, unsaved = false, onFormat, onClose }: ExportDialogProps) {
  const [gate, setGate] = useState("gate" in of ? of.gate : (of.gates[0] ?? ""));
  const toolset = useQuery({ ...queries.toolsetExport("toolset" in of ? of.toolset : "", format, gate || undefined), enabled: "toolset" in of });
  const gates = useQuery({ ...queries.gateExport(gate, format), enabled: "gate" in of });
  const { data, error, refetch } = "toolset" in of ? toolset : gates;
  const name = "toolset" in of ? of.toolset : of.gate;
  const text = data === undefined ? undefined : JSON.stringify(data, null, 2);
  return (
    <Dialog
      open
      onClose={onClose}
      size="l"
      title={`Export ${name}`}
      description="Tool definitions in a model API's format. Send calls to the gate, or to POST /api/v1/calls."
      footer={<Footer text={text} file={`${name}.${format}.json`} onClose={onClose} />}
    >
      <div className="stack">
        <div className="grid-2">
          <Select label="Format" value={format} items={formats} onChange={onFormat} />
          {"toolset" in of && of.gates.length > 0 && <Select label="Gate" value={gate} items={of.gates.map((each) => ({ value: each, label: each }))} onChange={setGate} />}
        </div>
        {unsaved && <p className="warn">Unsaved changes are not included.</p>}
        {error ? <ErrorState error={error} onRetry={() => void refetch()} /> : text === undefined ? <Skeleton lines={8} /> : <Text text={text} />}
      </div>
    </Dialog>
  );
}

function Text({ text }: { text: string }) {
  if (text.length <= maxPreview) return <Code text={text} label="Definitions" />;
  return (
    <div className="stack-s">
      <p className="soft">Preview only. The download contains all {bytes(text.length)}.</p>
      <Code text={text.slice(0, maxPreview)} label="Preview of the definitions" copy={false} />
    </div>
  );
}

function Footer({ text, file, onClose }: { text: string | undefined; file: string; onClose: () => void }) {
  const download = () => {
    const url = URL.createObjectURL(new Blob([text ?? ""], { type: "application/json" }));
    const link = document.createElement("a");
    link.href = url;
    link.download = file;
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  };
  return (
    <>
      <Button onClick={onClose}>Close</Button>
      <Button variant="primary" icon={<Download aria-hidden="true" />} disabled={text === undefined} onClick={download}>Download {file}</Button>
    </>
  );
}
