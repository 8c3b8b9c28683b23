import { Component, type ReactNode } from "react";

type Props = { onFail: () => void; children: ReactNode };

/** An error boundary for generated forms. On failure, the user edits JSON instead. */
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
