package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/toolyard/toolyard/internal/base/jsonobject"
)

// reply is the response to a POST. It is plain JSON unless a message is sent before the result,
// which turns it into an event stream.
type reply struct {
	w         http.ResponseWriter
	canStream bool // the client accepts an event stream

	mu     sync.Mutex
	stream bool
	done   bool
}

func newReply(w http.ResponseWriter, r *http.Request) *reply {
	p := &reply{w: w}
	if r != nil {
		p.canStream = acceptsStream(r)
	}
	return p
}

// acceptsStream reports whether a client accepts an event stream.
func acceptsStream(r *http.Request) bool {
	for _, accept := range r.Header["Accept"] {
		if strings.Contains(accept, "text/event-stream") || strings.Contains(accept, "*/*") || strings.Contains(accept, "text/*") {
			return true
		}
	}
	return false
}

// notify sends a message ahead of the result. It returns false after the result, or if the client
// does not accept a stream.
func (p *reply) notify(message []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done || !p.canStream {
		return false
	}
	if !p.stream {
		p.stream = true
		openStream(p.w)
	}
	if writeEvent(p.w, message) != nil {
		p.done = true // the client has disconnected
	}
	return !p.done
}

func (p *reply) finish(status int, message []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	gone := p.done
	p.done = true
	if p.stream {
		if !gone {
			_ = writeEvent(p.w, message)
		}
		return
	}
	_ = http.NewResponseController(p.w).SetWriteDeadline(time.Now().Add(writeTimeout))
	h := p.w.Header()
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(len(message))}
	p.w.WriteHeader(status)
	_, _ = p.w.Write(message) // the client may have disconnected
}

var jsonType = []string{"application/json"}

func openStream(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
}

// writeTimeout limits the time for writing one message.
const writeTimeout = 20 * time.Second

// writeEvent writes one message to a stream.
func writeEvent(w http.ResponseWriter, message []byte) error {
	return writeNow(w, event("message", message))
}

// event encodes a server-sent event.
func event(name string, data []byte) []byte {
	data = oneLine(data)
	b := make([]byte, 0, len(name)+len(data)+32)
	b = append(append(append(b, "event: "...), name...), "\ndata: "...)
	return append(append(b, data...), "\n\n"...)
}

// oneLine removes line breaks from a message. A raw result may have them between tokens.
func oneLine(message []byte) []byte {
	if !bytes.ContainsAny(message, "\r\n") {
		return message
	}
	var b bytes.Buffer
	if json.Compact(&b, message) != nil {
		return message
	}
	return b.Bytes()
}

// writeNow writes and flushes within writeTimeout.
func writeNow(w http.ResponseWriter, b []byte) error {
	rc := http.NewResponseController(w)
	_ = rc.SetWriteDeadline(time.Now().Add(writeTimeout))
	defer func() { _ = rc.SetWriteDeadline(time.Time{}) }()
	if _, err := w.Write(b); err != nil {
		return err
	}
	return rc.Flush()
}

func progressMessage(token json.RawMessage, done, total float64, message string) []byte {
	b := append([]byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`), token...)
	b = strconv.AppendFloat(append(b, `,"progress":`...), done, 'f', -1, 64)
	if total > 0 {
		b = strconv.AppendFloat(append(b, `,"total":`...), total, 'f', -1, 64)
	}
	if message != "" {
		b = jsonobject.AppendString(append(b, `,"message":`...), message)
	}
	return append(b, "}}"...)
}

// levels maps MCP's log levels to slog's.
var levels = []struct {
	name  string
	level slog.Level
}{
	{"debug", slog.LevelDebug},
	{"info", slog.LevelInfo},
	{"notice", slog.LevelInfo + 2},
	{"warning", slog.LevelWarn},
	{"error", slog.LevelError},
	{"critical", slog.LevelError + 2},
	{"alert", slog.LevelError + 4},
	{"emergency", slog.LevelError + 6},
}

func levelOf(name string) (slog.Level, bool) {
	for _, l := range levels {
		if l.name == name {
			return l.level, true
		}
	}
	return 0, false
}

func levelName(level slog.Level) string {
	name := levels[0].name
	for _, l := range levels {
		if level >= l.level {
			name = l.name
		}
	}
	return name
}

// clientHandler sends a tool's log messages to its client.
type clientHandler struct {
	min  slog.Level
	send func(message []byte) bool
}

// Enabled implements slog.Handler.
func (h *clientHandler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.min }

// Handle implements slog.Handler.
func (h *clientHandler) Handle(_ context.Context, r slog.Record) error {
	params, err := json.Marshal(map[string]any{"level": levelName(r.Level), "data": logData(r)})
	if err != nil {
		return err
	}
	h.send([]byte(`{"jsonrpc":"2.0","method":"notifications/message","params":` + string(params) + "}"))
	return nil
}

// logData returns the message, or an object if the record has attributes.
func logData(r slog.Record) any {
	if r.NumAttrs() == 0 {
		return r.Message
	}
	data := map[string]any{"message": r.Message}
	r.Attrs(func(a slog.Attr) bool {
		switch v := a.Value.Resolve().Any().(type) {
		case error:
			data[a.Key] = v.Error()
		case fmt.Stringer:
			data[a.Key] = v.String()
		default:
			data[a.Key] = v
		}
		return true
	})
	return data
}

// WithAttrs implements slog.Handler. Toolyard's own attributes are not sent to the client.
func (h *clientHandler) WithAttrs([]slog.Attr) slog.Handler { return h }

// WithGroup implements slog.Handler.
func (h *clientHandler) WithGroup(string) slog.Handler { return h }

// teeHandler logs to two handlers.
type teeHandler [2]slog.Handler

// Enabled implements slog.Handler.
func (t teeHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return t[0].Enabled(ctx, level) || t[1].Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (t teeHandler) Handle(ctx context.Context, r slog.Record) (err error) {
	for _, h := range t {
		if h.Enabled(ctx, r.Level) {
			if e := h.Handle(ctx, r.Clone()); e != nil {
				err = e
			}
		}
	}
	return err
}

// WithAttrs implements slog.Handler.
func (t teeHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return teeHandler{t[0].WithAttrs(attrs), t[1].WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (t teeHandler) WithGroup(name string) slog.Handler {
	return teeHandler{t[0].WithGroup(name), t[1].WithGroup(name)}
}
