package telemetry

import (
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard"
)

// scrape returns the metrics after a call of each tool.
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

// The metrics are exactly those that the documentation lists.
func TestDocumentedMetricsExist(t *testing.T) {
	doc, err := os.ReadFile("../../docs/OBSERVE.md")
	if err != nil {
		t.Fatal(err)
	}
	found := func(pattern, text string) []string {
		names := make(map[string]bool)
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			names[m[1]] = true
		}
		return slices.Sorted(maps.Keys(names))
	}
	exist := found(`(?m)^# TYPE ((?:toolyard|mcp)_\S+)`, scrape(t, &toolyard.Tool{Spec: toolyard.Spec{Name: "a"}}))
	documented := found("(?m)^\\| `((?:toolyard|mcp)_[a-z_]+)`", string(doc))
	if diff := cmp.Diff(exist, documented); diff != "" {
		t.Error(diff)
	}
}
