import { Component, type ReactNode } from "react";

type Props = { onFail: () => void; children: ReactNode };

/** Catches a form that fails while it is shown; the arguments are then written as JSON. */
export class FormBoundary extends Component<Props, { failed: boolean }> {
  override state = { failed: false };

  static getDerivedStateFromError() {
    return { failed: true };
  }

  override componentDidCatch() {
    this.props.onFail();
  }

  override render() {
    return this.state.failed ? null : this.props.children;
  }
}
