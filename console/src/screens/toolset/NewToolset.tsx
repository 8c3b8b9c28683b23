import { useNavigate } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { Button } from "../../components/Button";
import { Dialog } from "../../components/Dialog";
import { TextField } from "../../components/Field";
import { nameHint, namePattern } from "./selection";

/** Asks for the name of a new toolset. Its tools are selected and saved in the editor. */
export function NewToolset({ open, onClose, names }: { open: boolean; onClose: () => void; names: string[] }) {
  const navigate = useNavigate();
  const [name, setName] = useState("");
  const nameError = name === "" ? undefined : !namePattern.test(name) ? `Use ${nameHint}.` : names.includes(name) ? "A toolset with this name already exists." : undefined;
  const create = (event: FormEvent) => {
    event.preventDefault();
    if (name !== "" && !nameError) void navigate({ to: "/toolsets/$name", params: { name }, search: { tab: "new" } });
  };
  return (
    <Dialog
      open={open}
      onClose={onClose}
      title="New toolset"
      description="A named selection of tools. Gates that use it offer only these tools."
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button variant="primary" type="submit" form="new-toolset" disabled={name === "" || nameError !== undefined}>Choose tools</Button>
        </>
      }
    >
      <form id="new-toolset" onSubmit={create}>
        <TextField label="Name" value={name} onChange={setName} hint={nameHint} error={nameError} required mono autoComplete="off" spellCheck={false} maxLength={32} />
      </form>
    </Dialog>
  );
}
