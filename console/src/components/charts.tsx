export { Bars, type BarPoint } from "./charts/Bars";
export { HBars, type HBar } from "./charts/HBars";
export { Meter } from "./charts/Meter";
export { Sparkline } from "./charts/Sparkline";
export { Waterfall, type Segment } from "./charts/Waterfall";
