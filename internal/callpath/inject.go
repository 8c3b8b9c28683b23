package callpath

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
)

const (
	// maxContext is how large the context of one kind may be.
	maxContext = 256 << 10
	// provideTime is how long the context of a call may take.
	provideTime = 10 * time.Second
)

// Inject fills in the arguments that a tool wants from the platform: for each kind of
// context that it needs, what the kind's provider says of the caller. Whatever the caller
// sent under such a name is replaced. A call whose context cannot be had does not run.
// Providers returns nil for a kind that nobody provides.
func Inject(providers func(kind string) toolyard.ContextProvider) toolyard.Policy {
	return func(next toolyard.Handler) toolyard.Handler {
		return func(ctx context.Context, c *toolyard.Call) (*toolyard.Result, error) {
			injected := c.Tool.Injected()
			if len(injected) == 0 {
				return next(ctx, c)
			}
			kept, ok := membersExcept(c.Args, injected)
			if !ok { // no object, which the schema refuses
				return next(ctx, c)
			}
			values, err := provideAll(ctx, c, injected, providers)
			if err != nil {
				return nil, err
			}
			c.Args = join(kept, values)
			return next(ctx, c)
		}
	}
}

// membersExcept are the members of an object, byte for byte, but for those that are
// injected. Case does not count: some readers do not mind it.
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
	if _, err := dec.Token(); err != nil { // the end of the object
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

// join makes an object of members and of what is injected.
func join(kept [][]byte, values map[string]json.RawMessage) json.RawMessage {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		kept = append(kept, append(append(toolyard.AppendJSONString(nil, name), ':'), values[name]...))
	}
	return slices.Concat([]byte{'{'}, bytes.Join(kept, []byte{','}), []byte{'}'})
}

// provided is what came of one argument.
type provided struct {
	argument string
	value    json.RawMessage
	err      error
}

// provideAll asks for all kinds at once. The first that fails ends it.
func provideAll(ctx context.Context, c *toolyard.Call, injected map[string]string, providers func(string) toolyard.ContextProvider) (map[string]json.RawMessage, error) {
	within, cancel := context.WithTimeout(ctx, provideTime)
	defer cancel()
	done := make(chan provided, len(injected))
	caller, asOf := c.Caller, c.AsOf
	for _, argument := range slices.Sorted(maps.Keys(injected)) {
		kind := injected[argument]
		p := providers(kind)
		if p == nil {
			return nil, toolyard.Errorf(toolyard.Unavailable, "Nobody provides the context %s that %s needs.", kind, c.Tool.Name)
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

// either is the first error, or the second if that is none: what fails because the caller
// has left is no fault of a provider.
func either(first, second error) error {
	if first != nil {
		return first
	}
	return second
}

// late is the error of kinds that did not come in time.
func late(injected map[string]string, values map[string]json.RawMessage) error {
	var kinds []string
	for argument, kind := range injected {
		if values[argument] == nil {
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	return toolyard.Errorf(toolyard.Unavailable, "The context %s did not come within %v.", strings.Join(kinds, ", "), provideTime)
}

// provide asks a provider, and takes nothing but an object of a bounded size.
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
		return nil, toolyard.Errorf(toolyard.Unavailable, "The context %s has %d bytes, the limit is %d.", kind, len(value), maxContext)
	}
	if value = bytes.TrimSpace(value); len(value) == 0 || value[0] != '{' || !json.Valid(value) {
		return nil, unavailable(kind, errors.New("it is no JSON object"))
	}
	return value, nil
}

// unavailable hides a cause from the caller.
func unavailable(kind string, cause error) error {
	return &toolyard.Error{Code: toolyard.Unavailable, Message: "The context " + kind + " cannot be had now.", RetryAfter: time.Second, Err: cause}
}

// explain makes the error of a provider one that names the kind.
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
