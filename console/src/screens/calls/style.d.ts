import "react";

// Custom properties that the screens of calls hand to their style sheets.
declare module "react" {
  interface CSSProperties {
    [property: `--${string}`]: string | number | undefined;
  }
}
