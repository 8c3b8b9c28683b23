// Package telemetry exports Prometheus metrics and OpenTelemetry spans for calls, using the names
// from the MCP semantic conventions.
package telemetry

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/toolyard/toolyard"
)

// Metrics is a [toolyard.Recorder] that counts calls. Labels are configured names and known codes,
// never text from callers.
type Metrics struct {
	registry *prometheus.Registry
	calls    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	tools    prometheus.Gauge
	problems prometheus.Gauge
	version  prometheus.Gauge
	up       *prometheus.GaugeVec
	charged  *prometheus.CounterVec
	lost     prometheus.Counter
	store    prometheus.Gauge
	tls      *prometheus.GaugeVec // has no value until a certificate is in use
	refused  *prometheus.CounterVec
	timed    names // tools that have their own label in the histogram
}

// maxTimed is the maximum number of tools that have their own label in the histogram, because each
// tool adds a series for every bucket, gate and code.
const maxTimed = 200

// names is a set of label values of limited size.
type names struct {
	mu    sync.Mutex
	known map[string]bool
}

// label returns a tool's name, or "other" if the set is full.
func (n *names) label(t *toolyard.Tool) string {
	name := t.Name
	if t.Server != "" {
		name = t.Server + "/" + t.Name
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.known[name]:
	case len(n.known) >= maxTimed:
		return "other"
	case n.known == nil:
		n.known = map[string]bool{name: true}
	default:
		n.known[name] = true
	}
	return name
}

// buckets are the buckets from the MCP semantic conventions, in seconds.
var buckets = []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300}

// NewMetrics returns metrics that have their own registry.
func NewMetrics() *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		calls:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: "toolyard_calls_total", Help: "Finished calls, by gate, tool and result code."}, []string{"gate", "server", "tool", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "mcp_server_operation_duration_seconds", Help: "Duration of calls, in seconds.", Buckets: buckets}, []string{"gate", "tool", "code"}),
		tools:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "toolyard_tools", Help: "Number of tools in the catalog."}),
		problems: prometheus.NewGauge(prometheus.GaugeOpts{Name: "toolyard_problems", Help: "Problems that need attention. To list them, run toolyard check."}),
		version:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "toolyard_catalog_generation", Help: "The catalog's current generation."}),
		up:       prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "toolyard_server_up", Help: "Whether the MCP server is connected (1) or not (0)."}, []string{"server"}),
		charged:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "toolyard_charged_usd_total", Help: "Total price of charged calls in US dollars. This is a floating-point sum for charts; the ledger has the exact amounts."}, []string{"gate", "server", "tool"}),
		lost:     prometheus.NewCounter(prometheus.CounterOpts{Name: "toolyard_record_lost_total", Help: "Calls that could not be recorded. None of them were charged."}),
		store:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "toolyard_store_up", Help: "Whether the store is responding (1) or not (0)."}),
		tls:      prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "toolyard_tls_certificate_not_after_timestamp_seconds", Help: "When this server's TLS certificate expires, as a Unix time. Absent if tls is not set."}, nil),
		refused:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "toolyard_spend_limit_refusals_total", Help: "Calls that were refused because of a spend limit, by limit."}, []string{"limit"}),
	}
	m.store.Set(1)
	m.registry.MustRegister(m.calls, m.duration, m.tools, m.problems, m.version, m.up, m.charged, m.lost, m.store, m.tls, m.refused,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Handler serves the metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry})
}

// Catalog sets the state of the catalog.
func (m *Metrics) Catalog(generation uint64, tools, problems int) {
	m.version.Set(float64(generation))
	m.tools.Set(float64(tools))
	m.problems.Set(float64(problems))
}

// Servers sets which servers are connected.
func (m *Metrics) Servers(up map[string]bool) {
	m.up.Reset()
	for id, is := range up {
		value := 0.0
		if is {
			value = 1
		}
		m.up.WithLabelValues(id).Set(value)
	}
}

// Lost counts calls that could not be recorded.
func (m *Metrics) Lost(calls int) { m.lost.Add(float64(calls)) }

// Store sets whether the store is responding.
func (m *Metrics) Store(up bool) {
	value := 0.0
	if up {
		value = 1
	}
	m.store.Set(value)
}

// Certificate sets the TLS certificate's expiry.
func (m *Metrics) Certificate(notAfter time.Time) {
	m.tls.WithLabelValues().Set(float64(notAfter.Unix()))
}

// SpendRefused counts a call refused by a spend limit.
func (m *Metrics) SpendRefused(limit string) { m.refused.WithLabelValues(limit).Inc() }

// Intent implements [toolyard.Recorder].
func (m *Metrics) Intent(context.Context, *toolyard.Call) error { return nil }

// Outcome implements [toolyard.Recorder].
func (m *Metrics) Outcome(_ context.Context, c *toolyard.Call, o toolyard.Outcome) {
	code := string(knownCode(o.Code()))
	m.calls.WithLabelValues(c.Gate, c.Tool.Server, c.Tool.Name, code).Inc()
	m.duration.WithLabelValues(c.Gate, m.timed.label(c.Tool), code).Observe(o.Elapsed.Seconds())
	if r := c.Receipt; r != nil && r.Price > 0 && !r.Replayed {
		m.charged.WithLabelValues(c.Gate, c.Tool.Server, c.Tool.Name).Add(float64(r.Price) / float64(toolyard.USD))
	}
}

// knownCode limits the label's values, because tools may return their own codes.
func knownCode(c toolyard.Code) toolyard.Code {
	if c.Predefined() {
		return c
	}
	return "OTHER"
}

// Tracer creates spans. A nil Tracer creates none.
type Tracer struct {
	tracer   trace.Tracer
	provider *sdktrace.TracerProvider
	stopped  atomic.Bool
}

// NewTracer returns a tracer that exports to the collector set by the standard OTEL_ variables, or
// nil if none is set.
func NewTracer(ctx context.Context, name, version string, getenv func(string) (string, bool)) (*Tracer, error) {
	endpoint, _ := getenv("OTEL_EXPORTER_OTLP_ENDPOINT")
	traces, _ := getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
	if disabled, _ := getenv("OTEL_SDK_DISABLED"); endpoint+traces == "" || strings.EqualFold(disabled, "true") {
		return nil, nil
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, err
	}
	about := resource.NewSchemaless(attribute.String("service.name", name), attribute.String("service.version", version))
	res, err := resource.New(ctx, resource.WithFromEnv())
	if err == nil {
		about, err = resource.Merge(about, res)
	}
	if err != nil {
		return nil, err
	}
	p := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about))
	return &Tracer{tracer: p.Tracer("github.com/toolyard/toolyard"), provider: p}, nil
}

// Close exports the remaining spans.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil || t.stopped.Swap(true) {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

var propagator = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})

// Policy creates one span per call. If t is nil, it does nothing.
func (t *Tracer) Policy() toolyard.Policy {
	return func(next toolyard.Handler) toolyard.Handler {
		if t == nil {
			return next
		}
		return func(ctx context.Context, c *toolyard.Call) (*toolyard.Result, error) {
			ctx = propagator.Extract(ctx, propagation.MapCarrier{
				"traceparent": c.Trace.Parent, "tracestate": c.Trace.State, "baggage": c.Trace.Baggage,
			})
			ctx, span := t.tracer.Start(ctx, "tools/call "+c.Tool.Name, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
				attribute.String("mcp.method.name", "tools/call"),
				attribute.String("gen_ai.operation.name", "execute_tool"),
				attribute.String("gen_ai.tool.name", c.Tool.Name),
				attribute.String("toolyard.call", c.ID),
				attribute.String("toolyard.gate", c.Gate),
			))
			defer span.End()
			res, err := next(ctx, c)
			switch {
			case err != nil:
				e := toolyard.AsError(err)
				span.SetAttributes(attribute.String("error.type", string(e.Code)))
				span.SetStatus(codes.Error, e.Redacted().Message)
			case res.IsError:
				span.SetAttributes(attribute.String("error.type", "tool_error"))
				span.SetStatus(codes.Error, "")
			}
			return res, err
		}
	}
}
