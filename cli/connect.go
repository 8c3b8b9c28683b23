package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard/internal/base/spelling"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
	"github.com/toolyard/toolyard/yard"
)

// connectCommand connects the user to servers that are called on behalf of each caller, either on
// this computer or through a running server with an API key.
type connectCommand struct {
	*app
	url        string
	port       int
	timeout    time.Duration
	disconnect bool
	asJSON     bool
}

func newConnectCommand(a *app) *cobra.Command {
	c := &connectCommand{app: a}
	cmd := &cobra.Command{
		Use:   "connect [SERVER]",
		Short: "Sign in to an MCP server that is called on your behalf, or list such servers",
		Long: `Sign in to an MCP server with auth: {type: person}, or enter your key for one with
auth: {type: header}. The command prints the URL of a page and waits until you have connected
there. Without SERVER, it lists the servers and whether you are connected.

By default, the connection is for tools that you call with "toolyard call" and that clients
call over stdio on this computer. With --url, it is for a running server, as the caller whose
API key is in the TOOLYARD_KEY environment variable.`,
		Args: cobra.MaximumNArgs(1),
		Example: `  toolyard connect                 # list servers
  toolyard connect linear
  toolyard connect linear --disconnect
  toolyard connect linear --url https://tools.example.com`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), append(args, "")[0]) },
	}
	cmd.Flags().StringVar(&c.url, "url", "", "address of a running server (default: $TOOLYARD_URL, or this computer)")
	cmd.Flags().IntVar(&c.port, "port", 0, "port on 127.0.0.1 for the page, if the OAuth client is registered with a fixed redirect address (default: any free port)")
	cmd.Flags().DurationVar(&c.timeout, "timeout", 10*time.Minute, "how long to wait for the sign-in")
	cmd.Flags().BoolVar(&c.disconnect, "disconnect", false, "delete the connection and revoke its tokens")
	cmd.Flags().BoolVar(&c.asJSON, "json", false, "print the list as JSON")
	return cmd
}

func (c *connectCommand) run(ctx context.Context, server string) error {
	switch {
	case c.disconnect && server == "":
		return usageError(errors.New("--disconnect requires a server name"))
	case c.port < 0 || c.port > 65535:
		return usageError(fmt.Errorf("--port %d is not a valid port", c.port))
	}
	if base := cmp.Or(c.url, c.getenv("TOOLYARD_URL")); base != "" {
		u, err := url.Parse(base)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return usageError(fmt.Errorf("%q is not a server URL such as https://tools.example.com", base))
		}
		return c.use(ctx, &connectionsClient{base: u, key: c.getenv("TOOLYARD_KEY")}, server)
	}
	return c.serveHere(ctx, server)
}

// serveHere connects the user of this computer. It serves the page while the command runs.
func (c *connectCommand) serveHere(ctx context.Context, server string) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(c.port)))
	if err != nil {
		return fail(err)
	}
	defer l.Close() //nolint:errcheck // it is closed by the server as well
	base := &url.URL{Scheme: "http", Host: l.Addr().String()}
	c.createOperatorToken()
	c.opts.Command.URL = base.String()
	return c.withYard(ctx, func(ctx context.Context, y *yard.Yard) error {
		pages := &http.Server{Handler: y.Handler(), ReadHeaderTimeout: 5 * time.Second, WriteTimeout: time.Minute}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = pages.Serve(l) // returns when the server is shut down
		}()
		err := c.use(ctx, &connectionsClient{base: base, key: c.opts.Command.OperatorToken, here: true}, server)
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), pageTimeout) // the browser is still loading the last page
		defer cancel()
		if pages.Shutdown(closing) != nil {
			_ = pages.Close()
		}
		<-ended
		return err
	})
}

// use lists connections, or creates or deletes one.
func (c *connectCommand) use(ctx context.Context, api *connectionsClient, server string) error {
	list, err := api.list(ctx)
	if err != nil {
		return fail(err)
	}
	if server == "" {
		return fail(c.print(list))
	}
	i := slices.IndexFunc(list, func(each listedConnection) bool { return each.Server == server })
	if i < 0 {
		var names []string
		for _, each := range list {
			names = append(names, each.Server)
		}
		return usageError(fmt.Errorf("server %q does not exist or is not called on your behalf%s", server, spelling.DidYouMean(server, names)))
	}
	if c.disconnect {
		if err := api.send(ctx, http.MethodDelete, "/connections/"+url.PathEscape(server), nil); err != nil {
			return fail(err)
		}
		c.printf("Disconnected from %s.", server)
		return nil
	}
	page, err := api.page(ctx, server)
	if err != nil {
		return fail(err)
	}
	what := "sign in to " + server
	if list[i].Key {
		what = "enter your key for " + server
	}
	fmt.Fprintf(c.err, "Open this URL in a browser to %s. It works only for you:\n\n  %s\n\nWaiting …\n", untrusted.Printable(what), untrusted.Printable(page))
	return fail(c.await(ctx, api, list[i]))
}

// pageTimeout limits how long the last page may take to load when the command ends.
const pageTimeout = 3 * time.Second

// connectPoll is how often the command checks for the connection.
const connectPoll = 300 * time.Millisecond

// await waits until a new connection exists.
func (c *connectCommand) await(ctx context.Context, api *connectionsClient, before listedConnection) error {
	deadline := time.NewTimer(c.timeout)
	defer deadline.Stop()
	for {
		select {
		case <-time.After(connectPoll):
		case <-deadline.C:
			return fmt.Errorf("timed out after %[2]v waiting for you to connect to %[1]s; run the command again", before.Server, c.timeout)
		case <-ctx.Done():
			return ctx.Err()
		}
		list, err := api.list(ctx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(list, func(each listedConnection) bool { return each.Server == before.Server })
		if i >= 0 && list[i].State == "active" && (before.State != "active" || list[i].Since.After(before.Since)) {
			c.printf("Connected to %s.%s", list[i].Server, list[i].lifetime())
			return nil
		}
	}
}

func (c *connectCommand) print(list []listedConnection) error {
	if c.asJSON {
		return writeJSON(c.out, list)
	}
	if len(list) == 0 {
		fmt.Fprintln(c.err, "No server is called on your behalf. To configure one, set auth: {type: person} on a server.")
		return nil
	}
	states := map[string]string{"active": "connected", "stale": "sign in again", "none": "not connected"}
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SERVER\tSTATE\tSIGNED IN AT\tRIGHTS\tSINCE")
	for _, each := range list {
		since := ""
		if !each.Since.IsZero() {
			since = formatMinute(each.Since)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", untrusted.Printable(each.Server), cmp.Or(states[each.State], untrusted.Printable(each.State)),
			untrusted.Printable(each.Issuer), untrusted.Printable(strings.Join(each.Scopes, " ")), since)
	}
	return w.Flush()
}

// listedConnection is one of the user's connections, as described by the HTTP API.
type listedConnection struct {
	Server  string    `json:"server"`
	State   string    `json:"state"`
	Key     bool      `json:"key"`
	Issuer  string    `json:"issuer,omitempty"`
	Scopes  []string  `json:"scopes,omitempty"`
	Since   time.Time `json:"since,omitzero"`
	Expires time.Time `json:"expires,omitzero"`
	Renewed bool      `json:"renewed,omitempty"`
}

func (l *listedConnection) lifetime() string {
	if l.Expires.IsZero() || l.Renewed {
		return ""
	}
	return " The access expires at " + formatMinute(l.Expires) + "."
}

// connectionsClient uses a yard's HTTP API for connections.
type connectionsClient struct {
	base *url.URL
	key  string
	here bool // whether the yard runs in this process
}

func (a *connectionsClient) list(ctx context.Context) ([]listedConnection, error) {
	var page struct{ Connections []listedConnection }
	return page.Connections, a.send(ctx, http.MethodGet, "/connections", &page)
}

// page returns the URL of the page where the user connects.
func (a *connectionsClient) page(ctx context.Context, server string) (string, error) {
	if a.here { // the key, which is valid while this process runs, signs the user in
		return a.base.String() + "/console/connections/" + url.PathEscape(server) + "#key=" + a.key, nil
	}
	var page struct{ URL string }
	return page.URL, a.send(ctx, http.MethodPost, "/connections/"+url.PathEscape(server), &page)
}

// maxConnections limits the size of an API response, in bytes.
const maxConnections = 4 << 20

func (a *connectionsClient) send(ctx context.Context, method, path string, into any) error {
	r, err := http.NewRequestWithContext(ctx, method, a.base.JoinPath("/api/v1").String()+path, http.NoBody)
	if err != nil {
		return err
	}
	if a.key != "" {
		r.Header.Set("Authorization", "Bearer "+a.key)
	}
	res, err := http.DefaultClient.Do(r) //nolint:forbidigo // the user's own server
	if err != nil {
		return fmt.Errorf("the server is not responding: %w", err)
	}
	defer res.Body.Close() //nolint:errcheck // nothing is written
	if res.StatusCode >= http.StatusBadRequest {
		return refused(res)
	}
	if into == nil {
		return nil
	}
	var body bytes.Buffer
	if _, err := body.ReadFrom(http.MaxBytesReader(nil, res.Body, maxConnections)); err != nil {
		return err
	}
	return json.Unmarshal(body.Bytes(), into)
}
