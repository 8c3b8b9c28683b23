package toolyard_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/jsonobject"
)

// show returns a result's JSON as a client receives it.
func show(r *toolyard.Result) string {
	if r.Raw() != nil {
		return "raw " + string(r.Raw())
	}
	var b []byte
	for _, c := range r.Content {
		b = append(c.AppendJSON(b), ' ')
	}
	s := string(b)
	if r.Structured != nil {
		s += "structured " + string(r.Structured)
	}
	if r.IsError {
		s += "isError"
	}
	return strings.TrimSpace(s)
}

func TestResultOf(t *testing.T) {
	type weather struct {
		Temp float64 `json:"temp"`
		Sky  string  `json:"sky"`
	}
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	for _, tt := range []struct {
		name  string
		value any
		want  string
	}{
		{"nil", nil, ""},
		{"null", raw(`null`), ""},
		{"string", "Hello, World!", `{"type":"text","text":"Hello, World!"}`},
		{"markup is not escaped", "<p>&", `{"type":"text","text":"<p>&"}`},
		{"number", 42, `{"type":"text","text":"42"}`},
		{"big number", raw(`9007199254740993`), `{"type":"text","text":"9007199254740993"}`},
		{"bool", true, `{"type":"text","text":"true"}`},
		{"object", weather{22.5, "<Sunny>"}, `{"type":"text","text":"{\"temp\":22.5,\"sky\":\"<Sunny>\"}"} structured {"temp":22.5,"sky":"<Sunny>"}`},
		{"array", []string{"a", "b"}, `{"type":"text","text":"a"} {"type":"text","text":"b"} structured ["a","b"]`},
		{"array of domain objects with a type", raw(`[{"type":"text"},{"type":"car","text":"x"}]`), `{"type":"text","text":"{\"type\":\"text\"}"} {"type":"text","text":"{\"type\":\"car\",\"text\":\"x\"}"} structured [{"type":"text"},{"type":"car","text":"x"}]`},
		{"error object", raw(`{"isError":true,"error":"Not found"}`), `{"type":"text","text":"Not found"} isError`},
		{"not an error object", raw(`{"isError":false,"error":"x"}`), `{"type":"text","text":"{\"isError\":false,\"error\":\"x\"}"} structured {"isError":false,"error":"x"}`},
		{"image object", raw(`{"type":"image","data":"aGk=","mimeType":"image/png","more":1}`), `{"type":"image","data":"aGk=","mimeType":"image/png","more":1}`},
		{"link object", raw(`{"type":"resource_link","uri":"file:///a","name":"a"}`), `{"type":"resource_link","uri":"file:///a","name":"a"}`},
		{"whole result", raw(`{"x":1,"content":[{"type":"text","text":"a","later":1}]}`), `raw {"x":1,"content":[{"type":"text","text":"a","later":1}]}`},
		{"whole result without content", raw(`{"content":[],"isError":true}`), `raw {"content":[],"isError":true}`},
		{"an empty page", raw(`{"content":[],"total":0}`), `{"type":"text","text":"{\"content\":[],\"total\":0}"} structured {"content":[],"total":0}`},
		{"a page of posts", raw(`{"content":[{"type":"post"}]}`), `{"type":"text","text":"{\"content\":[{\"type\":\"post\"}]}"} structured {"content":[{"type":"post"}]}`},
		{"content that is not content", raw(`{"content":["a"]}`), `{"type":"text","text":"{\"content\":[\"a\"]}"} structured {"content":["a"]}`},
		{"content of another kind", raw(`{"content":"page"}`), `{"type":"text","text":"{\"content\":\"page\"}"} structured {"content":"page"}`},
		{"Image", toolyard.Image{Data: []byte("hi"), MIMEType: "image/png"}, `{"type":"image","data":"aGk=","mimeType":"image/png"}`},
		{"Audio", toolyard.Audio{Data: []byte("hi"), MIMEType: "audio/wav"}, `{"type":"audio","data":"aGk=","mimeType":"audio/wav"}`},
		{"Link", toolyard.Link{URI: "u", Name: "n"}, `{"type":"resource_link","uri":"u","name":"n"}`},
		{"Resource", toolyard.EmbeddedResource{URI: "u", Text: "t"}, `{"type":"resource","resource":{"uri":"u","text":"t"}}`},
		{"Blob", []toolyard.Content{toolyard.EmbeddedResource{URI: "u", Blob: []byte("hi")}}, `{"type":"resource","resource":{"uri":"u","blob":"aGk="}}`},
		{"Failure", toolyard.Failure("no %s", "city"), `{"type":"text","text":"no city"} isError`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res, err := toolyard.ResultOf(tt.value)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, show(res)); diff != "" {
				t.Error(diff)
			}
		})
	}
	boom := errors.New("boom")
	if _, err := toolyard.ResultOf(boom); !errors.Is(err, boom) {
		t.Errorf("an error value gave %v", err)
	}
	if _, err := toolyard.ResultOf(func() {}); err == nil {
		t.Error("a function has a result")
	}
}

func TestAppendJSONString(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
		var got string
		if err := json.Unmarshal(jsonobject.AppendString(nil, s), &got); err != nil {
			t.Fatal(err)
		}
		if want := strings.ToValidUTF8(s, "\ufffd"); utf8.ValidString(s) && got != want {
			t.Fatalf("%q became %q", s, got)
		}
	})
}

func TestCut(t *testing.T) {
	long := strings.Repeat("é", 1000)
	raw := &toolyard.Result{}
	if err := json.Unmarshal([]byte(`{"content":[{"type":"text","text":"`+long+`"}]}`), raw); err != nil {
		t.Fatal(err)
	}
	for name, res := range map[string]*toolyard.Result{
		"text":  {Content: []toolyard.Content{toolyard.Text("first"), toolyard.Text(long)}, Structured: json.RawMessage(`"x"`)},
		"image": {Content: []toolyard.Content{toolyard.Image{Data: make([]byte, 2000)}, toolyard.Text("after")}},
		"raw":   raw,
	} {
		t.Run(name, func(t *testing.T) {
			size := res.Size()
			cut := res.Truncate(501)
			if cut.Size() > 501 || !utf8.ValidString(show(cut)) {
				t.Errorf("%d bytes: %s", cut.Size(), show(cut))
			}
			last := cut.Content[len(cut.Content)-1].(toolyard.Text)
			if !strings.Contains(string(last), "truncated") || !strings.Contains(show(cut), "501") || size < 1000 {
				t.Errorf("no mark in %s", show(cut))
			}
			if res.Truncate(size) != res {
				t.Error("a result within the limit was cut")
			}
		})
	}
}

// The keys of a raw result are matched exactly, including their case.
func TestRawResultReadsExactKeys(t *testing.T) {
	var res toolyard.Result
	err := json.Unmarshal([]byte(`{"structuredContent":1,"structuredcontent":2,"isError":false,"ISERROR":true,"resultType":"input_required"}`), &res)
	if err != nil || string(res.Structured) != "1" || res.IsError || !res.InputRequired() {
		t.Errorf("%+v %v", res, err)
	}
}
