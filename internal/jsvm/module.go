package jsvm

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"runtime/debug"
	"sync"
	"time"
)

// module is a script in a worker: its code, the image of its evaluated state, and idle VMs that
// show the image.
type module struct {
	engine *engine
	name   string
	code   string

	loading sync.Mutex

	// Guarded by the worker's lock.
	users int
	used  time.Time // last use

	mu      sync.Mutex
	image   *image
	exports uint64 // the module's namespace in the image
	idle    []*vm
}

// maxModules is the maximum number of modules in a worker; the least recently used one is evicted.
// maxIdle is the maximum number of idle VMs per module.
const (
	maxModules = 96
	maxIdle    = 32
)

// addModule adds a module. body contains its name, a zero byte and the code.
func (w *worker) addModule(body []byte) {
	name, code, _ := bytes.Cut(body, []byte{0})
	key := sha256.Sum256(body)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.modules[key] != nil {
		return
	}
	if len(w.modules) >= maxModules {
		w.evict()
	}
	w.modules[key] = &module{engine: w.engine, name: string(name), code: string(code), used: time.Now()}
}

// evict removes the least recently used module. The caller holds the lock.
func (w *worker) evict() {
	var oldest [32]byte
	var found *module
	for key, m := range w.modules {
		if m.users == 0 && (found == nil || m.used.Before(found.used)) {
			oldest, found = key, m
		}
	}
	if found != nil {
		delete(w.modules, oldest)
		go found.close()
	}
}

// parkAfter is how long an unused module keeps its image and VMs.
const parkAfter = 20 * time.Second

// tidy periodically releases the images and VMs of unused modules. It keeps their code, because
// evaluating it again takes only a few milliseconds.
func (w *worker) tidy() {
	for range time.Tick(parkAfter / 4) {
		parked := 0
		w.mu.Lock()
		for _, m := range w.modules {
			if m.users == 0 && time.Since(m.used) > parkAfter && m.close() {
				parked++
			}
		}
		w.mu.Unlock()
		if parked > 0 {
			debug.FreeOSMemory()
		}
	}
}

// useModule returns a module and protects it from eviction.
func (w *worker) useModule(key [32]byte) *module {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.modules[key]
	if m != nil {
		m.used = time.Now()
		m.users++
	}
	return m
}

func (w *worker) doneWith(m *module) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m.users--
	m.used = time.Now()
}

// close releases an unused module's image and VMs.
func (m *module) close() (held bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dropIdle()
	if m.image == nil {
		return false
	}
	m.image.close()
	m.image = nil
	return true
}

// dropIdle releases idle VMs. The caller holds the lock.
func (m *module) dropIdle() {
	for _, v := range m.idle {
		v.close()
	}
	m.idle = nil
}

// run runs a request in one of the module's VMs. The VM starts from the image unless its state is
// shared.
func (m *module) run(r *execution, request string) (string, error) {
	v, err := m.take(r)
	if err != nil {
		return "", err
	}
	size := v.memory.size
	answer, err := v.perform(m.exports, request)
	if err != nil || v.failure != nil || v.memory.size != size {
		v.close() // a VM that has grown or failed cannot be reset
		return answer, err
	}
	if !r.shared || r.posts > 0 || len(r.timers) > 0 {
		if err := v.restore(m.image); err != nil {
			v.close()
			return answer, nil //nolint:nilerr // the answer is valid, only the VM is not
		}
	}
	m.give(v)
	return answer, nil
}

// runOnce evaluates the module for a single request and does not keep an image.
func (m *module) runOnce(r *execution, request string) (string, error) {
	alone := r.alone()
	defer alone.meter.release()
	v, exports, err := m.evaluate(alone)
	if err != nil {
		return "", err
	}
	v.begin(r)
	answer, err := v.perform(exports, request)
	m.engine.giveBack(v, err)
	return answer, err
}

// take returns a VM that shows the module's image.
func (m *module) take(r *execution) (*vm, error) {
	if err := m.load(r); err != nil {
		return nil, err
	}
	m.mu.Lock()
	if n := len(m.idle); n > 0 {
		v := m.idle[n-1]
		m.idle = m.idle[:n-1]
		m.mu.Unlock()
		return v.handOut(r), nil
	}
	m.mu.Unlock()
	return m.engine.show(m.image, r)
}

// give returns a VM to the module.
func (m *module) give(v *vm) {
	m.mu.Lock()
	if len(m.idle) < maxIdle {
		m.idle = append(m.idle, v)
		m.mu.Unlock()
		return
	}
	m.mu.Unlock()
	v.close()
}

// show returns a VM that shows an image.
func (e *engine) show(img *image, r *execution) (*vm, error) {
	v, err := e.tryShow(img, r)
	if errors.Is(err, errNoMemory) && e.reclaim != nil {
		e.reclaim()
		v, err = e.tryShow(img, r)
	}
	return v, err
}

func (e *engine) tryShow(img *image, r *execution) (*vm, error) {
	v, err := e.newVM(context.Background())
	if err != nil {
		return nil, err
	}
	v.begin(r)
	if err := v.restore(img); err != nil {
		v.close()
		return nil, err
	}
	return v.handOut(r), nil
}

// reclaim releases all idle VMs.
func (w *worker) reclaim() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.modules {
		m.mu.Lock()
		m.dropIdle()
		m.mu.Unlock()
	}
}

// load evaluates the module once. If that fails, the next run tries again, because the cause may
// have been the failed run's deadline.
func (m *module) load(r *execution) error {
	m.loading.Lock()
	defer m.loading.Unlock()
	if m.image != nil {
		return nil
	}
	alone := r.alone()
	defer alone.meter.release()
	v, exports, err := m.evaluate(alone)
	if err != nil {
		return err
	}
	var img *image
	if _, err = v.perform(exports, "null"); err == nil { // lets the harness prepare
		img, err = v.memory.capture(m.engine.base)
	}
	m.engine.giveBack(v, err)
	if err == nil {
		m.exports, m.image = exports, img
	}
	return err
}

// alone returns an execution that has no host, because modules are loaded with no permissions.
func (r *execution) alone() *execution {
	return &execution{ctx: r.ctx, deadline: r.deadline, cpu: r.cpu, clock: newClock(r.clock.now, [32]byte{})}
}

// evaluate evaluates the module in a fresh VM.
func (m *module) evaluate(r *execution) (*vm, uint64, error) {
	v, err := m.engine.blank(r)
	if err != nil {
		return nil, 0, err
	}
	exports, err := v.evalDone(m.name, m.code, evalModule)
	if err != nil {
		m.engine.giveBack(v, err)
		return nil, 0, err
	}
	return v, exports, nil
}

// blank returns a VM that shows the base image.
func (e *engine) blank(r *execution) (*vm, error) {
	select {
	case v := <-e.blanks:
		return v.handOut(r), nil
	default:
		return e.show(e.base, r)
	}
}

// giveBack returns a VM that showed the base image, so that the next module can use it.
func (e *engine) giveBack(v *vm, err error) {
	if err == nil && v.failure == nil && v.memory.size == e.base.size && v.restore(e.base) == nil {
		select {
		case e.blanks <- v:
			return
		default:
		}
	}
	v.close()
}
