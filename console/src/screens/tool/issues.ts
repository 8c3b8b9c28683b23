import { isObject, type Json } from "../../api/json";
import type { Issue } from "../../api/types";
import type { Fault } from "./check";

export type FieldErrors = { __errors?: string[]; [name: string]: FieldErrors | string[] | undefined };

/** The steps of a path as the yard writes it: "options.depth", "items[2].name". */
export function pathSteps(path: string): string[] {
  return path.split(/\.|\[(\d+)\]/).filter((step) => step !== undefined && step !== "");
}

/** Issues of the yard as faults. A path of args or of the whole is that of the form. */
export function faultsOf(issues: Issue[]): Fault[] {
  return issues.map(({ path, message }) => ({ path: pathSteps(path), message }));
}

/** Faults by field, in the form that the fields of a form are told. */
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

/** The error of a failed result as data. */
export function errorOf(result: { [key: string]: Json | undefined }): Json | undefined {
  const meta = result._meta;
  return isObject(meta) ? meta["dev.toolyard/error"] : undefined;
}

/** The issues that a failed result carries as data. */
export function resultIssues(data: Json | undefined): Issue[] {
  const list = isObject(data) ? data.issues : undefined;
  if (!Array.isArray(list)) return [];
  return list.filter((each): each is Issue => isObject(each) && typeof each.path === "string" && typeof each.message === "string");
}
