package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/script"
	"github.com/toolyard/toolyard/yard"
)

// openTerminal opens a pseudo-terminal. Everything written to terminal can be read from screen.
func openTerminal(t *testing.T) (screen, terminal *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("pseudo terminals are not available: ", err)
	}
	t.Cleanup(func() { _ = screen.Close() })
	var number, unlocked uint32
	for _, call := range []struct {
		request uintptr
		value   *uint32
	}{{syscall.TIOCSPTLCK, &unlocked}, {syscall.TIOCGPTN, &number}} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, screen.Fd(), call.request, uintptr(unsafe.Pointer(call.value))); errno != 0 {
			t.Fatal(errno)
		}
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = terminal.Close() })
	return screen, terminal
}

// onTerminal returns what do prints on a terminal.
func onTerminal(t *testing.T, do func(terminal *os.File)) string {
	t.Helper()
	screen, terminal := openTerminal(t)
	var b strings.Builder
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(&b, screen) // ends when the terminal is closed
	}()
	do(terminal)
	_ = terminal.Close()
	<-done
	return b.String()
}

// escapes is hostile text that sets the clipboard, a color and the title, with 7-bit and 8-bit
// control characters.
const escapes = "A\x1b]52;c;cm0gLXJm\x07\x1b[31mB\u009b31mC\u202eD"

func checkShown(t *testing.T, text string) {
	t.Helper()
	for _, bad := range []string{"\x1b]", "\x07", "\x1b[31mB", "\u009b", "\u202e"} {
		if strings.Contains(text, bad) {
			t.Errorf("%q reaches the terminal: %q", bad, text)
		}
	}
	if !strings.Contains(text, "A") || !strings.Contains(text, "D") {
		t.Errorf("the rest is missing: %q", text)
	}
}

func TestCallSanitizesResultsOnATerminal(t *testing.T) {
	tool := toolyard.Define(toolyard.Spec{Name: "evil", Description: "Answers with escapes."},
		func(context.Context, *toolyard.Call, struct{}) (toolyard.Text, error) { return escapes, nil })
	for _, args := range [][]string{{"call", "evil"}, {"call", "evil", "--json"}} {
		checkShown(t, onTerminal(t, func(terminal *os.File) {
			env := func(string) (string, bool) { return "", false }
			opts := yard.Options{Tools: []*toolyard.Tool{tool}, Process: yard.Process{Getenv: env}}
			opts.Scripts.Cache = t.TempDir()
			t.Chdir(t.TempDir())
			if code := Run(t.Context(), opts, args, strings.NewReader(""), terminal, io.Discard); code != exitOK {
				t.Errorf("%v: exit %d", args, code)
			}
		}))
	}
}

func TestDevSanitizesResultsOnATerminal(t *testing.T) {
	checkShown(t, onTerminal(t, func(terminal *os.File) {
		s := &screen{out: terminal, color: true, now: time.Now, ready: true}
		call := &toolyard.Call{Tool: &toolyard.Tool{Spec: toolyard.Spec{Name: "evil"}}, Args: []byte(`{"a":"` + escapes + `"}`)}
		s.Outcome(t.Context(), call, toolyard.Outcome{Result: &toolyard.Result{Content: []toolyard.Content{toolyard.Text(escapes)}}})
		failed := toolyard.Errorf(toolyard.Failed, "%s", escapes)
		failed.Err = &script.Thrown{Stack: escapes}
		s.Outcome(t.Context(), call, toolyard.Outcome{Err: failed})
		s.showProblem(toolyard.Problem{Subject: escapes, Message: escapes, Fix: escapes, Frame: escapes})
		s.showLoad(script.Load{File: escapes, Tools: []string{escapes}})
		s.showTools(&yard.View{Tools: []yard.NamedTool{{Tool: &toolyard.Tool{Spec: toolyard.Spec{Name: "evil", Description: escapes, Origin: escapes}}}}})
	}))
}

func TestLogsAreSanitizedOnATerminal(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		checkShown(t, onTerminal(t, func(terminal *os.File) {
			a := &app{err: terminal, opts: yard.Options{Process: yard.Process{Getenv: func(string) (string, bool) { return "", false }}}}
			log, err := a.startLog("info", format, "")
			if err != nil {
				t.Fatal(err)
			}
			log.Info(escapes, "text", filepath.Base(escapes))
		}))
	}
}

func TestCallPromptsOnTheTerminal(t *testing.T) {
	screen, terminal := openTerminal(t)
	t.Chdir(t.TempDir())
	opts := yard.Options{Tools: []*toolyard.Tool{confirming()}, Process: yard.Process{Getenv: func(string) (string, bool) { return "", false }}}
	opts.Scripts.Cache = t.TempDir()
	if _, err := screen.WriteString("perhaps\nyes\n\n"); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if code := Run(t.Context(), opts, []string{"call", "confirm"}, terminal, &out, terminal); code != exitOK {
		t.Errorf("exit %d", code)
	}
	if want := "answered {\"sure\":{\"action\":\"accept\",\"content\":{\"yes\":true}}}\n"; out.String() != want {
		t.Errorf("%q", out.String())
	}
}

func TestCallsCSVDoesNotControlTheTerminal(t *testing.T) {
	rows := []*store.CallRow{{ID: "c1", Tool: "greet", Code: toolyard.Timeout, Message: "\x1b[2J=late"}}
	out := onTerminal(t, func(terminal *os.File) {
		if err := (&callsCommand{app: &app{out: terminal}}).printCSV(rows); err != nil {
			t.Error(err)
		}
	})
	if strings.Contains(out, "\x1b") || !strings.Contains(out, "[2J=late") {
		t.Errorf("%q", out)
	}
}
