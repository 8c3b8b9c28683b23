import { expect, test } from "vitest";
import { highlight, wordsOf } from "./highlight";

const marked = (text: string, query: string) =>
  highlight(text, wordsOf(query)).map((part) => (part.match ? `[${part.text}]` : part.text)).join("");

test.each([
  ["search_issues", "", "search_issues"],
  ["search_issues", "issue", "search_[issue]s"],
  ["Search issues", "SEARCH iss", "[Search] [iss]ues"],
  ["list_lists", "list lists", "[list]_[lists]"],
  ["abcabc", "abc", "[abc][abc]"],
  ["a_banana", "a", "[a]_banana"],
  ["get_user", "delete", "get_user"],
  ["get_user", "()[]*", "get_user"],
  ["İstanbul", "stan", "İstanbul"], // the lower-case form is longer, so nothing is highlighted
])("%s by %s", (text, query, want) => {
  expect(marked(text, query)).toBe(want);
});

test("preserves the text", () => {
  const text = "aAbB_cC-dD".repeat(50);
  expect(highlight(text, wordsOf("a b_c dd")).map((part) => part.text).join("")).toBe(text);
});
