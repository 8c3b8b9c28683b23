package deploy_test

import (
	"context"
	"encoding/json"
	"flag"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/certtest"
	"github.com/toolyard/toolyard/packs/basics"
	"github.com/toolyard/toolyard/yard"
)

// promtool takes minutes to compile, so only "make observe" sets this flag.
var promtool = flag.String("promtool", "", "program that checks the alert rules and runs their unit tests")

// dashboard is the part of a Grafana dashboard that the tests read.
type dashboard struct {
	UID    string
	Panels []struct {
		Title   string
		GridPos struct{ X, Y, W, H int }
		Targets []struct{ Expr string }
	}
	Templating struct {
		List []struct{ Definition string }
	}
}

func readDashboard(t *testing.T) (d dashboard, expressions []string) {
	t.Helper()
	data, err := os.ReadFile("observe/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	for _, v := range d.Templating.List {
		expressions = append(expressions, v.Definition)
	}
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			expressions = append(expressions, target.Expr)
		}
	}
	return d, expressions
}

// metricsOfYard returns the names of a yard's metrics after a call.
func metricsOfYard(t *testing.T) map[string]bool {
	t.Helper()
	dir := t.TempDir()
	cert, key := certtest.New(t, time.Now().Add(time.Hour)).Write(t, dir)
	file := filepath.Join(dir, "toolyard.yaml")
	text := "store: memory\nexecuteUsd: \"0.001\"\nservers: {gone: {command: no-such-program}}\ngates: {default: {mode: write, surface: execute}}\ntls: {cert: " + filepath.ToSlash(cert) + ", key: " + filepath.ToSlash(key) + "}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	y, err := yard.New(yard.Options{ConfigFile: file, Tools: basics.Tools()})
	if err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(context.Background())
	serving, end := context.WithCancel(running)
	ran, served := make(chan struct{}), make(chan error, 1)
	go func() { defer close(ran); y.Run(running) }()
	server := httptest.NewUnstartedServer(nil) // used only for its listener
	go func() { served <- y.Serve(serving, server.Listener) }()
	defer func() {
		end()
		if err := <-served; err != nil {
			t.Error(err)
		}
		stop()
		<-ran
	}()
	<-y.Ready()
	y.AwaitServers(t.Context())
	if _, err := y.Call(t.Context(), "", toolyard.Caller{ID: "me", Account: "me"}, "random", nil); err != nil {
		t.Log("the call failed, which is also counted:", err)
	}
	names := make(map[string]bool)
	for deadline := time.Now().Add(time.Minute); !names["toolyard_tls_certificate_not_after_timestamp_seconds"] && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil)
		r.Host = "localhost"
		y.Handler().ServeHTTP(w, r)
		for _, m := range regexp.MustCompile(`(?m)^([a-z_]+)[{ ]`).FindAllStringSubmatch(w.Body.String(), -1) {
			names[m[1]] = true
		}
	}
	return names
}

// Alert rules and the dashboard use only metrics that exist.
func TestObservedMetricsExist(t *testing.T) {
	rules, err := os.ReadFile("observe/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, expressions := readDashboard(t)
	names := metricsOfYard(t)
	names["toolyard_charged_usd_total"] = true // needs a funded account; TestDocumentedMetricsExist covers it
	used := regexp.MustCompile(`\b(?:toolyard|mcp|process|go)_[a-z_]+`).FindAllString(string(rules)+strings.Join(expressions, "\n"), -1)
	if len(used) < 20 {
		t.Fatal(used)
	}
	for _, name := range used {
		if !names[name] {
			t.Errorf("%s is not a metric of Toolyard", name)
		}
	}
}

// The dashboard's panels do not overlap.
func TestDashboardLayout(t *testing.T) {
	d, _ := readDashboard(t)
	used := make(map[[2]int]string)
	for _, p := range d.Panels {
		if p.GridPos.X+p.GridPos.W > 24 || len(p.Targets) == 0 {
			t.Errorf("%s: %+v", p.Title, p.GridPos)
		}
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				cell := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if other, ok := used[cell]; ok {
					t.Fatalf("%s covers %s", p.Title, other)
				}
				used[cell] = p.Title
			}
		}
	}
}

// Every alert has a runbook, and the chart contains the same files.
func TestAlertsHaveRunbooks(t *testing.T) {
	rules, err := os.ReadFile("observe/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("../docs/OPERATE.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`- alert: (\w+)`).FindAllSubmatch(rules, -1) {
		if !strings.Contains(string(doc), "\n### "+string(m[1])+"\n") {
			t.Errorf("docs/OPERATE.md has no runbook for %s", m[1])
		}
	}
	for _, name := range []string{"alerts.yaml", "dashboard.json"} {
		source, err := os.ReadFile(filepath.Join("observe", name))
		if err != nil {
			t.Fatal(err)
		}
		if packed, err := os.ReadFile(filepath.Join(chart, "files", name)); err != nil || !slices.Equal(packed, source) {
			t.Errorf("%s in the chart differs; run \"make observe\"", name)
		}
	}
}

func TestAlertRules(t *testing.T) {
	if *promtool == "" {
		t.Skip("run \"make observe\"")
	}
	runTool(t, *promtool, "check", "rules", "observe/alerts.yaml")
	runTool(t, *promtool, "test", "rules", "observe/alerts_test.yaml")
	_, expressions := readDashboard(t)
	var text strings.Builder
	text.WriteString("groups:\n  - name: dashboard\n    rules:\n")
	for _, e := range expressions {
		if !strings.HasPrefix(e, "label_values(") && e != "" {
			expression, err := json.Marshal(strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*").Replace(e))
			if err != nil {
				t.Fatal(err)
			}
			text.WriteString("      - {record: x, expr: " + string(expression) + "}\n")
		}
	}
	name := filepath.Join(t.TempDir(), "dashboard.yaml")
	if err := os.WriteFile(name, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	runTool(t, *promtool, "check", "rules", "--lint=none", name)
}
