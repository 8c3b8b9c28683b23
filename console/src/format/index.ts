export * from "./money";
export * from "./numbers";
export * from "./time";
