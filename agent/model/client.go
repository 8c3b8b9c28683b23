package model

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/trust/outbound"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// Limits for responses.
const (
	MaxResponse = 16 << 20 // bytes in a response
	MaxEvent    = 1 << 20  // bytes in one event, and in one call's arguments
	MaxCalls    = 64       // calls in a turn

	maxParts   = 4096     // parts of a turn: texts, calls and opaque parts
	maxFailure = 64 << 10 // bytes of an error response to read
	maxMessage = 500      // bytes of a provider's error message to show
	maxDrain   = 4 << 10  // bytes to read after the last event

	maxDrainTime = 100 * time.Millisecond
)

// Default values for [Options].
const (
	DefaultMaxOutput   = 8192
	DefaultIdle        = 60 * time.Second
	defaultConnections = 16
)

// Options configure a [Client].
type Options struct {
	API   API
	URL   string // base URL; defaults to the provider's. Required for [Chat]
	Model string // the provider's name for the model
	Key   string `json:"-"` // API key; empty if the server needs none

	MaxOutput      int           // tokens per turn; defaults to [DefaultMaxOutput]
	MaxTokensField string        // for [Chat]: "max_tokens" if the server does not support "max_completion_tokens"
	Idle           time.Duration // longest wait for more bytes; defaults to [DefaultIdle]
	Connections    int           // number of idle connections to keep; zero for 16

	// Private permits plain HTTP, and a URL whose host is localhost, a private address, or a name
	// that resolves to one in Networks. The addresses of cloud metadata services are never
	// permitted.
	Private  bool
	Networks []netip.Prefix // defaults to loopback and RFC 1918
}

// Format implements [fmt.Formatter], so that the key is never printed.
func (o Options) Format(f fmt.State, _ rune) { _, _ = fmt.Fprintf(f, "%s model %s", o.API, o.Model) }

// Client is a [Model] behind an HTTP API.
type Client struct {
	options Options
	wire    wire
	url     *url.URL
	header  http.Header
	server  *outbound.ServerClient
}

// wire is a wire format.
type wire struct {
	base   string                                // the provider's URL
	path   func(model string) string             // appended to the base URL
	query  string                                // query added to the URL
	auth   func(key string) (name, value string) // returns the header that carries the key
	fixed  map[string]string                     // additional headers
	encode func(o *Options, r *Request) []byte   // encodes a validated request
	decode func(b *builder) decoder              // returns a decoder for a response
}

// decoder decodes the events of one response.
type decoder interface {
	// event decodes one event. It reports whether it was the last one.
	event(data []byte) (last bool, err error)
	// end is called when the stream ends before a last event.
	end() error
}

var wires = map[API]wire{Anthropic: anthropicWire, OpenAI: responsesWire, Chat: chatWire, Gemini: geminiWire}

// New creates a client. It does not send anything.
func New(o Options) (*Client, error) {
	w, ok := wires[o.API]
	if !ok {
		return nil, fmt.Errorf("unknown model API %s; use anthropic, openai, chat or gemini", untrusted.Quote(string(o.API)))
	}
	if o.Model == "" {
		return nil, errors.New("the model name is missing")
	}
	if o.MaxTokensField != "" && o.API != Chat {
		return nil, fmt.Errorf("maxTokensField applies only to the chat API, not to %s", o.API)
	}
	if strings.ContainsFunc(o.Key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("the API key contains a character that HTTP headers do not allow")
	}
	if o.URL == "" && (w.base == "" || o.Key == "") {
		return nil, fmt.Errorf("the %s API requires an API key, or the URL of a server that does not require one", o.API)
	}
	setDefault(&o.URL, w.base)
	setDefault(&o.MaxOutput, DefaultMaxOutput)
	setDefault(&o.MaxTokensField, "max_completion_tokens")
	setDefault(&o.Idle, DefaultIdle)
	setDefault(&o.Connections, defaultConnections)
	base, err := baseURL(&o)
	if err != nil {
		return nil, err
	}
	server, err := outbound.NewServerClient(base, network(&o), o.Connections)
	if err != nil {
		return nil, fmt.Errorf("model URL: %w", err)
	}
	c := &Client{options: o, wire: w, server: server, url: base.JoinPath(w.path(o.Model))}
	if w.query != "" {
		c.url.RawQuery = strings.TrimPrefix(base.RawQuery+"&"+w.query, "&")
	}
	c.header = http.Header{"Content-Type": {"application/json"}, "Accept": {"text/event-stream"}, "User-Agent": {"toolyard"}}
	for name, value := range w.fixed {
		c.header.Set(name, value)
	}
	if o.Key != "" {
		c.header.Set(w.auth(o.Key))
	}
	return c, nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// baseURL parses the URL and refuses addresses that require [Options.Private].
func baseURL(o *Options) (*url.URL, error) {
	base, err := url.Parse(o.URL)
	if err != nil {
		return nil, errors.New("the model URL cannot be parsed") // the parse error contains the URL, which may contain a key
	}
	if o.Private {
		return base, nil
	}
	if base.Scheme == "http" {
		return nil, errors.New("the model URL must use https; plain HTTP is allowed only for private servers, with private: true")
	}
	host := base.Hostname()
	if _, err := netip.ParseAddr(host); err == nil || host == "localhost" {
		return nil, fmt.Errorf("%s is not a public host name; for a private server, set private: true", untrusted.Quote(host))
	}
	return base, nil
}

func network(o *Options) outbound.Network {
	switch {
	case !o.Private:
		return outbound.Network{}
	case o.Networks != nil:
		return outbound.Network{Private: o.Networks}
	}
	var list []netip.Prefix
	for _, text := range []string{"127.0.0.0/8", "::1/128", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"} {
		list = append(list, netip.MustParsePrefix(text))
	}
	return outbound.Network{Private: list}
}

// Format implements [fmt.Formatter], so that the key is never printed.
func (c *Client) Format(f fmt.State, verb rune) { c.options.Format(f, verb) }

// Close closes idle connections.
func (c *Client) Close() { c.server.Close() }

// Turn implements [Model]. If a request fails before the response begins, it is sent up to three
// times.
func (c *Client) Turn(ctx context.Context, r *Request, on func(Event)) (*Turn, error) {
	if err := c.check(r); err != nil {
		return nil, err
	}
	if on == nil {
		on = func(Event) {}
	}
	body := c.wire.encode(&c.options, r)
	for attempt := 0; ; attempt++ {
		turn, failure := c.attempt(ctx, body, on)
		if failure == nil {
			return turn, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("model request: %w", context.Cause(ctx))
		}
		failure.Message = c.clean(failure.Message)
		failure.Code = c.clean(failure.Code)
		if !failure.retry || attempt == maxRetries || !sleep(ctx, failure.RetryAfter, attempt) {
			if ctx.Err() != nil {
				return nil, fmt.Errorf("model request: %w", context.Cause(ctx))
			}
			return nil, failure
		}
	}
}

// clean prepares a provider's text for an error message.
func (c *Client) clean(text string) string {
	if c.options.Key != "" {
		text = strings.ReplaceAll(text, c.options.Key, "[key]")
	}
	return untrusted.Truncate(untrusted.Printable(text), maxMessage)
}

// errNoResponse is the cancellation cause if no response begins in time.
var errNoResponse = errors.New("the server did not respond in time")

// attempt sends the request once.
func (c *Client) attempt(ctx context.Context, body []byte, on func(Event)) (*Turn, *Error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(c.options.Idle, func() { cancel(errNoResponse) })
	defer timer.Stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url.String(), bytes.NewReader(body))
	if err != nil {
		return nil, fail(Invalid, "%v", err)
	}
	req.Header = c.header.Clone()
	res, err := c.server.Do(req, outbound.Limits{Body: MaxResponse, Idle: c.options.Idle})
	timer.Stop()
	if err != nil {
		if errors.Is(context.Cause(ctx), errNoResponse) {
			err = errNoResponse
		}
		return nil, sendFailure(err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return nil, statusFailure(res)
	}
	if err := requireEventStream(res); err != nil {
		return nil, err
	}
	turn, failure := read(res.Body, c.options.API, c.wire.decode, len(body), on)
	if failure == nil && res.ProtoMajor == 1 {
		drain(res.Body, func() { cancel(nil) })
	}
	return turn, failure
}

// drain reads the end of a complete response, so that the connection can be reused. If the server
// sends more or keeps the response open, the connection is closed.
func drain(body io.Reader, cancel func()) {
	timer := time.AfterFunc(maxDrainTime, cancel)
	defer timer.Stop()
	_, _ = io.CopyN(io.Discard, body, maxDrain) // an error closes the connection
}

// check rejects requests that no provider would accept.
func (c *Client) check(r *Request) error {
	names := map[string]bool{}
	for _, f := range r.Tools {
		if err := checkFunction(c.options.API, &f); err != nil {
			return err
		}
		if names[f.Name] {
			return invalid("function %s is declared twice", f.Name)
		}
		names[f.Name] = true
	}
	if len(r.Messages) == 0 {
		return invalid("the conversation is empty")
	}
	var open []FunctionCall // calls that have no answer yet
	for i, m := range r.Messages {
		if len(open) > 0 && !slices.EqualFunc(m.Answers, open, func(a Answer, f FunctionCall) bool { return a.ID == f.ID }) {
			return invalid("message %d must answer the previous turn's %d calls in order", i, len(open))
		}
		switch {
		case m.Turn != nil && m.Text == "" && m.Answers == nil:
			open = m.Turn.Calls
		case m.Text != "" && m.Turn == nil && m.Answers == nil:
		case len(open) > 0 && m.Text == "" && m.Turn == nil:
			open = nil
		default:
			return invalid("message %d must be text, a turn, or the answers to the previous turn's calls", i)
		}
	}
	if len(open) > 0 {
		return invalid("the last %d calls have no answers", len(open))
	}
	return nil
}

const maxName = 64 // in bytes

func checkFunction(api API, f *Function) error {
	letter := func(c rune) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' }
	wrong := func(c rune) bool { return !letter(c) && c != '-' && (c < '0' || c > '9') }
	switch {
	case f.Name == "" || len(f.Name) > maxName || strings.ContainsFunc(f.Name, wrong),
		api == Gemini && !letter(rune(f.Name[0])):
		return invalid("%s is not a valid function name: use 1 to %d letters, digits, _ and -, starting with a letter", untrusted.Quote(f.Name), maxName)
	case f.Parameters != nil && !isObject(f.Parameters):
		return invalid("the parameters of %s must be a JSON Schema of type object", f.Name)
	}
	return nil
}

func invalid(format string, args ...any) error {
	return fail(Invalid, format, args...)
}
