package hostile

import (
	"strconv"
	"strings"
)

// callBehaviours misuse response IDs and envelopes.
var callBehaviours = []Behaviour{
	{Name: "call-never", About: "never answers a call", Unanswered: true, strike: (*turn).hang},
	{Name: "call-late", About: "answers after a second or two", Unanswered: true, strike: func(t *turn) {
		t.pause(t.milliseconds(1100, 2000))
		t.answer()
	}},
	{Name: "call-slow", About: "answers, but takes its time", strike: func(t *turn) {
		t.pause(t.milliseconds(10, 200))
		t.answer()
	}},
	{Name: "answer-twice", About: "answers every call twice", strike: func(t *turn) {
		t.many()
		t.answer()
		t.say(t.forged())
	}},
	{Name: "answer-often", About: "answers a call thousands of times", strike: func(t *turn) {
		t.many()
		t.answer()
		for range t.size(100_000, 5000) {
			if !t.say(t.forged()) {
				return
			}
		}
	}},
	{Name: "id-wrong", About: "answers under an id that nobody used", Unanswered: true, strike: func(t *turn) {
		t.say(t.under(t.like(t.number()+t.between(1000, 1_000_000)), t.poison()))
		t.hang()
	}},
	{Name: "id-stale", About: "answers under the id of an older request", Unanswered: true, strike: func(t *turn) {
		t.many()
		for n := range t.number() {
			t.say(t.under(t.like(n), t.poison()))
		}
		t.hang()
	}},
	{Name: "id-future", About: "answers requests that have not been made yet, then the right one", strike: func(t *turn) {
		t.many()
		for n := range 100 {
			t.say(t.under(t.like(t.number()+n+20), t.poison())) // far from the next calls' IDs
		}
		t.answer()
	}},
	{Name: "id-other-type", About: "answers under the id as a string instead of a number, or the other way round", strike: func(t *turn) {
		id := strconv.Quote(string(t.ID))
		if strings.HasPrefix(string(t.ID), `"`) {
			id = strconv.Itoa(t.number())
		}
		t.say(t.under(id, t.right()))
		t.hang()
	}},
	{Name: "id-float", About: "answers under the id as a fraction or with an exponent", strike: func(t *turn) {
		t.say(t.under(strconv.Itoa(t.number())+t.one(".0", "e0", ".000000000000000000001"), t.right()))
		t.hang()
	}},
	{Name: "id-null", About: "answers under the id null", Unanswered: true, strike: func(t *turn) {
		t.say(t.under("null", t.poison()))
		t.hang()
	}},
	{Name: "id-huge", About: "answers under numbers that no machine holds", Unanswered: true, strike: func(t *turn) {
		t.say(t.under(t.one("1e400", "-1e400", "18446744073709551617", strings.Repeat("9", 100_000), `"`+strings.Repeat("9", 1<<20)+`"`), t.poison()))
		t.hang()
	}},
	{Name: "id-odd", About: "answers under an id that is a list, an object or a truth value", Unanswered: true, strike: func(t *turn) {
		t.say(t.under(t.one("["+string(t.ID)+"]", `{"id":`+string(t.ID)+`}`, "true"), t.poison()))
		t.hang()
	}},
	{Name: "id-missing", About: "answers without an id", Unanswered: true, strike: func(t *turn) {
		t.say(`{"jsonrpc":"2.0",` + t.poison() + `}`)
		t.hang()
	}},
	{Name: "answer-is-request", About: "sends a request under the id of the call", Unanswered: true, strike: func(t *turn) {
		t.say(t.under(string(t.ID), `"method":"`+t.one("ping", "tools/call", "sampling/createMessage")+`","params":{}`))
		t.hang()
	}},
	{Name: "answer-empty", About: "answers with neither a result nor an error", Unanswered: true, strike: func(t *turn) {
		t.say(`{"jsonrpc":"2.0","id":` + string(t.ID) + `}`)
		t.hang()
	}},
	{Name: "answer-both", About: "answers with a result and an error", Unanswered: true, strike: func(t *turn) {
		t.body(`%s,"error":{"code":1,"message":"no"}`, t.poison())
		t.hang()
	}},
	{Name: "answer-version", About: "answers in another version of JSON-RPC", strike: func(t *turn) {
		t.say(strings.Replace(t.envelope(), `"jsonrpc":"2.0"`, t.one(`"jsonrpc":"1.0"`, `"jsonrpc":2.0`, `"jsonrpc":null`, `"version":"1.1"`), 1))
		t.hang()
	}},
	{Name: "batch", About: "answers with a list of messages", strike: func(t *turn) {
		t.say("[" + strings.Repeat(t.under("null", t.poison())+",", t.between(0, 2000)) + t.envelope() + "]")
		t.hang()
	}},
	{Name: "batch-empty", About: "answers with an empty list, or lists in lists", Unanswered: true, strike: func(t *turn) {
		t.say(t.one("[]", "[[]]", "["+strings.Repeat("[],", 1000)+"[]]"))
		t.hang()
	}},
	{Name: "not-an-object", About: "answers with JSON that is no message", Unanswered: true, strike: func(t *turn) {
		t.say(t.one("null", "42", `"poison"`, "true", "{}"))
		t.hang()
	}},
	{Name: "error-code", About: "answers with an error whose code is no number", Unanswered: true, strike: func(t *turn) {
		t.body(`"error":{"code":%s,"message":"no"}`, t.one(`"one"`, "null", "1.5", "1e400", "[1]", "-99999999999999999999"))
	}},
	{Name: "error-message", About: "answers with an error whose message is no text", Unanswered: true, strike: func(t *turn) {
		t.body(`"error":{"code":-32000,"message":%s}`, t.one("null", "7", `{"a":[1]}`, `["no"]`))
	}},
	{Name: "error-odd", About: "answers with an error that is no object", Unanswered: true, strike: func(t *turn) {
		t.body(`"error":%s`, t.one(`"no"`, "null", "[]", "7", "false", "{}"))
	}},
	{Name: "error-text", About: "answers with an error whose message holds escapes, hidden text and lines of a log", Unanswered: true, strike: func(t *turn) {
		t.body(`"error":{"code":-32000,"message":"\u001b[2J\u202e\u0000\r\nlevel=ERROR msg=forged \ud800"}`)
	}},
	{Name: "error-huge", About: "answers with an error that has megabytes of message or data", Unanswered: true, Heavy: true, strike: func(t *turn) {
		blob := `"` + strings.Repeat("x", t.size(64<<20, 8<<20)) + `"`
		t.body(t.one(`"error":{"code":1,"message":"no","data":%s}`, `"error":{"code":1,"message":%s}`), blob)
	}},
}

// resultBehaviours respond to calls with invalid results.
var resultBehaviours = []Behaviour{
	{Name: "result-odd", About: "answers with a result that is no object", Unanswered: true, strike: func(t *turn) {
		t.body(`"result":%s`, t.one("null", "42", `"poison"`, "[]", "true"))
	}},
	{Name: "result-empty", About: "answers with a result without content", strike: func(t *turn) { t.body(`"result":{}`) }},
	{Name: "result-iserror", About: "answers with an isError that is no truth value", strike: func(t *turn) {
		t.body(`"result":{"isError":%s,%s}`, t.one(`"true"`, "1", "null", "[]"), content("well"))
	}},
	{Name: "content-odd", About: "answers with content that is no list", strike: func(t *turn) {
		t.body(`"result":{"content":%s}`, t.one("null", `"poison"`, "7", `{"type":"text","text":"poison"}`))
	}},
	{Name: "content-items", About: "answers with content whose items are not content", strike: func(t *turn) {
		t.body(`"result":{"content":[%s]}`, t.one(
			"null", "7", "[]", "{}", `{"type":7}`, `{"type":"text"}`, `{"type":"text","text":{"a":1}}`, `{"type":"hologram","data":"x"}`,
			`{"type":"image","data":"%%%","mimeType":"image/png"}`, `{"type":"image","data":"","mimeType":"\r\nX: y"}`,
			`{"type":"resource","resource":null}`, `{"type":"resource_link","uri":"javascript:alert(1)","name":"x"}`,
			`{"type":"resource_link","uri":7}`,
		))
	}},
	{Name: "content-many", About: "answers with content of very many items", Heavy: true, strike: func(t *turn) {
		t.body(`"result":{"content":[%s{"type":"text","text":"end"}]}`, strings.Repeat(`{"type":"text","text":""},`, t.size(1_000_000, 200_000)))
	}},
	{Name: "content-link", About: "answers with links that a client might follow", strike: func(t *turn) {
		t.body(`"result":{"content":[{"type":"resource_link","uri":%q,"name":"a"},{"type":"resource_link","uri":%q,"name":"b"}],"_meta":{"icon":%q}}`,
			t.Lure, "file://"+t.LureFile, t.Lure)
	}},
	{Name: "structured-deep", About: "answers with structured content of great depth", strike: func(t *turn) {
		n := t.between(2000, 100_000)
		t.body(`"result":{"content":[],"structuredContent":%s}`, strings.Repeat(`{"a":`, n)+"1"+strings.Repeat("}", n))
	}},
	{Name: "structured-odd", About: "answers with structured content that is no object", strike: func(t *turn) {
		t.body(`"result":{"content":[],"structuredContent":%s}`, t.one("null", "7", `"x"`, "[1,2]", "1e400"))
	}},
	{Name: "result-large", About: "answers with a result of 20 MB", Heavy: true, strike: func(t *turn) {
		t.body(`"result":{"content":[{"type":"text","text":"%s"}]}`, strings.Repeat("x", 20_000_000))
	}},
	{Name: "result-meta", About: "answers with metadata that is none, or megabytes of it", Heavy: true, strike: func(t *turn) {
		t.body(`"result":{%s,"_meta":%s}`, content("well"), t.one(`"x"`, "[]", "7", `{"":{"":{}}}`, `{"x":"`+strings.Repeat("x", 6<<20)+`"}`))
	}},
	{Name: "progress-odd", About: "reports progress that is no number, negative or endless, then answers", strike: func(t *turn) {
		t.many()
		for _, n := range []string{"NaN", "-1", "1e308", "1e400", "-0", `"half"`, "null", "[]"} {
			t.progress(t.progressToken(), n)
		}
		t.answer()
	}},
	{Name: "progress-tokens", About: "reports the progress of calls that nobody makes, then answers", strike: func(t *turn) {
		t.many()
		for n := range 1000 {
			t.progress(strconv.Itoa(n), "1")
		}
		for _, token := range []string{"null", "1e400", "[]", `{"a":1}`, `"` + strings.Repeat("t", 1<<20) + `"`, "-1"} {
			t.progress(token, "1")
		}
		t.answer()
	}},
	{Name: "progress-flood", About: "reports progress without end and never answers", Unanswered: true, strike: func(t *turn) {
		t.many()
		for n := 0; t.progress(t.progressToken(), strconv.Itoa(n)); n++ {
			if n%100 == 0 {
				t.pause(1e6)
			}
		}
	}},
	{Name: "notifications", About: "sends very many notifications before it answers", Heavy: true, strike: func(t *turn) {
		t.many()
		for range t.size(200_000, 10_000) {
			if !t.say(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"emergency","logger":"x","data":"` + strings.Repeat("y", 50) + `"}}`) {
				return
			}
		}
		t.answer()
	}},
	{Name: "notification-odd", About: "sends notifications of no known kind, and known ones with odd parameters", strike: func(t *turn) {
		t.many()
		for _, method := range []string{"", "notifications/cancelled", "notifications/message", "notifications/progress", "notifications/tools/list_changed", "notifications/\u0000", "tools/call"} {
			for _, params := range []string{"null", "[]", "7", `"x"`, "{}", `{"requestId":` + string(t.ID) + `}`, `{"level":7,"data":null}`} {
				t.say(`{"jsonrpc":"2.0","method":"` + strings.ReplaceAll(method, "\x00", `\u0000`) + `","params":` + params + `}`)
			}
		}
		t.answer()
	}},
}

// progress reports progress. It writes both values verbatim.
func (t *turn) progress(token, n string) bool {
	return t.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + token + `,"progress":` + n + `}}`)
}
