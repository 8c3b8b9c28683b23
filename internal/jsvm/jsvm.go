// Package jsvm compiles TypeScript and runs it, in worker processes of the same binary,
// under a deadline, a memory cap and a CPU cap. It knows nothing of tools: a run is a module,
// a request and an answer, all JSON, and what the module may ask of the outside is decided
// by a function that the caller gives.
//
//	pool, err := jsvm.NewPool(jsvm.Options{Harness: harness})
//	module, faults, err := jsvm.NewCompiler().Compile(ctx, "hello.ts", jsvm.CompileOptions{Root: "/srv/tools"})
//	answer, err := pool.Run(ctx, &jsvm.Run{Module: module, Request: request})
//
// Inside a worker QuickJS-NG runs as WebAssembly. Its memory after the runtime and the
// provided modules were evaluated is an image; a module's own image is a layer over that,
// and each run gets a copy-on-write view of it. So no run sees what another one left behind,
// and a new VM costs little more than the pages that it writes.
//
// One run has a name for each place that it is at: the caller has a Run; the parent a
// pending, which waits for the answer; on the wire it is an order; the worker has a job,
// which speaks with the parent, and its VM a run. In the same way the parent has a Module,
// which is code, and the worker a module, which has an image.
package jsvm

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/toolyard/toolyard/internal/jsvm/assets"
)

// Provided is a module that scripts can import without having it.
type Provided struct{ Name, Source string }

// Exception is something that a script threw and nobody caught.
type Exception struct {
	Name    string          `json:"name"`
	Message string          `json:"message"`
	Stack   string          `json:"stack"` // in the author's files
	Code    string          `json:"code"`  // if the error has one
	Issues  json.RawMessage `json:"issues"`

	File         string `json:"-"` // where it was thrown, if known
	Line, Column int    `json:"-"`
}

func (e *Exception) Error() string {
	if e.Name == "" {
		return e.Message
	}
	return fmt.Sprintf("%s: %s", e.Name, e.Message)
}

// setup is what an engine is made of.
type setup struct {
	Engine   []byte `json:"-"`
	Runtime  string `json:"-"`
	Modules  []Provided
	Harness  string // a module that calls __runtime.install(f) with what answers requests
	Memory   int    // bytes that a script may use
	Budget   int    // bytes that all VMs of a worker may have
	CacheDir string // where compiled code of the engine is kept, empty for nowhere
}

// Version changes whenever the same script may be compiled to something else.
const Version = "2 esbuild 0.28.2"

// Modules are the modules of the runtime that scripts can import.
func Modules() []string {
	names := strings.Fields(`assert assert/strict buffer crypto events fs fs/promises os path path/posix perf_hooks process
		querystring string_decoder timers timers/promises url util util/types`)
	for i, name := range names {
		names[i] = "node:" + name
	}
	return names
}

// Available reports what this program lacks to run scripts.
func Available() error {
	for _, name := range []string{assets.Engine, assets.Runtime} {
		if _, err := assets.Read(name); err != nil {
			return err
		}
	}
	return nil
}
