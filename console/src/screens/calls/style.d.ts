import "react";

// Custom properties used by the call screens' style sheets.
declare module "react" {
  interface CSSProperties {
    [property: `--${string}`]: string | number | undefined;
  }
}
