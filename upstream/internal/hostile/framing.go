package hostile

import (
	"strings"
	"time"
	"unicode/utf16"
)

// open starts a message that is sent in parts.
func (t *turn) open() {
	before, _ := t.frame()
	t.raw(before)
}

// framingBehaviours misuse the byte stream that carries the messages.
var framingBehaviours = []Behaviour{
	{Name: "endless-line", About: "begins an answer that has no end", at: anywhere, Unanswered: true, Heavy: true, strike: func(t *turn) {
		t.open()
		t.raw(`{"jsonrpc":"2.0","id":` + string(t.ID) + `,"result":{"content":[{"type":"text","text":"`)
		t.flood("poison", 0)
	}},
	{Name: "endless-space", About: "begins an answer with white space that has no end", at: anywhere, Unanswered: true, Heavy: true, strike: func(t *turn) {
		t.open()
		t.flood(t.one(" ", "\t", "          "), 0)
	}},
	{Name: "endless-blank-lines", About: "sends blank lines without end", at: anywhere, Unanswered: true, Heavy: true, strike: func(t *turn) {
		t.many()
		t.flood(t.one("\n", "\r\n", "\r", " \n"), 0)
	}},
	{Name: "endless-messages", About: "sends messages without end, none of which is the answer", at: anywhere, Unanswered: true, Heavy: true, strike: func(t *turn) {
		t.many()
		before, after := t.frame()
		t.flood(before+t.one(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`, t.under("null", t.poison()), "{}", "[]")+after, 0)
	}},
	{Name: "line-long", About: "answers in one line of 512 MiB", at: anywhere, Unanswered: true, Heavy: true, strike: func(t *turn) {
		t.open()
		t.raw(`{"jsonrpc":"2.0","id":` + string(t.ID) + `,"result":{"content":[{"type":"text","text":"`)
		if t.flood("poison", t.size(1<<30, 64<<20)) {
			_, after := t.frame()
			t.raw(`"}]}}` + after)
		}
	}},
	{Name: "line-long-id-last", About: "answers in one long line that names the call only at its end", Unanswered: true, Heavy: true, strike: func(t *turn) {
		t.open()
		t.raw(`{"result":{"content":[{"type":"text","text":"`)
		if t.flood("poison", t.size(256<<20, 32<<20)) {
			_, after := t.frame()
			t.raw(`"}]},"id":` + string(t.ID) + `,"jsonrpc":"2.0"}` + after)
		}
	}},
	{Name: "drip", About: "sends the answer byte by byte", at: anywhere, strike: func(t *turn) {
		before, after := t.frame()
		delay := t.milliseconds(1, 50)
		for _, c := range []byte(before + t.envelope() + after) {
			if !t.raw(string(c)) {
				return
			}
			t.pause(delay)
		}
	}},
	{Name: "drip-endless", About: "sends a byte now and then for ever", at: anywhere, Unanswered: true, strike: func(t *turn) {
		t.open()
		for t.raw(" ") {
			t.pause(t.milliseconds(1, 100))
		}
	}},
	{Name: "half", About: "sends half of the answer and falls silent", at: anywhere, Unanswered: true, strike: func(t *turn) {
		t.open()
		whole := t.envelope()
		t.raw(whole[:t.between(1, len(whole)-1)])
		t.hang()
	}},
	{Name: "half-then-end", About: "sends half of the answer and ends", at: anywhere, Unanswered: true, strike: func(t *turn) {
		t.open()
		whole := t.envelope()
		t.raw(whole[:t.between(1, len(whole)-1)])
		t.end()
	}},
	{Name: "half-then-whole", About: "sends half of the answer, and then all of it in a message of its own", strike: func(t *turn) {
		t.many()
		whole := t.envelope()
		t.say(whole[:t.between(1, len(whole)-1)])
		t.answer()
	}},
	{Name: "nesting", About: "answers with lists in lists, very deep", at: anywhere, strike: func(t *turn) {
		n := t.between(10_000, 100_000)
		t.body(`"result":{"content":[],"deep":%s}`, strings.Repeat("[", n)+strings.Repeat("]", n))
	}},
	{Name: "brackets", About: "answers with megabytes of opening brackets", at: anywhere, Unanswered: true, Heavy: true, strike: func(t *turn) {
		t.say(strings.Repeat(t.one("[", "{\"a\":", "[{\"\":"), t.size(10<<20, 10<<20)/5))
		t.hang()
	}},
	{Name: "number-long", About: "answers with numbers of very many digits", at: anywhere, Heavy: true, strike: func(t *turn) {
		t.body(`"result":{"content":[],"structuredContent":{"n":%s}}`, t.one("1e999999999", "-1E-999999999", "0."+strings.Repeat("1", 3<<20), strings.Repeat("1", 3<<20)))
	}},
	{Name: "keys-many", About: "answers with an object of very many keys", at: anywhere, Heavy: true, strike: func(t *turn) {
		var b strings.Builder
		for n := range t.size(1_000_000, 200_000) {
			b.WriteString(`"k` + time.Duration(n).String() + `":0,`)
		}
		t.body(`"result":{"content":[],"structuredContent":{%s"end":0}}`, b.String())
	}},
}

// end ends the response and, on stdio, the process.
func (t *turn) end() {
	if t.quit != nil {
		t.quit()
	}
}

// textBehaviours send a valid response in a form that parsers may interpret differently.
var textBehaviours = []Behaviour{
	{Name: "utf8-invalid", About: "answers with bytes that are no UTF-8", at: anywhere, strike: func(t *turn) {
		t.body(`"result":{"content":[{"type":"text","text":"%s"}],"tools":[]}`, t.one("\xff\xfe", "\xc0\x80", "\xed\xa0\x80", "\xf8\x88\x80\x80\x80", "\xe2\x82"))
	}},
	{Name: "nul", About: "answers with NUL bytes in or around the message", at: anywhere, strike: func(t *turn) {
		whole := t.envelope()
		t.say(t.one("\x00"+whole, whole+"\x00", strings.Replace(whole, "2.0", "2.0\x00", 1), "\x00"))
		t.hang()
	}},
	{Name: "surrogate", About: "answers with half characters and escaped NUL", at: anywhere, strike: func(t *turn) {
		t.body(`"result":{"content":[{"type":"text","text":"%s"}],"\ud800":1,"tools":[]}`, t.one(`\ud800`, `\udc00\ud800`, `\u0000`, `\uD83D`))
	}},
	{Name: "bom", About: "answers with a byte order mark in front", at: anywhere, strike: func(t *turn) { t.say("\xef\xbb\xbf" + t.envelope()) }},
	{Name: "utf16", About: "answers in UTF-16", at: anywhere, strike: func(t *turn) {
		var b strings.Builder
		for _, c := range utf16.Encode([]rune("\ufeff" + t.envelope())) {
			b.WriteString(string([]byte{byte(c), byte(c >> 8)}))
		}
		t.say(b.String())
		t.hang()
	}},
	{Name: "keys-twice", About: "answers with members that are there twice", at: anywhere, strike: func(t *turn) {
		whole := t.envelope()
		t.say(t.one(
			strings.Replace(whole, "{", `{"id":0,`, 1), whole[:len(whole)-1]+`,"id":`+string(t.ID)+`}`,
			strings.Replace(whole, "{", `{"result":{"content":[{"type":"text","text":"poison"}]},`, 1), whole[:len(whole)-1]+`,"\u0069d":`+string(t.ID)+`}`,
		))
		t.hang()
	}},
	{Name: "keys-case", About: "answers with members in another case", at: anywhere, Unanswered: true, strike: func(t *turn) {
		t.say(strings.NewReplacer(`"result":`, t.one(`"Result":`, `"RESULT":`, `"re\u017fult":`), `"id":`, t.one(`"id":`, `"ID":`, `"Id":`)).Replace(t.forged()))
		t.hang()
	}},
	{Name: "keys-case-both", About: "answers with a member twice, once in another case", strike: func(t *turn) {
		t.body(`%s,%s:{"content":[{"type":"text","text":"poison"}]},"ID":0,"Error":{"code":1,"message":"no"}`, t.right(), t.one(`"Result"`, `"RESULT"`, `"re\u017fult"`))
	}},
	{Name: "trailing", About: "answers with something after the message", at: anywhere, strike: func(t *turn) {
		t.say(t.envelope() + t.one("}", "]", " garbage", " null", `{"jsonrpc":"2.0"}`, ",", "\x00"))
		t.hang()
	}},
	{Name: "two-on-a-line", About: "answers with two messages in one line", strike: func(t *turn) {
		t.say(t.envelope() + t.one("", " ", "\t") + t.forged())
		t.hang()
	}},
	{Name: "spread", About: "answers in JSON over several lines", at: anywhere, strike: func(t *turn) {
		t.say(strings.ReplaceAll(t.envelope(), `,"`, t.one(",\n\"", ",\r\n\"", ",\r\"")))
		t.hang()
	}},
	{Name: "json5", About: "answers in what looks like JSON to a person", at: anywhere, strike: func(t *turn) {
		whole := t.envelope()
		t.say(t.one("// hi\n", "/* hi */", "") + strings.NewReplacer(`"jsonrpc"`, "jsonrpc", `"2.0"`, "'2.0'").Replace(whole[:len(whole)-1]) + ",}")
		t.hang()
	}},
	{Name: "chatter", About: "prints text between its messages", at: anywhere, strike: func(t *turn) {
		t.many()
		for _, line := range []string{"Server is running on stdio", "", "DEBUG {", "\x1b[31mred\x1b[0m", "[]", strings.Repeat("-", t.between(1, 100_000))} {
			t.say(line)
		}
		t.answer()
	}},
	{Name: "html", About: "answers with a web page", at: anywhere, Unanswered: true, strike: func(t *turn) {
		t.say("<!doctype html><title>poison</title><script>alert(1)</script>")
		t.hang()
	}},
}
