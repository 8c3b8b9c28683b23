import { Toast as Base } from "@base-ui/react/toast";
import { Check, CircleAlert, X } from "lucide-react";
import { useEffect } from "react";
import { receiveToasts } from "./Toast";
import "./Toast.css";

const manager = Base.createToastManager();

export default function ToastList() {
  useEffect(
    () =>
      receiveToasts(({ tone, text }) => {
        manager.add({ description: text, type: tone, timeout: tone === "bad" ? 12_000 : 5000, priority: tone === "bad" ? "high" : "low" });
      }),
    [],
  );
  return (
    <Base.Provider toastManager={manager} limit={4}>
      <Base.Portal>
        <Base.Viewport className="Toast-viewport">
          <Shown />
        </Base.Viewport>
      </Base.Portal>
    </Base.Provider>
  );
}

function Shown() {
  const { toasts } = Base.useToastManager();
  return toasts.map((toast) => (
    <Base.Root key={toast.id} toast={toast} className="Toast" swipeDirection={[]}>
      <Base.Content className="Toast-content">
        {toast.type === "bad" ? <CircleAlert className="bad" aria-hidden="true" /> : <Check className="good" aria-hidden="true" />}
        <Base.Description className="Toast-text" />
        <Base.Close className="Toast-close" aria-label="Dismiss"><X aria-hidden="true" /></Base.Close>
      </Base.Content>
    </Base.Root>
  ));
}
