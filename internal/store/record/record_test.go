package record_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
	"github.com/toolyard/toolyard/internal/base/leaktest"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/store/record"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

var tool = toolyard.Define(toolyard.Spec{Name: "quote"}, func(context.Context, *toolyard.Call, struct{}) (string, error) {
	return "", nil
})

func call(id string) *toolyard.Call {
	return &toolyard.Call{
		ID: id, Tool: tool, Args: json.RawMessage(`{"symbol":"BTC"}`), Caller: toolyard.Caller{ID: "alice", Account: "acme"},
		Gate: "sdk", Mode: toolyard.Read, Session: "ses_1", Environment: toolyard.Environment{Generation: 7},
	}
}

func outcome() toolyard.Outcome {
	return toolyard.Outcome{
		Result: &toolyard.Result{Structured: json.RawMessage(`{"a":1}`)},
		Start:  time.Date(2026, 11, 15, 10, 0, 0, 1_234_567, time.FixedZone("", 3600)), Elapsed: 1_234_567,
	}
}

// books is a store that can be unavailable or reject rows.
type books struct {
	mu      sync.Mutex
	away    bool
	refuses func(*store.CallRow) bool
	batches []int
	ids     []string
	known   map[string]bool
	intents [][]*ledger.Intent // by transaction
}

var errRow = errors.New("this row cannot be kept")

func (b *books) AppendIntents(_ context.Context, intents []*ledger.Intent) error {
	time.Sleep(time.Millisecond)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.away {
		return fmt.Errorf("append: %w", store.ErrUnavailable)
	}
	for _, i := range intents {
		if b.refuses != nil && b.refuses(i.Call) {
			return errRow
		}
	}
	b.intents = append(b.intents, intents)
	return nil
}

func (b *books) AppendCalls(_ context.Context, rows []*store.CallRow) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.away {
		return fmt.Errorf("append: %w", store.ErrUnavailable)
	}
	for _, r := range rows {
		if b.refuses != nil && b.refuses(r) {
			return errRow
		}
	}
	b.batches = append(b.batches, len(rows))
	for _, r := range rows {
		if b.known == nil {
			b.known = make(map[string]bool)
		}
		if !b.known[r.ID] {
			b.known[r.ID] = true
			b.ids = append(b.ids, r.ID)
		}
	}
	return nil
}

func (b *books) setAway(away bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away = away
}

func (b *books) written() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ids
}

// run runs a writer and returns a function that stops it.
func run(w *record.Writer) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

func put(w *record.Writer, from, to int) {
	for i := from; i < to; i++ {
		w.Outcome(context.Background(), call(fmt.Sprint(i)), outcome())
	}
}

func TestRow(t *testing.T) {
	want := &store.CallRow{
		ID: "c1", At: time.Date(2026, 11, 15, 9, 0, 0, 1_234_000, time.UTC), Elapsed: 1_234_567, Gate: "sdk", Mode: toolyard.Read,
		Caller: "alice", Account: "acme", Session: "ses_1", Tool: "quote", Generation: 7, Code: toolyard.OK, ArgsSize: 16, ResultSize: 7,
	}
	if diff := cmp.Diff(want, record.Row(call("c1"), outcome(), record.Arguments{})); diff != "" {
		t.Error(diff)
	}
}

func TestRowOfOtherOutcomes(t *testing.T) {
	failed := toolyard.Outcome{Err: toolyard.Errorf(toolyard.Timeout, "late")}
	for name, c := range map[string]struct {
		outcome toolyard.Outcome
		receipt *toolyard.Receipt
		code    toolyard.Code
		price   toolyard.Money
	}{
		"error":    {failed, nil, toolyard.Timeout, 0},
		"failure":  {toolyard.Outcome{Result: toolyard.Failure("no")}, &toolyard.Receipt{}, "TOOL_ERROR", 0},
		"charged":  {outcome(), &toolyard.Receipt{Price: 5}, toolyard.OK, 5},
		"replayed": {outcome(), &toolyard.Receipt{Price: 5, Replayed: true}, toolyard.OK, 0},
	} {
		made := call(name)
		made.Receipt = c.receipt
		if row := record.Row(made, c.outcome, record.Arguments{}); row.Code != c.code || row.Price != c.price {
			t.Errorf("%s: code %s, price %s", name, row.Code, row.Price)
		}
	}
}

func TestRowOfACallWithinACall(t *testing.T) {
	c := call("c")
	c.Parent = "p\x00"
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	c.Mark("cap", start)
	c.Mark("run", start.Add(1_234_567))
	row := record.Row(c, outcome(), record.Arguments{})
	if diff := cmp.Diff([]store.Mark{{Step: "cap"}, {Step: "run", At: 1_234_000}}, row.Marks); diff != "" || row.Parent != "p" {
		t.Error(row.Parent, diff)
	}
}

// Error messages are recorded with secrets removed and within a limit.
func TestMessages(t *testing.T) {
	own := &toolyard.Tool{Spec: toolyard.Spec{Name: "own", Terms: toolyard.Terms{Contexts: []string{"wallet"}}}}
	guarded := record.Arguments{Redact: redact}
	for name, c := range map[string]struct {
		tool    *toolyard.Tool
		outcome toolyard.Outcome
		keep    record.Arguments
		want    string
	}{
		"error":           {tool, toolyard.Outcome{Err: toolyard.Errorf(toolyard.Timeout, "late for hunter2")}, guarded, "late for [redacted]"},
		"failure":         {tool, toolyard.Outcome{Result: &toolyard.Result{IsError: true, Content: []toolyard.Content{toolyard.Image{}, toolyard.Text("no"), toolyard.Text("yes")}}}, guarded, "no"},
		"silent failure":  {tool, toolyard.Outcome{Result: &toolyard.Result{IsError: true}}, guarded, ""},
		"success":         {tool, toolyard.Outcome{Result: &toolyard.Result{Content: []toolyard.Content{toolyard.Text("fine")}}}, guarded, ""},
		"odd":             {tool, toolyard.Outcome{Err: toolyard.Errorf(toolyard.Timeout, "a\x00b\xff")}, guarded, "a\uFFFDb\uFFFD"},
		"long":            {tool, toolyard.Outcome{Err: toolyard.Errorf(toolyard.Timeout, "%s", strings.Repeat("ä", 400))}, guarded, strings.Repeat("ä", 248) + "…"},
		"secret at a cut": {tool, toolyard.Outcome{Err: toolyard.Errorf(toolyard.Timeout, "%shunter2", strings.Repeat("x", 495))}, guarded, strings.Repeat("x", 495) + "[r…"},
		"unguarded":       {tool, toolyard.Outcome{Err: toolyard.Errorf(toolyard.Timeout, "late")}, record.Arguments{}, ""},
		"own data":        {own, toolyard.Outcome{Err: toolyard.Errorf(toolyard.Timeout, "late")}, guarded, ""},
	} {
		made := call(name)
		made.Tool = c.tool
		if got := record.Row(made, c.outcome, c.keep).Message; got != c.want || len(got) > 500 {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// Names supplied by clients have a limited length and are valid in every store.
func TestNamesAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := call("c")
		c.Session = string(rapid.SliceOfN(rapid.Byte(), 0, 600).Draw(t, "session"))
		row := record.Row(c, outcome(), record.Arguments{})
		if len(row.Session) > 256 || strings.ContainsRune(row.Session, 0) || strings.ToValidUTF8(row.Session, "") != row.Session {
			t.Fatalf("%q became %q", c.Session, row.Session)
		}
	})
}

func redact(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "hunter2", "[redacted]"), "123456", "[redacted]")
}

func TestArguments(t *testing.T) {
	many := map[string]int{}
	for i := range 70 {
		many[fmt.Sprintf("m%02d", i)] = i
	}
	manyJSON, _ := json.Marshal(many)
	full, shape := record.Arguments{Keep: record.Full, Redact: redact}, record.Arguments{Keep: record.Shape, Redact: redact}
	for name, c := range map[string]struct {
		keep       record.Arguments
		args, want string
	}{
		"nothing":          {record.Arguments{}, `{"a":1}`, ``},
		"off":              {record.Arguments{Keep: record.Off}, `{"a":1}`, ``},
		"shape":            {shape, ` {"a" : 1.5, "b":"x","c":[1],"d":{"e":{}},"f":true,"g":null } `, `{"a":"number","b":"string","c":"array","d":"object","f":"boolean","g":"null"}`},
		"shape of nothing": {shape, `{}`, `{}`},
		"shape of a list":  {shape, `[1]`, `{}`},
		"secret name":      {shape, `{"hunter2":1}`, `{"[redacted]":"number"}`},
		"long name":        {shape, `{"` + strings.Repeat("ä", 40) + `":1}`, `{"` + strings.Repeat("ä", 30) + `…":"number"}`},
		"full":             {full, `{"a":1.50,"b":["x",{"c":null}]}`, `{"a":1.50,"b":["x",{"c":null}]}`},
		"full, secrets":    {full, `{"hunter2":"my hunter2","n":1234567,"e":"\u0068unter2","l":["hunter2"]}`, `{"[redacted]":"my [redacted]","n":"[redacted]7","e":"[redacted]","l":["[redacted]"]}`},
		"full, NUL":        {full, `{"a":"x\u0000y"}`, `{"a":"x` + "\uFFFD" + `y"}`},
		"full, unguarded":  {record.Arguments{Keep: record.Full}, `{"a":"hunter2"}`, `{"a":"string"}`},
		"not JSON":         {full, `{"a":`, ``},
		"no arguments":     {full, ``, ``},
	} {
		made := call("c")
		made.Args = json.RawMessage(c.args)
		if got := string(record.Row(made, outcome(), c.keep).Args); got != c.want {
			t.Errorf("%s:\n%s, want\n%s", name, got, c.want)
		}
	}
	made := call("c")
	made.Args = manyJSON
	if got := string(record.Row(made, outcome(), shape).Args); !strings.HasSuffix(got, `"m63":"number","…":"6 more"}`) {
		t.Errorf("very many members: %s", got)
	}
}

// Truncated arguments do not contain part of a secret.
func TestCutArguments(t *testing.T) {
	made := call("c")
	for fill := 8<<10 - 100; fill < 8<<10; fill++ {
		made.Args = json.RawMessage(`{"a":"` + strings.Repeat("x", fill) + `hunter2 and more","b":["` + strings.Repeat(`\u0001`, 2_000) + `"]}`)
		kept := record.Row(made, outcome(), record.Arguments{Keep: record.Full, Redact: redact}).Args
		var c struct {
			Cut   string
			Bytes int
		}
		if err := json.Unmarshal(kept, &c); err != nil || c.Bytes != len(made.Args) || len(kept) > 8<<10 || len(kept) < 5<<10 ||
			!strings.HasSuffix(c.Cut, "…") || strings.Contains(c.Cut, "hu") {
			t.Fatalf("%d: %v, %d bytes: …%s", fill, err, len(kept), kept[len(kept)-100:])
		}
	}
}

// For all arguments, the recorded form is small, is valid JSON, and contains no secret.
func FuzzArguments(f *testing.F) {
	f.Add([]byte(`{"a":"hunter2","b":[1,-2.5e3,true,null,{"c":"\u0068unter2"}]}`))
	f.Add([]byte(`{"a":"` + strings.Repeat("x", 8<<10-45) + `hunter2hunter2"}`))
	f.Add([]byte(`"` + strings.Repeat(`\u0001`, 2<<10) + `"`))
	f.Add([]byte(`[` + strings.Repeat(`"hunter2",`, 1000) + `1]`))
	f.Fuzz(func(t *testing.T, args []byte) {
		for _, keep := range []record.Keep{record.Shape, record.Full} {
			made := call("c")
			made.Args = args
			kept := record.Row(made, outcome(), record.Arguments{Keep: keep, Redact: redact}).Args
			if !json.Valid(args) {
				if kept != nil {
					t.Fatalf("%q was recorded for invalid JSON", kept)
				}
				continue
			}
			if !json.Valid(kept) || len(kept) > 8<<10 || bytes.Contains(kept, []byte("hunter2")) {
				t.Fatalf("%s: %d bytes: %q", keep, len(kept), kept)
			}
		}
	})
}

func TestWritesInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &books{}
		w := record.New(b, record.Options{})
		defer run(w)()
		put(w, 0, 3)
		time.Sleep(199 * time.Millisecond)
		synctest.Wait()
		if n := len(b.written()); n != 0 {
			t.Fatalf("%d rows were written before others had time to come", n)
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if n := len(b.written()); n != 3 {
			t.Fatalf("%d rows were written in time", n)
		}
		put(w, 3, 2503)
		time.Sleep(201 * time.Millisecond)
		synctest.Wait()
		if diff := cmp.Diff([]int{3, 1000, 1000, 500}, b.batches); diff != "" {
			t.Error(diff)
		}
	})
}

func TestChargedCallsAreWrittenElsewhere(t *testing.T) {
	b := &books{}
	w := record.New(b, record.Options{})
	for id, receipt := range map[string]*toolyard.Receipt{
		"free": nil, "failed": {}, "charged": {Price: 1}, "replayed": {Price: 1, Replayed: true},
	} {
		c := call(id)
		c.Receipt = receipt
		w.Outcome(t.Context(), c, outcome())
	}
	if err := w.Intent(t.Context(), call("intent")); err != nil {
		t.Error(err)
	}
	run(w)()
	if len(b.ids) != 3 || b.known["charged"] {
		t.Errorf("written: %v", b.ids)
	}
}

func TestStoreIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		hook := 0
		b := &books{away: true}
		w := record.New(b, record.Options{Log: slog.New(slog.NewTextHandler(&log, nil)), OnDrop: func(n int) { hook += n }})
		end := run(w)
		put(w, 0, 1_000)
		synctest.Wait() // the writer has taken these rows
		put(w, 1_000, 101_500)
		if got := w.Dropped(); got != 500 || hook != 500 {
			t.Errorf("%d rows were dropped, the hook counted %d", got, hook)
		}
		time.Sleep(10 * time.Minute)
		b.setAway(false)
		time.Sleep(6 * time.Second)
		synctest.Wait()
		ids := b.written()
		if len(ids) != 101_000 || ids[999] != "999" || ids[1_000] != "1500" || ids[100_999] != "101499" {
			t.Errorf("%d rows were written, %v", len(ids), ids[995:1005])
		}
		if n := strings.Count(log.String(), "calls were not recorded"); n != 1 {
			t.Errorf("%d lines about lost rows:\n%s", n, log.String())
		}
		end()
	})
}

func TestLostRowsAreLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		b := &books{refuses: func(*store.CallRow) bool { return true }}
		w := record.New(b, record.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		end := run(w)
		for i := range 90 {
			put(w, i, i+1)
			time.Sleep(time.Second)
		}
		end()
		if n := strings.Count(log.String(), "calls were not recorded"); n != 3 || w.Dropped() != 90 {
			t.Errorf("%d lines, %d rows:\n%s", n, w.Dropped(), log.String())
		}
	})
}

func TestARefusedRowIsAlone(t *testing.T) {
	b := &books{refuses: func(r *store.CallRow) bool { return r.ID == "17" || r.ID == "612" }}
	w := record.New(b, record.Options{})
	put(w, 0, 1_500)
	run(w)()
	if len(b.ids) != 1_498 || w.Dropped() != 2 {
		t.Errorf("%d rows were written, %d dropped", len(b.ids), w.Dropped())
	}
	for i, id := range b.ids[1:] {
		if len(id) < len(b.ids[i]) {
			t.Fatalf("%s comes after %s", id, b.ids[i])
		}
	}
}

func TestEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &books{}
		w := record.New(b, record.Options{})
		end := run(w)
		put(w, 0, 2_500)
		end()
		if len(b.ids) != 2_500 || w.Dropped() != 0 {
			t.Errorf("%d rows were written at the end", len(b.ids))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := record.New(&books{away: true}, record.Options{})
		end := run(w)
		put(w, 0, 2_500)
		start := time.Now()
		end()
		if took := time.Since(start); took != 5*time.Second || w.Dropped() != 2_500 {
			t.Errorf("it took %v, and %d rows were counted as lost", took, w.Dropped())
		}
	})
}

// hang is a store that does not respond.
type hang struct{}

func (hang) AppendIntents(ctx context.Context, _ []*ledger.Intent) error {
	<-ctx.Done()
	return ctx.Err()
}

func (hang) AppendCalls(ctx context.Context, _ []*store.CallRow) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestAStoreThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := record.New(hang{}, record.Options{})
		end := run(w)
		put(w, 0, 1)
		time.Sleep(time.Minute)
		start := time.Now()
		end()
		if took := time.Since(start); took > 5*time.Second || w.Dropped() != 1 {
			t.Errorf("it took %v, and %d rows were counted as lost", took, w.Dropped())
		}
	})
}

func TestManyAtOnce(t *testing.T) {
	b := &books{}
	w := record.New(b, record.Options{})
	end := run(w)
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() { put(w, g*1_000, (g+1)*1_000) })
	}
	wg.Wait()
	end()
	if len(b.ids) != 16_000 || w.Dropped() != 0 {
		t.Errorf("%d rows were written, %d dropped", len(b.ids), w.Dropped())
	}
}

type nowhere struct{}

func (nowhere) AppendIntents(context.Context, []*ledger.Intent) error { return nil }

func (nowhere) AppendCalls(context.Context, []*store.CallRow) error { return nil }

func BenchmarkOutcome(b *testing.B) {
	for _, keep := range []record.Keep{record.Off, record.Shape, record.Full} {
		b.Run(string(keep), func(b *testing.B) {
			w := record.New(nowhere{}, record.Options{Arguments: record.Arguments{Keep: keep, Redact: redact}})
			defer run(w)()
			c, o := call("c"), outcome()
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					w.Outcome(context.Background(), c, o)
				}
			})
		})
	}
}
