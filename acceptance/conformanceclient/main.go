// Command conformanceclient is the client that the MCP conformance suite tests. It uses package
// upstream, as a yard does: it calls every tool, reads every resource and gets every prompt of the
// server at the given URL, and answers questions with the defaults.
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
	s, err := upstream.New(upstream.Options{
		ID: "suite", URL: url, Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
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
			if s.Up() {
				return use(ctx, s, tools)
			}
		case <-ctx.Done():
			return errors.New("the server was never up")
		}
	}
}

// use calls everything that a server offers. It reports failures and continues, because some
// scenarios expect a refusal.
func use(ctx context.Context, s *upstream.Server, tools []*toolyard.Tool) error {
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
		res, err := converse(ctx, fmt.Sprint("call-", i), c)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", c.tool.Name, err)
			continue
		}
		text, _ := json.Marshal(res) // can always be encoded
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
		panic(err) // can always be encoded
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
func converse(ctx context.Context, id string, p plan) (*toolyard.Result, error) {
	c := &toolyard.Call{ID: id, Tool: p.tool, Args: p.args, Request: toolyard.Request{ClientCapabilities: json.RawMessage(`{"elicitation":{"form":{}}}`)}}
	for range 10 {
		calling, cancel := context.WithTimeout(ctx, upstream.DefaultTimeout)
		res, err := c.Tool.Run(calling, c)
		cancel()
		if err != nil || !res.InputRequired() {
			return res, err
		}
		if err := answer(c, res.Raw()); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("it never stops asking")
}
