package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/script"
)

// testCommand runs the tests for TypeScript tools.
type testCommand struct {
	*app
	name    string
	timeout time.Duration
	watch   bool
	asJSON  bool
	screen  *screen
}

func newTestCommand(a *app) *cobra.Command {
	c := &testCommand{app: a}
	cmd := &cobra.Command{
		Use:   "test [PATH]...",
		Short: "Run tests for TypeScript tools: *.test.ts, *.spec.ts and files under __tests__",
		Long: `Run tests for TypeScript tools: *.test.ts, *.spec.ts and files under __tests__.

With arguments, only test files whose paths contain one of them are run. Each test runs in its own VM, with
the same limits as a call and no access to the network or environment variables. The command exits with
status 1 if a test fails or no tests are found.`,
		Example: `  toolyard test
  toolyard test hello --name "greets" --watch`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args) },
	}
	cmd.Flags().StringVarP(&c.name, "name", "n", "", "run only tests whose full name matches this regular expression")
	cmd.Flags().DurationVar(&c.timeout, "timeout", 0, "time limit for tests that do not set one (default 5s)")
	cmd.Flags().BoolVarP(&c.watch, "watch", "w", false, "run the tests again when a file changes")
	cmd.Flags().BoolVar(&c.asJSON, "json", false, "print the results as JSON")
	return cmd
}

func (c *testCommand) run(ctx context.Context, paths []string) error {
	name, err := regexp.Compile(c.name)
	switch {
	case err != nil:
		return usageError(fmt.Errorf("--name: %w", err))
	case c.timeout < 0:
		return usageError(errors.New("--timeout must not be negative"))
	case c.watch && c.asJSON:
		return usageError(errors.New("--watch and --json cannot be combined"))
	}
	folder, err := c.folder()
	if err != nil {
		return fail(err)
	}
	c.screen = &screen{out: c.out, color: isTerminal(c.out) && c.getenv("NO_COLOR") == "", now: time.Now}
	opts := script.TestOptions{Files: slashed(paths), Timeout: c.timeout}
	if c.name != "" {
		opts.Name = name
	}
	if !c.asJSON {
		opts.OnFile = c.showFile
	}
	if c.watch {
		folder.WatchTests(ctx, opts, func(files []script.TestFile, err error) {
			if err = c.finish(files, err); err != nil {
				c.warnf("%v", err)
			}
			c.printf("Waiting for changes. Press Ctrl-C to stop.")
		})
		return nil
	}
	start := time.Now()
	files, err := folder.Test(ctx, opts)
	if err == nil && c.asJSON && len(files) > 0 {
		err = writeJSON(c.out, reportOf(files, time.Since(start)))
	}
	return c.finish(files, err)
}

func slashed(paths []string) (list []string) {
	for _, p := range paths {
		list = append(list, strings.TrimPrefix(filepath.ToSlash(p), "./"))
	}
	return list
}

// finish prints the summary. It returns an error if the tests did not pass.
func (c *testCommand) finish(files []script.TestFile, err error) error {
	switch {
	case err != nil:
		return fail(err)
	case len(files) == 0:
		return fail(errors.New("no test files found; name test files *.test.ts, or put them in a __tests__ folder"))
	}
	counts := count(files)
	if !c.asJSON {
		c.showSummary(files, counts)
	}
	if counts.failed() {
		return exitStatus{exitError, nil}
	}
	return nil
}

// folder returns the scripts folder: the one set by a flag or in the configuration, or the first
// existing folder with a usual name.
func (c *testCommand) folder() (*script.Folder, error) {
	opts := script.Options{Dir: c.opts.Scripts.Dir, CacheDir: c.opts.Scripts.Cache, Base: filepath.Dir(c.opts.ConfigFile)}
	if c.opts.ConfigFile != "" {
		source, err := config.Load(c.opts.ConfigFile, c.opts.Process.Getenv)
		if err != nil {
			return nil, err
		}
		if s := source.Scripts; s != nil {
			opts.Memory, opts.CPU, opts.Workers = int(s.Memory), time.Duration(s.CPU), s.Workers
			opts.Dir = cmp.Or(opts.Dir, absoluteIn(opts.Base, s.Dir))
		}
	}
	for _, dir := range []string{"tools", defaultTarget} {
		if opts.Dir == "" && isFolder(dir) {
			opts.Dir = dir
		}
	}
	if opts.Dir == "" || !isFolder(opts.Dir) {
		return nil, errors.New(`no tools folder here; run "toolyard new NAME" to create your first tool with a test`)
	}
	return script.New(opts)
}

func absoluteIn(base, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(base, path)
}

// testCounts counts outcomes.
type testCounts struct {
	Passed  int `json:"passed"`
	Failed  int `json:"failed"`
	Skipped int `json:"skipped"`
	Todo    int `json:"todo"`
	Broken  int `json:"brokenFiles"` // number of files whose tests could not run
}

func (n testCounts) failed() bool { return n.Failed > 0 || n.Broken > 0 || n.Passed == 0 }

func count(files []script.TestFile) (n testCounts) {
	for _, f := range files {
		if len(f.Problems) > 0 {
			n.Broken++
		}
		for _, t := range f.Tests {
			switch t.Outcome {
			case script.Passed:
				n.Passed++
			case script.Failed:
				n.Failed++
			case script.Skipped:
				n.Skipped++
			case script.Todo:
				n.Todo++
			}
		}
	}
	return n
}

// testReport is the output of toolyard test --json.
type testReport struct {
	testCounts
	DurationMS float64          `json:"durationMs"`
	Files      []testFileReport `json:"files"`
}

type testFileReport struct {
	Path       string              `json:"path"`
	DurationMS float64             `json:"durationMs"`
	Problems   []testFailureReport `json:"problems,omitempty"`
	Tests      []testResultReport  `json:"tests"`
}

type testResultReport struct {
	Name       []string           `json:"name"`
	Outcome    script.Outcome     `json:"outcome"`
	DurationMS float64            `json:"durationMs"`
	Failure    *testFailureReport `json:"failure,omitempty"`
	Stack      string             `json:"stack,omitempty"`
	Log        []string           `json:"log,omitempty"`
}

type testFailureReport struct {
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message"`
}

func failureOf(p *toolyard.Problem) *testFailureReport {
	if p == nil {
		return nil
	}
	return &testFailureReport{p.File, p.Line, p.Column, p.Message}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func reportOf(files []script.TestFile, took time.Duration) *testReport {
	report := &testReport{testCounts: count(files), DurationMS: milliseconds(took)}
	for _, f := range files {
		file := testFileReport{Path: f.Path, DurationMS: milliseconds(f.Took), Tests: []testResultReport{}}
		for _, p := range f.Problems {
			file.Problems = append(file.Problems, *failureOf(&p))
		}
		for _, t := range f.Tests {
			file.Tests = append(file.Tests, testResultReport{t.Name, t.Outcome, milliseconds(t.Took), failureOf(t.Failure), t.Stack, t.Log})
		}
		report.Files = append(report.Files, file)
	}
	return report
}

// showFile prints a file's results.
func (c *testCommand) showFile(f script.TestFile) {
	s := c.screen
	if c.name != "" { // show only the selected tests
		f.Tests = slices.DeleteFunc(slices.Clone(f.Tests), func(t script.TestResult) bool { return t.Outcome == script.Skipped })
		if len(f.Tests)+len(f.Problems) == 0 {
			return
		}
	}
	fmt.Fprintf(s.out, "%s\n", s.paint(bold, f.Path))
	for _, p := range f.Problems {
		c.showFailure(&p, "")
	}
	for _, t := range f.Tests {
		c.showTest(&t)
	}
}

func (c *testCommand) showTest(t *script.TestResult) {
	s, name := c.screen, t.FullName()
	switch t.Outcome {
	case script.Passed:
		fmt.Fprintf(s.out, "  %s %s %s\n", s.paint(green, "✓"), s.paint("", name), s.paint(dim, "("+formatDuration(t.Took)+")"))
	case script.Failed:
		fmt.Fprintf(s.out, "  %s %s %s\n", s.paint(red, "✗"), s.paint("", name), s.paint(dim, "("+formatDuration(t.Took)+")"))
	default:
		fmt.Fprintf(s.out, "  %s %s\n", s.paint(yellow, "−"), s.paint(dim, name+" ("+string(t.Outcome)+")"))
	}
	for _, text := range t.Log {
		for line := range strings.Lines(text) {
			fmt.Fprintf(s.out, "      %s %s\n", s.paint(dim, "log"), s.paint("", strings.TrimRight(line, "\r\n")))
		}
	}
	if t.Failure != nil {
		c.showFailure(t.Failure, t.Stack)
	}
}

// showFailure prints a message, the source line, and the rest of the stack.
func (c *testCommand) showFailure(p *toolyard.Problem, stack string) {
	s := c.screen
	for line := range strings.Lines(p.Message) {
		fmt.Fprintf(s.out, "      %s\n", s.paint(red, strings.TrimRight(line, "\r\n")))
	}
	if p.Line > 0 {
		fmt.Fprintf(s.out, "      at %s\n", s.paint(blue, fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)))
	}
	for line := range strings.Lines(p.Frame) {
		fmt.Fprintf(s.out, "      %s\n", s.paint(dim, strings.TrimRight(line, "\r\n")))
	}
	for i, line := range strings.Split(stack, "\n") {
		if i > 0 && i < 6 {
			fmt.Fprintf(s.out, "      %s\n", s.paint(dim, line))
		}
	}
	if p.Fix != "" {
		fmt.Fprintf(s.out, "      %s\n", s.paint("", p.Fix))
	}
}

func (c *testCommand) showSummary(files []script.TestFile, n testCounts) {
	s := c.screen
	parts := []string{s.paint(green, fmt.Sprintf("%d passed", n.Passed))}
	for _, part := range []struct {
		n           int
		text, color string
	}{{n.Failed, "failed", red}, {n.Broken, "broken files", red}, {n.Skipped, "skipped", yellow}, {n.Todo, "todo", yellow}} {
		if part.n > 0 {
			parts = append(parts, s.paint(part.color, fmt.Sprintf("%d %s", part.n, part.text)))
		}
	}
	var took time.Duration
	for _, f := range files {
		took += f.Took
	}
	fmt.Fprintf(s.out, "\n%s: %s (%s)\n", plural(len(files), "file"), strings.Join(parts, ", "), formatDuration(took))
}
