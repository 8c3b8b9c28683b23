package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// askCommand sends a query to an agent on a running server.
type askCommand struct {
	*app
	url, agent, shape, key string
	tools                  []string
	asJSON                 bool
}

func newAskCommand(a *app) *cobra.Command {
	c := &askCommand{app: a}
	cmd := &cobra.Command{
		Use:   "ask QUESTION",
		Short: "Ask an agent on a running server",
		Long:  "Ask an agent on a running server and print its answer, the evidence and the cost. The API key is read from the TOOLYARD_KEY environment variable.",
		Args:  cobra.ExactArgs(1),
		Example: `  toolyard ask "What is the VAT rate in France?"
  toolyard ask --agent librarian --json "What is the VAT rate in France?"`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args[0]) },
	}
	cmd.Flags().StringVar(&c.url, "url", "", "URL of the server (default: $TOOLYARD_URL, or the configured address)")
	cmd.Flags().StringVar(&c.agent, "agent", "", "agent to ask (default: the first agent that any gate offers)")
	cmd.Flags().StringVar(&c.shape, "shape", "answer_with_evidence", "what the response contains: answer, answer_with_evidence or evidence_only")
	cmd.Flags().StringSliceVar(&c.tools, "tools", nil, "let the agent use only these tools")
	cmd.Flags().StringVar(&c.key, "idempotency-key", "", "idempotency key: at most one query runs with this key")
	cmd.Flags().BoolVar(&c.asJSON, "json", false, "print the full response as JSON")
	return cmd
}

// askedEvent is an event in a query's stream.
type askedEvent struct {
	Type   string
	Status string
	Tool   struct{ Name string }
	Result json.RawMessage
	Error  string
	Code   toolyard.Code
}

// askedResult is the part of a response that is printed.
type askedResult struct {
	Response, OutcomeType string
	CapabilityMiss        struct{ Message string }
	Data                  json.RawMessage
	Evidence              []struct {
		ID, Server, Tool, Excerpt string
		OK, Cited                 bool
	}
	Unsupported []string
	Cost        struct{ TotalCostUSD string }
	DurationMS  int64
	Usage       struct {
		Turns, Calls int
		Stop         string
	}
}

func (c *askCommand) run(ctx context.Context, question string) error {
	request, err := c.request(ctx, question)
	if err != nil {
		return usageError(err)
	}
	res, err := http.DefaultClient.Do(request) //nolint:forbidigo // the user's own server
	if err != nil {
		return fmt.Errorf("the server is not responding: %w; start it with toolyard serve, or specify another server with --url", err)
	}
	defer res.Body.Close() //nolint:errcheck // nothing is written
	if res.StatusCode != http.StatusOK {
		return refused(res)
	}
	raw, err := c.follow(res.Body)
	if err != nil {
		return err
	}
	if c.asJSON {
		return writeJSON(c.out, raw)
	}
	var result askedResult
	if err := json.Unmarshal(raw, &result); err != nil {
		return err
	}
	c.print(&result)
	return nil
}

// request returns the HTTP request for a query.
func (c *askCommand) request(ctx context.Context, question string) (*http.Request, error) {
	base := cmp.Or(c.url, c.getenv("TOOLYARD_URL"))
	if base == "" {
		address := config.Default().Listen
		if c.opts.ConfigFile != "" {
			source, err := config.Load(c.opts.ConfigFile, c.opts.Process.Getenv)
			if err != nil {
				return nil, err
			}
			address = source.Listen
			if source.TLS != nil { // the certificate is valid only for the public name
				base = cmp.Or(source.URL, "https://"+address)
			}
		}
		base = cmp.Or(base, "http://"+address)
	}
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%q is not a server URL such as http://127.0.0.1:3001", base)
	}
	body, err := json.Marshal(map[string]any{"query": question, "agent": c.agent, "gate": c.gate, "responseShape": c.shape, "tools": append([]string{}, c.tools...), "stream": true})
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, u.JoinPath("/api/v1/query").String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	if key := c.getenv("TOOLYARD_KEY"); key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	if c.key != "" {
		r.Header.Set("Idempotency-Key", c.key)
	}
	return r, nil
}

// refused returns the error in a problem document.
func refused(res *http.Response) error {
	var problem struct{ Detail string }
	raw, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	if json.Unmarshal(raw, &problem) != nil || problem.Detail == "" {
		return fmt.Errorf("the server responded with %s", res.Status)
	}
	if res.StatusCode == http.StatusUnauthorized {
		return fmt.Errorf("%s Set TOOLYARD_KEY to an API key", untrusted.Printable(problem.Detail))
	}
	return errors.New(untrusted.Printable(problem.Detail))
}

// maxEvent limits the size of an event in the stream, in bytes.
const maxEvent = 16 << 20

// follow reads a query's events, shows its progress on a terminal, and returns its result.
func (c *askCommand) follow(body io.Reader) (json.RawMessage, error) {
	progress, calls := isTerminal(c.err), 0
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxEvent)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var e askedEvent
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return nil, fmt.Errorf("the server sent an invalid event: %w", err)
		}
		switch e.Type {
		case "tool-status":
			if e.Status == "tool-start" {
				calls++
			}
			if progress {
				fmt.Fprintf(c.err, "\r\x1b[K%s: %s", plural(calls, "call"), untrusted.Printable(e.Tool.Name))
			}
		case "done", "error":
			if progress {
				fmt.Fprint(c.err, "\r\x1b[K")
			}
			if e.Type == "error" {
				return nil, fmt.Errorf("%s (%s)", untrusted.Printable(e.Error), untrusted.Printable(string(e.Code)))
			}
			return e.Result, nil
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	return nil, errors.New("the server closed the connection before sending an answer")
}

// print prints an answer with its evidence and cost.
func (c *askCommand) print(r *askedResult) {
	switch {
	case r.OutcomeType != "answer":
		fmt.Fprintln(c.out, "No answer:", printable(r.CapabilityMiss.Message))
	case r.Response != "":
		fmt.Fprintln(c.out, printable(r.Response))
	case len(r.Data) > 0:
		fmt.Fprintln(c.out, printable(string(r.Data)))
	}
	if len(r.Evidence) > 0 {
		fmt.Fprintln(c.out, "\nEvidence:")
	}
	for _, e := range r.Evidence {
		state := ""
		if !e.OK {
			state = " (failed)"
		}
		first, _, _ := strings.Cut(e.Excerpt, "\n")
		fmt.Fprintf(c.out, "  [%s] %s%s: %s\n", untrusted.Printable(e.ID), untrusted.Printable(strings.TrimPrefix(e.Server+"/"+e.Tool, "/")), state, untrusted.TruncateRunes(untrusted.Printable(first), 100))
	}
	if len(r.Unsupported) > 0 {
		fmt.Fprintf(c.out, "  The answer cites evidence that does not exist: %s\n", untrusted.Printable(strings.Join(r.Unsupported, ", ")))
	}
	fmt.Fprintf(c.out, "\nCost: %s USD. %s, %s, %.1f s.\n", untrusted.Printable(r.Cost.TotalCostUSD), plural(r.Usage.Turns, "turn"), plural(r.Usage.Calls, "call"), float64(r.DurationMS)/1000)
}

// printable returns a multi-line text with control characters removed.
func printable(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = untrusted.Printable(lines[i])
	}
	return strings.Join(lines, "\n")
}
