package mcpserve

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/guard"
)

// mask carries through the SDK what it would change. Integers that its float64 cannot
// hold become strings that nobody can guess on the way in, and themselves again on the
// way out. What a client answers to a question, and to those of an unfinished result,
// goes through as the text of one string. An error with the number of an unknown method,
// which the SDK replaces by its own, has a number that nobody can guess on the way out;
// and one without a number, which the SDK gives its own refusals, gets that of an invalid
// request.
type mask struct {
	secret   string
	notFound int64
}

func newMask() mask {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return mask{"toolyard-" + rand.Text() + "-", -int64(binary.LittleEndian.Uint64(b[:])>>2) - 1<<61}
}

// callerHeader is the header in which the SDK carries who calls. Nobody can guess its
// name, and so nobody can send it.
func (m mask) callerHeader() string {
	return http.CanonicalHeaderKey(strings.Trim(m.secret, "-"))
}

// hideError masks the number of an error.
func (m mask) hideError(e *jsonrpc.Error) *jsonrpc.Error {
	if e.Code != jsonrpc.CodeMethodNotFound {
		return e
	}
	hidden := *e
	hidden.Code = m.notFound
	return &hidden
}

// edit is a part of a message and what takes its place.
type edit struct {
	at, length int
	text       string
}

// apply makes the edits of a message. Each old value is a part of it.
func apply(message []byte, edits []edit) []byte {
	slices.SortFunc(edits, func(a, b edit) int { return b.at - a.at })
	for _, e := range edits {
		message = slices.Concat(message[:e.at], []byte(e.text), message[e.at+e.length:])
	}
	return message
}

// replacement is the edit that puts text in the place of value, a part of message.
func replacement(message []byte, value json.RawMessage, text string) edit {
	return edit{cap(message) - cap(value), len(value), text}
}

// answersKey is the key of _meta under which the SDK carries answers.
func (m mask) answersKey() string { return m.secret + "answers" }

// carry is the member of _meta that carries answers.
func (m mask) carry(answers json.RawMessage) string {
	return `"` + m.answersKey() + `":` + string(toolyard.AppendJSONString(nil, string(answers)))
}

// carried are the answers that _meta carries, nil for none.
func (m mask) carried(meta map[string]any) json.RawMessage {
	if answers, ok := meta[m.answersKey()].(string); ok {
		return json.RawMessage(answers)
	}
	return nil
}

// hideAnswers masks the result of a response, and the answers of a request that resumes an
// unfinished one. What is left is a result of every type that the SDK asks for.
func (m mask) hideAnswers(message []byte, params json.RawMessage) (edits []edit) {
	if result := guard.Member(message, "result"); result != nil {
		edits = append(edits, replacement(message, result, `{"content":{"type":"text","text":""},"_meta":{`+m.carry(result)+`}}`))
	}
	answers, meta := guard.Member(params, "inputResponses"), guard.Member(params, "_meta")
	if answers == nil {
		return edits
	}
	edits = append(edits, replacement(message, answers, "{}"))
	if len(meta) == 0 || meta[0] != '{' { // the legacy era, where nothing is resumed
		return edits
	}
	carried := m.carry(answers)
	if bytes.TrimLeft(meta[1:], " \t\r\n")[0] != '}' {
		carried += ","
	}
	return append(edits, edit{replacement(message, meta, "").at + 1, 0, carried})
}

// hide masks the request id, the id of a cancellation, the progress token and the answers
// of a message that has passed the strict reader.
func (m mask) hide(message []byte) []byte {
	params := guard.Member(message, "params")
	edits := m.hideAnswers(message, params)
	for _, number := range []json.RawMessage{guard.Member(message, "id"), guard.Member(params, "requestId"), guard.Member(guard.Member(params, "_meta"), "progressToken")} {
		if unsafeInteger(number) {
			edits = append(edits, replacement(message, number, `"`+m.secret+string(number)+`"`))
		}
	}
	return apply(message, edits)
}

// unsafeInteger reports whether a JSON value is an integer that a float64 may not
// hold.
func unsafeInteger(value json.RawMessage) bool {
	digits := bytes.TrimPrefix(value, []byte("-"))
	return len(digits) >= len("9007199254740992") && len(bytes.Trim(digits, "0123456789")) == 0
}

// show unmasks a message that the SDK wrote, which may stand in an event. Only where hide
// and hideError put something is anything unmasked; elsewhere, in the text of an error,
// what is secret is left out.
func (m mask) show(written []byte) []byte {
	secret := bytes.Contains(written, []byte(m.secret))
	if !secret && !bytes.Contains(written, []byte(`"error":{"code":`)) {
		return written
	}
	from, to := bytes.IndexByte(written, '{'), bytes.LastIndexByte(written, '}')
	if from < 0 || to < from {
		return written
	}
	message := m.unmask(slices.Clone(written[from : to+1]))
	shown := slices.Concat(written[:from], message, written[to+1:])
	if secret {
		shown = bytes.ReplaceAll(shown, []byte(m.secret), nil)
	}
	return shown
}

func (m mask) unmask(message []byte) []byte {
	var edits []edit
	params := guard.Member(message, "params")
	for _, value := range []json.RawMessage{
		guard.Member(message, "id"), guard.Member(params, "progressToken"), guard.Member(params, "requestId"),
		guard.Member(guard.Member(params, "_meta"), mcp.MetaKeySubscriptionID),
		guard.Member(guard.Member(guard.Member(message, "result"), "_meta"), mcp.MetaKeySubscriptionID),
	} {
		number, masked := strings.CutPrefix(strings.Trim(string(value), `"`), m.secret)
		if masked && unsafeInteger(json.RawMessage(number)) {
			edits = append(edits, replacement(message, value, number))
		}
	}
	switch code := guard.Member(guard.Member(message, "error"), "code"); string(code) {
	case strconv.FormatInt(m.notFound, 10):
		edits = append(edits, replacement(message, code, strconv.Itoa(jsonrpc.CodeMethodNotFound)))
	case "0":
		edits = append(edits, replacement(message, code, strconv.Itoa(jsonrpc.CodeInvalidRequest)))
	}
	return apply(message, edits)
}
