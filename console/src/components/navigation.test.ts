import { describe, expect, it } from "vitest";
import { isOwn, navigationOf, phoneNavigation } from "./navigation";

const namesOf = (all: boolean) => navigationOf(all).flatMap(({ items }) => items.map(({ name }) => name));

describe("navigation", () => {
  it("shows callers without the viewer scope only their own pages", () => expect(namesOf(false)).toEqual(["Calls", "Queries", "Spend", "Links", "Connections"]));

  it("has all items on phones, in the bar or behind More", () => {
    for (const all of [true, false]) {
      const { bar, more } = phoneNavigation(all);
      expect([...bar, ...more].map(({ name }) => name).toSorted()).toEqual(namesOf(all).toSorted());
      expect(bar.length).toBeLessThan(5);
    }
  });

  it.each([["/calls", true], ["/calls/$id", true], ["/queries/$id", true], ["/spend", true], ["/links", true], ["/connections/$server", true], ["/", false], ["/servers", false], ["/servers/$id", false], ["/callsign", false]])(
    "route %s is open to every caller: %s",
    (route, own) => expect(isOwn(route)).toBe(own),
  );
});
