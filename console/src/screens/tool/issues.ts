import { isObject, type Json } from "../../api/json";
import type { Issue } from "../../api/types";
import type { Fault } from "./check";

export type FieldErrors = { __errors?: string[]; [name: string]: FieldErrors | string[] | undefined };

/** Splits an issue path from the API: "options.depth", "items[2].name". */
export function pathSteps(path: string): string[] {
  return path.split(/\.|\[(\d+)\]/).filter((step) => step !== undefined && step !== "");
}

/** Converts API issues to faults. The path prefix "args" is removed. */
export function faultsOf(issues: Issue[]): Fault[] {
  return issues.map(({ path, message }) => ({ path: pathSteps(path), message }));
}

/** Converts faults to the error tree of the form library. */
export function fieldErrors(faults: Fault[]): FieldErrors {
  const all: FieldErrors = {};
  for (const { path, message } of faults) {
    if (path.some((step) => step === "__proto__" || step === "__errors")) continue;
    let here = all;
    for (const step of path) {
      const next = here[step];
      if (next && !Array.isArray(next) && Object.hasOwn(here, step)) here = next;
      else here = here[step] = {};
    }
    here.__errors = [...(here.__errors ?? []), message];
  }
  return all;
}

/** A failed result's error data. */
export function errorOf(result: { [key: string]: Json | undefined }): Json | undefined {
  const meta = result._meta;
  return isObject(meta) ? meta["dev.toolyard/error"] : undefined;
}

/** The issues in a failed result's error data. */
export function resultIssues(data: Json | undefined): Issue[] {
  const list = isObject(data) ? data.issues : undefined;
  if (!Array.isArray(list)) return [];
  return list.filter((each): each is Issue => isObject(each) && typeof each.path === "string" && typeof each.message === "string");
}
