// Two tools in one file: expense.json declares them, and these functions implement them.
// category and modes apply to both.
import { type Context, ToolError } from "toolyard";

export const category = "expenses";
export const modes = ["read", "write"];

type Expense = { id: number; user_id: string; date: string; what: string; amount: number };

// A stand-in for a database.
const goods = ["taxi", "hotel", "lunch", "train"];
const expenses: Expense[] = Array.from({ length: 24 }, (_, i) => ({
  id: i + 1,
  user_id: i % 3 === 0 ? "bob" : "ann",
  date: `2026-03-${String(i + 1).padStart(2, "0")}`,
  what: goods[i % goods.length] ?? "",
  amount: 10 + 3.5 * i,
}));

/** Recognize finds out what a message about expenses is meant to do. */
export function Recognize(params: { text: string; attachments?: string[] }) {
  const amount = /\d+(?:[.,]\d{1,2})?/.exec(params.text)?.[0].replace(",", ".");
  const asks = /\?|\b(show|list|find|which|how much)\b/i.test(params.text);
  return {
    intent: asks ? "query" : "analysis",
    confidence: 0.95,
    data: params,
    entities: {
      amount: amount === undefined ? undefined : Number(amount),
      what: goods.find((word) => params.text.toLowerCase().includes(word)),
    },
  };
}

/** Query finds expenses of the caller. The user is never an argument: a model could be talked into another's. */
export function Query({ query }: { query: string }, ctx: Context) {
  const user = ctx.authorized?.user_id;
  if (!user) throw new ToolError("Sign in to see your expenses.", { code: "AUTHORIZATION_ERROR" });
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const results = expenses
    .filter((e) => e.user_id === user && words.every((word) => `${e.date} ${e.what}`.includes(word)))
    .slice(0, 10);
  return { results };
}
