import { z } from "zod";

export const description = "Quotes a price with the discount of the customer.";
export const modes = ["read", "write"];
export const inputSchema = z.object({
  amount: z.number().positive().describe("List price in US dollars"),
  customer: z.object({ name: z.string(), tier: z.enum(["gold", "silver"]) }).describe("Injected by the platform"),
});
export const _meta = { contextRequirements: [{ kind: "crm", argument: "customer" }] };

const discounts = { gold: 0.1, silver: 0.05 };

export default async ({ amount, customer }: z.infer<typeof inputSchema>) =>
  `${customer.name} (${customer.tier}) pays ${(amount * (1 - discounts[customer.tier])).toFixed(2)} USD.`;
