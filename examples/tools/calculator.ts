import { z } from "zod";

export const description = "Adds, subtracts, multiplies or divides two numbers.";
export const category = "basics";
export const modes = ["read", "write"];

const operations = {
  add: (a: number, b: number) => a + b,
  subtract: (a: number, b: number) => a - b,
  multiply: (a: number, b: number) => a * b,
  divide: (a: number, b: number) => a / b,
};

export const inputSchema = z.object({
  operation: z.enum(["add", "subtract", "multiply", "divide"]).describe("Operation to perform on a and b"),
  a: z.number().describe("The first number"),
  b: z.number().describe("The second number"),
});

export default async ({ operation, a, b }: z.infer<typeof inputSchema>) => {
  // Return an error object if the caller can correct it; throw for unexpected errors.
  if (operation === "divide" && b === 0) {
    return { isError: true, error: "Division by zero: b must not be 0." };
  }
  const value = operations[operation](a, b);
  if (!Number.isFinite(value)) {
    return { isError: true, error: "The result is too large for a number." };
  }
  return value;
};
