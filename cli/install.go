package cli

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/spelling"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/config/clientconfig"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
	"github.com/toolyard/toolyard/yard"
)

// installCommand adds Toolyard to an MCP client's configuration file.
type installCommand struct {
	*app
	name, url      string
	headers        []string
	stdio, project bool
	remove, dryRun bool
}

func newInstallCommand(a *app) *cobra.Command {
	c := &installCommand{app: a}
	cmd := &cobra.Command{
		Use:   "install [CLIENT]",
		Short: "Add Toolyard to an MCP client's configuration; without an argument, list the clients",
		Args:  cobra.MaximumNArgs(1),
		Example: `  toolyard install
  toolyard install cursor
  toolyard install claude-code --stdio --project
  toolyard install vscode --url http://127.0.0.1:3001/mcp --dry-run
  toolyard install codex --gate team --header "Authorization: Bearer $TOOLYARD_KEY"
  toolyard install cursor --remove`,
		RunE: func(_ *cobra.Command, args []string) error {
			env, err := a.clientEnv()
			if err != nil {
				return fail(err)
			}
			if len(args) == 0 {
				return fail(c.listClients(env))
			}
			client, err := findClient(args[0])
			if err == nil && c.url != "" && a.gate != "" {
				err = errors.New("--url already includes the gate; omit --gate")
			}
			if err != nil {
				return usageError(err)
			}
			return fail(c.run(env, client))
		},
	}
	cmd.Flags().StringVar(&c.name, "name", "toolyard", "name of the entry in the client's configuration")
	cmd.Flags().StringVar(&c.url, "url", "", "URL of the MCP endpoint (default: the configured address)")
	cmd.Flags().StringArrayVar(&c.headers, "header", nil, "HTTP header that the client sends, such as \"Authorization: Bearer KEY\"")
	cmd.Flags().BoolVar(&c.stdio, "stdio", false, "have the client launch Toolyard over stdio, even if the client supports URLs")
	cmd.Flags().BoolVar(&c.project, "project", false, "edit the client's project configuration instead of your user configuration")
	cmd.Flags().BoolVar(&c.remove, "remove", false, "remove the entry")
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "print the changes without writing them")
	cmd.MarkFlagsMutuallyExclusive("url", "stdio")
	cmd.MarkFlagsMutuallyExclusive("header", "stdio")
	return cmd
}

func findClient(id string) (*clientconfig.Client, error) {
	if c, ok := clientconfig.Lookup(id); ok {
		return c, nil
	}
	return nil, fmt.Errorf("unknown client %s%s", untrusted.Printable(id), clientHint(id))
}

func (c *installCommand) run(env clientEnv, client *clientconfig.Client) error {
	file, err := env.file(client, c.project)
	if err != nil {
		return err
	}
	before, err := readFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var after []byte
	var hints []string
	if c.remove {
		after, err = removeEntry(file, before, client, c.name)
	} else {
		after, hints, err = c.addEntry(env, before, client)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	switch {
	case bytes.Equal(before, after) && c.remove:
		c.printf("%s is not in %s; nothing to do.", c.name, file)
		return nil
	case bytes.Equal(before, after):
		c.printf("%s is already in %s; nothing to do.", c.name, file)
		for _, hint := range hints {
			c.printf("%s", hint)
		}
		return nil
	case c.dryRun:
		printDiff(c.out, file, before, after)
		return nil
	}
	if err := replaceFile(file, before, after, 0o600); err != nil {
		return err
	}
	c.printf("Wrote %s%s. Restart %s.", file, backupNote(file, before), client.Name)
	for _, hint := range hints {
		c.printf("%s", hint)
	}
	return nil
}

// addEntry returns the file with an entry for Toolyard added, and hints about further steps.
func (c *installCommand) addEntry(env clientEnv, before []byte, client *clientconfig.Client) (after []byte, hints []string, err error) {
	server := clientconfig.Server{Name: c.name, URL: c.url}
	if c.url == "" && (c.stdio || !client.Remote) {
		if len(c.headers) > 0 {
			return nil, nil, fmt.Errorf("%s does not support URLs, so it cannot send headers; omit --header", client.Name)
		}
		server.Command = env.executable
		if server.Args, err = c.serveArgs(); err == nil {
			hints = c.stdioHints(client)
		}
	} else {
		if c.url == "" {
			server.URL, hints, err = c.address(client)
		}
		if err == nil {
			server.Headers, err = parseHeaders(c.headers)
		}
		hints = append([]string{"Run \"toolyard serve --http\" first, or install with --stdio so that the client launches it."}, hints...)
	}
	if err != nil {
		return nil, nil, err
	}
	after, err = client.Add(before, server)
	return after, hints, err
}

// parseHeaders parses headers in HTTP syntax.
func parseHeaders(lines []string) (map[string]string, error) {
	headers := make(map[string]string)
	for _, line := range lines {
		match := headerLine.FindStringSubmatch(line)
		if match == nil {
			return nil, errors.New(`--header requires a name and a value, such as "Authorization: Bearer KEY"`)
		}
		headers[match[1]] = match[2]
	}
	return headers, nil
}

var headerLine = regexp.MustCompile("^([A-Za-z0-9!#$%&'*+.^_`|~-]+):[ \t]*([!-~](?:[ -~]*[!-~])?)$")

// stdioHints lists the environment variables that a client must pass to Toolyard.
func (c *installCommand) stdioHints(client *clientconfig.Client) []string {
	if c.opts.ConfigFile == "" {
		return nil
	}
	source, err := config.Load(c.opts.ConfigFile, c.opts.Process.Getenv)
	if err != nil {
		return []string{fmt.Sprintf("Fix %s first: %v", c.opts.ConfigFile, err)}
	}
	if names := source.Variables(); len(names) > 0 {
		return []string{fmt.Sprintf("%s requires %s: set them in the environment of %s, or under env in its file.", c.opts.ConfigFile, variableList(names), client.Name)}
	}
	return nil
}

func variableList(names []string) string {
	if len(names) == 1 {
		return "environment variable " + names[0]
	}
	return "the environment variables " + strings.Join(names, ", ")
}

// serveArgs returns the arguments that a client uses to start Toolyard from any folder.
func (c *installCommand) serveArgs() ([]string, error) {
	args := []string{"serve"}
	for _, option := range []struct {
		flag, value string
		path        bool
	}{{"--config", c.opts.ConfigFile, true}, {"--target", c.opts.Scripts.Dir, true}, {"--glob", c.opts.Scripts.Glob, false}, {"--gate", c.gate, false}} {
		value := option.value
		if value == "" {
			continue
		}
		if option.path {
			var err error
			if value, err = filepath.Abs(value); err != nil {
				return nil, err
			}
		}
		args = append(args, option.flag, value)
	}
	return args, nil
}

// checkGate rejects a gate that does not exist.
func checkGate(c *config.Config, gate string) error {
	gates := slices.Sorted(maps.Keys(c.Gates))
	switch {
	case len(gates) == 0 && (gate == "" || gate == yard.DefaultGate), slices.Contains(gates, gate):
		return nil
	case gate == "" && (len(gates) == 1 || slices.Contains(gates, yard.DefaultGate)):
		return nil
	case gate == "":
		return fmt.Errorf("choose a gate with --gate: %s", strings.Join(gates, ", "))
	}
	return fmt.Errorf("unknown gate %s%s; available gates: %s", untrusted.Printable(gate), spelling.DidYouMean(gate, gates), strings.Join(gates, ", "))
}

// address returns the gate's configured URL, and hints about what the client needs.
func (c *installCommand) address(client *clientconfig.Client) (address string, hints []string, err error) {
	cfg := config.Default()
	if c.opts.ConfigFile != "" {
		s, err := config.Load(c.opts.ConfigFile, c.opts.Process.Getenv)
		if err != nil {
			return "", nil, err
		}
		cfg = s.Config
		if names := s.Variables(); len(names) > 0 {
			hints = append(hints, fmt.Sprintf("%s requires %s: set them in the environment of \"toolyard serve\".", c.opts.ConfigFile, variableList(names)))
		}
	}
	if err := checkGate(cfg, c.gate); err != nil {
		return "", nil, err
	}
	host, port, err := net.SplitHostPort(cfg.Listen)
	if err != nil {
		return "", nil, err
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		host = "127.0.0.1"
	}
	u := url.URL{Scheme: "http", Host: net.JoinHostPort(host, port), Path: "/mcp"}
	if c.gate != "" {
		u.Path += "/" + c.gate
	}
	return u.String(), append(hints, c.keyHints(cfg, client)...), nil
}

// keyHints explains how to create and install a key if the gate requires one.
func (c *installCommand) keyHints(cfg *config.Config, client *clientconfig.Client) []string {
	if len(c.headers) > 0 {
		return nil
	}
	name := cmp.Or(c.gate, yard.DefaultGate)
	if c.gate == "" && len(cfg.Gates) == 1 {
		name = slices.Collect(maps.Keys(cfg.Gates))[0]
	}
	switch cfg.Gates[name].Callers {
	case config.AccessTokens, config.Authenticated:
		return []string{fmt.Sprintf("Gate %s requires you to sign in. The client opens a browser when it connects.", name)}
	case config.Keys:
	default:
		return nil
	}
	scopes := "--scope gate:" + name
	if cfg.Gates[name].Mode == toolyard.Write {
		scopes += " --scope write"
	}
	return []string{
		fmt.Sprintf("Gate %s requires an API key. Create one: toolyard keys create --name KEY --caller YOU %s", name, scopes),
		fmt.Sprintf(`Then install again with the key: toolyard install %s%s --header "Authorization: Bearer KEY"`, client.ID, flagFor("gate", c.gate)),
	}
}

// flagFor returns a flag for an example command, or "" if it is not needed.
func flagFor(name, value string) string {
	if value == "" {
		return ""
	}
	return " --" + name + " " + value
}

// removeEntry returns the file with our entry removed. If the backup is exactly the file before the
// entry was added, it returns the backup.
func removeEntry(file string, before []byte, client *clientconfig.Client, name string) ([]byte, error) {
	after, err := client.Remove(before, name)
	if err != nil || bytes.Equal(before, after) {
		return before, err
	}
	backup, err := readFile(file + backupSuffix)
	if err != nil {
		return after, nil //nolint:nilerr // the backup is optional
	}
	servers, _, err := clientconfig.Read(file, before)
	if err != nil {
		return nil, err
	}
	for _, s := range servers {
		if s.Name != name || s.Project != "" {
			continue
		}
		if again, err := client.Add(backup, s); err == nil && bytes.Equal(again, before) {
			return backup, nil
		}
	}
	return after, nil
}

// listClients prints each client's files and whether they have an entry for Toolyard.
func (c *installCommand) listClients(env clientEnv) error {
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CLIENT\tINSTALLED\tFILE")
	for _, client := range clientconfig.Clients {
		paths := env.paths(client)
		for n, path := range paths {
			state := entryState(path, c.name)
			if state == "no file" && n < len(paths)-1 {
				continue // project files are optional
			}
			fmt.Fprintf(w, "%s\t%s\t%s\n", client.ID, state, untrusted.Printable(path))
		}
	}
	return w.Flush()
}

func entryState(path, name string) string {
	data, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "no file"
	}
	if err != nil {
		return "unreadable"
	}
	servers, _, err := clientconfig.Read(path, data)
	if err != nil {
		return "unreadable"
	}
	for _, s := range servers {
		if s.Name == name && s.Project == "" {
			return "yes"
		}
	}
	return "no"
}
