import { FileJson } from "lucide-react";
import type { ExportFormat } from "../../api/types";
import { Button } from "../../components/Button";
import { Menu } from "../../components/Menu";
import { formats } from "./ExportDialog";

/** A menu of export formats. */
export function ExportMenu({ onChoose }: { onChoose: (format: ExportFormat) => void }) {
  return <Menu trigger={<Button icon={<FileJson aria-hidden="true" />}>Export</Button>} items={formats.map(({ value, label }) => ({ label: `For ${label}`, onSelect: () => onChoose(value) }))} />;
}
