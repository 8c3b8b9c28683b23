import { expect, test } from "vitest";
import { destinations } from "./destinations";

const servers = [{ id: "fleet-two" }, { id: "fleet" }];

test("a call is found by its ID", () => {
  expect(destinations("06gy3mrkqpnrbvcvacjne86bew", servers, [])).toMatchObject([{ kind: "Call", exact: true, link: { to: "/calls/$id" } }]);
});

test("servers are found by a part of their ID, exact matches first", () => {
  expect(destinations("fleet", servers, [{ name: "fleet_list" }]).map(({ name, kind, exact }) => [name, kind, exact ?? false])).toEqual([["fleet", "Server", true], ["fleet-two", "Server", false], ["fleet_list", "Tool", false]]);
});

test("an empty text has no suggestions", () => {
  expect(destinations("", servers, [])).toEqual([]);
});
