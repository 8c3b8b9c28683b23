package config

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/spelling"
	"github.com/toolyard/toolyard/internal/sources/provider"
)

// Context configures where one kind of context comes from: an HTTP service, a TypeScript file, or
// a provider that the program registers for the kind.
type Context struct {
	HTTP     *HTTPContext
	Script   string          // TypeScript file; may be empty
	Grants   Grant           // the script's grants
	Settings json.RawMessage // the whole section, as settings for a registered provider
}

// HTTPContext configures a GET request that returns a service's data about the caller.
type HTTPContext struct {
	URL     string            `json:"url" minLength:"1" maxLength:"4096" doc:"The URL to request. The path and the query can contain {caller.id}, {caller.account}, {link}, {link.NAME} and {asOf}. The values are escaped."`
	Headers map[string]string `json:"headers,omitempty" doc:"Headers to send. Values can contain the same placeholders and ${secret:name}."`
	Pointer string            `json:"pointer,omitempty" maxLength:"1024" doc:"JSON Pointer to the object in the response, such as /data. If omitted, the whole response is used."`
	Timeout Duration          `json:"timeout" default:"2s" doc:"Timeout for the whole request, at most 8s."`
	Cache   Duration          `json:"cache" default:"0s" doc:"How long to reuse a response for the same caller, at most 1h. 0s disables the cache."`
}

// Limits on HTTPContext. The call path waits up to 10 s for all of a call's context.
const (
	maxContextTimeout = 8 * time.Second
	maxContextCache   = time.Hour
)

// contextFields are the keys in a section that does not belong to a registered provider.
type contextFields struct {
	HTTP   *HTTPContext `json:"http,omitempty" doc:"Request the context from an HTTP service."`
	Script string       `json:"script,omitempty" pattern:"^[^*?{}\\[\\]\\\\]+\\.ts$" doc:"The path of a TypeScript file whose default export returns the context, relative to this file."`
	Grants Grant        `json:"grants,omitzero" doc:"What the script can access."`
}

// JSONSchema describes a Context. Other keys are settings for a registered provider, whose own
// schema validates them.
func (Context) JSONSchema() json.RawMessage {
	var schema map[string]any
	_ = json.Unmarshal(toolyard.SchemaFor[contextFields]().JSON(), &schema) // cannot fail: the schema is valid
	delete(schema, "additionalProperties")
	raw, _ := json.Marshal(schema)
	return raw
}

// UnmarshalJSON implements [json.Unmarshaler].
func (c *Context) UnmarshalJSON(data []byte) error {
	var fields contextFields
	if err := json.Unmarshal(data, &fields); err != nil {
		return err
	}
	*c = Context{HTTP: fields.HTTP, Script: fields.Script, Grants: fields.Grants, Settings: slices.Clone(data)}
	return nil
}

// needsStore reports whether the provider reads links, which are in the store.
func (c *Context) needsStore(kind string) bool { return c.Script == "" && len(c.linkNames(kind)) > 0 }

// linkNames returns the names of the links that the provider reads. A script may read any link, but
// is expected to read the link for its own kind.
func (c *Context) linkNames(kind string) []string {
	if c.HTTP != nil {
		return provider.LinkNames(kind, c.HTTP.URL, c.HTTP.Headers)
	}
	return []string{kind}
}

// LinkNames returns the names of the links that the configured context providers read.
func (c *Config) LinkNames() (names []string) {
	for kind, context := range c.Context {
		names = append(names, context.linkNames(kind)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

var contextKind = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

func (c *Config) checkContext(add reportFunc) {
	for _, kind := range slices.Sorted(maps.Keys(c.Context)) {
		at := func(message string, steps ...string) { add(message, append([]string{"context", kind}, steps...)...) }
		if !contextKind.MatchString(kind) {
			at("is not a valid context kind: use letters, digits, dots, - and _")
		}
		context := c.Context[kind]
		context.check(at)
	}
}

func (c *Context) check(add reportFunc) {
	if c.HTTP == nil && c.Script == "" {
		return // the registered provider's schema decides
	}
	if c.HTTP != nil && c.Script != "" {
		add("sets both http and script; remove one")
	}
	var keys map[string]json.RawMessage
	_ = json.Unmarshal(c.Settings, &keys) // cannot fail: it is an object
	known := []string{"http", "script", "grants"}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		switch {
		case !slices.Contains(known, key):
			add("is unknown"+spelling.DidYouMean(key, known), key)
		case key == "grants" && c.Script == "":
			add("has no effect without script", key)
		}
	}
	if h := c.HTTP; h != nil {
		if h.Timeout <= 0 || h.Timeout.Std() > maxContextTimeout {
			add("must be more than 0s and at most 8s", "http", "timeout")
		}
		if h.Cache < 0 || h.Cache.Std() > maxContextCache {
			add("must be 0s to 1h", "http", "cache")
		}
	}
}
