import { z } from "zod";

export const description = "Generates a random integer, string, UUID (version 4) or boolean.";
export const hint = "min and max count for numbers only, length for strings only.";
export const category = "basics";
export const modes = ["read", "write"];

export const inputSchema = z.object({
  type: z.enum(["number", "string", "uuid", "boolean"]).describe("Type of the value"),
  min: z.int().min(-1e15).max(1e15).optional().describe("Minimum; default 0"),
  max: z.int().min(-1e15).max(1e15).optional().describe("Maximum; default 100"),
  length: z.int().min(1).max(1024).optional().describe("Length of the string; default 16"),
});

const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

export default async ({ type, min = 0, max = 100, length = 16 }: z.infer<typeof inputSchema>) => {
  switch (type) {
    case "number":
      if (min > max) return { isError: true, error: `min (${min}) must not be greater than max (${max}).` };
      return min + below(max - min + 1);
    case "string":
      return Array.from({ length }, () => letters.charAt(below(letters.length))).join("");
    case "uuid":
      return crypto.randomUUID();
    case "boolean":
      return below(2) === 1;
  }
};

/** below is a random number from 0 to n-1, each as likely as any other. */
function below(n: number) {
  const all = 2 ** 53;
  for (;;) {
    const [high = 0, low = 0] = crypto.getRandomValues(new Uint32Array(2));
    const value = (high % 2 ** 21) * 2 ** 32 + low;
    // Values from the last, incomplete round of n are rejected, because they would favor small
    // numbers.
    if (value < all - (all % n)) return value % n;
  }
}
