import { describe, expect, it } from "vitest";
import { isOwn, navigationOf, phoneNavigation } from "./navigation";

const namesOf = (all: boolean) => navigationOf(all).flatMap(({ items }) => items.map(({ name }) => name));

describe("navigation", () => {
  it("leads who may not see the yard only to what is theirs", () => expect(namesOf(false)).toEqual(["Calls", "Spend", "Links"]));

  it("has everything in the bar of a phone, or behind More", () => {
    for (const all of [true, false]) {
      const { bar, more } = phoneNavigation(all);
      expect([...bar, ...more].map(({ name }) => name).toSorted()).toEqual(namesOf(all).toSorted());
      expect(bar.length).toBeLessThan(5);
    }
  });

  it.each([["/calls", true], ["/calls/$id", true], ["/spend", true], ["/links", true], ["/", false], ["/servers", false], ["/servers/$id", false], ["/callsign", false]])(
    "knows whether %s is for everybody: %s",
    (route, own) => expect(isOwn(route)).toBe(own),
  );
});
