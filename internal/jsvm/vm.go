package jsvm

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tetratelabs/wazero/api"
)

// vm is an instance of the engine. It serves one run at a time.
type vm struct {
	engine  *engine
	module  api.Module
	memory  *memory
	ctx     context.Context // gives host functions access to the VM
	fn      functions       // called from outside
	inner   innerFunctions  // called from within a host function
	inside  bool            // a call is in progress
	run     *execution
	failure error // failure of the engine itself, after which the VM must not be used again
	stack   [8]uint64
}

// functions are the engine functions that the worker calls. Values are passed as addresses of boxes
// that contain them.
type functions struct {
	setupFunctions
	runFunctions
	valueFunctions
}

// setupFunctions configure the engine.
type setupFunctions struct {
	initialize, init, setMemoryLimit, setMaxStack, setInterrupt, setThreshold, runGC api.Function
}

// runFunctions run code and manage its memory.
type runFunctions struct {
	malloc, free, eval, call, isJobPending, executeJob, promiseState, promiseResult api.Function
}

// valueFunctions create, read and free values.
type valueFunctions struct {
	newString, newNumber, newHostFunction, getString, freeString, freeValue api.Function
	isException, exception, isString, isNumber                              api.Function
	global, getProperty, setProperty, undefined                             api.Function
}

// innerFunctions are the engine functions that host functions call. None of them runs script code,
// because that would re-enter the engine on the host function's stack.
type innerFunctions struct {
	malloc, free, isString, isNumber, getString, freeString, newString, dup api.Function
}

func bindFunctions(m api.Module) functions {
	f := m.ExportedFunction
	return functions{
		setupFunctions{
			initialize: f("_initialize"), init: f("qjs_init"), setMemoryLimit: f("qjs_set_memory_limit"), setMaxStack: f("qjs_set_max_stack_size"),
			setInterrupt: f("qjs_set_interrupt_handler"), setThreshold: f("qjs_set_gc_threshold"), runGC: f("qjs_run_gc"),
		},
		runFunctions{
			malloc: f("wasm_malloc"), free: f("wasm_free"), eval: f("qjs_eval"), call: f("qjs_call"),
			isJobPending: f("qjs_is_job_pending"), executeJob: f("qjs_execute_pending_job"),
			promiseState: f("qjs_promise_state"), promiseResult: f("qjs_promise_result"),
		},
		valueFunctions{
			newString: f("qjs_new_string"), newNumber: f("qjs_new_number"), newHostFunction: f("qjs_new_host_function"),
			getString: f("qjs_get_string_len"), freeString: f("qjs_free_cstring"), freeValue: f("qjs_free_value"),
			isException: f("qjs_is_exception"), exception: f("qjs_get_exception"), isString: f("qjs_is_string"), isNumber: f("qjs_is_number"),
			global: f("qjs_get_global"), getProperty: f("qjs_get_prop_string"), setProperty: f("qjs_set_prop_string"), undefined: f("qjs_get_undefined"),
		},
	}
}

func (v *vm) bind() {
	v.fn = bindFunctions(v.module)
	f := v.module.ExportedFunction
	v.inner = innerFunctions{
		malloc: f("wasm_malloc"), free: f("wasm_free"), isString: f("qjs_is_string"), isNumber: f("qjs_is_number"),
		getString: f("qjs_get_string_len"), freeString: f("qjs_free_cstring"), newString: f("qjs_new_string"), dup: f("qjs_dup_value"),
	}
}

func (v *vm) close() { _ = v.module.Close(v.ctx) }

// begin assigns the VM to an execution.
func (v *vm) begin(r *execution) { v.run = r }

// handOut assigns a VM that shows its image to an execution.
func (v *vm) handOut(r *execution) *vm {
	v.begin(r)
	v.memory.handOut()
	return v
}

// restore resets the VM to its image.
func (v *vm) restore(img *image) error {
	if pages := uint32(img.size-v.memory.size) >> 16; v.memory.size < img.size { //nolint:gosec // below 2^32
		if _, ok := v.module.Memory().Grow(pages); !ok {
			return errNoMemory
		}
	}
	return v.memory.show(img)
}

var errNoMemory = errors.New("scripts are already using all of the memory reserved for them")

// call calls an engine function. It does nothing if the engine itself has failed.
func (v *vm) call(f api.Function, args ...uint64) uint64 {
	if v.failure != nil {
		return 0
	}
	copy(v.stack[:], args)
	if err := f.CallWithStack(v.ctx, v.stack[:]); err != nil {
		if v.failure = v.run.stop(); v.failure == nil {
			v.failure = fmt.Errorf("the engine failed: %w", firstLine(err))
		}
		return 0
	}
	return uint64(uint32(v.stack[0])) //nolint:gosec // all results have 32 bits; the upper half belongs to an argument
}

// callInner is like call, but for host functions, which run while another call is in progress.
func (v *vm) callInner(f api.Function, args ...uint64) uint64 {
	if v.inside {
		panic("the engine was entered twice")
	}
	v.inside = true
	var stack [8]uint64
	copy(stack[:], args)
	err := f.CallWithStack(v.ctx, stack[:])
	v.inside = false
	if err != nil {
		panic(err) // ends the outer call, which reports the error
	}
	return uint64(uint32(stack[0])) //nolint:gosec // as above
}

func firstLine(err error) error {
	s, _, _ := strings.Cut(err.Error(), "\n")
	return errors.New(s)
}

// write copies a zero-terminated string to the memory and returns its address.
func (v *vm) write(s string) uint64 {
	at := v.call(v.fn.malloc, uint64(len(s)+1))
	if at == 0 {
		if v.failure == nil {
			v.failure = errNoMemory
		}
		return 0
	}
	copy(v.memory.reserved[at:], s)
	v.memory.reserved[at+uint64(len(s))] = 0
	return at
}

// text converts a value to a string.
func (v *vm) text(box uint64) string {
	length := v.engine.entry.length
	at := v.call(v.fn.getString, box, length)
	if at == 0 {
		return ""
	}
	s := v.textAt(at, v.uint32At(length))
	v.call(v.fn.freeString, at)
	return s
}

func (v *vm) textAt(at uint64, length uint32) string {
	return strings.ToValidUTF8(string(v.memory.reserved[at:at+uint64(length)]), "\ufffd")
}

// Evaluation modes.
const (
	evalScript = 0
	evalModule = 1
)

func (v *vm) eval(name, source string, kind uint64) uint64 {
	code, file := v.write(source), v.write(name)
	box := v.call(v.fn.eval, code, uint64(len(source)), file, kind)
	v.call(v.fn.free, code)
	v.call(v.fn.free, file)
	return box
}

// evalDone evaluates code and waits for modules to finish. It returns the value, or the namespace
// of a module.
func (v *vm) evalDone(name, source string, kind uint64) (uint64, error) {
	box := v.eval(name, source, kind)
	if err := v.thrown(box); err != nil {
		return 0, err
	}
	if kind != evalModule {
		return box, nil
	}
	for v.call(v.fn.promiseState, box) == 0 {
		if err := v.turn(); err != nil {
			return 0, err
		}
	}
	result := v.call(v.fn.promiseResult, box)
	if v.call(v.fn.promiseState, box) == 2 {
		return 0, v.exception(result)
	}
	return result, v.broken()
}

// broken returns the reason if the VM cannot continue, or nil.
func (v *vm) broken() error {
	if v.failure != nil {
		return v.failure
	}
	return v.run.stop()
}

// thrown returns the exception in a result, or nil.
func (v *vm) thrown(box uint64) error {
	if err := v.broken(); err != nil {
		return err
	}
	if v.call(v.fn.isException, box) == 0 {
		return nil
	}
	return v.exception(v.call(v.fn.exception))
}

// exception converts a thrown value to an error.
func (v *vm) exception(box uint64) error {
	if err := v.broken(); err != nil {
		return err
	}
	e := &Exception{Message: v.text(box)}
	if stack := v.property(box, "stack"); v.call(v.fn.isString, stack) != 0 {
		e.Stack = v.text(stack)
	}
	e.Name, e.Message = splitName(e.Message)
	return e
}

func splitName(s string) (name, message string) {
	if name, message, ok := strings.Cut(s, ": "); ok && !strings.ContainsAny(name, " \n") {
		return name, message
	}
	return "", s
}

func (v *vm) property(box uint64, name string) uint64 {
	key := v.write(name)
	defer v.call(v.fn.free, key)
	return v.call(v.fn.getProperty, box, key)
}

// global returns the value at a path that starts at the global object.
func (v *vm) global(path ...string) uint64 {
	box := v.call(v.fn.global)
	for _, name := range path {
		box = v.property(box, name)
	}
	return box
}

func (v *vm) setGlobal(name string, box uint64) {
	key := v.write(name)
	v.call(v.fn.setProperty, v.call(v.fn.global), key, box)
	v.call(v.fn.free, key)
}

// newText creates a string value.
func (v *vm) newText(s string) uint64 {
	at := v.write(s)
	box := v.call(v.fn.newString, at, uint64(len(s)))
	v.call(v.fn.free, at)
	return box
}

// invoke calls a function in the image. The arguments are boxes.
func (v *vm) invoke(function uint64, args ...uint64) error {
	list := v.call(v.fn.malloc, uint64(4*len(args)))
	if v.failure == nil && list == 0 {
		return errNoMemory
	}
	for i, a := range args {
		v.putUint32(list+uint64(4*i), uint32(a)) //nolint:gosec // a 32-bit address
	}
	box := v.call(v.fn.call, function, v.engine.entry.undefined, uint64(len(args)), list)
	v.call(v.fn.free, list)
	err := v.thrown(box)
	v.call(v.fn.freeValue, box)
	return err
}

// invokeWith is like invoke, but also frees the arguments.
func (v *vm) invokeWith(function uint64, args ...uint64) error {
	err := v.invoke(function, args...)
	for _, a := range args {
		v.call(v.fn.freeValue, a)
	}
	return err
}
