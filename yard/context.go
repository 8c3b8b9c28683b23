package yard

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/spelling"
	"github.com/toolyard/toolyard/internal/config"
)

// ProviderKind is a kind of context that the configuration can enable: context: {KIND: {...}}.
type ProviderKind struct {
	Settings  *toolyard.Schema // of the kind's section in the configuration
	New       func(ProviderSetup) (toolyard.ContextProvider, error)
	CheckLink func(value string) error // checks what callers link under the kind's name; nil accepts any text
}

// ProviderSetup is what a provider is created from. A provider that implements [io.Closer] is
// closed when the configuration no longer uses it.
type ProviderSetup struct {
	Settings json.RawMessage // valid by the kind's schema, with its defaults filled in
	Links    Links           // nil if the yard has no store
	Private  []netip.Prefix  // private networks that may be reached
	Now      func() time.Time
	Log      *slog.Logger
}

// Links stores the accounts at other services that callers have linked.
type Links interface {
	// Linked returns what the caller has linked as a kind, and "" if there is no link.
	Linked(ctx context.Context, caller toolyard.Caller, kind string) (string, error)
}

// newProviders creates the providers of a configuration, or reuses those of old if their
// settings have not changed.
func (b *assembler) newProviders(c *config.Source, old *assembly) (map[string]toolyard.ContextProvider, error) {
	if old != nil && reflect.DeepEqual(old.Context, c.Context) && reflect.DeepEqual(old.PrivateNetworks, c.PrivateNetworks) {
		return old.providers, nil
	}
	var faults config.Faults
	made := make(map[string]toolyard.ContextProvider)
	for _, kind := range slices.Sorted(maps.Keys(c.Context)) {
		provider, failed := b.newProvider(c, kind)
		if faults = append(faults, failed...); provider != nil {
			made[kind] = provider
		}
	}
	if len(faults) > 0 {
		closeProviders(made, nil)
		return nil, faults
	}
	return made, nil
}

func (b *assembler) newProvider(c *config.Source, kind string) (toolyard.ContextProvider, config.Faults) {
	registered, ok := b.opts.ProviderKinds[kind]
	if !ok {
		kinds := slices.Sorted(maps.Keys(b.opts.ProviderKinds))
		message := "unknown kind of context; this binary has: " + strings.Join(kinds, ", ")
		if near := spelling.Nearest(kind, kinds); near != "" {
			message += fmt.Sprintf(" (did you mean %q?)", near)
		}
		return nil, config.Faults{c.At(toolyard.Problem{Subject: "context." + kind, Message: message}, "context", kind)}
	}
	setup := ProviderSetup{Private: prefixes(c.PrivateNetworks), Now: b.opts.Process.Now, Log: b.log}
	if b.enforcement.store != nil {
		setup.Links = b.enforcement.store
	}
	settings, issues, err := registered.Settings.Complete(context.Background(), c.Context[kind].Settings)
	if err != nil {
		issues = []toolyard.Issue{{Message: err.Error()}}
	}
	if len(issues) > 0 {
		return nil, c.Located(issues, "context", kind)
	}
	setup.Settings = settings
	provider, err := registered.New(setup)
	if err != nil {
		return nil, config.Faults{c.At(toolyard.Problem{Subject: "context", Message: err.Error()}, "context", kind)}
	}
	return provider, nil
}

// closeProviders closes the providers that are not among those still in use.
func closeProviders(providers, inUse map[string]toolyard.ContextProvider) {
	for kind, p := range providers {
		if c, ok := p.(io.Closer); ok && inUse[kind] != p {
			_ = c.Close()
		}
	}
}

// provider returns a lookup of the provider of a kind: one of the program's own, or one of the
// configuration. The lookup returns nil if there is none.
func (b *assembler) provider(a *assembly) func(kind string) toolyard.ContextProvider {
	return func(kind string) toolyard.ContextProvider {
		if p, ok := b.opts.Providers[kind]; ok {
			return p
		}
		if p, ok := a.providers[kind]; ok {
			return p
		}
		return nil
	}
}

// checkLink checks what a caller wants to link as a kind.
func (o *Options) checkLink(kind, value string) error {
	if k := o.ProviderKinds[kind]; k.CheckLink != nil {
		return k.CheckLink(value)
	}
	return nil
}
