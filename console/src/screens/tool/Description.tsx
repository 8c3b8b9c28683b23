import { useState } from "react";
import { visible } from "../../format/visible";

const foldFrom = 420; // number of characters
const foldFromLines = 6; // number of lines

/** A tool's description. Long descriptions are folded. */
export function Description({ text }: { text: string }) {
  const [open, setOpen] = useState(false);
  if (text.trim() === "") return <p className="faint">No description.</p>;
  const isLong = text.length > foldFrom || text.split("\n").length > foldFromLines;
  return (
    <div className="Description">
      <p className={isLong && !open ? "Description-text Description-folded" : "Description-text"}>{visible(text)}</p>
      {isLong && <button type="button" className="Description-more" aria-expanded={open} onClick={() => setOpen(!open)}>{open ? "Less" : "More"}</button>}
    </div>
  );
}
