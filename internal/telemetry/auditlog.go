package telemetry

import (
	"context"
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

// Change is an entry of the audit log.
type Change struct {
	ID, Caller, Account, Action, Subject, Remote string
	At                                           time.Time
	Status                                       int
	Detail                                       string // JSON, without secrets
}

// NewAuditLog returns an exporter to the collector of the standard OTEL_ variables, or nil if they
// set none.
func NewAuditLog(ctx context.Context, name, version string, getenv func(string) (string, bool)) (*AuditLog, error) {
	endpoint, _ := getenv("OTEL_EXPORTER_OTLP_ENDPOINT")
	logs, _ := getenv("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT")
	exporters, _ := getenv("OTEL_LOGS_EXPORTER")
	if disabled, _ := getenv("OTEL_SDK_DISABLED"); endpoint+logs == "" || strings.EqualFold(disabled, "true") || exporters == "none" {
		return nil, nil
	}
	exporter, err := otlploghttp.New(ctx)
	if err != nil {
		return nil, err
	}
	about := resource.NewSchemaless(attribute.String("service.name", name), attribute.String("service.version", version))
	env, err := resource.New(ctx, resource.WithFromEnv())
	if err == nil {
		about, err = resource.Merge(about, env)
	}
	if err != nil {
		return nil, err
	}
	p := sdklog.NewLoggerProvider(sdklog.WithProcessor(sdklog.NewBatchProcessor(exporter)), sdklog.WithResource(about))
	return &AuditLog{logger: p.Logger("github.com/toolyard/toolyard/audit"), provider: p}, nil
}

// Emit queues a change for export. It does not wait for the collector; if the queue is full, the
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
