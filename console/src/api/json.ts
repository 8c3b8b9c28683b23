/** Any JSON value. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

export function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Replaces unknown with Json in a generated type. */
export type FromJson<T> = unknown extends T ? Json : T extends (infer E)[] ? FromJson<E>[] : T extends object ? { [K in keyof T]: FromJson<T[K]> } : T;
