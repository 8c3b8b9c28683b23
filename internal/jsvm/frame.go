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

// Parent and worker speak in frames: a length, a kind, the number of the run, and a body.
type frame struct {
	kind byte
	run  uint32
	body []byte
}

// The kinds of frames.
const (
	frameSetup  = 's' // to the worker: what the engine is made of
	frameReady  = 'r' // to the parent: the engine runs
	frameModule = 'm' // to the worker: the code of a module
	frameRun    = 'c' // to the worker: run a request
	frameNeed   = 'n' // to the parent: the module of the run is not here
	frameCancel = 'x' // to the worker: end the run
	frameAnswer = 'a' // to the parent: how the run ended
	frameAsk    = 'q' // to the parent: a question of the run
	frameReply  = 'p' // to the worker: its answer
	frameLog    = 'l' // to the parent: a line of the run's log
	frameTell   = 't' // to the parent: something that the run says and needs no answer to

	frameCompile = 'k' // to a compiler: a script to compile; to the parent: what became of it
)

const (
	frameHeader = 9
	maxFrame    = maxAnswer + 1<<20
)

var errLargeFrame = errors.New("the message is too large")

// conn sends and receives frames. Many may send, one receives.
type conn struct {
	in  *bufio.Reader
	mu  sync.Mutex
	out io.Writer
	buf []byte
}

func newConn(in io.Reader, out io.Writer) *conn {
	return &conn{in: bufio.NewReaderSize(in, 64<<10), out: out}
}

// send writes a frame whose body is made of parts.
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
		c.buf = nil // one large message must not stay for ever
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

// readExactly reads n bytes. A length that is only claimed costs nothing.
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

// number32 is a number as part of a frame.
func number32(n uint32) []byte { return binary.LittleEndian.AppendUint32(nil, n) }

// runHeader is what a run frame says before the request.
type runHeader struct {
	Module   [32]byte
	Deadline int64 // nanoseconds since 1970: time in a queue counts
	CPU      int64 // nanoseconds
	Seconds  int64 // the time that the run is about
	Nanos    int32
	Shared   bool
	Once     bool
}

const orderSize = 32 + 8 + 8 + 8 + 4 + 1 + 1

func (o *runHeader) bytes() []byte {
	b, _ := binary.Append(make([]byte, 0, orderSize), binary.LittleEndian, o) // fixed size
	return b
}

func readOrder(body []byte) (o runHeader, request []byte, err error) {
	n, err := binary.Decode(body, binary.LittleEndian, &o)
	return o, body[n:], err
}
