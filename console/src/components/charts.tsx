export { BandChart, type Band, type Series } from "./charts/BandChart";
export { CallBars, type CallPoint } from "./charts/CallBars";
export { HBars, type HBar } from "./charts/HBars";
export { Meter } from "./charts/Meter";
export { Sparkline } from "./charts/Sparkline";
export { Waterfall, type Segment } from "./charts/Waterfall";
