import { Dialog as Base } from "@base-ui/react/dialog";
import { X } from "lucide-react";
import { type ReactNode, useState } from "react";
import { Button, IconButton } from "./Button";
import { ErrorNote } from "./States";
import "./Dialog.css";

type DialogProps = {
  open: boolean;
  onClose: () => void;
  title: string;
  description?: ReactNode;
  /** Size l is for diffs and code. */
  size?: "m" | "l";
  /** Clicks outside do not close the dialog, which protects typed text and one-time secrets. */
  stay?: boolean;
  footer?: ReactNode;
  children?: ReactNode;
};

/** A modal dialog. Escape closes it. */
export function Dialog({ open, onClose, title, description, size = "m", stay = false, footer, children }: DialogProps) {
  return (
    <Base.Root open={open} disablePointerDismissal={stay} onOpenChange={(next) => !next && onClose()}>
      <Base.Portal>
        <Base.Backdrop className="Dialog-backdrop" />
        <Base.Popup className={`Dialog Dialog-${size}`}>
          <header className="Dialog-head">
            <div className="grow">
              <Base.Title className="Dialog-title">{title}</Base.Title>
              {description && <Base.Description className="Dialog-description" render={<div />}>{description}</Base.Description>}
            </div>
            <Base.Close render={<IconButton label="Close" icon={<X />} size="s" />} />
          </header>
          {children && <div className="Dialog-body">{children}</div>}
          {footer && <footer className="Dialog-foot">{footer}</footer>}
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  );
}

type ConfirmProps = {
  open: boolean;
  onClose: () => void;
  title: string;
  children?: ReactNode;
  /** The label of the confirm button: a verb. */
  action: string;
  danger?: boolean;
  /** Runs the action. The dialog stays open until it ends, and shows an error if it fails. */
  onConfirm: () => Promise<unknown>;
};

/** Asks for confirmation before an action. */
export function Confirm({ open, onClose, title, children, action, danger = false, onConfirm }: ConfirmProps) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const close = () => {
    setError(undefined);
    onClose();
  };
  const confirm = async () => {
    setBusy(true);
    setError(undefined);
    try {
      await onConfirm();
      close();
    } catch (cause) {
      setError(cause);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog
      open={open}
      onClose={close}
      title={title}
      footer={
        <>
          <Button onClick={close}>Cancel</Button>
          <Button variant={danger ? "danger" : "primary"} busy={busy} onClick={confirm}>{action}</Button>
        </>
      }
    >
      <div className="stack-s">
        {children}
        <ErrorNote error={error} />
      </div>
    </Dialog>
  );
}
