package acceptance

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// otelCollector is a running OpenTelemetry Collector that writes the data it receives to files.
type otelCollector struct {
	t      *testing.T
	dir    string
	url    string // accepts OTLP over HTTP
	cmd    *exec.Cmd
	exited chan error
}

const collectorConfig = `
receivers: {otlp: {protocols: {http: {endpoint: 127.0.0.1:0}}}}
exporters: {file/logs: {path: logs.jsonl}, file/traces: {path: traces.jsonl}}
service:
  telemetry: {metrics: {level: none}, logs: {encoding: json}}
  pipelines:
    logs: {receivers: [otlp], exporters: [file/logs]}
    traces: {receivers: [otlp], exporters: [file/traces]}
`

// startCollector builds the Collector in tools/collector and starts it on a free port.
func startCollector(t *testing.T) *otelCollector {
	t.Helper()
	c := &otelCollector{t: t, dir: folder(t, map[string]string{"collector.yaml": collectorConfig}), exited: make(chan error, 1)}
	program := filepath.Join(c.dir, "collector")
	command(t, "../tools/collector", "go", "build", "-o", program, ".")
	c.cmd = exec.Command(program, "--config", "collector.yaml")
	c.cmd.Dir = c.dir
	stderr, err := c.cmd.StderrPipe()
	if err == nil {
		err = c.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.cmd.Process.Kill() })
	ready := make(chan string, 1)
	go func() {
		address, log := regexp.MustCompile(`"Starting HTTP server".*"endpoint":"([0-9.:]+)"`), new(strings.Builder)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			if m := address.FindStringSubmatch(lines.Text()); m != nil {
				ready <- "http://" + m[1]
			}
			fmt.Fprintln(log, lines.Text())
		}
		if err := c.cmd.Wait(); err != nil {
			err = fmt.Errorf("collector: %w\n%s", err, log)
			c.exited <- err
		}
		close(c.exited)
	}()
	select {
	case c.url = <-ready:
	case err := <-c.exited:
		t.Fatal(err)
	case <-time.After(2 * time.Minute):
		t.Fatal("the collector did not start")
	}
	return c
}

// stop stops the Collector, which then writes the remaining data.
func (c *otelCollector) stop() {
	c.t.Helper()
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		c.t.Fatal(err)
	}
	select {
	case err := <-c.exited:
		if err != nil {
			c.t.Fatal(err)
		}
	case <-time.After(2 * time.Minute):
		c.t.Fatal("the collector did not stop")
	}
}

// otlpAttributes are attributes in OTLP JSON.
type otlpAttributes []struct {
	Key   string
	Value struct {
		StringValue string
		IntValue    json.Number
	}
}

func (a otlpAttributes) values() map[string]string {
	values := make(map[string]string)
	for _, each := range a {
		values[each.Key] = each.Value.StringValue + each.Value.IntValue.String()
	}
	return values
}

// received returns the log records and spans in one of the Collector's files, in order. Each has
// its own attributes, those of its resource, and its other fields.
func (c *otelCollector) received(file string) (list []map[string]string) {
	c.t.Helper()
	type item struct {
		EventName, TimeUnixNano, Name, TraceID, ParentSpanID string
		SeverityNumber                                       json.Number
		Body                                                 struct{ StringValue string }
		Attributes                                           otlpAttributes
	}
	type group struct {
		Resource   struct{ Attributes otlpAttributes }
		ScopeLogs  []struct{ LogRecords []item }
		ScopeSpans []struct{ Spans []item }
	}
	data, err := os.ReadFile(filepath.Join(c.dir, file))
	if err != nil {
		c.t.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		var batch struct{ ResourceLogs, ResourceSpans []group }
		if err := json.Unmarshal(line, &batch); err != nil {
			c.t.Fatalf("%v: %s", err, line)
		}
		for _, g := range append(batch.ResourceLogs, batch.ResourceSpans...) {
			var items []item
			for _, scope := range g.ScopeLogs {
				items = append(items, scope.LogRecords...)
			}
			for _, scope := range g.ScopeSpans {
				items = append(items, scope.Spans...)
			}
			for _, i := range items {
				values := i.Attributes.values()
				maps.Copy(values, g.Resource.Attributes.values())
				maps.Copy(values, map[string]string{
					"event": i.EventName, "time": i.TimeUnixNano, "severity": i.SeverityNumber.String(), "body": i.Body.StringValue,
					"name": i.Name, "trace": i.TraceID, "parent": i.ParentSpanID,
				})
				list = append(list, values)
			}
		}
	}
	return list
}

// A real OpenTelemetry Collector receives every entry in the audit log once: entries made through
// the API from the running server, and all entries from an export. It also receives the calls'
// spans.
func TestCollectorReceivesAuditLogAndTraces(t *testing.T) {
	heavy(t)
	c := startCollector(t)
	env := func(run string) []string {
		return []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.url, "OTEL_RESOURCE_ATTRIBUTES=test.run=" + run, "OTEL_BSP_SCHEDULE_DELAY=50"}
	}
	p := serve(t, "testyard", "name: audited\nstore: sqlite:yard.db\ngates: {all: {mode: write}}\n", env("live")...)
	key := keyOf(t, p, "olivia", "operator") // created on the command line, so it is only in the export
	const created = 110                      // more entries than fit on one page
	for i := range created {
		if status, answer := p.ask(t, key, "POST", "/keys", fmt.Sprintf(`{"name":"k%d","caller":"ci","account":"acme"}`, i)); status != http.StatusCreated {
			t.Fatal(status, answer)
		}
	}
	if status, answer := p.ask(t, key, "DELETE", "/keys/key_unknown", ""); status != http.StatusNotFound {
		t.Fatal(status, answer)
	}
	call(t, modernHTTP{t: t, url: p.url, meta: `,"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"`}, "echo", `{"text":"hi"}`)
	for file, want := range map[string]int{"logs.jsonl": created + 1, "traces.jsonl": 1} { // before the server stops, because it then waits only 5 s for the collector
		soon(t, "the collector writes "+file, func() bool {
			data, _ := os.ReadFile(filepath.Join(c.dir, file))
			return bytes.Count(data, []byte(`"toolyard.change"`))+bytes.Count(data, []byte(`"gen_ai.tool.name"`)) >= want
		})
	}
	p.signal(syscall.SIGTERM)
	if err := p.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := runIn(t, p.dir, env("export"), "toolyard", "audit", "export", "--format", "otlp"); code != 0 || out != fmt.Sprintf("exported %d changes\n", created+2) {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	c.stop()

	code, out, errs := runIn(t, p.dir, nil, "toolyard", "audit", "export")
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	want := []map[string]string{}
	for line := range strings.Lines(out) {
		want = append(want, logRecord(t, line))
	}
	got := make(map[string][]map[string]string)
	for _, r := range c.received("logs.jsonl") {
		run := r["test.run"]
		delete(r, "test.run")
		delete(r, "service.version")
		got[run] = append(got[run], r)
	}
	if diff := cmp.Diff(want, got["export"]); diff != "" {
		t.Errorf("export (-want +got): %s", diff)
	}
	if diff := cmp.Diff(want[1:], got["live"]); diff != "" {
		t.Errorf("from the running server (-want +got): %s", diff)
	}

	spans := c.received("traces.jsonl")
	if len(spans) != 1 {
		t.Fatalf("spans: %v", spans)
	}
	for name, want := range map[string]string{
		"name": "tools/call echo", "trace": "0af7651916cd43dd8448eb211c80319c", "parent": "b7ad6b7169203331", "service.name": "audited", "test.run": "live",
		"mcp.method.name": "tools/call", "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "echo", "toolyard.gate": "all", "error.type": "",
	} {
		if spans[0][name] != want {
			t.Errorf("span: %s is %q, want %q", name, spans[0][name], want)
		}
	}
}

// logRecord returns the log record for a line of an export as JSON lines.
func logRecord(t *testing.T, line string) map[string]string {
	t.Helper()
	var e struct {
		ID, Caller, Account, Action, Subject, Remote string
		At                                           time.Time
		Status                                       int
		Detail                                       json.RawMessage
	}
	if err := json.Unmarshal([]byte(line), &e); err != nil {
		t.Fatal(err)
	}
	severity := "9" // severity number of information
	if e.Status >= 400 {
		severity = "13" // severity number of a warning
	}
	return map[string]string{
		"event": "toolyard.audit", "time": fmt.Sprint(e.At.UnixNano()), "severity": severity, "body": e.Action + " " + e.Subject, "name": "", "trace": "", "parent": "",
		"service.name": "audited", "toolyard.change": e.ID, "toolyard.action": e.Action, "toolyard.subject": e.Subject, "toolyard.caller": e.Caller,
		"toolyard.account": e.Account, "client.address": e.Remote, "http.response.status_code": fmt.Sprint(e.Status), "toolyard.detail": string(e.Detail),
	}
}
