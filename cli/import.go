package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard/internal/base/spelling"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/config/clientconfig"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// importCommand imports other clients' MCP servers.
type importCommand struct {
	*app
	write bool
}

func newImportCommand(a *app) *cobra.Command {
	c := &importCommand{app: a}
	cmd := &cobra.Command{
		Use:   "import [FILE|CLIENT|catalog:NAME]...",
		Short: "Import the MCP servers configured in other clients, without their secrets",
		Example: `  toolyard import                       # search all clients and print what would be added
  toolyard import cursor claude-code --write
  toolyard import ./mcp.json
  toolyard import catalog:              # list the curated servers
  toolyard import catalog:coingecko-mcp --write`,
		RunE: func(_ *cobra.Command, args []string) error {
			env, err := a.clientEnv()
			if err != nil {
				return fail(err)
			}
			return fail(c.run(env, args))
		},
	}
	cmd.Flags().BoolVar(&c.write, "write", false, "add them to the configuration file instead of printing them")
	return cmd
}

// origin is a file that may define servers.
type origin struct {
	file     string
	client   string // name of the client; empty if the user specified the file
	required bool   // whether it is an error if the file cannot be read
}

func (c *importCommand) run(env clientEnv, args []string) error {
	file := cmp.Or(c.opts.ConfigFile, config.File)
	before, err := readFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	t := &clientconfig.Translator{
		Home: env.home, Project: env.folder, Self: []string{"toolyard", programName(env.executable)}, Address: c.listenAddress(), Getenv: env.getenv,
	}
	if err := t.Existing(before); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	names, args := curated(args)
	if slices.Contains(names, "") {
		return c.listCatalog()
	}
	for _, name := range names {
		if err := t.AddCatalog(name); err != nil {
			return err
		}
	}
	if len(args) > 0 || len(names) == 0 {
		if err := c.readAll(t, env, args); err != nil {
			return err
		}
	}
	for _, note := range t.Notes() {
		c.warnf("%s", note)
	}
	switch {
	case t.Sections().Len() == 0:
		c.warnf("Nothing to add: %s is unchanged.", file)
		return nil
	case c.write:
		return c.writeConfig(file, before, t.Sections())
	}
	_, err = c.out.Write(t.Sections().YAML())
	return err
}

// curated separates the names of curated servers from other arguments.
func curated(args []string) (names, rest []string) {
	for _, arg := range args {
		if name, ok := strings.CutPrefix(arg, "catalog:"); ok {
			names = append(names, name)
		} else {
			rest = append(rest, arg)
		}
	}
	return names, rest
}

// listCatalog prints the curated servers.
func (c *importCommand) listCatalog() error {
	list, err := clientconfig.Catalog()
	if err != nil {
		return err
	}
	for _, e := range list {
		if _, err := fmt.Fprintf(c.out, "%s\n    %s.\n", e.ID, e.Provides); err != nil {
			return err
		}
		if text := cmp.Or(e.Missing, e.Note); text != "" {
			if _, err := fmt.Fprintf(c.out, "    %s\n", text); err != nil {
				return err
			}
		}
	}
	return nil
}

// readAll reads the servers from all files that the arguments select.
func (c *importCommand) readAll(t *clientconfig.Translator, env clientEnv, args []string) error {
	list, err := origins(env, args)
	if err != nil {
		return err
	}
	found := false
	for _, o := range list {
		read, err := c.read(t, o)
		if err != nil {
			return err
		}
		found = found || read
	}
	if !found {
		return errors.New("no client configuration found; pass a file: \"toolyard import FILE\"")
	}
	return nil
}

// listenAddress returns this yard's configured address, or the default.
func (c *importCommand) listenAddress() string {
	if c.opts.ConfigFile != "" {
		if s, err := config.Load(c.opts.ConfigFile, c.opts.Process.Getenv); err == nil {
			return s.Listen
		}
	}
	return config.Default().Listen
}

func programName(executable string) string {
	return strings.TrimSuffix(filepath.Base(executable), ".exe")
}

// origins returns the files that the arguments select or, if there are no arguments, the files of
// all known clients.
func origins(env clientEnv, args []string) (list []origin, err error) {
	add := func(o origin) {
		if !slices.ContainsFunc(list, func(other origin) bool { return other.file == o.file }) {
			list = append(list, o)
		}
	}
	for _, c := range clientconfig.Clients {
		if len(args) > 0 && !slices.Contains(args, c.ID) {
			continue
		}
		for _, path := range env.paths(c) {
			add(origin{file: path, client: c.Name})
		}
	}
	for _, arg := range args {
		if _, ok := clientconfig.Lookup(arg); ok {
			continue
		}
		if _, err := os.Stat(arg); errors.Is(err, fs.ErrNotExist) && !strings.ContainsAny(arg, `./\`) {
			return nil, fmt.Errorf("%s is neither a file nor a client%s", untrusted.Printable(arg), clientHint(arg))
		}
		add(origin{file: arg, required: true})
	}
	return list, nil
}

// clientHint suggests clients with a similar name, or lists all clients.
func clientHint(name string) string {
	var ids, similar []string
	for _, c := range clientconfig.Clients {
		ids = append(ids, c.ID)
		if strings.HasPrefix(c.ID, name) {
			similar = append(similar, c.ID)
		}
	}
	if near := spelling.Nearest(name, ids); near != "" && len(similar) == 0 {
		similar = []string{near}
	}
	if len(similar) > 0 {
		return spelling.Hint(similar...)
	}
	return "; available clients: " + strings.Join(ids, ", ")
}

// read adds the servers in one file, and reports whether the file exists.
func (c *importCommand) read(t *clientconfig.Translator, o origin) (bool, error) {
	data, err := readFile(o.file)
	if errors.Is(err, fs.ErrNotExist) && !o.required {
		return false, nil
	}
	var servers []clientconfig.Server
	var warnings []string
	if err == nil {
		servers, warnings, err = clientconfig.Read(o.file, data)
	}
	if err != nil {
		if o.required {
			return false, err
		}
		c.warnf("%v", err)
		return true, nil
	}
	for _, w := range warnings {
		c.warnf("%s", w)
	}
	c.warnf("%s (%s): %s", o.file, cmp.Or(o.client, "file"), countServers(servers))
	t.Add(servers)
	return true, nil
}

func countServers(servers []clientconfig.Server) string {
	if len(servers) == 0 {
		return "no servers"
	}
	return plural(len(servers), "server")
}

// writeConfig adds the sections to the configuration file.
func (c *importCommand) writeConfig(file string, before []byte, s *clientconfig.Sections) error {
	text := before
	if before == nil {
		text = []byte(newConfig)
	}
	after, left, err := s.AddTo(text)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for _, line := range left {
		c.warnf("%s: %s", file, line)
	}
	if err := replaceFile(file, before, after, 0o644); err != nil {
		return err
	}
	c.printf("Wrote %s%s. Run \"toolyard check\" to try the servers.", file, backupNote(file, before))
	return nil
}
