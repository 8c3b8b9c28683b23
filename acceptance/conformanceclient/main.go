// Command conformanceclient is the client that the MCP conformance suite tests. It uses package
// upstream, as a yard does: it calls every tool, reads every resource and renders every prompt of
// the server at the given URL, and answers questions with the defaults. In authorization scenarios,
// it uses package serverauth and signs in like a person with a browser.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/upstream"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 25*time.Second)
	defer cancel()
	if err := run(ctx, os.Args[len(os.Args)-1]); err != nil {
		fmt.Fprintln(os.Stderr, "conformanceclient:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, url string) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	o := upstream.Options{ID: "suite", URL: url, Log: log}
	u, err := authorize(ctx, &o)
	if err != nil {
		return err
	}
	s, err := upstream.New(o)
	if err != nil {
		return err
	}
	offers := make(chan []*toolyard.Tool, 100)
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { _ = s.Run(ctx, func(offer toolyard.Offer) { offers <- offer.Tools }) })
	defer running.Wait()
	defer stop()
	for {
		select {
		case tools := <-offers:
			switch {
			case s.Up():
				return use(ctx, s, tools, u)
			case u != nil:
				if err := u.reconnect(ctx); err != nil {
					return err
				}
				s.Refresh()
			}
		case <-ctx.Done():
			return errors.New("the server was never up")
		}
	}
}

// use uses everything that a server offers. It reports failures and continues, because some
// scenarios expect a refusal.
func use(ctx context.Context, s *upstream.Server, tools []*toolyard.Tool, u *user) error {
	calls, err := planned(tools)
	if err != nil {
		return err
	}
	for _, r := range s.Resources() {
		if !r.Template {
			calls = append(calls, planOf(r.Reader, map[string]any{"uri": r.URI}))
		}
	}
	for _, p := range s.Prompts() {
		calls = append(calls, planOf(p.Getter, map[string]any{"name": p.Name, "arguments": map[string]any{}}))
	}
	for i, c := range calls {
		res, err := converse(ctx, fmt.Sprint("call-", i), c, u)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", c.tool.Name, err)
			continue
		}
		text, _ := json.Marshal(res) // cannot fail
		fmt.Fprintf(os.Stderr, "%s: %.300s\n", c.tool.Name, text)
	}
	return nil
}

// plan is a planned call.
type plan struct {
	tool *toolyard.Tool
	args json.RawMessage
}

func planOf(t *toolyard.Tool, args map[string]any) plan {
	data, err := json.Marshal(args)
	if err != nil {
		panic(err) // cannot happen
	}
	return plan{t, data}
}

// planned returns the calls that the scenario requires, or one call for each tool.
func planned(tools []*toolyard.Tool) (calls []plan, err error) {
	var scenario struct {
		ToolCalls []struct {
			Name      string
			Arguments json.RawMessage
		}
	}
	if text := os.Getenv("MCP_CONFORMANCE_CONTEXT"); text != "" {
		if err := json.Unmarshal([]byte(text), &scenario); err != nil {
			return nil, err
		}
	}
	byName := make(map[string]*toolyard.Tool)
	for _, t := range tools {
		byName[t.Name] = t
	}
	for _, c := range scenario.ToolCalls {
		if t := byName[c.Name]; t != nil {
			calls = append(calls, plan{t, c.Arguments})
		}
	}
	if len(calls) > 0 {
		return calls, nil
	}
	for _, t := range tools {
		calls = append(calls, planOf(t, arguments(t, byName)))
	}
	return calls, nil
}

// converse makes one call and answers all questions until it is done.
func converse(ctx context.Context, id string, p plan, u *user) (*toolyard.Result, error) {
	c := &toolyard.Call{ID: id, Tool: p.tool, Args: p.args, Request: toolyard.Request{ClientCapabilities: json.RawMessage(`{"elicitation":{"form":{}}}`)}}
	if u != nil {
		c.Caller, c.ClientCapabilities = u.caller, json.RawMessage(`{"elicitation":{"form":{},"url":{}}}`)
	}
	for range 10 {
		calling, cancel := context.WithTimeout(ctx, upstream.DefaultTimeout)
		res, err := c.Tool.Run(calling, c)
		cancel()
		if err != nil && u != nil {
			signedIn, failed := u.follow(ctx, err)
			if failed != nil {
				return nil, failed
			}
			if signedIn {
				continue
			}
		}
		if err != nil || !res.InputRequired() {
			return res, err
		}
		if u != nil {
			if signedIn, err := u.answer(ctx, c, res.Raw()); signedIn || err != nil {
				if err != nil {
					return nil, err
				}
				continue
			}
		}
		if err := answer(c, res.Raw()); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("it never stops asking")
}
