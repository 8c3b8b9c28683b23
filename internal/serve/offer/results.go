package offer

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// Results stores the text of long results. Each result belongs to one caller.
type Results interface {
	// PutResult stores a text until it expires.
	PutResult(ctx context.Context, id, account, caller, text string, now, expires time.Time) error
	// ReadResult returns at most limit bytes of a text, starting at offset, and the size of the
	// whole text. It does not find texts that have expired or belong to another caller.
	ReadResult(ctx context.Context, id, account, caller string, offset, limit int, now time.Time) (piece string, size int, found bool, err error)
}

const (
	// ResultLifetime is how long a result can be read.
	ResultLifetime = time.Hour
	// MaxPiece is the maximum size of a piece, in bytes.
	MaxPiece = 64 << 10

	resultURI = "toolyard://results/"
)

// ResultURI returns the URI of a stored result.
func ResultURI(id string) string { return resultURI + id }

// IsResultURI reports whether a URI refers to a stored result.
func IsResultURI(uri string) bool { return strings.HasPrefix(uri, resultURI) }

// LongText returns a result's text if the result is larger than show bytes, and its other content.
// The text consists of all text items, and of the structured content unless a text item repeats it.
func LongText(res *toolyard.Result, show int) (text string, others []toolyard.Content, long bool) {
	if res.Size() <= show {
		return "", nil, false
	}
	var texts []string
	repeated := len(res.Structured) == 0
	for _, item := range res.Items() {
		t, ok := item.(toolyard.Text)
		if !ok {
			others = append(others, item)
			continue
		}
		texts = append(texts, string(t))
		repeated = repeated || sameJSON(string(t), res.Structured)
	}
	if !repeated {
		texts = append(texts, string(res.Structured))
	}
	text = strings.Join(texts, "\n")
	return text, others, len(text) > show
}

// sameJSON reports whether text is the same JSON as value, ignoring white space.
func sameJSON(text string, value json.RawMessage) bool {
	var a, b bytes.Buffer
	return json.Compact(&a, []byte(text)) == nil && json.Compact(&b, value) == nil && bytes.Equal(a.Bytes(), b.Bytes())
}

// Abridge shortens a text to show bytes, three quarters from its start and one quarter from its
// end. Between them, it inserts a mark with the full size and how to read the rest.
func Abridge(text, id string, show int) string {
	head := untrusted.Prefix(text, show-show/4)
	tail := untrusted.Suffix(text, show/4)
	return fmt.Sprintf("%s\n\n[%d of %d bytes omitted. Continue with: %s {\"id\":%q,\"offset\":%d}]\n\n%s",
		head, len(text)-len(head)-len(tail), len(text), gates.ReadResult, id, len(head), tail)
}

// Range is a part of a stored result.
type Range struct {
	ID            string
	Offset, Bytes int
}

// ParseRead parses the arguments of read_result.
func ParseRead(args json.RawMessage) (r Range, err *toolyard.Error) {
	const tool = gates.ReadResult
	if err := check(tool, args, "id", "offset"); err != nil {
		return r, err
	}
	r.Bytes = MaxPiece
	for key, value := range strictjson.Members(args) {
		if key == "id" {
			if r.ID, err = text(tool, key, value, maxName); err != nil {
				return r, err
			}
			continue
		}
		n, ok := integer(value)
		if !ok || n < 0 || n >= math.MaxInt32 {
			return r, invalid(tool, key, "must be an integer from 0 to the size of the result")
		}
		r.Offset = int(n)
	}
	if r.ID = strings.TrimPrefix(r.ID, resultURI); r.ID == "" {
		return r, invalid(tool, "id", "is required: pass the id from a long result")
	}
	return r, nil
}

// ParseResultURI parses the URI of a stored result: toolyard://results/ID?offset=0&bytes=65536.
func ParseResultURI(uri string) (Range, *toolyard.Error) {
	id, query, _ := strings.Cut(strings.TrimPrefix(uri, resultURI), "?")
	r := Range{ID: id, Bytes: MaxPiece}
	values, err := url.ParseQuery(query)
	if err != nil {
		return r, toolyard.Errorf(toolyard.Invalid, "The result URI is invalid.")
	}
	for key, value := range values {
		n, err := strconv.ParseInt(value[0], 10, 32)
		switch {
		case err != nil || n < 0 || n == math.MaxInt32 || len(value) > 1:
			return r, toolyard.Errorf(toolyard.Invalid, "Parameter %.40q must be 0 or a positive number, and must be set only once.", key)
		case key == "offset":
			r.Offset = int(n)
		case key == "bytes" && n > 0:
			r.Bytes = int(min(n, MaxPiece))
		default:
			return r, toolyard.Errorf(toolyard.Invalid, "Unknown or empty parameter %.40q: use offset and bytes.", key)
		}
	}
	return r, nil
}

// Piece is a part of a stored result. It starts and ends at character boundaries.
type Piece struct {
	Text         string
	Offset, Next int // in the whole result; Next is the offset of the next piece
	Size         int // size of the whole result
}

// Read returns a part of a stored result.
func (r Range) Read(ctx context.Context, results Results, c toolyard.Caller, now time.Time) (Piece, error) {
	const rest = utf8.UTFMax - 1 // bytes after a character's first byte
	raw, size, found, err := results.ReadResult(ctx, r.ID, c.Account, c.ID, r.Offset, max(r.Bytes, utf8.UTFMax)+rest, now)
	switch {
	case err != nil:
		return Piece{}, &toolyard.Error{Code: toolyard.Unavailable, Message: "The result cannot be read right now. Try again.", RetryAfter: time.Second, Err: err}
	case !found:
		return Piece{}, toolyard.Errorf(toolyard.NotFound, "Unknown result %.64q: results are stored for an hour, and only the caller of the tool can read them.", r.ID)
	case r.Offset > size:
		return Piece{}, toolyard.Errorf(toolyard.Invalid, "Offset %d is beyond the end of the result, which is %d bytes long.", r.Offset, size)
	}
	p := Piece{Offset: r.Offset, Size: size}
	for n := 0; n < rest && len(raw) > 0 && !utf8.RuneStart(raw[0]); n++ {
		raw, p.Offset = raw[1:], p.Offset+1
	}
	p.Text = untrusted.Prefix(raw, max(r.Bytes, utf8.UTFMax))
	p.Next = p.Offset + len(p.Text)
	return p, nil
}

// Mark describes the piece's position in the result and how to read the next piece.
func (p Piece) Mark() string {
	if p.Next >= p.Size {
		return fmt.Sprintf("[bytes %d to %d of %d: the end]", p.Offset, p.Next, p.Size)
	}
	return fmt.Sprintf("[bytes %d to %d of %d. Continue at offset %d]", p.Offset, p.Next, p.Size, p.Next)
}

// maxMemory is the maximum total size of results in memory.
const maxMemory = 64 << 20 // bytes

// Memory stores results if the yard has no store. It drops the oldest results first.
type Memory struct {
	mu      sync.Mutex
	results []memoryResult // oldest first
	bytes   int
}

type memoryResult struct {
	id, account, caller, text string
	expires                   time.Time
}

// PutResult implements [Results].
func (m *Memory) PutResult(_ context.Context, id, account, caller, text string, now, expires time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.results = append(m.results, memoryResult{id, account, caller, text, expires})
	m.bytes += len(text)
	n := 0
	for ; n < len(m.results) && (m.bytes > maxMemory || !m.results[n].expires.After(now)); n++ {
		m.bytes -= len(m.results[n].text)
	}
	m.results = slices.Delete(m.results, 0, n)
	return nil
}

// ReadResult implements [Results].
func (m *Memory) ReadResult(_ context.Context, id, account, caller string, offset, limit int, now time.Time) (piece string, size int, found bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.results {
		if r.id == id && r.account == account && r.caller == caller && r.expires.After(now) {
			start := min(offset, len(r.text))
			return r.text[start:min(start+limit, len(r.text))], len(r.text), true, nil
		}
	}
	return "", 0, false, nil
}
