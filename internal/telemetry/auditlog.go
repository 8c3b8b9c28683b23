package telemetry

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	otellog "go.opentelemetry.io/otel/log"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/resource"
)

// AuditLog exports changes as OpenTelemetry log records. A nil AuditLog exports none.
type AuditLog struct {
	logger   otellog.Logger
	provider *sdklog.LoggerProvider
}

// Change is an entry in the audit log.
type Change struct {
	ID, Caller, Account, Action, Subject, Remote string
	At                                           time.Time
	Status                                       int
	Detail                                       string // JSON with secrets removed
}

// NewAuditLog returns an exporter that uses the collector set by the standard OTEL_ variables, or
// nil if none is set.
func NewAuditLog(ctx context.Context, name, version string, getenv func(string) (string, bool)) (*AuditLog, error) {
	if !exportsLogs(getenv) {
		return nil, nil
	}
	exporter, err := otlploghttp.New(ctx)
	if err != nil {
		return nil, err
	}
	return newAuditLog(ctx, name, version, sdklog.NewBatchProcessor(exporter))
}

// exportsLogs reports whether the standard variables set a collector for log records.
func exportsLogs(getenv func(string) (string, bool)) bool {
	endpoint, _ := getenv("OTEL_EXPORTER_OTLP_ENDPOINT")
	logs, _ := getenv("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT")
	exporters, _ := getenv("OTEL_LOGS_EXPORTER")
	disabled, _ := getenv("OTEL_SDK_DISABLED")
	return endpoint+logs != "" && !strings.EqualFold(disabled, "true") && exporters != "none"
}

func newAuditLog(ctx context.Context, name, version string, to sdklog.Processor) (*AuditLog, error) {
	about := resource.NewSchemaless(attribute.String("service.name", name), attribute.String("service.version", version))
	env, err := resource.New(ctx, resource.WithFromEnv())
	if err == nil {
		about, err = resource.Merge(about, env)
	}
	if err != nil {
		return nil, err
	}
	p := sdklog.NewLoggerProvider(sdklog.WithProcessor(to), sdklog.WithResource(about))
	return &AuditLog{logger: p.Logger("github.com/toolyard/toolyard/audit"), provider: p}, nil
}

// Emit queues a change for export. It does not wait for the collector. If the queue is full, the
// oldest records are dropped.
func (a *AuditLog) Emit(ctx context.Context, c Change) {
	if a == nil {
		return
	}
	var r otellog.Record
	r.SetEventName("toolyard.audit")
	r.SetTimestamp(c.At)
	r.SetSeverity(otellog.SeverityInfo)
	if c.Status >= 400 {
		r.SetSeverity(otellog.SeverityWarn)
	}
	r.SetBody(attribute.StringValue(c.Action + " " + c.Subject))
	r.AddAttributes(
		attribute.String("toolyard.change", c.ID),
		attribute.String("toolyard.action", c.Action),
		attribute.String("toolyard.subject", c.Subject),
		attribute.String("toolyard.caller", c.Caller),
		attribute.String("toolyard.account", c.Account),
		attribute.String("client.address", c.Remote),
		attribute.Int("http.response.status_code", c.Status),
		attribute.String("toolyard.detail", c.Detail),
	)
	a.logger.Emit(context.WithoutCancel(ctx), r)
}

// Close exports the remaining records.
func (a *AuditLog) Close(ctx context.Context) error {
	if a == nil {
		return nil
	}
	return a.provider.Shutdown(ctx)
}

// AuditSender sends changes as the same log records as [AuditLog], but waits until the collector
// has accepted them.
type AuditSender struct {
	log      *AuditLog
	exporter *otlploghttp.Exporter
	records  recordList
}

// ErrNoCollector means that the environment sets no collector for log records.
var ErrNoCollector = errors.New("no collector is configured: set OTEL_EXPORTER_OTLP_ENDPOINT to a URL such as http://127.0.0.1:4318, and remove OTEL_SDK_DISABLED=true and OTEL_LOGS_EXPORTER=none")

// NewAuditSender returns a sender that uses the collector set by the standard OTEL_ variables. The
// error is [ErrNoCollector] if none is set.
func NewAuditSender(ctx context.Context, name, version string, getenv func(string) (string, bool)) (*AuditSender, error) {
	if !exportsLogs(getenv) {
		return nil, ErrNoCollector
	}
	exporter, err := otlploghttp.New(ctx)
	if err != nil {
		return nil, err
	}
	s := &AuditSender{exporter: exporter}
	if s.log, err = newAuditLog(ctx, name, version, &s.records); err != nil {
		return nil, errors.Join(err, exporter.Shutdown(ctx))
	}
	return s, nil
}

// Send sends changes in one request. It retries for a minute while the collector is overloaded. If
// it returns an error, the collector may still have accepted some of the changes.
func (s *AuditSender) Send(ctx context.Context, changes []Change) error {
	defer func() { s.records = nil }()
	for _, c := range changes {
		s.log.Emit(ctx, c)
	}
	return s.exporter.Export(ctx, s.records)
}

// Close closes the connection to the collector.
func (s *AuditSender) Close(ctx context.Context) error {
	return errors.Join(s.log.Close(ctx), s.exporter.Shutdown(ctx))
}

// recordList is a processor that stores records.
type recordList []sdklog.Record

func (*recordList) Enabled(context.Context, sdklog.EnabledParameters) bool { return true }
func (*recordList) ForceFlush(context.Context) error                       { return nil }
func (*recordList) Shutdown(context.Context) error                         { return nil }
func (l *recordList) OnEmit(_ context.Context, r *sdklog.Record) error {
	*l = append(*l, r.Clone())
	return nil
}
