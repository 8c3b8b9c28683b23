import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { runPackAction } from "../../api/actions";
import { isObject, type JsonObject } from "../../api/json";
import type { PackAction } from "../../api/types";
import { Button } from "../../components/Button";
import { Code } from "../../components/Code";
import { Dialog } from "../../components/Dialog";
import { ErrorNote } from "../../components/States";
import { visible } from "../../format/visible";
import { Arguments, type Prepared } from "../tool/Arguments";
import { check, type Fault } from "../tool/check";
import { formSchema, NotFormable } from "../tool/formSchema";
import { isFailure, textOf } from "./result";
import "../tool/TryIt.css";

type ActionDialogProps = { pack: string; action: PackAction; onClose: () => void };

/** Asks for an action's arguments, and for confirmation if it changes something, and runs it. */
export function ActionDialog({ pack, action, onClose }: ActionDialogProps) {
  const schema = isObject(action.inputSchema) ? action.inputSchema : emptySchema;
  const prepared = useMemo(() => prepare(schema), [schema]);
  const [args, setArgs] = useState<JsonObject | undefined>({});
  const [faults, setFaults] = useState<Fault[]>([]);
  const [confirming, setConfirming] = useState(false);
  const client = useQueryClient();
  const run = useMutation({
    mutationFn: () => runPackAction(pack, action.name, args ?? {}),
    onSettled: () => {
      setConfirming(false);
      void client.invalidateQueries();
    },
  });
  const next = () => {
    if (!args) return;
    const found = prepared.form ? check(schema, args) : [];
    setFaults(found);
    if (found.length > 0) return;
    if (action.readOnly || confirming) run.mutate();
    else setConfirming(true);
  };
  return (
    <Dialog
      open
      stay
      onClose={onClose}
      title={visible(action.title ?? action.name)}
      description={visible(action.description)}
      footer={
        run.isSuccess ? (
          <Button onClick={onClose}>Close</Button>
        ) : (
          <>
            <Button onClick={confirming ? () => setConfirming(false) : onClose}>{confirming ? "Back" : "Cancel"}</Button>
            <Button variant={confirming ? "danger" : "primary"} busy={run.isPending} disabled={!args} onClick={next}>
              {confirming ? `Run ${action.name}` : action.readOnly ? "Run" : "Continue"}
            </Button>
          </>
        )
      }
    >
      {run.isSuccess ? (
        <div role="status">
          <p className={isFailure(run.data.result) ? "bad" : undefined}>{isFailure(run.data.result) ? "The action failed." : "Done."}</p>
          <Code text={textOf(run.data.result)} />
        </div>
      ) : confirming ? (
        <>
          <p>This action makes changes. It will run with these arguments and be recorded in the audit log:</p>
          <Code text={JSON.stringify(args, null, 2)} />
        </>
      ) : (
        <Arguments prepared={prepared} args={args ?? {}} faults={faults} disabled={false} onChange={setArgs} />
      )}
      {run.error && <ErrorNote error={run.error} />}
    </Dialog>
  );
}

const emptySchema: JsonObject = { type: "object" };

/** The form for the arguments, or the reason why there is none. */
function prepare(schema: JsonObject): Prepared {
  try {
    return { form: formSchema(schema) };
  } catch (cause) {
    return { reason: cause instanceof NotFormable ? cause.message : "This schema cannot be displayed as a form." };
  }
}
