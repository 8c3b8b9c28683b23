package telemetry

import (
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard"
)

var update = flag.Bool("update", false, "write docs/reference/METRICS.md")

// scrape returns the metrics after a call to each tool.
func scrape(t *testing.T, tools ...*toolyard.Tool) string {
	t.Helper()
	m := NewMetrics()
	m.Servers(map[string]bool{"up": true})
	m.Certificate(time.Now())
	m.SpendRefused("gate/shop/spend/day")
	for _, tool := range tools {
		receipt := &toolyard.Receipt{Price: toolyard.USD}
		m.Outcome(t.Context(), &toolyard.Call{Gate: "chat", Tool: tool, Environment: toolyard.Environment{Receipt: receipt}}, toolyard.Outcome{Result: &toolyard.Result{}, Elapsed: time.Second})
	}
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Body.String()
}

func TestDurationsNameABoundedNumberOfTools(t *testing.T) {
	tools := []*toolyard.Tool{{Spec: toolyard.Spec{Name: "search", Server: "github"}}}
	for i := range maxTimed + 50 {
		tools = append(tools, &toolyard.Tool{Spec: toolyard.Spec{Name: fmt.Sprint("t", i)}})
	}
	text := scrape(t, tools...)
	if want := `mcp_server_operation_duration_seconds_count{code="OK",gate="chat",tool="github/search"} 1`; !strings.Contains(text, want) {
		t.Errorf("%s is missing", want)
	}
	if want := `mcp_server_operation_duration_seconds_count{code="OK",gate="chat",tool="other"} 51`; !strings.Contains(text, want) {
		t.Errorf("%s is missing", want)
	}
	if n := strings.Count(text, "mcp_server_operation_duration_seconds_count"); n != maxTimed+1 {
		t.Errorf("%d series, want %d", n, maxTimed+1)
	}
}

const metricsIntro = "# Metrics\n\nGenerated from the code by `go test ./internal/telemetry -run MetricsReference -update`. Do not edit.\n\n" +
	"Toolyard serves these metrics for Prometheus at `GET /metrics`, together with the standard `go_*` and `process_*` metrics. To set up access and alerts, see " +
	"[Observability](../OBSERVE.md).\n\n| metric | type | labels | meaning |\n|---|---|---|---|\n"

// TestMetricsReferenceIsCurrent generates docs/reference/METRICS.md from a scrape.
func TestMetricsReferenceIsCurrent(t *testing.T) {
	text := scrape(t, &toolyard.Tool{Spec: toolyard.Spec{Name: "a"}})
	table := metricsIntro
	for _, m := range regexp.MustCompile(`(?m)^# HELP ((?:toolyard|mcp)_\S+) (.*)\n# TYPE \S+ (\S+)\n(?:[a-z_]+)(?:\{(.*)\})? `).FindAllStringSubmatch(text, -1) {
		var labels []string
		for _, label := range regexp.MustCompile(`([a-z]+)="`).FindAllStringSubmatch(m[4], -1) {
			if label[1] != "le" {
				labels = append(labels, "`"+label[1]+"`")
			}
		}
		table += fmt.Sprintf("| `%s` | %s | %s | %s |\n", m[1], m[3], strings.Join(labels, ", "), m[2])
	}
	const file = "../../docs/reference/METRICS.md"
	if *update {
		if err := os.WriteFile(file, []byte(table), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	committed, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(committed), table); diff != "" {
		t.Errorf("run go test ./internal/telemetry -run MetricsReference -update: %s", diff)
	}
	if exist, listed := strings.Count(text, "\n# TYPE toolyard_")+strings.Count(text, "# TYPE mcp_"), strings.Count(table, "\n| `"); exist != listed {
		t.Errorf("%d of %d metrics are listed", listed, exist)
	}
}
