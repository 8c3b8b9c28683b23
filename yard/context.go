package yard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/netip"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/spelling"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/sources/provider"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
	"github.com/toolyard/toolyard/script"
)

// ProviderKind is a kind of context that the configuration can enable: context: {KIND: {...}}.
type ProviderKind struct {
	Settings  *toolyard.Schema // schema of the kind's section in the configuration
	New       func(ProviderSetup) (toolyard.ContextProvider, error)
	CheckLink func(value string) error // validates the values that callers link under the kind's name; nil accepts any text
}

// ProviderSetup contains everything needed to create a provider. A provider that implements
// [io.Closer] is closed when the configuration no longer uses it.
type ProviderSetup struct {
	Settings json.RawMessage // valid according to the kind's schema, with defaults filled in
	Links    Links           // nil if the yard has no store
	Private  []netip.Prefix  // private networks that the provider may reach
	Now      func() time.Time
	Log      *slog.Logger
}

// Links stores the accounts that callers have linked at other services.
type Links interface {
	// Linked returns the value that the caller has linked for a kind, or "" if there is none.
	Linked(ctx context.Context, caller toolyard.Caller, kind string) (string, error)
}

// newProviders creates a configuration's providers. Providers whose settings have not changed are
// taken from old.
func (b *assembler) newProviders(c *config.Source, old *assembly) (map[string]toolyard.ContextProvider, error) {
	var faults config.Faults
	made := make(map[string]toolyard.ContextProvider)
	for _, kind := range slices.Sorted(maps.Keys(c.Context)) {
		if old != nil && old.providers[kind] != nil && sameProvider(old.Source, c, kind) {
			made[kind] = old.providers[kind]
			continue
		}
		provider, failed := b.newProvider(c, kind)
		if faults = append(faults, failed...); len(failed) == 0 {
			made[kind] = provider
		}
	}
	if len(faults) > 0 {
		var inUse map[string]toolyard.ContextProvider
		if old != nil {
			inUse = old.providers
		}
		closeProviders(made, inUse)
		return nil, faults
	}
	return made, nil
}

// sameProvider reports whether two configurations have the same provider for a kind.
func sameProvider(a, b *config.Source, kind string) bool {
	return reflect.DeepEqual(a.Context[kind], b.Context[kind]) && reflect.DeepEqual(a.PrivateNetworks, b.PrivateNetworks) &&
		(a.Context[kind].Script == "" || reflect.DeepEqual(a.Scripts, b.Scripts))
}

func (b *assembler) newProvider(c *config.Source, kind string) (toolyard.ContextProvider, config.Faults) {
	section := c.Context[kind]
	if section.HTTP != nil {
		return b.newHTTPProvider(c, kind, section.HTTP)
	}
	if section.Script != "" {
		return b.newScriptProvider(c, kind, &section)
	}
	registered, ok := b.opts.ProviderKinds[kind]
	if !ok {
		return nil, config.Faults{c.At(toolyard.Problem{Subject: "context." + kind, Message: b.unknownKind(kind, section.Settings)}, "context", kind)}
	}
	settings, issues, err := registered.Settings.Complete(context.Background(), section.Settings)
	if err != nil {
		issues = []toolyard.Issue{{Message: err.Error()}}
	}
	if len(issues) > 0 {
		return nil, c.Located(issues, "context", kind)
	}
	setup := ProviderSetup{Settings: settings, Private: config.Prefixes(c.PrivateNetworks), Now: b.opts.Process.Now, Log: b.log}
	if b.enforcement.store != nil {
		setup.Links = b.enforcement.store
	}
	p, err := registered.New(setup)
	if err != nil {
		return nil, config.Faults{c.At(toolyard.Problem{Subject: "context", Message: err.Error()}, "context", kind)}
	}
	return p, nil
}

// unknownKind explains that a section's kind has no provider.
func (b *assembler) unknownKind(kind string, settings json.RawMessage) string {
	message := "set http or script"
	if kinds := slices.Sorted(maps.Keys(b.opts.ProviderKinds)); len(kinds) > 0 {
		message += "; only these kinds require neither: " + strings.Join(kinds, ", ")
		if near := spelling.Nearest(kind, kinds); near != "" {
			return message + spelling.Hint(near)
		}
	}
	var keys map[string]json.RawMessage
	_ = json.Unmarshal(settings, &keys) // cannot fail: settings is an object
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if near := spelling.Nearest(key, []string{"http", "script"}); near != "" {
			return fmt.Sprintf("%s; unknown key %q%s", message, key, spelling.Hint(near))
		}
	}
	return message
}

func (b *assembler) newHTTPProvider(c *config.Source, kind string, h *config.HTTPContext) (toolyard.ContextProvider, config.Faults) {
	o := provider.HTTPOptions{
		Kind: kind, URL: h.URL, Headers: h.Headers, Pointer: h.Pointer, Timeout: h.Timeout.Std(), Cache: h.Cache.Std(),
		Private: config.Prefixes(c.PrivateNetworks), Now: b.opts.Process.Now, Log: b.log,
		Expand: func(header, text string) (string, error) {
			return b.expandHeader(header, text, h.Headers[header] == text)
		},
	}
	if b.enforcement.store != nil {
		o.Links = b.enforcement.store.Linked
	}
	p, err := provider.NewHTTP(o)
	if fault, ok := errors.AsType[*provider.Fault](err); ok {
		at := append([]string{"context", kind, "http"}, fault.Option...)
		return nil, config.Faults{c.At(toolyard.Problem{Subject: strings.Join(at, "."), Message: fault.Message}, at...)}
	}
	if err != nil {
		return nil, config.Faults{c.At(toolyard.Problem{Subject: "context." + kind, Message: err.Error()}, "context", kind)}
	}
	return p, nil
}

// newScriptProvider returns a provider that runs a TypeScript file. It has the same limits as
// TypeScript tools.
func (b *assembler) newScriptProvider(c *config.Source, kind string, section *config.Context) (toolyard.ContextProvider, config.Faults) {
	limits := c.Scripts
	if limits == nil {
		limits = &config.Scripts{}
	}
	var links func(context.Context, toolyard.Caller) (map[string]string, error)
	if b.enforcement.store != nil {
		links = b.enforcement.store.Links
	}
	p, err := script.NewProvider(kind, b.beside(section.Script), script.Options{
		Base: filepath.Dir(b.opts.ConfigFile), Grants: map[string]script.Grant{"*": grantOf(section.Grants)}, Private: config.Prefixes(c.PrivateNetworks),
		Memory: int(limits.Memory), CPU: limits.CPU.Std(), Workers: limits.Workers, CacheDir: b.opts.Scripts.Cache,
		Log: b.log, Getenv: b.opts.Process.Getenv,
	}, links)
	if err != nil {
		return nil, config.Faults{c.At(toolyard.Problem{Subject: "context." + kind, Message: err.Error()}, "context", kind, "script")}
	}
	return p, nil
}

// addProviderSources adds the providers that load a file: the catalog runs them and reports their
// problems.
func (a *assembly) addProviderSources() {
	for kind, p := range a.providers {
		if s, ok := p.(toolyard.Source); ok {
			a.sources["context "+kind] = s
		}
	}
}

// expandHeader replaces secret references in a header's text. If whole is set, the text is the
// header's entire value; it is redacted if the header's name suggests a secret.
func (b *assembler) expandHeader(header, text string, whole bool) (string, error) {
	vault := b.secrets.vault.Load()
	value, isSecret, err := vault.Expand(text)
	if err != nil {
		return "", err
	}
	if !isSecret && whole && config.LooksSecret(header) {
		vault.Hide(value.Reveal())
	}
	return value.Reveal(), nil
}

// closeProviders closes the providers that are no longer in use.
func closeProviders(providers, inUse map[string]toolyard.ContextProvider) {
	for kind, p := range providers {
		if c, ok := p.(io.Closer); ok && !sameInstance(inUse[kind], p) {
			_ = c.Close()
		}
	}
}

// sameInstance reports whether two providers are the same instance. Providers of a type that cannot
// be compared never are.
func sameInstance(a, b toolyard.ContextProvider) bool {
	return a != nil && b != nil && reflect.TypeOf(a).Comparable() && reflect.TypeOf(b).Comparable() && a == b
}

// provider returns a function that looks up a kind's provider, which is either the program's own or
// a configured one. The function returns nil if there is none.
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

// maxLink limits the size of a linked value, in bytes.
const maxLink = 256

// CheckLink validates a value that a caller wants to link for a kind. Regardless of the kind, it
// must be short and contain no control characters.
func (o *Options) CheckLink(kind, value string) error {
	if value == "" || len(value) > maxLink || untrusted.CheckText(value) != nil || strings.ContainsFunc(value, unicode.IsControl) {
		return fmt.Errorf("must be a string of at most %d bytes", maxLink)
	}
	if k := o.ProviderKinds[kind]; k.CheckLink != nil {
		return k.CheckLink(value)
	}
	return nil
}
