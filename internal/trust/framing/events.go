// Package framing splits streams from untrusted senders into messages: server-sent events or lines.
// Its memory use is bounded.
package framing

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"
)

// Errors that end a stream early.
var (
	ErrLongEvent   = errors.New("the server sent an event that exceeds the size limit")
	ErrManyEvents  = errors.New("the server sent too many events")
	ErrEndlessLine = errors.New("the server sent an unterminated line")
)

const (
	firstBuffer = 4 << 10   // initial size of a buffer, in bytes
	keptBuffer  = MaxReused // a buffer that grew beyond this is not kept
	maxField    = 4 << 10   // bytes of an event's name, ID or retry
	maxNothing  = 100       // consecutive reads that return no data
	maxHead     = 4 << 10   // bytes stored from the start of a line that is too long
	maxTail     = 256       // bytes stored from its end
	endless     = 1 << 30   // maximum bytes of a line to skip
)

// MaxReused is the maximum length of a line or event whose buffer is reused. Longer buffers belong
// to the caller.
const MaxReused = 256 << 10

// Event is one event in a stream. Its data is not necessarily UTF-8.
type Event struct {
	Name  string        // "message" if the event has no name
	ID    string        // ID of this event, or of the last event that had one
	Data  []byte        // valid until the next event is read, or forever if longer than [MaxReused]
	Retry time.Duration // last reconnection delay sent
}

// EventReader reads a text/event-stream as defined by HTML. It needs memory for only one event.
type EventReader struct {
	in        source
	maxData   int
	maxEvents int
	count     int
	err       error

	line    line
	began   bool // the byte order mark has been handled
	afterCR bool // a following LF belongs to the previous line

	partialEvent

	lastName string // reused, so that events with the same name share one string
	lastID   string
	retry    time.Duration
}

// partialEvent is an event that has not been read completely.
type partialEvent struct {
	data    []byte
	hasData bool
	name    []byte
	id      []byte
	value   []byte // value of the current field, unless it is data
}

// line is the state of a partially read line.
type line struct {
	field [len("event") + 1]byte // enough bytes of the field's name to distinguish it from others
	named int                    // number of bytes in field
	colon bool                   // the name has ended
	value bool                   // the value has started
	size  int                    // bytes in the line
}

func (l *line) is(field string) bool {
	return l.named == len(field) && string(l.field[:l.named]) == field
}

// NewEventReader reads at most maxEvents events, each with at most maxEvent bytes of data. Zero
// events means no limit. Other lines may have at most maxEvent bytes or 4 KiB, whichever is more.
// The caller limits the size of the stream.
func NewEventReader(r io.Reader, maxEvent int, maxEvents int) *EventReader {
	return &EventReader{in: source{r: r}, maxData: maxEvent, maxEvents: maxEvents}
}

// Next reads the next event. At the end, it returns io.EOF with the ID and Retry for reconnecting,
// and drops an incomplete event. Errors are permanent.
func (e *EventReader) Next() (Event, error) {
	if cap(e.data) > keptBuffer {
		e.data = nil
	}
	e.data = e.data[:0]
	for e.err == nil {
		switch b := e.in.unread(); {
		case len(b) == 0, !e.began && len(b) < len(bom) && bytes.HasPrefix(bom, b):
			e.err = e.in.fill(firstBuffer)
		case !e.began:
			e.began = true
			if bytes.HasPrefix(b, bom) {
				e.in.pos += len(bom)
			}
		default:
			if e.step(b) {
				return Event{Name: e.lastName, ID: e.lastID, Data: e.data, Retry: e.retry}, nil
			}
		}
	}
	return Event{ID: e.lastID, Retry: e.retry}, e.err
}

var bom = []byte("\uFEFF")

// step reads up to the end of the line and reports whether that ended an event.
func (e *EventReader) step(b []byte) bool {
	if e.afterCR {
		e.afterCR = false
		if b[0] == '\n' {
			e.in.pos++
			return false
		}
	}
	end := lineEnd(b)
	if end < 0 {
		e.in.pos += len(b)
		e.err = e.feed(b)
		return false
	}
	e.in.pos += end + 1
	e.afterCR = b[end] == '\r'
	if e.err = e.feed(b[:end]); e.err != nil {
		return false
	}
	if e.line.size == 0 {
		return e.dispatch()
	}
	e.err = e.endLine()
	return false
}

// lineEnd returns the index of the first LF or CR, or -1.
func lineEnd(b []byte) int {
	end := bytes.IndexByte(b, '\n')
	if end >= 0 {
		b = b[:end]
	}
	if i := bytes.IndexByte(b, '\r'); i >= 0 {
		return i
	}
	return end
}

// feed processes the next part of a line.
func (e *EventReader) feed(part []byte) error {
	l := &e.line
	l.size += len(part)
	if !l.colon {
		name, value, found := bytes.Cut(part, colon)
		if l.named < len(l.field) {
			copy(l.field[l.named:], name)
		}
		l.named += len(name)
		part = value
		if found {
			e.endName()
		}
	}
	if l.colon && !l.value && len(part) > 0 {
		l.value = true
		part = bytes.TrimPrefix(part, space)
	}
	return e.take(part)
}

var lf, cr, colon, space = []byte("\n"), []byte("\r"), []byte(":"), []byte(" ")

// endName prepares for the value of a field.
func (e *EventReader) endName() {
	e.line.colon = true
	e.value = e.value[:0]
	if e.line.is("data") {
		if e.hasData {
			e.data = appendBounded(e.data, lf, e.maxData)
		}
		e.hasData = true
	}
}

// take stores part of a known field's value.
func (e *EventReader) take(part []byte) error {
	l := &e.line
	switch {
	case l.colon && l.is("data"):
		if len(e.data)+len(part) > e.maxData {
			return ErrLongEvent
		}
		e.data = appendBounded(e.data, part, e.maxData)
	case l.colon && (l.is("event") || l.is("id") || l.is("retry")):
		if len(e.value)+len(part) > maxField {
			return ErrLongEvent
		}
		e.value = append(e.value, part...)
	case l.size > max(e.maxData, maxField):
		return ErrLongEvent
	}
	return nil
}

// appendBounded appends to a buffer but does not grow it beyond the limit.
func appendBounded(b, part []byte, limit int) []byte {
	if need := len(b) + len(part); need > cap(b) {
		grown := make([]byte, len(b), min(max(2*cap(b), need, 256), max(need, limit)))
		copy(grown, b)
		b = grown
	}
	return append(b, part...)
}

// endLine stores the line's field.
func (e *EventReader) endLine() error {
	if !e.line.colon {
		e.endName() // a line that is only a name is a field with an empty value
	}
	switch l := &e.line; {
	case l.is("event"):
		e.name = append(e.name[:0], e.value...)
	case l.is("id") && bytes.IndexByte(e.value, 0) < 0:
		e.id = append(e.id[:0], e.value...)
	case l.is("retry"):
		if ms, err := strconv.ParseUint(string(e.value), 10, 32); err == nil {
			e.retry = time.Duration(ms) * time.Millisecond
		}
	case l.is("data") && len(e.data) > e.maxData: // exceeded because of the line feeds between lines
		return ErrLongEvent
	}
	e.line = line{}
	return nil
}

// dispatch ends an event and reports whether there was one.
func (e *EventReader) dispatch() bool {
	if string(e.id) != e.lastID {
		e.lastID = string(e.id)
	}
	if !e.hasData {
		e.name = e.name[:0]
		return false
	}
	if e.count++; e.maxEvents > 0 && e.count > e.maxEvents {
		e.err = ErrManyEvents
		return false
	}
	if len(e.name) == 0 {
		e.name = append(e.name, "message"...)
	}
	if string(e.name) != e.lastName {
		e.lastName = string(e.name)
	}
	e.name, e.hasData = e.name[:0], false
	return true
}

// LongLineError is returned for a line that exceeded the limit and was skipped. Head and Tail help
// to identify the message.
type LongLineError struct {
	Head, Tail []byte // first 4 KiB and last 256 bytes
	Size       int64  // bytes, excluding the line ending
}

func (e *LongLineError) Error() string {
	return fmt.Sprintf("the server sent a line of %d bytes, which exceeds the limit", e.Size)
}

// LineReader reads lines of limited length.
type LineReader struct {
	in    source
	max   int
	given bool // the buffer belongs to the caller
	err   error
}

// NewLineReader reads lines of at most max bytes.
func NewLineReader(r io.Reader, max int) *LineReader { return &LineReader{in: source{r: r}, max: max} }

// Next returns the next line without its line ending. The line is valid until the next call, or
// forever if it is longer than [MaxReused]. A line longer than max is skipped and reported as
// [*LongLineError]; other errors are permanent: io.EOF, or [ErrEndlessLine] for a line of more than
// 1 GiB.
func (l *LineReader) Next() ([]byte, error) {
	if l.err != nil {
		return nil, l.err
	}
	if l.given {
		l.in.renew()
		l.given = false
	}
	for searched := 0; ; {
		b := l.in.unread()
		if i := bytes.IndexByte(b[searched:], '\n'); i >= 0 {
			l.in.pos += searched + i + 1
			return l.checked(b[:searched+i])
		}
		if searched = len(b); searched > l.max+len("\r") {
			return nil, l.skip()
		}
		if l.err = l.in.fill(l.max + len("\r\n")); l.err != nil {
			if errors.Is(l.err, io.EOF) && len(b) > 0 {
				l.in.pos = l.in.end
				return l.checked(b)
			}
			return nil, l.err
		}
	}
}

// checked returns a line without its LF if it is within the limit.
func (l *LineReader) checked(b []byte) ([]byte, error) {
	line := bytes.TrimSuffix(b, cr)
	if len(line) > l.max {
		long := &LongLineError{}
		long.add(b)
		long.trim()
		return nil, long
	}
	l.given = len(line) > MaxReused
	return slices.Clip(line), nil
}

// skip skips the rest of a line that is too long.
func (l *LineReader) skip() error {
	long := &LongLineError{}
	for ended := false; !ended; {
		var part []byte
		part, _, ended = bytes.Cut(l.in.unread(), lf)
		l.in.pos += len(part)
		if long.add(part); long.Size > endless {
			l.err = ErrEndlessLine
			return l.err
		}
		if ended {
			l.in.pos++
		} else if l.err = l.in.fill(0); errors.Is(l.err, io.EOF) {
			ended = true
		} else if l.err != nil {
			return l.err
		}
	}
	long.trim()
	return long
}

// add adds part of the line. It stores one extra byte for a trailing CR.
func (e *LongLineError) add(part []byte) {
	e.Size += int64(len(part))
	e.Head = append(e.Head, part[:min(len(part), maxHead-len(e.Head))]...)
	e.Tail = append(e.Tail, lastOf(part, maxTail+len(cr))...)
	e.Tail = append(e.Tail[:0], lastOf(e.Tail, maxTail+len(cr))...)
}

// trim removes a trailing CR.
func (e *LongLineError) trim() {
	if bytes.HasSuffix(e.Tail, cr) {
		e.Tail = e.Tail[:len(e.Tail)-len(cr)]
		e.Size--
	}
	e.Tail = lastOf(e.Tail, maxTail)
	e.Head = e.Head[:min(int64(len(e.Head)), e.Size)]
}

// lastOf returns the last n bytes of b, or fewer if b is shorter.
func lastOf(b []byte, n int) []byte { return b[max(0, len(b)-n):] }

// source reads ahead into a buffer.
type source struct {
	r        io.Reader
	buf      []byte
	pos, end int
	err      error // returned after the remaining bytes
}

func (s *source) unread() []byte { return s.buf[s.pos:s.end] }

// fill reads more data. If the buffer is full, it grows up to limit.
func (s *source) fill(limit int) error {
	if s.err != nil {
		return s.err
	}
	if s.pos == s.end || s.end == len(s.buf) {
		s.end = copy(s.buf, s.unread())
		s.pos = 0
	}
	if s.end == len(s.buf) {
		grown := make([]byte, max(min(2*len(s.buf), limit), firstBuffer))
		copy(grown, s.buf)
		s.buf = grown
	}
	for range maxNothing {
		n, err := s.r.Read(s.buf[s.end:])
		s.end += n
		if n > 0 {
			s.err = err
			return nil
		}
		if err != nil {
			s.err = err
			return err
		}
	}
	return io.ErrNoProgress
}

// renew hands the buffer over to the caller and continues with a new one.
func (s *source) renew() {
	next := make([]byte, max(firstBuffer, s.end-s.pos))
	s.end = copy(next, s.unread())
	s.pos, s.buf = 0, next
}
