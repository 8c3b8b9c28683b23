package acceptance

import (
	"bytes"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// ask sends a request to a yard's API and returns the status and the response.
func (p *process) ask(t *testing.T, key, method, path, body string) (status int, answer map[string]any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+p.address()+"/api/v1"+path, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	_ = json.NewDecoder(res.Body).Decode(&answer) // some responses have no body
	return res.StatusCode, answer
}

// changes returns the audit log, newest first.
func (p *process) changes(t *testing.T, key string) (list []map[string]any) {
	t.Helper()
	status, answer := p.ask(t, key, "GET", "/changes", "")
	if status != http.StatusOK {
		t.Fatalf("%d %v", status, answer)
	}
	for _, each := range answer["changes"].([]any) {
		list = append(list, each.(map[string]any))
	}
	return list
}

// A yard started with --store accepts a key created with the same --store, regardless of their
// files.
func TestStoreFlagIsTheStoreOfTheYard(t *testing.T) {
	t.Parallel()
	shared := "sqlite:" + filepath.Join(t.TempDir(), "shared.db")
	p := &process{t: t, dir: t.TempDir()}
	p.configure("gates: {all: {mode: write}}\n")
	address := freeAddress(t)
	p.url = "http://" + address + "/mcp"
	p.launch("toolyard", nil, "serve", "--listen", address, "--store", shared)
	p.await(p.url)
	dir := folder(t, map[string]string{"toolyard.yaml": "name: elsewhere\n"})
	code, out, errs := runIn(t, dir, nil, "toolyard", "keys", "create", "--store", shared, "--name", "a", "--caller", "olivia", "--scope", "operator")
	if code != 0 || !strings.Contains(errs, "store: "+shared) {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	if status, me := p.ask(t, strings.TrimSpace(out), "GET", "/me", ""); status != http.StatusOK || me["caller"] != "olivia" || me["role"] != "operator" {
		t.Errorf("%d %v", status, me)
	}
}

// If there is a store, an approval on the command line is audited.
func TestApprovalByCommandIsAudited(t *testing.T) {
	t.Parallel()
	p := serve(t, "toolyard", "store: sqlite:yard.db\ngates: {all: {mode: write}}\n"+servers(onStdio("up", "both", "pin: approve", "required: false")))
	code, out, errs := runIn(t, p.dir, nil, "toolyard", "approve", "up", "echo", "--yes")
	if code != 0 || !strings.Contains(errs, "store: sqlite:") {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	list := p.changes(t, keyOf(t, p, "victor", "viewer"))
	for _, c := range list {
		if c["action"] == "server.approve" && c["subject"] == "up" && c["status"] == 200.0 && strings.HasSuffix(c["caller"].(string), " (command line)") {
			return
		}
	}
	t.Errorf("%v", list)
}
