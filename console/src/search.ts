// URL search parameters as plain strings. The router's default is JSON, which would quote numbers.

export type TextSearch<K extends string> = { [name in K]?: string | undefined };

export function parseSearch(text: string): Record<string, string> {
  return Object.fromEntries(new URLSearchParams(text));
}

export function stringifySearch(search: Record<string, unknown>): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(search)) {
    if (value !== undefined && value !== null && value !== "") params.set(name, String(value));
  }
  const text = params.toString();
  return text === "" ? "" : `?${text}`;
}

/** The text if it is one of the allowed values. */
export function oneOf<V extends string>(values: readonly V[], text: string | undefined): V | undefined {
  return values.find((value) => value === text);
}

/** A validateSearch function for a route that accepts only the named parameters. */
export function texts<K extends string>(...names: K[]) {
  return (search: Record<string, unknown>): TextSearch<K> => {
    const params: TextSearch<K> = {};
    for (const name of names) {
      const value = search[name];
      if (typeof value === "string" && value !== "") params[name] = value.slice(0, 500);
    }
    return params;
  };
}
