// The part of the address after "?": plain text, as people and other programs write it. The
// router's own way is JSON, which would put quotes around numbers.

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

/** One of a few values, if the text is one of them. */
export function oneOf<V extends string>(values: readonly V[], text: string | undefined): V | undefined {
  return values.find((value) => value === text);
}

/** A check of the search of a route: it takes the named texts and leaves the rest out. */
export function texts<K extends string>(...names: K[]) {
  return (search: Record<string, unknown>): TextSearch<K> => {
    const taken: TextSearch<K> = {};
    for (const name of names) {
      const value = search[name];
      if (typeof value === "string" && value !== "") taken[name] = value.slice(0, 500);
    }
    return taken;
  };
}
