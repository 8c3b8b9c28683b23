package upstream

import (
	"context"
	"errors"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// reporter turns a server's events into problems, errors, history entries and log lines. It redacts
// and truncates the server's text.
type reporter struct {
	opts    *Options
	history history
}

func (rep *reporter) problem(tool, message, fix string) toolyard.Problem {
	return toolyard.Problem{
		Source: rep.opts.ID, Subject: "server " + rep.opts.ID, Tool: tool,
		Message: untrusted.Truncate(rep.opts.Redact(message), maxShown), Fix: fix,
	}
}

// event adds an event to the history.
func (rep *reporter) event(kind, text string) {
	rep.history.add(kind, untrusted.Truncate(singleLine(rep.opts.Redact(text)), maxLine))
}

// describe returns an error's text for users.
func (rep *reporter) describe(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "the server did not respond in time"
	}
	return untrusted.Truncate(rep.opts.Redact(err.Error()), maxShown)
}

// unavailable returns the error for a call that the server could not serve.
func (rep *reporter) unavailable(err error) *toolyard.Error {
	return toolyard.Errorf(toolyard.Unavailable, "Server %s is not available: %s", rep.opts.ID, rep.describe(err))
}

// notReady is like unavailable, for a call that was never sent and can therefore be repeated.
func (rep *reporter) notReady(err error) error {
	e := rep.unavailable(err)
	e.RetryAfter = time.Second
	return e
}

// logMessage logs a log message from the server.
func (rep *reporter) logMessage(m message) {
	data := ""
	if raw := strictjson.Member(m.params, "data"); len(raw) <= maxKept {
		data = untrusted.Truncate(string(redactJSON(raw, rep.opts.Redact)), maxShown)
	}
	rep.opts.Log.Debug("server logs", "level", untrusted.Truncate(text(m.params, "level"), 20), "data", data)
}

// oneLine returns an error's text as a single line of limited length.
func oneLine(err error) string { return untrusted.Truncate(singleLine(err.Error()), maxLine) }
