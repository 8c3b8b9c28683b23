package mcpserver

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

// asks returns an unfinished result with one request.
func asks(method, params string) string {
	return `{"resultType":"input_required","inputRequests":{"k":{"method":"` + method + `","params":` + params + `}}}`
}

// asksForm returns an unfinished result with a form of one field.
func asksForm(field string) string {
	return asks("elicitation/create", `{"message":"?","requestedSchema":{"type":"object","properties":{"f":`+field+`}}}`)
}

func TestInputRequestsAreValidated(t *testing.T) {
	const all = `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{}}`
	many := strings.TrimSuffix(strings.Repeat(`"k%d":{"method":"roots/list"},`, maxQuestions+1), ",")
	var numbers []any
	for i := range maxQuestions + 1 {
		numbers = append(numbers, i)
	}
	for name, tt := range map[string]struct {
		features, result string
		need             string // missing capability
		wrong            string // part of the error
	}{
		"a form":                    {result: asksForm(`{"type":"string","format":"email","minLength":1,"default":"x"}`)},
		"a form, no modes":          {features: `{"elicitation":{}}`, result: asksForm(`{"type":"boolean"}`)},
		"choices":                   {result: asksForm(`{"type":"string","oneOf":[{"const":"a","title":"A"}]}`)},
		"many choices":              {result: asksForm(`{"type":"array","items":{"anyOf":[{"const":"a","title":"A"}]},"maxItems":2}`)},
		"many plain choices":        {result: asksForm(`{"type":"array","items":{"type":"string","enum":["a"]}}`)},
		"a page":                    {result: asks("elicitation/create", `{"mode":"url","message":"?","url":"https://example.com/a"}`)},
		"a model":                   {result: asks("sampling/createMessage", `{"messages":[],"maxTokens":1}`)},
		"roots":                     {result: asks("roots/list", `{}`)},
		"roots without params":      {result: `{"resultType":"input_required","inputRequests":{"k":{"method":"roots/list"}}}`},
		"only a state":              {result: `{"resultType":"input_required","requestState":"s"}`},
		"no elicitation":            {features: `{}`, result: asksForm(`{"type":"string"}`), need: "elicitation"},
		"nothing declared":          {features: `null`, result: asksForm(`{"type":"string"}`), need: "elicitation"},
		"no form":                   {features: `{"elicitation":{"url":{}}}`, result: asksForm(`{"type":"string"}`), need: "elicitation.form"},
		"no url":                    {features: `{"elicitation":{}}`, result: asks("elicitation/create", `{"mode":"url","url":"https://a.b"}`), need: "elicitation.url"},
		"no sampling":               {features: `{}`, result: asks("sampling/createMessage", `{}`), need: "sampling"},
		"no tools of a model":       {features: `{"sampling":{}}`, result: asks("sampling/createMessage", `{"tools":[]}`), need: "sampling.tools"},
		"no roots":                  {features: `{"elicitation":{}}`, result: asks("roots/list", `{}`), need: "roots"},
		"a method of ours":          {result: asks("tools/call", `{}`), wrong: "unknown method"},
		"a notification":            {result: asks("notifications/cancelled", `{"requestId":1}`), wrong: "unknown method"},
		"params that are none":      {result: asks("roots/list", `[]`), wrong: "not an object"},
		"nothing":                   {result: `{"resultType":"input_required"}`, wrong: "neither inputRequests nor requestState"},
		"a task":                    {result: `{"resultType":"task","taskId":"1"}`, wrong: "unknown result type"},
		"a list":                    {result: `{"resultType":"input_required","inputRequests":[]}`, wrong: "not an object"},
		"a state that is no string": {result: `{"resultType":"input_required","requestState":1}`, wrong: "not a string"},
		"twice the same key":        {result: `{"resultType":"input_required","inputRequests":{"a":{},"a":{}}}`, wrong: "duplicate key a"},
		"too many":                  {result: `{"resultType":"input_required","inputRequests":{` + fmt.Sprintf(many, numbers...) + `}}`, wrong: "more than 16"},
		"too much":                  {result: asksForm(`{"type":"string","title":"` + strings.Repeat("x", maxRequests) + `"}`), wrong: "larger than 64 KiB"},
		"too much state":            {result: `{"resultType":"input_required","requestState":"` + strings.Repeat("x", maxState) + `"}`, wrong: "larger than 64 KiB"},
		"an unknown mode":           {result: asks("elicitation/create", `{"mode":"voice"}`), wrong: "mode"},
		"a script for a page":       {result: asks("elicitation/create", `{"mode":"url","url":"javascript://x/%0aalert(1)"}`), wrong: "http or https"},
		"a file for a page":         {result: asks("elicitation/create", `{"mode":"url","url":"file:///etc/passwd"}`), wrong: "http or https"},
		"no schema":                 {result: asks("elicitation/create", `{"message":"?"}`), wrong: "schema"},
		"a schema without end":      {result: asks("elicitation/create", `{"requestedSchema":{"$ref":"#"}}`), wrong: "infinite reference loop"},
		"a schema from elsewhere":   {result: asksForm(`{"type":"string","$ref":"https://example.com"}`), wrong: "are not supported"},
		"a list for a form":         {result: asks("elicitation/create", `{"requestedSchema":{"type":"array","items":{}}}`), wrong: "flat object"},
		"alternatives of forms":     {result: asks("elicitation/create", `{"requestedSchema":{"type":"object","allOf":[{}]}}`), wrong: "flat object"},
		"an object inside":          {result: asksForm(`{"type":"object","properties":{}}`), wrong: "must be a string"},
		"a list inside":             {result: asksForm(`{"type":"array","items":{"type":"object"}}`), wrong: "must be a string"},
		"a list of any text":        {result: asksForm(`{"type":"array","items":{"type":"string"}}`), wrong: "must be a string"},
		"a field of no type":        {result: asksForm(`{}`), wrong: "must be a string"},
		"a field of two types":      {result: asksForm(`{"type":["string","object"]}`), wrong: "must be a string"},
		"a choice of objects":       {result: asksForm(`{"type":"string","oneOf":[{"type":"object"}]}`), wrong: "must be a string"},
		"a reference inside":        {result: asksForm(`{"type":"string","$ref":"#/properties/f"}`), wrong: "infinite reference loop"},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.features == "" {
				tt.features = all
			}
			c := &toolyard.Call{Tool: &toolyard.Tool{Spec: toolyard.Spec{Name: "t"}}, Request: toolyard.Request{ClientCapabilities: json.RawMessage(tt.features)}}
			_, err := readInputRequired(c, json.RawMessage(tt.result))
			if err == nil {
				if tt.need+tt.wrong != "" {
					t.Error("it was accepted")
				}
				return
			}
			e := toolyard.AsError(err)
			needed := e.Code == toolyard.MissingCapability && len(e.Missing) == 1 && e.Missing[0] == tt.need && tt.need != ""
			refused := e.Code == toolyard.Failed && tt.wrong != "" && strings.Contains(e.Message, tt.wrong)
			if !needed && !refused {
				t.Errorf("%s %v: %v", e.Code, e.Missing, e)
			}
		})
	}
}

func FuzzInquire(f *testing.F) {
	f.Add([]byte(asksForm(`{"type":"array","items":{"type":"string","enum":["a"]}}`)))
	f.Add([]byte(asks("elicitation/create", `{"mode":"url","url":"https://example.com"}`)))
	f.Add([]byte(`{"resultType":"input_required","requestState":"s"}`))
	c := &toolyard.Call{Tool: &toolyard.Tool{}, Request: toolyard.Request{ClientCapabilities: json.RawMessage(`{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}`)}}
	f.Fuzz(func(t *testing.T, raw []byte) {
		q, err := readInputRequired(c, raw)
		if err != nil {
			return
		}
		for _, question := range q.requests {
			if strictjson.Check(question.params) != nil || strictjson.Check(question.legacyParams()) != nil {
				t.Errorf("%q", question.params)
			}
		}
	})
}
