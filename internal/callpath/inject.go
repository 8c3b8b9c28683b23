package callpath

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/jsonobject"
)

const (
	maxContext  = 256 << 10        // maximum size of one kind of context
	provideTime = 10 * time.Second // time limit for all of a call's context
)

// Inject adds context to the arguments of tools that declare it: for each kind of context, the data
// about the caller that the kind's provider returns. It replaces any value that the caller sent
// under the same name. A call whose context is unavailable does not run. providers returns nil if a
// kind has no provider.
func Inject(log *slog.Logger, providers func(kind string) toolyard.ContextProvider) toolyard.Policy {
	return func(next toolyard.Handler) toolyard.Handler {
		return func(ctx context.Context, c *toolyard.Call) (*toolyard.Result, error) {
			injected := c.Tool.Injected()
			if len(injected) == 0 {
				return next(ctx, c)
			}
			kept, ok := membersExcept(c.Args, injected)
			if !ok { // args is not an object; validation refuses it
				return next(ctx, c)
			}
			values, err := provideAll(ctx, c, injected, providers)
			if err != nil {
				return nil, err
			}
			c.Args = join(kept, values)
			res, err := next(ctx, c)
			return res, attribute(ctx, log, c, kept, injected, err)
		}
	}
}

// membersExcept returns the members of an object, byte for byte, without the injected ones. The
// comparison ignores case, because some JSON decoders do too.
func membersExcept(args json.RawMessage, injected map[string]string) (kept [][]byte, ok bool) {
	if len(args) == 0 || string(args) == "null" {
		return nil, true
	}
	dec := json.NewDecoder(bytes.NewReader(args))
	if start, err := dec.Token(); err != nil || start != json.Delim('{') {
		return nil, false
	}
	for dec.More() {
		begin := dec.InputOffset()
		name, err := dec.Token()
		if err != nil {
			return nil, false
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, false
		}
		if !isInjected(name.(string), injected) {
			kept = append(kept, bytes.TrimLeft(args[begin:dec.InputOffset()], ", \t\r\n"))
		}
	}
	if _, err := dec.Token(); err != nil { // end of the object
		return nil, false
	}
	_, err := dec.Token()
	return kept, errors.Is(err, io.EOF)
}

func isInjected(name string, injected map[string]string) bool {
	for argument := range injected {
		if strings.EqualFold(argument, name) {
			return true
		}
	}
	return false
}

// join builds an object from members and injected values.
func join(kept [][]byte, values map[string]json.RawMessage) json.RawMessage {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		kept = append(kept, append(append(jsonobject.AppendString(nil, name), ':'), values[name]...))
	}
	return slices.Concat([]byte{'{'}, bytes.Join(kept, []byte{','}), []byte{'}'})
}

// provided is the context for one argument.
type provided struct {
	argument string
	value    json.RawMessage
	err      error
}

// provideAll requests all kinds concurrently and stops at the first failure.
func provideAll(ctx context.Context, c *toolyard.Call, injected map[string]string, providers func(string) toolyard.ContextProvider) (map[string]json.RawMessage, error) {
	within, cancel := context.WithTimeout(ctx, provideTime)
	defer cancel()
	done := make(chan provided, len(injected))
	caller, asOf := c.Caller, c.AsOf
	for _, argument := range slices.Sorted(maps.Keys(injected)) {
		kind := injected[argument]
		p := providers(kind)
		if p == nil {
			return nil, toolyard.Errorf(toolyard.Unavailable, "Context %s is required by %s but is not configured.", kind, c.Tool.Name)
		}
		go func() {
			value, err := provide(within, p, kind, caller, asOf)
			done <- provided{argument, value, err}
		}()
	}
	values := make(map[string]json.RawMessage, len(injected))
	for len(values) < len(injected) {
		select {
		case p := <-done:
			if p.err != nil {
				return nil, either(ctx.Err(), p.err)
			}
			values[p.argument] = p.value
		case <-within.Done():
			return nil, either(ctx.Err(), late(injected, values))
		}
	}
	return values, nil
}

// either returns the first error that is not nil. If the caller disconnected, the provider is not
// to blame.
func either(first, second error) error {
	if first != nil {
		return first
	}
	return second
}

// late returns the error for the kinds that exceeded the time limit.
func late(injected map[string]string, values map[string]json.RawMessage) error {
	var kinds []string
	for argument, kind := range injected {
		if values[argument] == nil {
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	return toolyard.Errorf(toolyard.Unavailable, "Context %s could not be obtained within %v.", strings.Join(kinds, ", "), provideTime)
}

// provide calls a provider and accepts only a JSON object within the size limit.
func provide(ctx context.Context, p toolyard.ContextProvider, kind string, caller toolyard.Caller, asOf time.Time) (value json.RawMessage, err error) {
	defer func() {
		if p := recover(); p != nil {
			value, err = nil, unavailable(kind, fmt.Errorf("panic: %v\n%s", p, debug.Stack()))
		}
	}()
	value, err = p.Provide(ctx, caller, asOf)
	if err != nil {
		return nil, explain(kind, err)
	}
	if len(value) > maxContext {
		return nil, toolyard.Errorf(toolyard.Unavailable, "Context %s is %d bytes; the limit is %d.", kind, len(value), maxContext)
	}
	if value = bytes.TrimSpace(value); len(value) == 0 || value[0] != '{' || !json.Valid(value) {
		return nil, unavailable(kind, errors.New("the provider did not return a JSON object"))
	}
	return value, nil
}

// unavailable returns an error that hides its cause from the caller.
func unavailable(kind string, cause error) error {
	return &toolyard.Error{Code: toolyard.Unavailable, Message: "Context " + kind + " is unavailable.", RetryAfter: time.Second, Err: cause}
}

// explain adds the kind to a provider's error.
func explain(kind string, err error) error {
	e, ok := errors.AsType[*toolyard.Error](err)
	if !ok {
		return unavailable(kind, err)
	}
	if strings.Contains(e.Message, kind) {
		return e
	}
	named := *e
	named.Message = kind + ": " + e.Message
	return &named
}

// attribute decides who is responsible when arguments do not match the tool's schema. If the schema
// rejects injected data, the provider is at fault: the caller gets Unavailable, and the details are
// logged for the operator. If the caller's own arguments are also invalid, the caller gets only the
// issues with those arguments.
func attribute(ctx context.Context, log *slog.Logger, c *toolyard.Call, kept [][]byte, injected map[string]string, err error) error {
	e, ok := errors.AsType[*toolyard.Error](err)
	if !ok || e.Code != toolyard.Invalid || len(e.Issues) == 0 {
		return err
	}
	var own, theirs []toolyard.Issue
	for _, i := range e.Issues {
		switch {
		case len(i.Location) > 0 && injected[i.Location[0]] != "":
			theirs = append(theirs, i)
		case len(i.Location) == 0 && callerFits(ctx, c.Tool, join(kept, nil)):
			theirs = append(theirs, i)
		default:
			own = append(own, i)
		}
	}
	if len(theirs) == 0 {
		return err
	}
	if len(own) > 0 {
		only := *e
		only.Issues = own
		return &only
	}
	kinds := kindsOf(theirs, injected)
	log.WarnContext(ctx, "context does not match the tool's input schema", "kind", kinds, "tool", c.Tool.Name, "server", c.Tool.Server, "call", c.ID, "issues", describe(theirs))
	return &toolyard.Error{
		Code: toolyard.Unavailable, Err: errors.New(describe(theirs)),
		Message: fmt.Sprintf("Context %s does not match the input schema of %s. The problem is in its provider, not in your arguments.", kinds, c.Tool.Name),
	}
}

// callerFits reports whether the caller's own arguments match the schema that callers see.
func callerFits(ctx context.Context, t *toolyard.Tool, args json.RawMessage) bool {
	var schema toolyard.Schema
	if json.Unmarshal(t.CallerInput(), &schema) != nil {
		return false
	}
	issues, err := schema.Check(ctx, args)
	return err == nil && len(issues) == 0
}

// kindsOf lists the kinds of context that the issues concern. An issue with the arguments as a
// whole concerns all kinds.
func kindsOf(issues []toolyard.Issue, injected map[string]string) string {
	var kinds []string
	for _, i := range issues {
		if len(i.Location) == 0 {
			kinds = slices.Collect(maps.Values(injected))
			break
		}
		kinds = append(kinds, injected[i.Location[0]])
	}
	slices.Sort(kinds)
	return strings.Join(slices.Compact(kinds), ", ")
}

const maxDescribed = 10 // maximum number of issues in a log line

func describe(issues []toolyard.Issue) string {
	var parts []string
	for _, i := range issues[:min(len(issues), maxDescribed)] {
		parts = append(parts, strings.TrimPrefix(i.Path+": "+i.Message, ": "))
	}
	if extra := len(issues) - maxDescribed; extra > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", extra))
	}
	return strings.Join(parts, "; ")
}
