package acceptance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// node runs a script in the clients folder with the version of Node installed there.
func node(t *testing.T, args ...string) (stdout string, err error) {
	t.Helper()
	program, err := filepath.Abs("clients/node_modules/.bin/node")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(program); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("the official clients are not installed: run npm install in acceptance/clients")
		}
		t.Skip("the official clients are not installed: run npm install in acceptance/clients")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = t.TempDir() // the conformance suites write their results to the working directory
	cmd.Env = append(os.Environ(), "NO_COLOR=1")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%w\n%s", err, errs.String())
	}
	return out.String(), nil
}

// script returns the path of a file in the clients folder.
func script(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("clients", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// The official TypeScript clients list and call tools over HTTP and stdio.
func TestTypeScriptClients(t *testing.T) {
	t.Parallel()
	p := serve(t, "toolyard", "")
	for _, client := range []struct{ file, version string }{{"legacy.mjs", "2025-11-25"}, {"modern.mjs", "2026-07-28"}} {
		for _, target := range []string{p.url, filepath.Join(bin, "toolyard")} {
			out, err := node(t, script(t, client.file), target)
			var got struct {
				Tools                 []string
				Text, Server, Version string
				Refused               bool
			}
			if err != nil || json.Unmarshal([]byte(out), &got) != nil {
				t.Errorf("%s %s: %v %s", client.file, target, err, out)
				continue
			}
			if !slices.Equal(got.Tools, []string{"calculator", "hello", "random", "textutil", "timestamp"}) ||
				got.Text != "Hello, Ann!" || got.Server != "toolyard" || got.Version != client.version || !got.Refused {
				t.Errorf("%s %s: %+v", client.file, target, got)
			}
		}
	}
}

// The Inspector's command line also lists and calls tools.
func TestInspector(t *testing.T) {
	heavy(t)
	p := serve(t, "toolyard", "")
	inspector := script(t, "node_modules/.bin/mcp-inspector")
	for _, era := range []string{"legacy", "modern"} {
		for _, target := range [][]string{{p.url, "--transport", "http"}, {filepath.Join(bin, "toolyard"), "serve"}} {
			common := append([]string{inspector, "--cli"}, target...)
			common = append(common, "--protocol-era", era, "--format", "json", "--method")
			if out, err := node(t, append(common, "tools/list")...); err != nil || !strings.Contains(out, `"name":"timestamp"`) {
				t.Errorf("%s %v: %v %s", era, target, err, out)
			}
			out, err := node(t, append(common, "tools/call", "--tool-name", "hello", "--tool-arg", "name=Ann")...)
			if err != nil || !strings.Contains(out, "Hello, Ann!") {
				t.Errorf("%s %v: %v %s", era, target, err, out)
			}
		}
	}
}
