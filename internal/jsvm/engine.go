package jsvm

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
)

// engine creates VMs. Each worker process has one.
type engine struct {
	runtime  wazero.Runtime
	compiled wazero.CompiledModule
	limit    int          // maximum bytes per VM
	budget   atomic.Int64 // remaining bytes for all VMs
	base     *image       // state after evaluating the runtime and the provided modules
	entry    entry        // entry points in the base image
	blanks   chan *vm     // VMs that show the base image and are ready for a module
	reclaim  func()       // releases idle VMs
}

// entry holds functions in the base image that the host calls. They have the same addresses in
// every VM.
type entry struct {
	begin, settle, fire, undefined uint64
	length                         uint64 // address at which the engine stores the length of a string
}

// spare is the free memory in every image. Because of it, most calls do not have to grow the
// memory. A VM that has grown cannot be reset to its image.
const spare = 3 << 20

// collectAbove is the heap size at which garbage collection starts. For most calls, collecting
// would cost more than it saves, and it would write to all pages of the image.
const collectAbove = 24 << 20

// overhead is the memory that a VM needs in addition to the script's heap.
const overhead = 8 << 20

// newEngine compiles the engine and creates the base image.
func newEngine(ctx context.Context, s *setup) (*engine, error) {
	e := &engine{limit: s.Memory + overhead, blanks: make(chan *vm, 2)}
	e.budget.Store(int64(s.Budget))
	err := e.compile(ctx, s, s.CacheDir)
	if err != nil && s.CacheDir != "" { // the cache is optional
		err = e.compile(ctx, s, "")
	}
	if err != nil {
		return nil, fmt.Errorf("compile the engine: %w", err)
	}
	if err := e.instantiateHost(ctx); err != nil {
		return nil, err
	}
	return e, e.makeBase(ctx, s)
}

// compile compiles the engine, or loads it from the cache.
func (e *engine) compile(ctx context.Context, s *setup, cacheDir string) error {
	config := wazero.NewRuntimeConfigCompiler().WithMemoryLimitPages(uint32((s.Memory + overhead) >> 16)) //nolint:gosec // limited by NewPool
	if cacheDir != "" {
		cache, err := wazero.NewCompilationCacheWithDir(cacheDir)
		if err != nil {
			return err
		}
		config = config.WithCompilationCache(cache)
	}
	e.runtime = wazero.NewRuntimeWithConfig(ctx, config)
	var err error
	e.compiled, err = e.runtime.CompileModule(ctx, s.Engine)
	return err
}

// makeBase evaluates the runtime, the provided modules and the harness once.
func (e *engine) makeBase(ctx context.Context, s *setup) error {
	v, err := e.newVM(ctx)
	if err != nil {
		return err
	}
	defer v.close()
	v.begin(&execution{ctx: ctx, deadline: time.Now().Add(time.Minute), clock: newClock(time.Unix(0, 0), [32]byte{})})
	if err := v.boot(s); err != nil {
		return fmt.Errorf("start the engine: %w", err)
	}
	e.entry.begin, e.entry.settle, e.entry.fire = v.global("__runtime", "begin"), v.global("__runtime", "settle"), v.global("__runtime", "fire")
	v.eval("<boot>", "delete globalThis.__runtime; delete globalThis.__provided", 0)
	v.call(v.fn.runGC)
	v.call(v.fn.setThreshold, collectAbove)
	v.call(v.fn.free, v.call(v.fn.malloc, spare))
	if v.failure != nil {
		return v.failure
	}
	e.base, err = v.memory.capture(nil)
	return err
}

// boot initializes a new VM to the state of the base image.
func (v *vm) boot(s *setup) error {
	v.call(v.fn.initialize)
	if v.call(v.fn.init) != 0 {
		return errors.New("the engine did not start")
	}
	v.engine.entry.length, v.engine.entry.undefined = v.call(v.fn.malloc, 4), v.call(v.fn.undefined)
	v.call(v.fn.setMemoryLimit, uint64(s.Memory)) //nolint:gosec // positive
	v.call(v.fn.setMaxStack, 256<<10)
	v.call(v.fn.setInterrupt, 1)
	v.setGlobal("__host", v.call(v.fn.newHostFunction, v.write("h"), 1, 0))
	if _, err := v.evalDone("runtime.js", s.Runtime, evalScript); err != nil {
		return err
	}
	names, err := v.evalDone("<boot>", "__runtime.names()", evalScript)
	if err != nil {
		return err
	}
	var provided []string
	if err := json.Unmarshal([]byte(v.text(names)), &provided); err != nil {
		return err
	}
	modules := make([]Provided, 0, len(provided)+len(s.Modules))
	for _, name := range provided {
		source, err := v.evalDone("<boot>", fmt.Sprintf("__runtime.moduleSource(%q)", name), evalScript)
		if err != nil {
			return err
		}
		modules = append(modules, Provided{name, v.text(source)})
	}
	for _, m := range append(modules, s.Modules...) {
		if _, err := v.evalDone(m.Name, m.Source, evalModule); err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
	}
	_, err = v.evalDone("harness.js", s.Harness, evalModule)
	return err
}

// newVM returns a VM with empty memory.
func (e *engine) newVM(ctx context.Context) (*vm, error) {
	shared := 0
	if e.base != nil {
		shared = e.base.size
	}
	mem, err := newMemory(e.limit, shared, &e.budget)
	if err != nil {
		return nil, err
	}
	v := &vm{engine: e, memory: mem}
	ctx = experimental.WithMemoryAllocator(ctx, experimental.MemoryAllocatorFunc(func(uint64, uint64) experimental.LinearMemory { return mem }))
	ctx = context.WithValue(ctx, vmKey{}, v)
	if v.module, err = e.instantiate(ctx); err != nil {
		mem.Free()
		return nil, err
	}
	v.ctx = context.WithValue(context.WithoutCancel(ctx), vmKey{}, v)
	v.bind()
	return v, nil
}

func (e *engine) instantiate(ctx context.Context) (m api.Module, err error) {
	defer func() {
		if p := recover(); p != nil { // out of memory
			err = errNoMemory
		}
	}()
	return e.runtime.InstantiateModule(ctx, e.compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions())
}

// vmKey is the context key for the VM that a host function belongs to.
type vmKey struct{}

func vmOf(ctx context.Context) *vm { return ctx.Value(vmKey{}).(*vm) }

// instantiateHost provides the engine's imports: host calls, clocks and random numbers, but no
// files.
func (e *engine) instantiateHost(ctx context.Context) error {
	const i32, i64 = api.ValueTypeI32, api.ValueTypeI64
	env := e.runtime.NewHostModuleBuilder("env")
	export := func(b wazero.HostModuleBuilder, name string, params, results []api.ValueType, f func(v *vm, stack []uint64)) {
		b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(ctx context.Context, _ api.Module, stack []uint64) {
			f(vmOf(ctx), stack)
		}), params, results).Export(name)
	}
	params := func(n int) (list []api.ValueType) {
		for range n {
			list = append(list, i32)
		}
		return list
	}
	one := params(1)
	answer := func(value uint64) func(*vm, []uint64) { return func(_ *vm, stack []uint64) { stack[0] = value } }
	export(env, "host_call", params(5), one, func(v *vm, s []uint64) { s[0] = v.hostCall(uint32(s[3]), uint32(s[4])) }) //nolint:gosec // 32-bit values
	export(env, "host_interrupt", nil, one, func(v *vm, s []uint64) { s[0] = 0; runtime.Gosched(); v.run.measure(); v.interrupted() })
	export(env, "host_module_load", params(2), one, answer(0))
	export(env, "host_module_normalize", params(2), one, func(v *vm, s []uint64) { s[0] = v.copyText(uint32(s[1])) }) //nolint:gosec // 32-bit values
	export(env, "host_promise_rejection", params(3), nil, func(*vm, []uint64) {})
	export(env, "host_get_timezone_offset", params(2), one, answer(0))
	if _, err := env.Instantiate(ctx); err != nil {
		return err
	}
	const badFile = 8 // EBADF
	wasi := e.runtime.NewHostModuleBuilder("wasi_snapshot_preview1")
	export(wasi, "clock_time_get", []api.ValueType{i32, i64, i32}, one, func(v *vm, s []uint64) { s[0] = v.clock(uint32(s[0]), uint32(s[2])) }) //nolint:gosec // 32-bit values
	export(wasi, "random_get", params(2), one, func(v *vm, s []uint64) { s[0] = v.random(uint32(s[0]), uint32(s[1])) })                         //nolint:gosec // 32-bit values
	export(wasi, "fd_close", one, one, answer(badFile))
	export(wasi, "fd_fdstat_get", params(2), one, answer(badFile))
	export(wasi, "fd_seek", []api.ValueType{i32, i64, i32, i32}, one, answer(badFile))
	export(wasi, "fd_write", params(4), one, answer(badFile))
	_, err := wasi.Instantiate(ctx)
	return err
}

// clock returns the as-of time for the wall clock, and the time since the start of the call for all
// other clocks.
func (v *vm) clock(id, at uint32) uint64 {
	elapsed := v.run.clock.elapsed()
	now := elapsed.Nanoseconds()
	if id == 0 {
		now = v.run.clock.now.Add(elapsed).UnixNano()
	}
	v.module.Memory().WriteUint64Le(at, uint64(now))
	return 0
}

func (v *vm) random(at, n uint32) uint64 {
	if buf, ok := v.module.Memory().Read(at, n); ok {
		v.run.clock.random(buf)
	}
	return 0
}

// copyText returns a copy of a module name, which is already normalized.
func (v *vm) copyText(at uint32) uint64 {
	mem := v.memory.reserved[:v.memory.size]
	end := at
	for int(end) < len(mem) && mem[end] != 0 {
		end++
	}
	copied := v.callInner(v.inner.malloc, uint64(end-at+1))
	if copied != 0 { // the memory may have grown
		copy(v.memory.reserved[copied:], mem[at:end])
		v.memory.reserved[copied+uint64(end-at)] = 0
	}
	return copied
}

// interrupted is called every few thousand steps. It stops a run by abandoning the engine, because
// an exception would first free all of the script's memory.
func (v *vm) interrupted() {
	if err := v.run.stop(); err != nil {
		panic(err)
	}
}

func (v *vm) uint32At(at uint64) uint32 {
	return binary.LittleEndian.Uint32(v.memory.reserved[at:])
}
