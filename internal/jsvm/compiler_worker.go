package jsvm

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
)

// compilerName is the argv[0] that makes the binary a compiler.
const compilerName = "toolyard-script-compiler"

// compileRequest is a request to a compiler process.
type compileRequest struct {
	File    string
	Options CompileOptions
	Source  string // if not empty, compiled instead of the file
}

// compileReply is a compiler process's reply.
type compileReply struct {
	Inputs []Input
	Faults []Fault

	code, sourceMap []byte
}

// bytes encodes the reply as a frame body: the lengths of the JSON and of the code, the JSON, the
// code, and the source map.
func (r *compileReply) bytes() ([]byte, error) {
	head, err := json.Marshal(r)
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(head))) //nolint:gosec // limited by the frame
	b = binary.LittleEndian.AppendUint32(b, uint32(len(r.code)))  //nolint:gosec // limited by the frame
	return append(append(append(b, head...), r.code...), r.sourceMap...), err
}

func (r *compileReply) read(body []byte) error {
	if len(body) < 8 {
		return errors.New("the compiler's reply is too short")
	}
	head, code := uint64(binary.LittleEndian.Uint32(body)), uint64(binary.LittleEndian.Uint32(body[4:]))
	if body = body[8:]; head+code > uint64(len(body)) {
		return errors.New("the compiler's reply is too short")
	}
	r.code, r.sourceMap = body[head:head+code], body[head+code:]
	return json.Unmarshal(body[:head], r)
}

// module returns the compiled module.
func (r *compileReply) module(file string) (*Module, []Fault, error) {
	if len(r.Faults) > 0 {
		return &Module{Name: file, Inputs: r.Inputs}, r.Faults[:min(len(r.Faults), maxFaults)], nil
	}
	m := NewModule(file, string(r.code), r.sourceMap)
	m.Inputs = r.Inputs
	return m, nil, nil
}

// compileKeep is the maximum memory in bytes of a process that is reused.
const compileKeep = 256 << 20

// compileGarbage is the amount of garbage that triggers a collection, in percent of the memory in
// use. Little memory is in use between compilations, so collecting more often would cost much and
// free little.
const compileGarbage = 1200

// compileStack limits the nesting depth of a file.
const compileStack = 64 << 20

// serveCompiler handles requests until the parent closes the connection.
func serveCompiler() error {
	debug.SetGCPercent(compileGarbage)
	debug.SetMemoryLimit(compileMemory * 2 / 3) // above this, garbage is collected eagerly
	debug.SetMaxStack(compileStack)
	c := newConn(pipeFile(0), pipeFile(1))
	if err := lockDownCompiler(); err != nil {
		return fmt.Errorf("restrict the compiler process: %w", err)
	}
	for {
		f, err := c.receive()
		if err != nil {
			return nil //nolint:nilerr // the parent has exited, so this process exits too
		}
		if err := answerCompile(c, f.body); err != nil {
			return err
		}
		collectIfDue()
		if heldMemory() > compileKeep {
			return nil
		}
	}
}

func answerCompile(c *conn, body []byte) error {
	var request compileRequest
	if err := json.Unmarshal(body, &request); err != nil {
		return err
	}
	var m *Module
	var faults []Fault
	if request.Source != "" {
		useProcessors(1) // the steps depend on each other: waking other threads costs more than it saves
		m, faults = transform(request.File, request.Source)
	} else {
		useProcessors(allProcessors)
		m, faults = compile(request.File, request.Options)
	}
	for i := range faults {
		faults[i].clip()
	}
	reply, err := (&compileReply{Inputs: m.Inputs, Faults: faults, code: []byte(m.Code), sourceMap: m.Map}).bytes()
	if err != nil {
		return err
	}
	return c.send(frameCompile, 0, reply)
}

// allProcessors is the number of processors that the process may use.
var allProcessors = runtime.GOMAXPROCS(0)

// useProcessors sets the number of processors. A change stops all goroutines for a moment; it is
// rare, because a Compiler compiles either files or snippets.
func useProcessors(n int) {
	if runtime.GOMAXPROCS(0) != n {
		runtime.GOMAXPROCS(n)
	}
}

// heldMemory returns the process's memory in bytes.
func heldMemory() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Sys - m.HeapReleased
}
