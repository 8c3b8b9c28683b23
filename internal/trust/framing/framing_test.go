package framing_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/toolyard/toolyard/internal/trust/framing"
)

// event is an event whose data stays valid after the next one is read.
type event struct {
	Name, ID, Data string
	Retry          time.Duration
}

// readEvents reads all events until an error.
func readEvents(e *framing.EventReader) (list []event, last event, err error) {
	for {
		next, err := e.Next()
		got := event{next.Name, next.ID, string(next.Data), next.Retry}
		if err != nil {
			return list, got, err
		}
		list = append(list, got)
	}
}

func TestEvents(t *testing.T) {
	for name, tt := range map[string]struct {
		in   string
		want []event
	}{
		"one":                      {"data: x\n\n", []event{{Name: "message", Data: "x"}}},
		"CRLF":                     {"data: x\r\n\r\n", []event{{Name: "message", Data: "x"}}},
		"CR":                       {"data: x\r\rdata: y\r\r", []event{{Name: "message", Data: "x"}, {Name: "message", Data: "y"}}},
		"mixed ends":               {"data: x\r\ndata: y\rdata: z\n\r\n", []event{{Name: "message", Data: "x\ny\nz"}}},
		"byte order mark":          {"\uFEFFdata: x\n\n", []event{{Name: "message", Data: "x"}}},
		"two byte order marks":     {"\uFEFF\uFEFFdata: x\n\n", nil},
		"half a byte order mark":   {"\xef\xbbdata: x\n\ndata: y\n\n", []event{{Name: "message", Data: "y"}}},
		"comments":                 {": hello\n:\ndata: x\n: there\n\n", []event{{Name: "message", Data: "x"}}},
		"several lines":            {"data: YHOO\ndata: +2\ndata: 10\n\n", []event{{Name: "message", Data: "YHOO\n+2\n10"}}},
		"empty data":               {"data\n\ndata\ndata\n\ndata:", []event{{Name: "message"}, {Name: "message", Data: "\n"}}},
		"one space":                {"data:x\n\ndata:  x\n\n", []event{{Name: "message", Data: "x"}, {Name: "message", Data: " x"}}},
		"colon in the value":       {"data: a:b\n\n", []event{{Name: "message", Data: "a:b"}}},
		"name":                     {"event: endpoint\ndata: /m\n\ndata: x\n\n", []event{{Name: "endpoint", Data: "/m"}, {Name: "message", Data: "x"}}},
		"name without data":        {"event: endpoint\n\ndata: x\n\n", []event{{Name: "message", Data: "x"}}},
		"last name counts":         {"event: a\nevent: b\nevent\nevent: c\ndata: x\n\n", []event{{Name: "c", Data: "x"}}},
		"id stays":                 {"id: 1\ndata: x\n\ndata: y\n\nid\ndata: z\n\n", []event{{Name: "message", ID: "1", Data: "x"}, {Name: "message", ID: "1", Data: "y"}, {Name: "message", Data: "z"}}},
		"id without data":          {"id: 7\n\ndata: x\n\n", []event{{Name: "message", ID: "7", Data: "x"}}},
		"id with NUL":              {"id: 7\nid: 8\x00\ndata: x\n\n", []event{{Name: "message", ID: "7", Data: "x"}}},
		"retry":                    {"retry: 1500\ndata: x\n\n", []event{{Name: "message", Data: "x", Retry: 1500 * time.Millisecond}}},
		"retry of other things":    {"retry: -1\nretry: 1s\nretry: 0x10\nretry\nretry: 99999999999\nretry: 1_0\ndata: x\n\n", []event{{Name: "message", Data: "x"}}},
		"unknown fields":           {"foo: bar\ndatas: y\ndat: z\n data: y\nDATA: y\neventually: y\ndata: x\n\n", []event{{Name: "message", Data: "x"}}},
		"cut off after a line":     {"data: x\n\ndata: y\n", []event{{Name: "message", Data: "x"}}},
		"cut off inside a line":    {"data: x\n\ndata: y", []event{{Name: "message", Data: "x"}}},
		"empty lines":              {"\n\n\r\r\n\ndata: x\n\n", []event{{Name: "message", Data: "x"}}},
		"nothing":                  {"", nil},
		"bytes that are not UTF-8": {"data: \xff\x00\n\n", []event{{Name: "message", Data: "\xff\x00"}}},
	} {
		for how, r := range map[string]io.Reader{"whole": strings.NewReader(tt.in), "by bytes": iotest.OneByteReader(strings.NewReader(tt.in)), "with the end": iotest.DataErrReader(strings.NewReader(tt.in))} {
			got, _, err := readEvents(framing.NewEventReader(r, 100, 0))
			if diff := cmp.Diff(tt.want, got); diff != "" || !errors.Is(err, io.EOF) {
				t.Errorf("%s, %s: %v %s", name, how, err, diff)
			}
		}
	}
}

// TestEventsGoOn checks the values to use for the next request.
func TestEventsGoOn(t *testing.T) {
	_, last, err := readEvents(framing.NewEventReader(strings.NewReader("id: a\ndata:\n\nid: b\nretry: 20\n\nid: c\nretry: 30\n"), 100, 0))
	if want := (event{ID: "b", Retry: 30 * time.Millisecond}); last != want || !errors.Is(err, io.EOF) {
		t.Errorf("%+v, %v", last, err)
	}
}

func TestEventsBounds(t *testing.T) {
	const most = 8 << 10
	long := strings.Repeat("x", most)
	for name, tt := range map[string]struct {
		in   string
		want error
	}{
		"data as long as allowed":   {"data: " + long + "\n\n", io.EOF},
		"data one longer":           {"data: x" + long + "\n\n", framing.ErrLongEvent},
		"several lines, just":       {"data: " + long[:most-2] + "\ndata:y\n\n", io.EOF},
		"several lines, one longer": {"data: " + long[:most-1] + "\ndata:y\n\n", framing.ErrLongEvent},
		"only line feeds":           {strings.Repeat("data\n", most+2), framing.ErrLongEvent},
		"only line feeds, just":     {strings.Repeat("data\n", most+1), io.EOF},
		"comment":                   {":" + long + "\n", framing.ErrLongEvent},
		"comment, just":             {":" + long[1:] + "\n", io.EOF},
		"unknown field":             {"x:" + long + "\n", framing.ErrLongEvent},
		"field's name":              {"x" + long + "\n", framing.ErrLongEvent},
		"event's name":              {"event:" + long + "\n", framing.ErrLongEvent},
		"id":                        {"id:" + long + "\n", framing.ErrLongEvent},
		"retry":                     {"retry:" + strings.Repeat("0", most) + "\n", framing.ErrLongEvent},
		"as many as allowed":        {strings.Repeat("data:\n\n", 3), io.EOF},
		"one more":                  {strings.Repeat("data:\n\n", 4), framing.ErrManyEvents},
	} {
		e := framing.NewEventReader(strings.NewReader(tt.in), most, 3)
		if _, _, err := readEvents(e); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := e.Next(); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v after the end", name, err)
		}
	}
}

// repeated repeats a text up to a number of bytes.
type repeated struct {
	text string
	left int64
}

func (r *repeated) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, io.EOF
	}
	n := 0
	for n < len(p) {
		n += copy(p[n:], r.text)
	}
	n = int(min(int64(n), r.left))
	r.left -= int64(n)
	return n, nil
}

// allocated returns the number of bytes that a function allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestEndlessStreams reads lines and streams of one gibibyte using little memory.
func TestEndlessStreams(t *testing.T) {
	const most = 1 << 20
	text := strings.Repeat("x", 4096)
	for name, tt := range map[string]struct {
		begin, text string
		size        int64
		want        error
	}{
		"data":     {"data: ", text, 1 << 30, framing.ErrLongEvent},
		"comment":  {":", text, 1 << 30, framing.ErrLongEvent},
		"comments": {"", ": ping\n\n", 4 << 20, io.EOF},
		"nothing":  {"", "\n", 4 << 20, io.EOF},
		"names":    {"", "event: x\n", 4 << 20, io.EOF},
	} {
		used := allocated(func() {
			e := framing.NewEventReader(io.MultiReader(strings.NewReader(tt.begin), &repeated{strings.Repeat(tt.text, 4096/len(tt.text)), tt.size}), most, 0)
			if _, err := e.Next(); !errors.Is(err, tt.want) {
				t.Errorf("%s: %v", name, err)
			}
		})
		if used > 4*most {
			t.Errorf("%s: %d bytes", name, used)
		}
	}
	used := allocated(func() {
		if _, err := framing.NewLineReader(&repeated{text, 1<<30 + 1<<20}, most).Next(); !errors.Is(err, framing.ErrEndlessLine) {
			t.Error(err)
		}
	})
	if used > 4*most {
		t.Errorf("a line: %d bytes", used)
	}
}

func TestNoProgress(t *testing.T) {
	if _, err := framing.NewEventReader(stuck{}, 10, 0).Next(); !errors.Is(err, io.ErrNoProgress) {
		t.Error(err)
	}
	if _, err := framing.NewLineReader(stuck{}, 10).Next(); !errors.Is(err, io.ErrNoProgress) {
		t.Error(err)
	}
}

type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }

func TestEventsAllocateLittle(t *testing.T) {
	e := framing.NewEventReader(&repeated{"event: message\ndata: {\"jsonrpc\":\"2.0\"}\n\n", 1 << 20}, 1<<20, 0)
	if n := testing.AllocsPerRun(1000, func() { _, _ = e.Next() }); n > 0 {
		t.Errorf("%v allocations for each event", n)
	}
	l := framing.NewLineReader(&repeated{"{\"jsonrpc\":\"2.0\"}\n", 1 << 20}, 1<<20)
	if n := testing.AllocsPerRun(1000, func() { _, _ = l.Next() }); n > 0 {
		t.Errorf("%v allocations for each line", n)
	}
}

// eventsByTheBook parses a whole stream as specified by HTML, step by step.
func eventsByTheBook(in string) (list []event) {
	in = strings.TrimPrefix(in, "\uFEFF")
	lines := strings.Split(strings.ReplaceAll(strings.ReplaceAll(in, "\r\n", "\n"), "\r", "\n"), "\n")
	var data, name, id string
	var retry time.Duration
	for _, line := range lines[:len(lines)-1] {
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "" && data != "":
			if name == "" {
				name = "message"
			}
			list = append(list, event{name, id, strings.TrimSuffix(data, "\n"), retry})
			data, name = "", ""
		case line == "":
			name = ""
		case field == "data":
			data += value + "\n"
		case field == "event":
			name = value
		case field == "id" && !strings.Contains(value, "\x00"):
			id = value
		case field == "retry":
			if n, err := strconv.ParseUint(value, 10, 32); err == nil {
				retry = time.Duration(n) * time.Millisecond
			}
		}
	}
	return list
}

// checkEvents compares the reader with the specification when bytes arrive in parts of any size.
func checkEvents(t interface{ Errorf(string, ...any) }, in string, part int) {
	got, _, err := readEvents(framing.NewEventReader(&parts{[]byte(in), part}, 1<<20, 0))
	if len(in) < 4<<10 && !errors.Is(err, io.EOF) {
		t.Errorf("%q: %v", in, err)
	}
	if diff := cmp.Diff(eventsByTheBook(in), got); diff != "" && errors.Is(err, io.EOF) {
		t.Errorf("%q in parts of %d: %s", in, part, diff)
	}
}

// parts returns bytes in parts of at most n bytes.
type parts struct {
	data []byte
	n    int
}

func (r *parts) Read(p []byte) (int, error) {
	if len(r.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), max(r.n, 1))], r.data)
	r.data = r.data[n:]
	return n, nil
}

func TestEventsByTheBook(t *testing.T) {
	token := rapid.SampledFrom([]string{"data", "event", "id", "retry", ":", " ", "\n", "\r", "\r\n", "\n\n", "\uFEFF", "\x00", "12", "x", "data: y\n\n"})
	rapid.Check(t, func(t *rapid.T) {
		in := strings.Join(rapid.SliceOfN(token, 0, 40).Draw(t, "tokens"), "")
		checkEvents(t, in, rapid.IntRange(1, 8).Draw(t, "part"))
	})
}

func FuzzEvents(f *testing.F) {
	f.Add("data: x\n\n", uint8(1))
	f.Add("\uFEFFid: 1\r\nretry: 5\revent: a\ndata\ndata: y\r\n\r\n: c\n\n", uint8(3))
	f.Fuzz(func(t *testing.T, in string, part uint8) {
		checkEvents(t, in, int(part))
		list, _, err := readEvents(framing.NewEventReader(strings.NewReader(in), 16, 4))
		if err == nil || len(list) > 4 {
			t.Errorf("%d events, %v", len(list), err)
		}
		for _, e := range list {
			if len(e.Data) > 16 {
				t.Errorf("%d bytes of data", len(e.Data))
			}
		}
	})
}

func TestLines(t *testing.T) {
	for in, want := range map[string][]string{
		"":                       nil,
		"a\nb\n":                 {"a", "b"},
		"a\r\n\r\n\nb":           {"a", "", "", "b"},
		"a\rb\n":                 {"a\rb"},
		"12345678\n12345678\r\n": {"12345678", "12345678"},
		"123456789\nb\n":         {"long 9 123456789 123456789", "b"},
		"123456789\r\nb\n":       {"long 9 123456789 123456789", "b"},
		"12345678\r\r\nb\n":      {"long 9 12345678\r 12345678\r", "b"},
		"123456789":              {"long 9 123456789 123456789"},
		"b\n123456789012345\r\n": {"b", "long 15 123456789012345 123456789012345"},
	} {
		for part := 1; part < 20; part += 6 {
			got, err := readLines(framing.NewLineReader(&parts{[]byte(in), part}, 8))
			if diff := cmp.Diff(want, got); diff != "" || !errors.Is(err, io.EOF) {
				t.Errorf("%q in parts of %d: %v %s", in, part, err, diff)
			}
		}
	}
}

// readLines reads all lines. Long lines are represented by their size, head and tail.
func readLines(l *framing.LineReader) (list []string, err error) {
	for {
		line, err := l.Next()
		if long, ok := errors.AsType[*framing.LongLineError](err); ok {
			list = append(list, fmt.Sprintf("long %d %s %s", long.Size, long.Head, long.Tail))
			continue
		}
		if err != nil {
			return list, err
		}
		list = append(list, string(line))
	}
}

func TestLongLine(t *testing.T) {
	line := `{"jsonrpc":"2.0","result":"` + strings.Repeat("x", 1<<20) + `","id":42}`
	l := framing.NewLineReader(strings.NewReader("first\n"+line+"\r\n"+line+"\nlast\n"), 64<<10)
	got, err := readLines(l)
	long := fmt.Sprintf("long %d %s %s", len(line), line[:4<<10], line[len(line)-256:])
	if diff := cmp.Diff([]string{"first", long, long, "last"}, got); diff != "" || !errors.Is(err, io.EOF) {
		t.Error(err, diff)
	}
}

// TestLargeLines reads lines of all sizes around the buffer sizes.
func TestLargeLines(t *testing.T) {
	var in bytes.Buffer
	var want []string
	for _, n := range []int{4095, 4096, 4097, 1 << 20, 3, 8191, 8192, 0, 300 << 10, 300 << 10} {
		want = append(want, strings.Repeat(string(rune('a'+n%26)), n))
		in.WriteString(want[len(want)-1] + "\n")
	}
	got, err := readLines(framing.NewLineReader(&in, 1<<20))
	if diff := cmp.Diff(want, got); diff != "" || !errors.Is(err, io.EOF) {
		t.Error(err, len(diff))
	}
}

func TestBrokenLine(t *testing.T) {
	broken := errors.New("broken")
	l := framing.NewLineReader(io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(broken)), 8)
	if got, err := readLines(l); !cmp.Equal(got, []string{"a"}) || !errors.Is(err, broken) {
		t.Error(got, err)
	}
	l = framing.NewLineReader(io.MultiReader(strings.NewReader("a\n"+strings.Repeat("b", 10<<10)), iotest.ErrReader(broken)), 8)
	if got, err := readLines(l); !cmp.Equal(got, []string{"a"}) || !errors.Is(err, broken) {
		t.Error(got, err)
	}
}

func FuzzLines(f *testing.F) {
	f.Add([]byte("a\nb\r\n\r\r\n0123456789012345\nc"), uint8(2))
	f.Fuzz(func(t *testing.T, in []byte, part uint8) {
		const most = 8
		var want []string
		rest := in
		for len(rest) > 0 {
			var line []byte
			line, rest, _ = bytes.Cut(rest, []byte("\n"))
			line = bytes.TrimSuffix(line, []byte("\r"))
			if len(line) > most {
				want = append(want, fmt.Sprintf("long %d %s %s", len(line), line[:min(len(line), 4<<10)], line[max(0, len(line)-256):]))
				continue
			}
			want = append(want, string(line))
		}
		got, err := readLines(framing.NewLineReader(&parts{in, int(part)}, most))
		if diff := cmp.Diff(want, got); diff != "" || !errors.Is(err, io.EOF) {
			t.Errorf("%q in parts of %d: %v %s", in, part, err, diff)
		}
	})
}

func BenchmarkEvents(b *testing.B) {
	e := framing.NewEventReader(&repeated{"event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[]}}\n\n", 1 << 60}, 1<<20, 0)
	for b.Loop() {
		if _, err := e.Next(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLines(b *testing.B) {
	l := framing.NewLineReader(&repeated{"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[]}}\n", 1 << 60}, 1<<20)
	for b.Loop() {
		if _, err := l.Next(); err != nil {
			b.Fatal(err)
		}
	}
}

// A large line is not overwritten by the following data in the same buffer.
func TestLargeLinesAreGivenAway(t *testing.T) {
	large := strings.Repeat("x", framing.MaxReused+1)
	lines := framing.NewLineReader(strings.NewReader(large+"\n"+strings.Repeat(strings.Repeat("y", 50_000)+"\n", 40)), 1<<20)
	first, err := lines.Next()
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = lines.Next()
	}
	if string(first) != large {
		t.Error("it was overwritten")
	}
	events := framing.NewEventReader(strings.NewReader("data: "+large+"\n\n"+strings.Repeat("data: "+strings.Repeat("y", 300<<10)+"\n\n", 5)), 1<<20, 0)
	e, err := events.Next()
	if err != nil {
		t.Fatal(err)
	}
	data := e.Data
	for err == nil {
		_, err = events.Next()
	}
	if string(data) != large {
		t.Error("an event was overwritten")
	}
}
