package toolyard_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/callpath"
)

type window struct {
	Verbose bool `json:"verbose" default:"false"`
	Depth   int  `json:"depth" minimum:"0" maximum:"5"`
}

type barArgs struct {
	Symbol   string   `json:"symbol" doc:"Perp symbol, such as BTC" minLength:"1"`
	Interval string   `json:"interval" enum:"1m,5m,15m,1h,4h,1d"`
	Lookback int      `json:"lookback" minimum:"1" maximum:"500" default:"100"`
	Tags     []string `json:"tags,omitempty" enum:"a,b" maxItems:"3"`
	Options  *window  `json:"options"`
}

func echo[T any](_ context.Context, _ *toolyard.Call, in T) (T, error) { return in, nil }

func noHandler(context.Context, *toolyard.Call) (*toolyard.Result, error) { return nil, nil }

func bars() *toolyard.Tool {
	return toolyard.Define(toolyard.Spec{Name: "fetch_recent_bars"}, echo[barArgs])
}

func TestDefineDerivesTheSchema(t *testing.T) {
	want := `{"type":"object","properties":{` +
		`"symbol":{"type":"string","description":"Perp symbol, such as BTC","minLength":1},` +
		`"interval":{"type":"string","enum":["1m","5m","15m","1h","4h","1d"]},` +
		`"lookback":{"type":"integer","minimum":1,"maximum":500,"default":100},` +
		`"tags":{"type":"array","items":{"enum":["a","b"],"type":"string"},"maxItems":3},` +
		`"options":{"type":"object","properties":{` +
		`"verbose":{"type":"boolean","default":false},"depth":{"type":"integer","minimum":0,"maximum":5}},` +
		`"required":["depth"],"additionalProperties":false}},` +
		`"required":["symbol","interval"],"additionalProperties":false}`
	if diff := cmp.Diff(want, string(bars().Input)); diff != "" {
		t.Error(diff)
	}
}

func TestDefineDerivesEveryKind(t *testing.T) {
	type inner struct {
		ID int `json:"id"`
	}
	type all struct {
		inner
		Skip   string             `json:"-"`
		hidden int                //nolint:unused // shows that unexported fields are left out
		Named  string             // has no tag
		Bytes  []byte             `json:"bytes"`
		Price  toolyard.Money     `json:"price"`
		Any    any                `json:"any"`
		Raw    json.RawMessage    `json:"raw"`
		Map    map[string]float64 `json:"map"`
		Small  uint8              `json:"small" minimum:"3"`
		Opt    *string            `json:"opt" default:"x"`
	}
	tool := toolyard.Define(toolyard.Spec{Name: "all"}, func(context.Context, *toolyard.Call, all) (string, error) { return "", nil })
	want := `{"type":"object","properties":{"id":{"type":"integer"},"Named":{"type":"string"},` +
		`"bytes":{"type":"string","contentEncoding":"base64"},` +
		`"price":{"type":"string","pattern":"^-?[0-9]+(\\.[0-9]{1,9})?$"},"any":{},"raw":{},` +
		`"map":{"type":"object","additionalProperties":{"type":"number"}},` +
		`"small":{"type":"integer","minimum":3},"opt":{"type":"string","default":"x"}},` +
		`"required":["id","Named","bytes","price","any","raw","map","small"],"additionalProperties":false}`
	if diff := cmp.Diff(want, string(tool.Input)); diff != "" {
		t.Error(diff)
	}
	if tool.Output != nil {
		t.Errorf("a text result promised a schema: %s", tool.Output)
	}
}

func TestDefinePanicsOnAMistake(t *testing.T) {
	type loop struct{ Next []loop }
	for name, define := range map[string]func(){
		"arguments must be a struct": func() { toolyard.Define(toolyard.Spec{Name: "x"}, echo[string]) },
		"is recursive":               func() { toolyard.Define(toolyard.Spec{Name: "x"}, echo[loop]) },
		"tool name":                  func() { toolyard.Define(toolyard.Spec{Name: "no spaces"}, echo[struct{}]) },
		"not a number": func() {
			toolyard.Define(toolyard.Spec{Name: "x"}, echo[struct {
				A int `minimum:"low"`
			}])
		},
		"not a value of type int": func() {
			toolyard.Define(toolyard.Spec{Name: "x"}, echo[struct {
				A int `default:"ten"`
			}])
		},
		"unknown effects": func() { toolyard.Define(toolyard.Spec{Name: "x", Effects: "raed"}, echo[struct{}]) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if p := fmt.Sprint(recover()); !strings.Contains(p, name) {
					t.Errorf("panic %q does not contain %q", p, name)
				}
			}()
			define()
		})
	}
}

func TestValidateNamesEachFault(t *testing.T) {
	for _, tt := range []struct{ args, path, message string }{
		{`{"symbol":"BTC","interval":"1m","lookback":0}`, "lookback", "must be at least 1"},
		{`{"symbol":"BTC","interval":"1m","lookback":501}`, "lookback", "must be at most 500"},
		{`{"symbol":"BTC","interval":"1m","lookback":"10"}`, "lookback", "must be integer, not string"},
		{`{"symbol":"BTC","interval":"1m","lookback":1.5}`, "lookback", "must be integer, not number"},
		{`{"symbol":"BTC","interval":"1m"} {}`, "", "not JSON: unexpected data after the value (at byte 33)"},
		{`{"symbol":"BTC","interval":"2m"}`, "interval", `must be one of "1m", "5m", "15m", "1h", "4h", "1d"`},
		{`{"interval":"1m"}`, "symbol", "is required"},
		{`{"symbol":"BTC","interval":"1m","lokback":5}`, "lokback", "is unknown (did you mean \"lookback\"?)"},
		{`{"symbol":"BTC","interval":"1m","options":{"depth":6}}`, "options.depth", "must be at most 5"},
		{`{"symbol":"BTC","interval":"1m","tags":["a","c"]}`, "tags[1]", `must be one of "a", "b"`},
		{`[1]`, "", "must be object, not array"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			_, err := bars().Validate(t.Context(), json.RawMessage(tt.args))
			e := toolyard.AsError(err)
			want := []toolyard.Issue{{Path: tt.path, Message: tt.message}}
			if diff := cmp.Diff(want, e.Issues, cmpopts.IgnoreFields(toolyard.Issue{}, "Location")); diff != "" || e.Code != toolyard.Invalid || !e.Code.Correctable() || e.Retryable() {
				t.Errorf("%v %s", e.Code, diff)
			}
		})
	}
}

func TestValidateReportsAllFaultsAtOnce(t *testing.T) {
	_, err := bars().Validate(t.Context(), json.RawMessage(`{"interval":"2m","lookback":0}`))
	if got := len(toolyard.AsError(err).Issues); got != 3 {
		t.Errorf("%d issues, want 3: %v", got, err)
	}
}

func TestValidateAppliesDefaults(t *testing.T) {
	args, err := bars().Validate(t.Context(), json.RawMessage(`{"symbol":"BTC","interval":"1m","options":{"depth":5}}`))
	if err != nil {
		t.Fatal(err)
	}
	var got barArgs
	if err := json.Unmarshal(args, &got); err != nil {
		t.Fatal(err)
	}
	want := barArgs{Symbol: "BTC", Interval: "1m", Lookback: 100, Options: &window{Depth: 5}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(string(args), `"verbose":false`) {
		t.Errorf("the nested default is not in %s", args)
	}
}

func TestValidateLeavesCompleteArgumentsUntouched(t *testing.T) {
	args := `{ "interval":"1m","symbol":"BTC", "lookback":9 }`
	got, err := bars().Validate(t.Context(), json.RawMessage(args))
	if err != nil || string(got) != args {
		t.Errorf("%s became %s (%v)", args, got, err)
	}
}

func TestDefaultsOfRawSchemas(t *testing.T) {
	tool, err := toolyard.NewTool(toolyard.Spec{Name: "x", Input: json.RawMessage(`{
		"type":"object","required":["greeting"],
		"$defs":{"list":{"type":"object","properties":{"n":{"default":1},"tags":{"default":["a"]}}}},
		"properties":{"greeting":{"default":"Hello"},"lists":{"type":"array","items":{"$ref":"#/$defs/list"}}}}`)}, noHandler)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // a call must not change the default for the next one
		got, err := tool.Validate(t.Context(), json.RawMessage(`{"lists":[{},{"n":9007199254740993}]}`))
		want := `{"lists":[{"n":1,"tags":["a"]},{"n":9007199254740993,"tags":["a"]}],"greeting":"Hello"}`
		if err != nil || string(got) != want {
			t.Errorf("got %s %v", got, err)
		}
	}
}

func TestNewToolRefusesBadSchemas(t *testing.T) {
	for schema, want := range map[string]string{
		`{"type":"string"}`: `must have "type": "object"`,
		`{}`:                `must have "type": "object"`,
		`{"type":"object","properties":{"a":{"$ref":"file:///etc/passwd"}}}`:     "are not supported",
		`{"type":"object","properties":{"a":{"$ref":"https://example.com/s"}}}`:  "are not supported",
		`{"type":"object","properties":{"a":{"type":"strnig"}}}`:                 "input schema",
		`{"type":"object","properties":{"a":{"type":"string","pattern":"(?<"}}}`: "input schema",
		`{"type":"object"} {"x":`: "data after the value",
		`{"type":`:                "input schema",
	} {
		_, err := toolyard.NewTool(toolyard.Spec{Name: "x", Input: json.RawMessage(schema)}, noHandler)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", schema, err, want)
		}
	}
}

func TestOutputThatBreaksItsSchemaIsAnError(t *testing.T) {
	type risk struct {
		Score int `json:"score" minimum:"0" maximum:"100"`
	}
	tool := toolyard.Define(toolyard.Spec{Name: "risk"}, func(_ context.Context, _ *toolyard.Call, in struct {
		Score int `json:"score"`
	},
	) (risk, error) {
		return risk{in.Score}, nil
	})
	if _, err := callpath.Run(t.Context(), &toolyard.Call{Tool: tool, Args: json.RawMessage(`{"score":90}`)}); err != nil {
		t.Error(err)
	}
	_, err := callpath.Run(t.Context(), &toolyard.Call{Tool: tool, Args: json.RawMessage(`{"score":101}`)})
	e := toolyard.AsError(err)
	if e.Code != toolyard.InvalidOutput || len(e.Issues) != 1 || e.Issues[0].Path != "score" {
		t.Errorf("%+v", e)
	}
}

func TestAsError(t *testing.T) {
	for want, err := range map[toolyard.Code]error{
		toolyard.Timeout:  fmt.Errorf("dial: %w", context.DeadlineExceeded),
		toolyard.Canceled: context.Canceled,
		toolyard.Failed:   errors.New("invalid connection type"), // the text must not affect the code
		toolyard.NoData:   fmt.Errorf("x: %w", toolyard.Errorf(toolyard.NoData, "Portfolio not linked")),
	} {
		if got := toolyard.AsError(err); got.Code != want || got.Code.Retryable() {
			t.Errorf("%v: %v", err, got.Code)
		}
	}
}

// A nil value in a result is encoded as null, and a nil slice as an empty array.
func TestNilsInResults(t *testing.T) {
	type page struct {
		Items []string       `json:"items"`
		Next  *string        `json:"next"`
		Index map[string]int `json:"index"`
		At    *window        `json:"at"`
	}
	empty := toolyard.Define(toolyard.Spec{Name: "x"}, func(context.Context, *toolyard.Call, struct{}) (page, error) { return page{}, nil })
	none := toolyard.Define(toolyard.Spec{Name: "x"}, func(context.Context, *toolyard.Call, struct{}) ([]string, error) { return nil, nil })
	for tool, want := range map[*toolyard.Tool]string{empty: `{"items":null,"next":null,"index":null,"at":null}`, none: `[]`} {
		res, err := callpath.Run(t.Context(), &toolyard.Call{Tool: tool, Args: json.RawMessage(`{}`)})
		if err != nil || string(res.Structured) != want {
			t.Errorf("%v %v", res, err)
		}
	}
}

// A typed result is data, even if it looks like content or like a whole result.
func TestTypedResultsAreData(t *testing.T) {
	type post struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	type feed struct {
		Content []post `json:"content"`
		Total   int    `json:"total"`
	}
	like := toolyard.Define(toolyard.Spec{Name: "x"}, func(context.Context, *toolyard.Call, struct{}) (post, error) { return post{"text", "hi"}, nil })
	page := toolyard.Define(toolyard.Spec{Name: "x"}, func(context.Context, *toolyard.Call, struct{}) (feed, error) {
		return feed{Content: []post{}}, nil
	})
	for tool, want := range map[*toolyard.Tool]string{like: `{"type":"text","text":"hi"}`, page: `{"content":[],"total":0}`} {
		res, err := callpath.Run(t.Context(), &toolyard.Call{Tool: tool, Args: json.RawMessage(`{}`)})
		if err != nil || string(res.Structured) != want || res.Content[0] != toolyard.Text(want) {
			t.Errorf("%v %v", res, err)
		}
	}
}

// encoding/json ignores the case of keys; toolyard does not.
func TestKeysThatDifferInCaseAreRefused(t *testing.T) {
	tool := toolyard.Define(toolyard.Spec{Name: "x", Input: json.RawMessage(`{"type":"object","properties":{"amount":{"type":"integer","maximum":10},"in":{"type":"object","properties":{"k":{}}}},"additionalProperties":true}`)},
		func(_ context.Context, _ *toolyard.Call, in struct{ Amount int }) (int, error) { return in.Amount, nil })
	for args, path := range map[string]string{`{"amount":5,"AMOUNT":1000000}`: "AMOUNT", `{"in":{"K":1}}`: "in.K", `{"in":{"\u212a":1}}`: "in.\u212a"} {
		if _, err := tool.Validate(t.Context(), json.RawMessage(args)); err == nil || toolyard.AsError(err).Issues[0].Path != path {
			t.Errorf("%s: %v", args, err)
		}
	}
	if _, err := tool.Validate(t.Context(), json.RawMessage(`{"amount":5,"other":1}`)); err != nil {
		t.Error(err)
	}
}

func TestWholeNumbers(t *testing.T) {
	tool := toolyard.Define(toolyard.Spec{Name: "x"}, func(_ context.Context, _ *toolyard.Call, in struct{ N int8 }) (int8, error) { return in.N, nil })
	for _, args := range []string{`{"N":5.0}`, `{"N":0.5e1}`, `{"N":5}`} {
		completed, err := tool.Validate(t.Context(), json.RawMessage(args))
		if err != nil || string(completed) != `{"N":5}` {
			t.Errorf("%s: %s %v", args, completed, err)
		}
	}
	_, err := callpath.Run(t.Context(), &toolyard.Call{Tool: tool, Args: json.RawMessage(`{"N":300}`)})
	if e := toolyard.AsError(err); e.Code != toolyard.Invalid || e.Issues[0].Path != "N" || strings.Contains(e.Error(), "Go") {
		t.Errorf("%v", err)
	}
}

// A recursive schema cannot make a call run forever.
func TestSchemasThatReferToThemselves(t *testing.T) {
	for _, schema := range []string{
		`{"type":"object","properties":{"a":{"default":1}},"allOf":[{"$ref":"#"},{"$ref":"#"}]}`,
		`{"type":"object","properties":{"l":{"$ref":"#","default":{}},"r":{"$ref":"#","default":{}}}}`,
	} {
		tool, err := toolyard.NewTool(toolyard.Spec{Name: "x", Input: json.RawMessage(schema)}, noHandler)
		if err != nil {
			continue // refusing the schema is fine too
		}
		start := time.Now()
		_, _ = tool.Validate(t.Context(), json.RawMessage(`{}`))
		if took := time.Since(start); took > time.Minute {
			t.Errorf("%s took %v", schema, took)
		}
	}
}

func TestPatternsOfJavaScript(t *testing.T) {
	tool, err := toolyard.NewTool(toolyard.Spec{Name: "x", Input: json.RawMessage(`{"type":"object","properties":{"email":{"type":"string","pattern":"^(?!\\.)(?!.*\\.\\.)([a-z.]*)[a-z]@[a-z]+$"}}}`)}, noHandler)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tool.Validate(t.Context(), json.RawMessage(`{"email":"a.b@c"}`)); err != nil {
		t.Error(err)
	}
	if _, err := tool.Validate(t.Context(), json.RawMessage(`{"email":"a..b@c"}`)); err == nil {
		t.Error("two dots match")
	}
}

func TestNewToolRefusesBadSpecs(t *testing.T) {
	for want, spec := range map[string]toolyard.Spec{
		"_meta.x is not valid JSON": {Name: "x", Meta: map[string]json.RawMessage{"x": json.RawMessage("oops")}},
		"server id":                 {Name: "x", Server: "a b"},
		"unknown surface":           {Name: "x", Terms: toolyard.Terms{Surface: "everywhere"}},
		"unknown latency":           {Name: "x", Terms: toolyard.Terms{Latency: "soon"}},
	} {
		if _, err := toolyard.NewTool(spec, noHandler); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", spec, err)
		}
	}
	if _, err := toolyard.NewTool(toolyard.Spec{Name: "x"}, nil); err == nil {
		t.Error("a tool without a handler")
	}
}

type invalidContent struct{}

func (invalidContent) AppendJSON(b []byte) []byte { return append(b, "{oops"...) }

// A result that cannot be encoded fails its own call and does not break the connection.
func TestResultsThatCannotBeSent(t *testing.T) {
	for name, res := range map[string]*toolyard.Result{
		"own content": {Content: []toolyard.Content{invalidContent{}}},
		"nil content": {Content: []toolyard.Content{nil}},
		"structured":  {Structured: json.RawMessage("oops")},
		"meta":        {Meta: map[string]json.RawMessage{"a": nil}},
	} {
		tool, err := toolyard.NewTool(toolyard.Spec{Name: "x"}, func(context.Context, *toolyard.Call) (*toolyard.Result, error) { return res, nil })
		if err != nil {
			t.Fatal(err)
		}
		if _, err := callpath.Run(t.Context(), &toolyard.Call{Tool: tool}); err == nil || toolyard.AsError(err).Code != toolyard.InvalidOutput {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A misspelled argument is rejected with a suggestion for every kind of tool, unless the author
// accepts unlisted arguments.
func TestUnknownArgumentsAreRefused(t *testing.T) {
	const city = `"type":"object","properties":{"city":{"type":"string"}}`
	for name, tt := range map[string]struct {
		spec  toolyard.Spec
		known bool
	}{
		"listed":          {toolyard.Spec{Input: json.RawMessage(`{` + city + `}`)}, false},
		"strict":          {toolyard.Spec{Input: json.RawMessage(`{` + city + `,"additionalProperties":false}`)}, false},
		"loose":           {toolyard.Spec{Input: json.RawMessage(`{` + city + `,"additionalProperties":{}}`)}, true},
		"open":            {toolyard.Spec{Input: json.RawMessage(`{` + city + `,"additionalProperties":true}`)}, true},
		"by a pattern":    {toolyard.Spec{Input: json.RawMessage(`{` + city + `,"patternProperties":{"^c":{}}}`)}, true},
		"nothing listed":  {toolyard.Spec{Input: json.RawMessage(`{"type":"object"}`)}, true},
		"of a server":     {toolyard.Spec{Input: json.RawMessage(`{` + city + `}`), Server: "other"}, true},
		"in another part": {toolyard.Spec{Input: json.RawMessage(`{` + city + `,"allOf":[{"properties":{"citty":{}}}]}`)}, true},
	} {
		tt.spec.Name = "weather"
		tool, err := toolyard.NewTool(tt.spec, noHandler)
		if err != nil {
			t.Fatal(name, err)
		}
		_, err = tool.Validate(t.Context(), json.RawMessage(`{"citty":"Lisbon"}`))
		refused := err != nil && strings.Contains(err.Error(), "citty: is unknown (did you mean \"city\"?)")
		if refused == tt.known || tt.known && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Suggestions for misspelled names are cheap, however many names there are.
func TestSuggestionsAreBounded(t *testing.T) {
	var properties, args []string
	for i := range 1900 {
		properties = append(properties, fmt.Sprintf(`"%s%04d":{}`, strings.Repeat("a", 60), i))
	}
	for i := range 100 {
		args = append(args, fmt.Sprintf(`"%s%03d":1`, strings.Repeat("a", 61), i))
	}
	var s toolyard.Schema
	if err := json.Unmarshal([]byte(`{"type":"object","additionalProperties":false,"properties":{`+strings.Join(properties, ",")+`}}`), &s); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	issues, err := s.Check(t.Context(), json.RawMessage(`{`+strings.Join(args, ",")+`}`))
	if took := time.Since(begun); err != nil || len(issues) == 0 || took > time.Minute {
		t.Errorf("%d issues in %v: %v", len(issues), took, err)
	}
}
