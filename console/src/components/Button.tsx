import type { ButtonHTMLAttributes, ReactNode } from "react";
import "./Button.css";

type Variant = "plain" | "primary" | "danger" | "quiet";

type ButtonProps = ButtonHTMLAttributes<HTMLButtonElement> & {
  variant?: Variant;
  size?: "m" | "s";
  icon?: ReactNode;
  busy?: boolean; // shows a spinner and ignores clicks
};

export function Button({ variant = "plain", size = "m", icon, busy = false, className, children, disabled, type = "button", ...rest }: ButtonProps) {
  const names = ["Button", `Button-${variant}`, `Button-${size}`, className].filter(Boolean).join(" ");
  return (
    <button {...rest} type={type} className={names} disabled={disabled || busy} aria-busy={busy || undefined}>
      {busy ? <span className="Button-spinner" aria-hidden="true" /> : icon}
      {children !== undefined && <span className="Button-text">{children}</span>}
    </button>
  );
}

type IconButtonProps = Omit<ButtonProps, "children" | "icon"> & { label: string; icon: ReactNode };

/** An icon button. The label is its accessible name and its tooltip. */
export function IconButton({ label, variant = "quiet", className, ...rest }: IconButtonProps) {
  const names = ["Button-icon", className].filter(Boolean).join(" ");
  return <Button {...rest} variant={variant} className={names} aria-label={label} title={label} />;
}
