package jsvm

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
)

// frame is a message between parent and worker. On the wire, it consists of length, kind, run
// number and body.
type frame struct {
	kind byte
	run  uint32
	body []byte
}

// The kinds of frames.
const (
	frameSetup  = 's' // to the worker: engine setup
	frameReady  = 'r' // to the parent: the engine is ready
	frameModule = 'm' // to the worker: a module's code
	frameRun    = 'c' // to the worker: start a run
	frameNeed   = 'n' // to the parent: the worker needs the run's module
	frameCancel = 'x' // to the worker: cancel the run
	frameAnswer = 'a' // to the parent: the run's answer
	frameAsk    = 'q' // to the parent: a host request
	frameReply  = 'p' // to the worker: the answer to a host request
	frameLog    = 'l' // to the parent: a line in the run's log
	frameTell   = 't' // to the parent: a notification

	frameCompile = 'k' // to a compiler: a script; to the parent: the result
)

const (
	frameHeader = 9
	maxFrame    = maxAnswer + 1<<20
)

var errLargeFrame = errors.New("the message is too large")

// conn sends and receives frames. Only send is safe for concurrent use.
type conn struct {
	in  *bufio.Reader
	mu  sync.Mutex
	out io.Writer
	buf []byte
}

func newConn(in io.Reader, out io.Writer) *conn {
	return &conn{in: bufio.NewReaderSize(in, 64<<10), out: out}
}

// send writes a frame whose body is the concatenation of parts.
func (c *conn) send(kind byte, run uint32, parts ...[]byte) error {
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	if size > maxFrame {
		return fmt.Errorf("%w: %d bytes", errLargeFrame, size)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	b := binary.LittleEndian.AppendUint32(c.buf[:0], uint32(size))
	b = append(b, kind)
	b = binary.LittleEndian.AppendUint32(b, run)
	for _, p := range parts {
		b = append(b, p...)
	}
	if c.buf = b; cap(b) > 1<<20 {
		c.buf = nil // don't keep the memory of a large message
	}
	_, err := c.out.Write(b)
	return err
}

func (c *conn) receive() (f frame, err error) {
	var header [frameHeader]byte
	if _, err := io.ReadFull(c.in, header[:]); err != nil {
		return f, err
	}
	size := binary.LittleEndian.Uint32(header[:])
	if size > maxFrame {
		return f, fmt.Errorf("%w: %d bytes", errLargeFrame, size)
	}
	f.kind, f.run = header[4], binary.LittleEndian.Uint32(header[5:])
	f.body, err = readExactly(c.in, int(size))
	return f, err
}

// readExactly reads n bytes. It allocates memory only as data arrives.
func readExactly(r io.Reader, n int) ([]byte, error) {
	if n <= 64<<10 {
		b := make([]byte, n)
		_, err := io.ReadFull(r, b)
		return b, err
	}
	var b bytes.Buffer
	_, err := io.CopyN(&b, r, int64(n))
	return b.Bytes(), err
}

// number32 encodes a number for a frame.
func number32(n uint32) []byte { return binary.LittleEndian.AppendUint32(nil, n) }

// runHeader precedes the request in a frame that starts a run.
type runHeader struct {
	Module   [32]byte
	Deadline int64 // Unix time in nanoseconds; time spent in queues counts
	CPU      int64 // nanoseconds
	Seconds  int64 // as-of time
	Nanos    int32
	Shared   bool
	Once     bool
	Seed     [32]byte // zero if the run is not seeded
}

const runHeaderSize = 32 + 8 + 8 + 8 + 4 + 1 + 1 + 32

func (h *runHeader) bytes() []byte {
	b, _ := binary.Append(make([]byte, 0, runHeaderSize), binary.LittleEndian, h) // cannot fail: the size is fixed
	return b
}

func readRunHeader(body []byte) (h runHeader, request []byte, err error) {
	n, err := binary.Decode(body, binary.LittleEndian, &h)
	return h, body[n:], err
}
