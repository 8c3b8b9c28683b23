import "react";

// Custom properties used by the style sheets of the call screens.
declare module "react" {
  interface CSSProperties {
    [property: `--${string}`]: string | number | undefined;
  }
}
