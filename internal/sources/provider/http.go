// Package provider implements context providers that any operator can configure: HTTP requests with
// a templated URL and headers. It also contains the cache that providers share.
package provider

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/outbound"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

// Limits on requests and responses.
const (
	maxBody       = 1 << 20
	connections   = 8
	maxHeaders    = 32
	maxRetryAfter = time.Minute
	maxAge        = 5 * time.Minute // maximum age of an as-of time if it is not sent to the service
)

// HTTPOptions configures an HTTP provider.
type HTTPOptions struct {
	Kind    string
	URL     string            // may contain placeholders in the path and the query
	Headers map[string]string // values may contain placeholders
	Pointer string            // JSON Pointer to the object in the response; empty for the whole response
	Timeout time.Duration     // for the whole request
	Cache   time.Duration     // how long a caller's response is cached; zero disables caching

	Links   Links                                     // nil if links are not stored
	Expand  func(header, text string) (string, error) // replaces references to secrets in a header; may be nil
	Private []netip.Prefix                            // private networks that the provider may reach
	Now     func() time.Time
	Log     *slog.Logger
}

// HTTP provides context with a GET request for each caller.
type HTTP struct {
	opts    HTTPOptions
	url     urlTemplate
	headers map[string]template
	names   []string // names of all placeholders, sorted
	pointer []string
	client  *outbound.ServerClient
	cache   *Cache
	failing atomic.Bool
}

// Fault is a problem with an option.
type Fault struct {
	Option  []string
	Message string
}

func (f *Fault) Error() string { return strings.Join(f.Option, ".") + ": " + f.Message }

// NewHTTP returns a provider. Errors have type *Fault.
func NewHTTP(o HTTPOptions) (*HTTP, error) {
	p := &HTTP{opts: o, headers: make(map[string]template, len(o.Headers)), cache: NewCache(o.Cache, o.Now)}
	var server *url.URL
	var err error
	if p.url, server, err = parseURL(o.URL, o.Kind); err == nil {
		p.client, err = outbound.NewServerClient(server, outbound.Network{Private: o.Private}, connections)
	}
	if err != nil {
		return nil, &Fault{[]string{"url"}, err.Error()}
	}
	if len(o.Headers) > maxHeaders {
		return nil, &Fault{[]string{"headers"}, fmt.Sprintf("must have at most %d members", maxHeaders)}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Headers)) {
		err := checkHeader(name, o.Headers[name])
		if err == nil {
			p.headers[name], err = parseTemplate(o.Headers[name], o.Kind)
		}
		if err != nil {
			return nil, &Fault{[]string{"headers", name}, err.Error()}
		}
	}
	if p.pointer, err = parsePointer(o.Pointer); err != nil {
		return nil, &Fault{[]string{"pointer"}, err.Error()}
	}
	p.names = p.placeholders()
	return p, nil
}

// reservedHeaders are the headers that the HTTP client sets itself.
var reservedHeaders = []string{"Host", "Content-Length", "Transfer-Encoding", "Connection", "Accept-Encoding", "Upgrade", "Te", "Trailer", "Keep-Alive", "Proxy-Connection"}

var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

func checkHeader(name, value string) error {
	switch {
	case !headerName.MatchString(name):
		return errors.New("is not a valid header name")
	case slices.Contains(reservedHeaders, http.CanonicalHeaderKey(name)):
		return errors.New("cannot be set: the HTTP client controls it")
	case !isHeaderValue(value):
		return errors.New("must be printable ASCII")
	}
	return nil
}

func (p *HTTP) placeholders() []string {
	names := make(map[string]bool)
	for _, t := range append(slices.Collect(maps.Values(p.headers)), p.url.template) {
		for _, one := range t {
			if one.placeholder {
				names[one.text] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// LinkNames returns the names of the links that a URL and headers refer to.
func LinkNames(kind, url string, headers map[string]string) []string {
	names := make(map[string]bool)
	for _, text := range append(slices.Collect(maps.Values(headers)), url) {
		t, err := parseTemplate(text, kind)
		if err != nil {
			continue
		}
		for _, p := range t {
			if name, ok := strings.CutPrefix(p.text, link+"."); ok && p.placeholder {
				names[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// Close closes idle connections.
func (p *HTTP) Close() error {
	p.client.Close()
	return nil
}

// Provide implements [toolyard.ContextProvider].
func (p *HTTP) Provide(ctx context.Context, caller toolyard.Caller, asOf time.Time) (json.RawMessage, error) {
	if !slices.Contains(p.names, asOfTime) && p.opts.Now().Sub(asOf) > maxAge {
		return nil, toolyard.Errorf(toolyard.NoData, "Context %s is not available for a time in the past.", p.opts.Kind)
	}
	v, err := resolve(ctx, p.names, p.opts.Kind, caller, asOf, p.opts.Links)
	if err != nil {
		return nil, err
	}
	data, err := p.cache.Get(ctx, p.key(caller, v), func(ctx context.Context) (json.RawMessage, error) {
		ctx, cancel := context.WithTimeout(ctx, p.opts.Timeout)
		defer cancel()
		data, err := p.fetch(ctx, v)
		p.report(ctx, err)
		return data, err
	})
	if err != nil {
		own := *toolyard.AsError(err) // the error is shared by all requests that waited for it
		return nil, &own
	}
	return bytes.Clone(data), nil
}

// key identifies a caller's request.
func (p *HTTP) key(caller toolyard.Caller, v values) string {
	parts := []string{caller.Account, caller.ID}
	for _, name := range p.names {
		parts = append(parts, v[name])
	}
	return fmt.Sprintf("%q", parts)
}

// report logs when the service starts failing and when it recovers. Canceled requests and callers
// with no data don't count either way.
func (p *HTTP) report(ctx context.Context, err error) {
	var e *toolyard.Error
	switch {
	case errors.Is(ctx.Err(), context.Canceled) || errors.As(err, &e) && e.Code == toolyard.NoData:
	case err == nil:
		if p.failing.Swap(false) {
			p.opts.Log.Info("context provider recovered", "kind", p.opts.Kind)
		}
	case !p.failing.Swap(true):
		p.opts.Log.Warn("context provider is failing", "kind", p.opts.Kind, "error", err, "cause", errors.Unwrap(err))
	}
}

// fetch sends the request and returns the object at the pointer.
func (p *HTTP) fetch(ctx context.Context, v values) (json.RawMessage, error) {
	req, err := p.request(ctx, v)
	if err != nil {
		return nil, err
	}
	res, err := p.client.Do(req, outbound.Limits{Body: maxBody, Idle: p.opts.Timeout})
	if err != nil {
		return nil, p.explain(ctx, err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return nil, p.refused(res)
	}
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, p.explain(ctx, err)
	}
	if err := strictjson.Check(answer); err != nil {
		return nil, p.unavailable("its response is not valid JSON", err)
	}
	return p.find(bytes.TrimSpace(answer))
}

func (p *HTTP) request(ctx context.Context, v values) (*http.Request, error) {
	u, err := p.url.render(v)
	if err != nil {
		return nil, p.unusable(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, p.unavailable("the URL cannot be parsed", nil) // the original error would reveal the URL
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "toolyard")
	for name, t := range p.headers {
		value, err := t.renderHeader(v, func(text string) (string, error) { return p.expand(name, text) })
		if errors.Is(err, errHeaderValue) {
			return nil, p.unusable(err)
		}
		if err != nil {
			return nil, p.unavailable("the secret for header "+name+" cannot be read", err)
		}
		req.Header.Set(name, value)
	}
	return req, nil
}

func (p *HTTP) expand(header, text string) (string, error) {
	if p.opts.Expand == nil {
		return text, nil
	}
	return p.opts.Expand(header, text)
}

// unusable returns the error for a caller whose ID, account or link cannot be part of the request.
func (p *HTTP) unusable(cause error) error {
	return &toolyard.Error{Code: toolyard.NoData, Message: fmt.Sprintf("Context %s cannot be requested: your ID, account or link contains characters that cannot be sent.", p.opts.Kind), Err: cause}
}

// unavailable returns the error for a service that does not respond as expected. The cause is only
// logged, because it may contain text from the service.
func (p *HTTP) unavailable(why string, cause error) *toolyard.Error {
	return &toolyard.Error{Code: toolyard.Unavailable, Message: fmt.Sprintf("Context %s is unavailable: %s.", p.opts.Kind, why), Err: cause}
}

func (p *HTTP) explain(ctx context.Context, err error) error {
	if _, ok := errors.AsType[*outbound.TooLargeError](err); ok {
		return p.unavailable(fmt.Sprintf("the response exceeds %d bytes", maxBody), err)
	}
	if ctx.Err() != nil || errors.Is(err, outbound.ErrIdle) {
		return p.unavailable(fmt.Sprintf("its service did not respond within %v", p.opts.Timeout), err)
	}
	return p.unavailable("its service is unreachable", err)
}

// refused returns the error for a status other than 200. Status 404 means that the service has no
// data about the caller.
func (p *HTTP) refused(res *http.Response) error {
	if res.StatusCode == http.StatusNotFound {
		return p.nothing()
	}
	err := p.unavailable(fmt.Sprintf("its service responded with status %d", res.StatusCode), nil)
	err.RetryAfter = cmp.Or(outbound.RetryAfter(res.Header, time.Now(), maxRetryAfter), err.RetryAfter)
	return err
}

func (p *HTTP) nothing() error {
	return toolyard.Errorf(toolyard.NoData, "Context %s has no data for you.", p.opts.Kind)
}

// find returns the object at the pointer.
func (p *HTTP) find(answer json.RawMessage) (json.RawMessage, error) {
	value := answer
	for _, step := range p.pointer {
		if value = child(value, step); value == nil {
			return nil, p.unavailable("its response has no "+p.opts.Pointer, nil)
		}
	}
	switch {
	case string(value) == "null":
		return nil, p.nothing()
	case len(value) == 0 || value[0] != '{':
		return nil, p.unavailable("its response is not an object", nil)
	}
	return bytes.Clone(value), nil // don't keep the rest of the response in memory
}

// child returns a member of an object or an item of an array, or nil if it does not exist.
func child(value json.RawMessage, step string) json.RawMessage {
	if len(value) > 0 && value[0] == '[' {
		var items []json.RawMessage
		i, err := strconv.ParseUint(step, 10, 31)
		if err != nil || strconv.FormatUint(i, 10) != step || json.Unmarshal(value, &items) != nil || i >= uint64(len(items)) {
			return nil
		}
		return bytes.TrimSpace(items[i])
	}
	return bytes.TrimSpace(strictjson.Member(value, step))
}

const maxPointer = 32 // maximum number of steps

// parsePointer parses a JSON Pointer (RFC 6901).
func parsePointer(text string) (steps []string, err error) {
	if text == "" {
		return nil, nil
	}
	if text[0] != '/' {
		return nil, errors.New("must be a JSON Pointer such as /data")
	}
	for step := range strings.SplitSeq(text[1:], "/") {
		rest := strings.ReplaceAll(strings.ReplaceAll(step, "~0", ""), "~1", "")
		if strings.Contains(rest, "~") {
			return nil, errors.New("must be a JSON Pointer: write ~ as ~0, and / within a name as ~1")
		}
		steps = append(steps, strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~"))
	}
	if len(steps) > maxPointer {
		return nil, fmt.Errorf("must have at most %d segments", maxPointer)
	}
	return steps, nil
}
