package script

import (
	"cmp"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/jsvm"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// TestOptions select a folder's tests and report their results.
type TestOptions struct {
	Files   []string       // substrings of paths relative to the folder; all files if empty
	Name    *regexp.Regexp // matches full test names; nil for all tests
	Timeout time.Duration  // per test; 5 s if zero
	OnFile  func(TestFile) // called for each file, in path order; may be nil
}

// TestFile is the result of one test file.
type TestFile struct {
	Path     string
	Problems []toolyard.Problem // why the tests could not run
	Tests    []TestResult
	Took     time.Duration
}

// Outcome is the outcome of a test.
type Outcome string

// The outcomes of a test.
const (
	Passed  Outcome = "passed"
	Failed  Outcome = "failed"
	Skipped Outcome = "skipped"
	Todo    Outcome = "todo"
)

// TestResult is the result of one test.
type TestResult struct {
	Name    []string // names of the enclosing suites, then the test's own
	Outcome Outcome
	Failure *toolyard.Problem
	Stack   string   // only frames in the author's files
	Log     []string // lines of console output
	Took    time.Duration
}

// FullName returns the test's name, prefixed with the names of its suites.
func (r *TestResult) FullName() string { return strings.Join(r.Name, " > ") }

// Passed reports whether none of the file's tests failed.
func (f *TestFile) Passed() bool {
	return len(f.Problems) == 0 && !slices.ContainsFunc(f.Tests, func(t TestResult) bool { return t.Outcome == Failed })
}

//go:embed testkit
var testkit embed.FS

// testModules are the modules that only test files can import. They provide the framework under the
// names of the test runners that it replaces.
var testModules = []jsvm.Provided{
	{Name: "toolyard/test", Source: `export * from "toolyard:api"; export { call, context } from "toolyard:fakes";`},
	{Name: "vitest", Source: `export * from "toolyard:api";`},
	{Name: "@jest/globals", Source: `export * from "toolyard:api"; export { vi as jest } from "toolyard:framework";`},
	{Name: "bun:test", Source: `export * from "toolyard:api"; export { fn as mock, vi as jest, setTime as setSystemTime } from "toolyard:framework";`},
	{Name: "node:test", Source: `export { test, test as default, it, describe, suite, beforeAll as before, afterAll as after, beforeEach, afterEach, nodeMock as mock } from "toolyard:framework";`},
}

// testPool returns a pool whose VMs have the test framework.
func (f *Folder) testPool() (*jsvm.Pool, error) {
	read := func(name string) string {
		data, _ := testkit.ReadFile("testkit/" + name) // cannot fail: the file is embedded
		return string(data)
	}
	modules := append(f.provided(),
		jsvm.Provided{Name: "toolyard:harness", Source: harness},
		jsvm.Provided{Name: "toolyard:framework", Source: read("framework.js")},
		jsvm.Provided{Name: "toolyard:fakes", Source: read("fakes.js")},
		jsvm.Provided{Name: "toolyard:api", Source: `export { test, it, describe, suite, beforeAll, afterAll, beforeEach, afterEach, expect, vi, fn, spyOn, stubGlobal, stubEnv, setTime } from "toolyard:framework";`})
	return jsvm.NewPool(jsvm.Options{
		Harness: read("harness.js"), Modules: append(modules, testModules...), Memory: f.opts.Memory, CPU: f.opts.CPU,
		Workers: f.opts.Workers, CacheDir: f.opts.CacheDir, Log: f.opts.Log,
	})
}

// Test runs the folder's test files: *.test.ts, *.spec.ts and all files under __tests__. Every test
// runs in its own VM, with the limits of a call and no access to the network or environment
// variables.
func (f *Folder) Test(ctx context.Context, o TestOptions) ([]TestFile, error) {
	paths, err := f.testFiles(o.Files)
	if err != nil || len(paths) == 0 {
		return nil, err
	}
	pool, err := f.testPool()
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	compiler := jsvm.NewCompiler()
	defer compiler.Close()
	o.Timeout = cmp.Or(o.Timeout, 5*time.Second)
	r := &testRun{folder: f, opts: o, pool: pool, compiler: compiler}
	for _, p := range slices.Concat(f.provided(), testModules) {
		r.modules = append(r.modules, p.Name)
	}
	r.modules = append(r.modules, jsvm.Modules()...)
	results := r.all(ctx, paths)
	return results, ctx.Err()
}

// isTestFile reports whether a file has tests, by its path.
func isTestFile(name string) bool {
	if !strings.HasSuffix(name, ".ts") || strings.HasSuffix(name, ".d.ts") {
		return false
	}
	return isNamedTest(name) || slices.Contains(strings.Split(path.Dir(name), "/"), "__tests__")
}

func isNamedTest(name string) bool {
	return strings.HasSuffix(name, ".test.ts") || strings.HasSuffix(name, ".spec.ts")
}

// maxTestEntries limits how many of the folder's entries are searched for test files.
const maxTestEntries = 100_000

// testFiles returns the test files whose paths contain one of the parts, sorted.
func (f *Folder) testFiles(parts []string) (paths []string, err error) {
	entries := 0
	err = filepath.WalkDir(f.dir, func(file string, e fs.DirEntry, err error) error {
		if entries++; err != nil || entries > maxTestEntries {
			return cmp.Or(err, fmt.Errorf("%s has more than %d entries", f.opts.Dir, maxTestEntries))
		}
		if e.IsDir() && file != f.dir && (e.Name() == "node_modules" || e.Name()[0] == '.') {
			return fs.SkipDir
		}
		rel, err := filepath.Rel(f.dir, file)
		name := filepath.ToSlash(rel)
		if err != nil || e.IsDir() || !isTestFile(name) {
			return err
		}
		if len(parts) == 0 || slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(name, part) }) {
			paths = append(paths, name)
		}
		return nil
	})
	if extra := len(paths) - maxFiles; extra > 0 {
		return nil, fmt.Errorf("%s has more than %d test files", f.opts.Dir, maxFiles)
	}
	return paths, err
}

// WatchTests runs the tests, and reruns them whenever a file in the folder changes, until ctx ends.
// It calls done after each run.
func (f *Folder) WatchTests(ctx context.Context, o TestOptions, done func([]TestFile, error)) {
	for ctx.Err() == nil {
		before := f.fingerprint()
		files, err := f.Test(ctx, o)
		if ctx.Err() != nil {
			return
		}
		done(files, err)
		for before == f.fingerprint() {
			select {
			case <-ctx.Done():
				return
			case <-time.After(watchPause):
			}
		}
	}
}

// watchPause is the time between two checks of the folder.
const watchPause = 300 * time.Millisecond

// fingerprint returns a hash that changes when a file in the folder changes.
func (f *Folder) fingerprint() (sum [32]byte) {
	h := sha256.New()
	entries := 0
	_ = filepath.WalkDir(f.dir, func(file string, e fs.DirEntry, err error) error {
		if entries++; err != nil || entries > maxTestEntries {
			return fs.SkipAll
		}
		if e.IsDir() && file != f.dir && (e.Name() == "node_modules" || e.Name()[0] == '.') {
			return fs.SkipDir
		}
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			fmt.Fprintln(h, file, info.Size(), info.ModTime().UnixNano())
		}
		return nil
	})
	h.Sum(sum[:0])
	return sum
}

// testRun runs test files.
type testRun struct {
	folder   *Folder
	opts     TestOptions
	pool     *jsvm.Pool
	compiler *jsvm.Compiler
	modules  []string
}

// all runs files concurrently, and reports them in order.
func (r *testRun) all(ctx context.Context, paths []string) []TestFile {
	results := make([]TestFile, len(paths))
	finished := make([]chan struct{}, len(paths))
	slots := make(chan struct{}, max(2, runtime.NumCPU()))
	var wg sync.WaitGroup
	for i, name := range paths {
		finished[i] = make(chan struct{})
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots; close(finished[i]) }()
			start := time.Now()
			results[i] = r.file(ctx, name)
			results[i].Took = time.Since(start)
		})
	}
	kept := results[:0:0]
	for i := range paths {
		<-finished[i]
		if len(results[i].Tests) == 0 && len(results[i].Problems) == 0 {
			continue // a helper file under __tests__
		}
		if kept = append(kept, results[i]); r.opts.OnFile != nil && ctx.Err() == nil {
			r.opts.OnFile(results[i])
		}
	}
	wg.Wait()
	return kept
}

// listedTest is a test in the harness's list.
type listedTest struct {
	Name    []string
	Mode    string
	Timeout float64 // in milliseconds; zero for the default
}

// maxTests is the maximum number of tests in one file.
const maxTests = 10_000

// file runs a file's tests.
func (r *testRun) file(ctx context.Context, name string) TestFile {
	f := &file{path: name, abs: filepath.Join(r.folder.dir, filepath.FromSlash(name))}
	result := TestFile{Path: name, Tests: []TestResult{}}
	m, faults, err := r.compiler.Compile(ctx, name, jsvm.CompileOptions{Root: r.folder.dir, Provided: r.modules})
	for i := range faults {
		f.fail(&faults[i])
	}
	if err != nil {
		f.fail(err)
	}
	if result.Problems = f.faults; len(f.faults) > 0 {
		return result
	}
	f.inputs = m.Inputs
	raw, err := r.pool.Run(ctx, &jsvm.Run{Module: m, Request: json.RawMessage(`{"list":true}`), Timeout: loadTime})
	var listed []listedTest
	if err == nil {
		err = json.Unmarshal(raw, &listed)
	}
	switch {
	case err != nil:
		f.fail(loadFault(f, err))
	case len(listed) == 0 && isNamedTest(name):
		f.fail(&jsvm.Fault{File: name, Message: "the file has no tests", Fix: `Add one: test("…", async () => { … })`})
	case len(listed) > maxTests:
		f.fail(&jsvm.Fault{File: name, Message: fmt.Sprintf("the file has more than %d tests", maxTests)})
		listed = nil
	}
	result.Problems = f.faults
	for i, t := range listed {
		if ctx.Err() != nil {
			break
		}
		result.Tests = append(result.Tests, r.test(ctx, f, m, i, t))
	}
	return result
}

// test runs one test.
func (r *testRun) test(ctx context.Context, f *file, m *jsvm.Module, index int, t listedTest) TestResult {
	for i, part := range t.Name {
		t.Name[i] = untrusted.TruncateRunes(part, 200)
	}
	result := TestResult{Name: t.Name, Outcome: Passed}
	switch {
	case t.Mode == "todo":
		result.Outcome = Todo
		return result
	case t.Mode == "skip", r.opts.Name != nil && !r.opts.Name.MatchString(result.FullName()):
		result.Outcome = Skipped
		return result
	}
	timeout := r.opts.Timeout
	if t.Timeout > 0 {
		timeout = time.Duration(min(t.Timeout, maxTestTimeoutMS) * float64(time.Millisecond))
	}
	host := &testHost{folder: r.folder, loads: make(chan struct{}, maxLoads)}
	start := time.Now()
	raw, err := r.pool.Run(ctx, &jsvm.Run{
		Module: m, Request: json.RawMessage(fmt.Sprintf(`{"run":%d}`, index)), Timeout: timeout, Host: host.answer,
		Log: func(_ slog.Level, text string) { result.Log = append(result.Log, text) },
	})
	result.Took = time.Since(start)
	var ended struct{ Skipped *string }
	switch {
	case err != nil:
		r.fail(&result, f, err, timeout)
	case json.Unmarshal(raw, &ended) == nil && ended.Skipped != nil:
		result.Outcome = Skipped
	}
	return result
}

// maxTestTimeoutMS is the longest timeout that a test can set, ten minutes.
const maxTestTimeoutMS = 10 * 60 * 1000

// fail records why a test failed and the line in the author's files.
func (r *testRun) fail(result *TestResult, f *file, err error, timeout time.Duration) {
	var e *jsvm.Exception
	var stopped *jsvm.Stopped
	switch {
	case errors.As(err, &e):
		result.Stack = e.Stack
	case errors.As(err, &stopped) && stopped.Reason == jsvm.DeadlineExceeded:
		err = fmt.Errorf("the test did not finish within %v", timeout)
	case errors.As(err, &stopped):
		err = fmt.Errorf("the test was stopped: %s", stopped.Reason)
	}
	p := f.problem(loadFault(f, err))
	result.Outcome, result.Failure = Failed, &p
}
