package yard

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/serve/httpapi"
	"github.com/toolyard/toolyard/internal/serve/mcpserver"
)

// apiV1 is the HTTP API beside MCP. Without a store it has nothing to tell of money.
func (y *Yard) apiV1(c *config.Source) http.Handler {
	o := httpapi.Options{
		Identify: y.identify, Yard: people{y}, Live: y.live, Execute: y.execute, MaxBody: int64(c.Limits.Body), Now: y.opts.Now, Log: y.log,
		Gates: func() []*toolyard.Gate { return y.config.Load().gates }, CheckLink: y.checkLink,
	}
	if s := y.contract.store; s != nil {
		o.Seal = y.seal
		o.Ledger, o.Purses, o.Calls, o.Links, o.Changes = s, s, s, s, s
		if y.opts.Identify == nil { // otherwise nobody would look at them
			o.Keys = s
		}
	}
	return httpapi.V1(o)
}

// sealWithin is how long the store may take to say what is sealed with.
const sealWithin = 5 * time.Second

// sealKey is the key that all replicas seal with what others keep for them: cookies, and the
// states of tools that ask something. Without a store, or if it is away when the first is sealed,
// this one has a key of its own until it ends.
func (y *Yard) sealKey() (key httpapi.SealKey) {
	s := y.contract.store
	if s == nil {
		return httpapi.NewSealKey()
	}
	ctx, cancel := context.WithTimeout(context.Background(), sealWithin)
	defer cancel()
	body, version, err := s.Document(ctx, sealDocument)
	if err == nil && version == 0 {
		fresh := httpapi.NewSealKey()
		_, made := s.SetDocument(ctx, sealDocument, fresh[:], 0) // unless another replica is faster
		body, _, err = s.Document(ctx, sealDocument)
		err = errors.Join(err, made)
	}
	if len(body) != len(key) {
		y.log.Warn("people may have to sign in at each replica, and to answer the one that asks", "error", err)
		return httpapi.NewSealKey()
	}
	return httpapi.SealKey(body)
}

// execute makes a call for somebody who asks over HTTP, on the same path as every other.
func (y *Yard) execute(ctx context.Context, r httpapi.ExecuteRequest) (done httpapi.Execution, err error) {
	v, ok := y.View(r.Gate)
	switch {
	case !ok && r.Gate == "":
		return done, toolyard.Errorf(toolyard.Invalid, "Say which gate to go through: %s.", strings.Join(y.Gates(), ", "))
	case !ok:
		return done, toolyard.Errorf(toolyard.NotFound, "There is no gate %s.", r.Gate)
	}
	if err := y.mayEnter(r.Caller, v.Gate); err != nil {
		return done, err
	}
	if _, known := v.Lookup(r.Tool); !known {
		return done, unknownTool(v, r.Tool)
	}
	request := &mcpserver.Request{
		Tool: r.Tool, Args: r.Args, Caller: r.Caller, Session: r.Session, Key: r.Key, Answers: r.Answers, State: r.State,
	}
	if r.Interactive {
		request.Features = mcpserver.Answerable
	}
	reply, err := y.server.Do(ctx, v.Gate.Name, request)
	done.Call, done.Result = reply.Call, reply.Result
	if reply.Asks != nil {
		done.Asks = asksOf(reply.Asks)
	}
	return done, err
}

// asksOf is what a tool asks, as the API tells it.
func asksOf(asks *mcpserver.Asks) *httpapi.Asks {
	questions := make(map[string]httpapi.Question, len(asks.Questions))
	for key, q := range asks.Questions {
		questions[key] = httpapi.Question(q)
	}
	return &httpapi.Asks{Questions: questions, State: asks.State}
}

// unknownTool says what a tool is called at a gate that somebody calls by another name.
func unknownTool(v *toolyard.View, name string) error {
	names := make([]string, 0, len(v.Tools))
	for _, t := range v.Tools {
		if t.Tool.Name == name {
			return toolyard.Errorf(toolyard.UnknownTool, "The gate %s calls %s %s.", v.Gate.Name, name, t.Name)
		}
		names = append(names, t.Name)
	}
	if near := toolyard.Nearest(name, names); near != "" {
		return toolyard.Errorf(toolyard.UnknownTool, "The gate %s shows no tool %s; did you mean %s?", v.Gate.Name, name, near)
	}
	return toolyard.Errorf(toolyard.UnknownTool, "The gate %s shows no tool %s.", v.Gate.Name, name)
}

// guarded lets only those see a catalog who may enter its gate.
func (y *Yard) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if v, ok := y.View(r.URL.Query().Get("gate")); ok {
			if _, err := y.admit(r, v.Gate); err != nil {
				mcpserver.Refuse(w, r, err)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}
