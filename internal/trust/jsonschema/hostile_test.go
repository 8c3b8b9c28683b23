package jsonschema

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"
)

// raceEnabled is set if the race detector is enabled, which slows everything down.
var raceEnabled bool

// hostile generates a schema and a value that are as expensive as possible.
type hostile struct{ *rand.Rand }

// size returns a size that is usually small and sometimes the maximum size of a call.
func (h hostile) size(most int) int {
	if h.IntN(12) > 0 {
		most = max(2, most/16)
	}
	return 1 + h.IntN(most)
}

func (h hostile) pick(list ...string) string { return list[h.IntN(len(list))] }

func repeat(n int, text string) string {
	return strings.TrimSuffix(strings.Repeat(text+",", n), ",")
}

func numbered(n int, format string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = strings.ReplaceAll(format, "%", fmt.Sprint(i))
	}
	return strings.Join(parts, ",")
}

func nest(n int, before, core, after string) string {
	return strings.Repeat(before, n) + core + strings.Repeat(after, n)
}

// recursiveUnion returns a tree of filters whose branches all match until the end.
func (h hostile) recursiveUnion() (string, string) {
	op, keyword := h.pick("const", "title"), h.pick("anyOf", "oneOf", "allOf")
	branches := make([]string, 2+h.IntN(4))
	for i := range branches {
		branches[i] = fmt.Sprintf(`{"type":"object","properties":{"op":{%q:"o%d"},"args":{"type":"array","items":{"$ref":"#/$defs/f"}}}%s}`, op, i, h.pick("", `,"unevaluatedProperties":false`))
	}
	branches = append(branches, `{"type":"object","properties":{"op":{"const":"eq"},"field":{"type":"string"}},"required":["field"]}`)
	schema := fmt.Sprintf(`{"$defs":{"f":{%q:[%s]}},"type":"object","properties":{"filter":{"$ref":"#/$defs/f"}}}`, keyword, strings.Join(branches, ","))
	width := h.size(6)
	return schema, `{"filter":` + nest(min(h.size(400), 300_000/(40*width)), `{"op":"o1","args":[`+strings.Repeat(`{"op":"o0"},`, width), `{"op":"eq","field":`+h.pick("1", `"x"`)+`}`, "]}") + "}"
}

func (h hostile) wideUnion() (string, string) {
	n := h.size(maxBranches)
	branch := h.pick(`{"const":%}`, `{"type":"object","properties":{"p%":{"type":"string"}},"required":["p%"]}`, `{"type":"array","items":{"const":%}}`, `{"minimum":1%000}`, `{"pattern":"^a{%}"}`)
	if strings.Contains(branch, "pattern") {
		n = min(n, 150)
	}
	items := h.pick("99999999", `{"p0":1,"x":2}`, `[1,2,3,4]`, `"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"`, `{}`)
	keyword := h.pick("anyOf", "oneOf")
	return fmt.Sprintf(`{"type":"array","items":{%q:[%s]}}`, keyword, numbered(n, branch)), "[" + repeat(h.size(200_000/len(items)), items) + "]"
}

func (h hostile) lookAround() (string, string) {
	pattern := h.pick(`^(?!-)([a-z0-9]+-?)+$`, `^(?=(a+)+b)`, `(a*)*\\1c`, `^(a|a)*(?<!x)$`, `(?:a?){30}a{30}(?!a)`, `^(?:(?=a)a|a)+$`, `(.*)(.*)(.*)(.*)(?!.)x`)
	text := strings.Repeat("a", h.size(4_000)) + "!"
	return fmt.Sprintf(`{"type":"array","items":{"type":"string","pattern":"%s"}}`, pattern), "[" + repeat(1+h.IntN(200_000/len(text)), `"`+text+`"`) + "]"
}

func (h hostile) deepReferences() (string, string) {
	n := h.size(900)
	schema := fmt.Sprintf(`{"$defs":{%s,"a%d":{"type":"string"}},"type":"array","items":{"$ref":"#/$defs/a0"}}`, strings.Join(func() (list []string) {
		for i := range n {
			list = append(list, fmt.Sprintf(`"a%d":{"$ref":"#/$defs/a%d"}`, i, i+1))
		}
		return list
	}(), ","), n)
	return schema, "[" + repeat(h.size(50_000), `"x"`) + "]"
}

func (h hostile) unique() (string, string) {
	schema := h.pick(`{"uniqueItems":true}`, `{"$defs":{"u":{"uniqueItems":true,"items":{"$ref":"#/$defs/u"}}},"$ref":"#/$defs/u"}`, `{"items":{"uniqueItems":true}}`)
	switch h.IntN(4) {
	case 0:
		return schema, "[" + numbered(h.size(30_000), "%") + "]"
	case 1:
		return schema, "[" + numbered(h.size(10_000), `{"a":%,"b":[1,%]}`) + "]"
	case 2:
		return schema, nest(h.size(900), "[1,", "[]", "]")
	}
	return schema, "[" + repeat(1+h.IntN(3), "["+numbered(h.size(20_000), "%e5")+"]") + "]"
}

func (h hostile) numbers() (string, string) {
	rule := h.pick(`"multipleOf":0.0001`, `"multipleOf":7e-300`, `"multipleOf":12345678901234567890123456789`, `"minimum":1e400`, `"enum":[1e9999999,2e-999999]`, `"type":"integer"`, `"uniqueItems":true,"items":{"multipleOf":3e-1000000}`)
	number := h.pick("1e999999999", "1e-999999999", "-"+strings.Repeat("9", h.size(4_000)), "0."+strings.Repeat("1", h.size(4_000)), "1e999999999999", "0e99999999")
	if strings.Contains(rule, "items") {
		return "{" + rule + "}", "[" + repeat(1+h.IntN(200_000/len(number)), number) + "]"
	}
	return `{"items":{` + rule + `}}`, "[" + repeat(1+h.IntN(200_000/len(number)), number) + "]"
}

func (h hostile) manyErrors() (string, string) {
	schema := `{"type":"array","items":{"type":"object","required":["a","b"],"properties":{"a":{"type":"string"},"b":{"enum":[` + numbered(h.size(1_000), `"word%"`) + `]}},"additionalProperties":false}}`
	return schema, "[" + repeat(h.size(8_000), `{"b":1,"c":2,"`+strings.Repeat("n", h.size(20))+`":3}`) + "]"
}

func (h hostile) unevaluated() (string, string) {
	n := h.size(60)
	schema := fmt.Sprintf(`{"items":{"anyOf":[%s,true],"unevaluatedProperties":%s}}`, numbered(n, `{"properties":{"p%":{"type":"number"}}}`), h.pick("false", "true", `{"type":"string"}`))
	return schema, "[" + repeat(h.size(20), "{"+numbered(h.size(600), `"p%":%`)+"}") + "]"
}

func (h hostile) manyPatterns() (string, string) {
	n := h.size(150)
	schema := fmt.Sprintf(`{"patternProperties":{%s},"propertyNames":{"pattern":"^[a-z0-9]*$"},"dependentRequired":{%s}}`, numbered(n, `"[a-z]{%}x$":{"type":"number"}`), numbered(h.size(300), `"name%":["name1%","name2%"]`))
	return schema, "{" + numbered(h.size(8_000), `"name%":%`) + "}"
}

func (h hostile) contains() (string, string) {
	schema := nest(h.size(12), `{"items":`, `{"contains":{"contains":{"const":1}},"minContains":3,"maxContains":99999}`, "}")
	return schema, nest(h.size(12), "[", repeat(h.size(3_000), "[["+repeat(h.size(8), "2")+"]]"), "]")
}

func (h hostile) defaults() (string, string) {
	switch h.IntN(3) {
	case 0:
		return `{"type":"object","properties":{"a":{"$ref":"#","default":{}},"b":{"$ref":"#","default":{}}}}`, "{}"
	case 1:
		return `{"items":{"properties":{"a":{"default":"` + strings.Repeat("x", h.size(100_000)) + `"}}}}`, "[" + repeat(h.size(20_000), "{}") + "]"
	}
	return `{"items":{"properties":{` + numbered(h.size(1_000), `"p%":{"default":%}`) + `}}}`, "[" + repeat(h.size(20_000), "{}") + "]"
}

func (h hostile) deepValue() (string, string) {
	schema := h.pick(`{"$defs":{"n":{"anyOf":[{"type":"array","items":{"$ref":"#/$defs/n"}},{"type":"array","items":{"$ref":"#/$defs/n"},"title":"b"},{"type":"null"}]}},"$ref":"#/$defs/n"}`,
		`{"$dynamicAnchor":"n","allOf":[{"items":{"$dynamicRef":"#n"}},{"items":{"$dynamicRef":"#n"}},{"items":{"not":{"const":5}}}]}`,
		`{"$defs":{"n":{"not":{"not":{"items":{"$ref":"#/$defs/n"}}},"if":{"items":{"$ref":"#/$defs/n"}},"then":{"items":{"$ref":"#/$defs/n"}},"else":{"items":{"$ref":"#/$defs/n"}}}},"$ref":"#/$defs/n"}`)
	return schema, nest(h.size(990), "["+repeat(h.size(5), "null")+",", h.pick("1", "null", "5"), "]")
}

func (h hostile) longTexts() (string, string) {
	rule := h.pick(`"pattern":"^([a-z]{1,30}[0-9]?){1,30}$"`, `"pattern":"(x+x+)+y"`, `"format":"regex"`, `"format":"uri"`, `"format":"email"`, `"format":"json-pointer"`, `"format":"semver"`, `"minLength":3,"maxLength":99999999`, `"pattern":"[a-z]{500}.*[a-z]{400}$"`)
	text := h.pick("x", "(a{1000}){1}", "/~0", "1.", "é", "a-", `\\u0078`)
	text = strings.Repeat(text, 1+h.size(200_000)/len(text))
	return `{"items":{` + rule + `}}`, "[" + repeat(1+h.IntN(1+100_000/len(text)), `"`+text+`"`) + "]"
}

func (h hostile) constants() (string, string) {
	object := "{" + numbered(h.size(300), `"k%":[%,%]`) + "}"
	schema := h.pick(`{"items":{"const":`+object+`}}`, `{"items":{"enum":[`+object+`,1,2]}}`, `{"items":{"not":{"const":`+object+`}}}`, `{"items":{"oneOf":[{"const":`+object+`},{"const":1}]}}`)
	return schema, "[" + repeat(1+h.IntN(1+200_000/len(object)), object) + "]"
}

func (h hostile) pair() (string, string) {
	families := []func() (string, string){
		h.recursiveUnion, h.wideUnion, h.lookAround, h.deepReferences, h.unique, h.numbers, h.manyErrors, h.unevaluated, h.manyPatterns,
		h.contains, h.defaults, h.deepValue, h.longTexts, h.constants,
	}
	return families[h.IntN(len(families))]()
}

// No validation costs more than 50 ms of CPU time or 16 MiB of memory, regardless of the schema and
// the value. A busy machine inflates measurements, so only repeated excesses fail the test.
func TestHostilePairsCostLittle(t *testing.T) {
	const mostTime, mostMemory = 50 * time.Millisecond, 16 << 20
	pairs := 10_000
	if testing.Short() || raceEnabled {
		pairs = 500
	}
	h := hostile{rand.New(rand.NewPCG(1, 2))}
	stayOnThread(t)
	var slowest, largest measured
	refused := 0
	for i := range pairs {
		schema, value := h.pair()
		if len(value) > 256<<10 {
			value = value[:256<<10] // larger ones are rejected earlier
		}
		s, err := Compile([]byte(schema))
		if err != nil && strings.Contains(err.Error(), "exceed the total size limit") {
			continue
		}
		if err != nil {
			t.Fatalf("%.300s: %v", schema, err)
		}
		m := measure(t, s, value)
		for range 4 {
			if (m.cpu < mostTime || raceEnabled) && m.memory < mostMemory {
				break
			}
			m = m.least(measure(t, s, value))
		}
		m.schema, m.value = schema, value
		if m.cpu >= mostTime && !raceEnabled || m.memory >= mostMemory {
			t.Errorf("pair %d: %v, %d KiB: %.200s with %.100s", i, m.cpu, m.memory>>10, schema, value)
		}
		if m.refused {
			refused++
		}
		if m.cpu > slowest.cpu {
			slowest = m
		}
		if m.memory > largest.memory {
			largest = m
		}
	}
	t.Logf("%d of %d were refused by a budget", refused, pairs)
	t.Logf("slowest %v: %.200s with %.60s", slowest.cpu, slowest.schema, slowest.value)
	t.Logf("largest %d KiB: %.200s with %.60s", largest.memory>>10, largest.schema, largest.value)
}

// stayOnThread locks the goroutine to its thread, because cpuTime measures a thread.
func stayOnThread(t *testing.T) {
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
}

type measured struct {
	cpu           time.Duration
	memory        uint64
	refused       bool
	schema, value string
}

func (m measured) least(o measured) measured {
	m.cpu, m.memory = min(m.cpu, o.cpu), min(m.memory, o.memory)
	return m
}

// measure completes a value, which also validates it.
func measure(t *testing.T, s *Schema, value string) (m measured) {
	t.Helper()
	raw := []byte(value)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := cpuTime()
	_, issues, err := s.Complete(context.Background(), raw)
	m.cpu = cpuTime() - start
	runtime.ReadMemStats(&after)
	m.memory = after.TotalAlloc - before.TotalAlloc
	var limit *LimitError
	var syntax *SyntaxError
	switch {
	case errors.As(err, &limit):
		m.refused = true
		if !strings.Contains(err.Error(), "validation stopped after "+limit.Limit) {
			t.Errorf("the refusal does not name the budget: %v", err)
		}
	case err != nil && !errors.As(err, &syntax):
		t.Errorf("%v", err)
	case len(issues) > maxIssues:
		t.Errorf("%d issues", len(issues))
	}
	return m
}

func TestEndedContextStopsValidation(t *testing.T) {
	s, err := Compile([]byte(`{"type":"array","items":{"type":"string","pattern":"^(?!-)([a-z0-9]+-?)+$"}}`))
	if err != nil {
		t.Fatal(err)
	}
	raw := []byte("[" + repeat(100, `"`+strings.Repeat("a", 40)+`!"`) + "]")
	long := limits{1 << 40, 1 << 40} // would never end otherwise
	best := time.Hour
	for range 50 { // the machine may be busy, but a validation that does not stop would fail every time
		ctx, cancel := context.WithCancel(t.Context())
		var canceled time.Time
		time.AfterFunc(20*time.Millisecond, func() { canceled = time.Now(); cancel() })
		_, err := s.validate(ctx, string(raw), long)
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if best = min(best, time.Since(canceled)); best <= 5*time.Millisecond {
			break
		}
	}
	if best > 5*time.Millisecond {
		t.Errorf("it went on for %v", best)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := s.validate(ctx, string(raw), long); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if _, err := s.Validate(ctx, []byte("[]")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it began although its time was over: %v", err)
	}
}

// Legitimate data is not rejected, no matter how large it is.
func TestLargeHonestValuesFit(t *testing.T) {
	stayOnThread(t)
	s, err := Compile([]byte(`{"type":"object","required":["rows"],"properties":{"rows":{"type":"array","items":{"$ref":"#/$defs/row"}}},"$defs":{"row":{
		"type":"object","required":["id","kind"],"additionalProperties":false,"properties":{"id":{"type":"integer","minimum":0},"email":{"type":"string","format":"email"},
		"kind":{"anyOf":[` + numbered(20, `{"type":"string","const":"kind %"}`) + `]},"tags":{"type":"array","uniqueItems":true,"items":{"type":"string","pattern":"^[a-z]{1,20}$"}},
		"at":{"type":"string","format":"date-time"},"parent":{"anyOf":[{"$ref":"#/$defs/row"},{"type":"null"}]},"price":{"type":"number","multipleOf":0.01}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	row := `{"id":%,"email":"ann.%@example.com","kind":"kind 19","tags":["red","green","blue"],"at":"2026-01-31T09:30:00Z","parent":{"id":1,"kind":"kind 7","parent":null},"price":12.25}`
	for _, size := range []int{1 << 10, 256 << 10, 4 << 20} {
		value := `{"rows":[` + numbered(size/len(row), row) + "]}"
		start := cpuTime()
		_, issues, err := s.Complete(t.Context(), []byte(value))
		if err != nil || len(issues) > 0 {
			t.Fatalf("%d bytes: %v %v", size, issues, err)
		}
		t.Logf("%d bytes: %v", len(value), cpuTime()-start)
	}
}

// A schema that is too large is rejected before it costs anything.
func TestSchemasAreBounded(t *testing.T) {
	stayOnThread(t)
	doubling := `{"$defs":{"a0":{}`
	for i := 1; i < 40; i++ {
		doubling += fmt.Sprintf(`,"a%d":{"allOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]}`, i, i-1, i-1)
	}
	doubling += `},"$ref":"#/$defs/a39"}`
	for name, tt := range map[string]struct{ schema, want string }{
		"60,000 properties":        {`{"properties":{` + numbered(60_000, `"p%":{"type":"string"}`) + `}}`, "the limit is 262,144"},
		"many properties":          {`{"properties":{"a":{"properties":{` + numbered(3_000, `"p%":{}`) + `}}}}`, "3,000 members in properties at #/properties/a; the limit is 2,000"},
		"a wide union":             {`{"items":{"anyOf":[` + numbered(1_001, `{"minimum":%}`) + `]}}`, "1,001 entries in anyOf at #/items; the limit is 1,000"},
		"a wide union of literals": {`{"items":{"anyOf":[` + numbered(9_000, `{"const":%}`) + `]}}`, ""},
		"too many literals":        {`{"items":{"enum":[` + numbered(10_001, `%`) + `]}}`, "10,001 entries in enum"},
		"many parts":               {`{"allOf":[` + numbered(500, `{"properties":{"a":{},"b":{},"c":{},"d":{},"e":{},"f":{},"g":{},"h":{},"i":{},"j":{},"k":{},"l":{},"m":{},"n":{},"o":{},"p":{},"q":{},"r":{},"s":{},"t":{},"u":{},"v":{},"w":{},"x":{},"y":{},"z":{},"1":{},"2":{},"3":{},"4":{},"5":{},"6":{},"7":{},"8":{},"9":{},"0":{},"A":{},"B":{},"C":{},"D":{}}}`) + `]}`, "more than 20,000 subschemas"},
		"deep":                     {nest(70, `{"items":`, "{}", "}"), "more than 64 levels deep"},
		"long names":               {`{"properties":{"` + strings.Repeat("p", 60_000) + `":{"allOf":[` + repeat(900, "{}") + `]}}}`, "long names"},
		"a long pattern":           {`{"pattern":"` + strings.Repeat("x", 3_000) + `"}`, "3,000 bytes; the limit is 2,000"},
		"a large pattern":          {`{"pattern":"` + strings.Repeat("[a-z]{1000}", 10) + `"}`, "instructions"},
		"a large search":           {`{"pattern":"(?=a)` + strings.Repeat("[a-z]{1000}", 10) + `"}`, "instructions"},
		"many patterns":            {`{"patternProperties":{` + numbered(201, `"a%":true`) + `}}`, "more than 200 patterns"},
		"large patterns":           {`{"patternProperties":{` + numbered(100, `"%[a-z]{400}":true`) + `}}`, "exceed the total size limit"},
		"doubling":                 {doubling, "more than 10,000 subschemas apply"},
		"a long chain":             {`{"$defs":{` + numbered(1_100, `"a%":{"not":{"$ref":"#/$defs/a%1"}},"a%1":{"$ref":"#/$defs/a%"}`) + `},"$ref":"#/$defs/a0"}`, "duplicate member"},
		"itself":                   {`{"$ref":"#"}`, "infinite reference loop at #"},
		"a circle":                 {`{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"allOf":[{"$ref":"#/$defs/a"}]}},"$ref":"#/$defs/a"}`, "infinite reference loop"},
		"a circle by anchor":       {`{"$anchor":"a","anyOf":[{"$ref":"#a"}]}`, "infinite reference loop"},
		"remote":                   {`{"$ref":"http://127.0.0.1/x"}`, "other documents"},
		"file":                     {`{"properties":{"a":{"$ref":"file:///etc/passwd"}}}`, `"file:///etc/passwd" at #/properties/a`},
		"dynamic":                  {`{"$dynamicRef":"http://x/#a"}`, "other documents"},
		"no text":                  {`{"$ref":1}`, "#/$ref: it must be string"},
		"nowhere":                  {`{"$ref":"#/$defs/none"}`, "no schema"},
		"a list":                   {`[]`, "must be an object or a boolean"},
		"a wrong type":             {`{"properties":{"a":{"type":"strin"}}}`, "#/properties/a/type"},
		"a text":                   {`{"properties":{"a":"string"}}`, "#/properties/a: it must be"},
		"multipleOf zero":          {`{"multipleOf":0}`, "#/multipleOf"},
		"an unknown draft":         {`{"$schema":"https://example.com/x"}`, "unknown $schema"},
		"twice":                    {`{"type":"string","type":"number"}`, "duplicate member"},
	} {
		start := cpuTime()
		_, err := Compile([]byte(tt.schema))
		switch took := cpuTime() - start; {
		case took > time.Second:
			t.Errorf("%s took %v", name, took)
		case tt.want == "" && err != nil, tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: %v", name, err)
		}
	}
}
