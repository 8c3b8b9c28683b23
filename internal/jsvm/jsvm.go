// Package jsvm compiles TypeScript and runs it in worker processes of the same binary, with a
// deadline, a memory limit and a CPU limit. It does not depend on tools: a run has a module, a
// request and an answer, and the latter two are JSON. The module can access the outside world only
// through a host function that the caller supplies.
//
//	pool, err := jsvm.NewPool(jsvm.Options{Harness: harness})
//	module, faults, err := jsvm.NewCompiler().Compile(ctx, "hello.ts", jsvm.CompileOptions{Root: "/srv/tools"})
//	answer, err := pool.Run(ctx, &jsvm.Run{Module: module, Request: request})
//
// A worker runs QuickJS-NG as WebAssembly. The base image is the engine's memory after it has
// evaluated the runtime and the provided modules. A module's image is a layer on top of the base
// image, and each run gets a copy-on-write view of it. Runs are therefore isolated from each other,
// and a new VM costs little more than the pages that it writes.
//
// A run has one type for each role:
//
//	Run         the caller's request to a Pool
//	inFlight    the parent's record of a run that a worker has not answered
//	runHeader   the fixed part of the frame that starts a run in a worker
//	workerRun   the worker's side: it exchanges frames with the parent
//	execution   the state of a run in a VM
//
// Similarly, Module is a compiled script in the parent, and module is a script with its image in a
// worker.
package jsvm

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/toolyard/toolyard/internal/jsvm/assets"
)

// Provided is a built-in module that scripts can import.
type Provided struct{ Name, Source string }

// Exception is an uncaught exception in a script.
type Exception struct {
	Name    string          `json:"name"`
	Message string          `json:"message"`
	Stack   string          `json:"stack"` // refers to the author's files
	Code    string          `json:"code"`  // may be empty
	Issues  json.RawMessage `json:"issues"`

	RetryAfterMS float64 `json:"retryAfterMs"` // zero if the error has none

	File         string `json:"-"` // where it was thrown, if known
	Line, Column int    `json:"-"`
}

func (e *Exception) Error() string {
	if e.Name == "" {
		return e.Message
	}
	return fmt.Sprintf("%s: %s", e.Name, e.Message)
}

// setup configures an engine.
type setup struct {
	Engine   []byte `json:"-"`
	Runtime  string `json:"-"`
	Modules  []Provided
	Harness  string // module that calls __runtime.install(f) with the request handler
	Memory   int    // bytes that a script may use
	Budget   int    // bytes that all VMs of a worker may use
	CacheDir string // cache for the compiled engine; may be empty
}

// Version changes whenever a script may compile to different code.
const Version = "2 esbuild 0.28.2"

// Modules returns the runtime's modules that scripts can import.
func Modules() []string {
	names := strings.Fields(`assert assert/strict buffer crypto events fs fs/promises os path path/posix perf_hooks process
		querystring string_decoder timers timers/promises url util util/types`)
	for i, name := range names {
		names[i] = "node:" + name
	}
	return names
}

// Available returns an error if this binary was built without the assets needed to run scripts.
func Available() error {
	for _, name := range []string{assets.Engine, assets.Runtime} {
		if _, err := assets.Read(name); err != nil {
			return err
		}
	}
	return nil
}
