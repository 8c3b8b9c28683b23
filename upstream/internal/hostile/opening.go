package hostile

import "strings"

// opened returns a behaviour whose first result has these members, regardless of the seed.
func opened(name, about string, members func(*turn) string) Behaviour {
	return Behaviour{Name: name, About: about, at: atInit, era: legacy, strike: func(t *turn) {
		t.body(`"result":{%s}`, members(t))
	}}
}

// openingBehaviours misbehave when a legacy client initializes.
var openingBehaviours = []Behaviour{
	{Name: "init-never", About: "never answers the first request", at: atInit, strike: (*turn).hang},
	{Name: "init-error", About: "refuses the first request", at: atInit, strike: func(t *turn) {
		t.body(`"error":{"code":%s,"message":"poison"}`, t.one("-32603", "-32000", "-32601", "-32022", "0"))
	}},
	{Name: "init-twice", About: "answers the first request twice, the second time otherwise", at: atInit, strike: func(t *turn) {
		t.many()
		t.answer()
		t.body(`"result":{"protocolVersion":"1999-01-01","capabilities":{},"supportedVersions":[]}`)
	}},
	opened("init-version", "speaks a version of the protocol that does not exist", func(t *turn) string {
		return `"protocolVersion":` + t.one(`"1999-01-01"`, `"9999-12-31"`, `""`, "7", "null", "[]", `"2025-11-25\r\nX-Evil: 1"`, `"`+strings.Repeat("2", 1<<20)+`"`) + `,"capabilities":{"tools":{}},"serverInfo":` + serverInfo
	}),
	opened("init-capabilities", "has capabilities that are none", func(t *turn) string {
		return `"protocolVersion":"` + legacyVersion + `","capabilities":` + t.one("null", "[]", "7", `"tools"`, `{"tools":7}`, `{"tools":null}`, "{}", `{"tools":{"listChanged":"yes"}}`) + `,"serverInfo":` + serverInfo
	}),
	opened("init-info", "calls itself something odd", func(t *turn) string {
		return `"protocolVersion":"` + legacyVersion + `","capabilities":{"tools":{}},"serverInfo":` + t.one("null", "7", "[]", "{}", `{"name":7}`, `{"name":"\u001b[2J\u202e","version":"\u0000"}`, `{"name":"`+strings.Repeat("n", 1<<20)+`"}`)
	}),
	heavy(opened("init-instructions", "gives instructions of many megabytes", func(t *turn) string {
		return `"protocolVersion":"` + legacyVersion + `","capabilities":{"tools":{}},"serverInfo":` + serverInfo + `,"instructions":"` + strings.Repeat("i", t.size(10<<20, 10<<20)) + `"`
	})),
	opened("init-empty", "answers the first request with nothing", func(_ *turn) string { return "" }),
	{Name: "init-old", About: "speaks an old version of the protocol, but sends batches and asks all the same", at: atInit, era: legacy, strike: func(t *turn) {
		t.many()
		t.body(`"result":{"protocolVersion":%s,"capabilities":{"tools":{}},"serverInfo":%s}`, t.one(`"2024-11-05"`, `"2025-03-26"`, `"2025-06-18"`), serverInfo)
		t.say(`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"roots/list"}]`)
	}},
}

// modernBehaviours misbehave in ways that are specific to 2026-07-28.
var modernBehaviours = []Behaviour{
	{Name: "discover-versions", About: "offers versions of the protocol that do not exist", at: []string{"server/discover"}, era: modern, Transports: []Transport{Stdio, HTTP}, strike: func(t *turn) {
		t.body("%s", t.complete(`"supportedVersions":`+t.one("[]", "null", "7", `"2026-07-28"`, `["9999-12-31"]`, "[7,null,[]]", `["`+strings.Repeat("9", 1<<20)+`"]`, "["+strings.Repeat(`"2026-07-28",`, 100_000)+`"2026-07-28"]`)+`,"capabilities":{"tools":{}}`))
	}},
	{Name: "discover-odd", About: "describes itself in a way that is none", at: []string{"server/discover"}, era: modern, Transports: []Transport{Stdio, HTTP}, strike: func(t *turn) {
		t.body("%s", t.complete(`"supportedVersions":["2026-07-28"],"capabilities":`+t.one("null", "7", "[]", `{"tools":7}`)+`,"ttlMs":`+t.one("-1", "1e400", `"x"`, "99999999999999999999")+`,"cacheScope":`+t.one("7", `"everyone"`, "null")))
	}},
	{Name: "discover-unsupported", About: "says that it speaks no version that anyone knows", at: []string{"server/discover"}, era: modern, Transports: []Transport{Stdio, HTTP}, strike: func(t *turn) {
		t.body(`"error":{"code":-32022,"message":"poison","data":{"supported":%s,"requested":"x"}}`, t.one("[]", `["9999-12-31"]`, "null", `"2025-11-25"`, `["2026-07-28"]`, `["2025-11-25"]`))
	}},
	{Name: "input-required", About: "always needs one more answer before it can go on", era: modern, Unanswered: true, Transports: []Transport{Stdio, HTTP}, strike: func(t *turn) {
		t.body(`"result":{"resultType":"input_required","requestState":"%s","inputRequests":{"a":{"method":%s,"params":%s}}}`,
			strings.Repeat("s", t.between(1, 100_000)), t.one(`"elicitation/create"`, `"sampling/createMessage"`, `"roots/list"`, `"tools/call"`, "7"), recursive)
	}},
	{Name: "input-odd", About: "needs something that is no request", era: modern, Unanswered: true, Transports: []Transport{Stdio, HTTP}, strike: func(t *turn) {
		t.body(`"result":{"resultType":"input_required","inputRequests":%s,"requestState":%s}`, t.one("null", "[]", "7", "{}", `{"a":null}`, `{"":{"method":""}}`), t.one("null", "7", "[]", `""`))
	}},
	{Name: "result-type", About: "answers with a result of a type that does not exist", era: modern, Unanswered: true, Transports: []Transport{Stdio, HTTP}, strike: func(t *turn) {
		t.body(`"result":{"resultType":%s,%s}`, t.one(`"poison"`, "7", "[]", `"COMPLETE"`, `""`), content(Poison))
	}},
	{Name: "result-task", About: "answers with a task that nobody asked for", era: modern, Unanswered: true, Transports: []Transport{Stdio, HTTP}, strike: func(t *turn) {
		t.body(`"result":{"resultType":"task","task":{"taskId":"1","status":"working","pollInterval":0,"ttl":null}}`)
	}},
	{Name: "listen-ends", About: "ends every subscription at once", at: []string{"subscriptions/listen"}, era: modern, Transports: []Transport{Stdio, HTTP}, strike: func(t *turn) {
		if t.rng.IntN(2) == 0 {
			t.acknowledge()
		}
		t.body(`"result":{"resultType":"complete"}`)
	}},
	{Name: "listen-never", About: "never acknowledges a subscription", at: []string{"subscriptions/listen"}, era: modern, Transports: []Transport{Stdio, HTTP}, strike: (*turn).hang},
	{Name: "listen-flood", About: "sends everything but changes on a subscription, without end", at: []string{"subscriptions/listen"}, era: modern, Transports: []Transport{Stdio, HTTP}, strike: func(t *turn) {
		t.acknowledge()
		before, after := t.frame()
		t.flood(before+t.one(`{"jsonrpc":"2.0","method":"notifications/message","params":{}}`, t.under(`"x"`, t.poison()), "{}")+after, 0)
	}, Heavy: true},
	{Name: "asks-in-modern", About: "sends requests, which servers of this era must not", era: modern, Transports: []Transport{Stdio, HTTP}, strike: func(t *turn) {
		t.many()
		t.ask("1", "elicitation/create", recursive)
		t.ask(string(t.ID), "ping", "{}")
		t.answer()
	}},
}
