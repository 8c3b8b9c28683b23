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

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/config/clientconfig"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

func (p *program) importCommand() *cobra.Command {
	var write bool
	c := &cobra.Command{
		Use:   "import [FILE|CLIENT]...",
		Short: "Import the MCP servers of other clients, without their secrets",
		Example: `  toolyard import                       # look in all clients, print what would be added
  toolyard import cursor claude-code --write
  toolyard import ./mcp.json`,
		RunE: func(_ *cobra.Command, args []string) error {
			at, err := p.surroundings()
			if err != nil {
				return fail(err)
			}
			return fail(p.importServers(at, args, write))
		},
	}
	c.Flags().BoolVar(&write, "write", false, "add them to the configuration file instead of printing them")
	return c
}

// origin is a file that may hold servers.
type origin struct {
	file   string
	client string // its name; empty if a person named the file
	must   bool   // whether it is an error if it cannot be read
}

func (p *program) importServers(at surroundings, args []string, write bool) error {
	file := cmp.Or(p.opts.ConfigFile, config.File)
	before, err := readFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	t := &clientconfig.Translator{
		Home: at.home, Project: at.folder, Self: []string{"toolyard", programName(at.executable)}, Address: p.listen(), Getenv: at.getenv,
	}
	if err := t.Existing(before); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if err := p.importAll(t, at, args); err != nil {
		return err
	}
	for _, note := range t.Notes() {
		p.warn("%s", note)
	}
	switch {
	case t.Sections().Len() == 0:
		p.warn("Nothing to add: %s stays as it is.", file)
		return nil
	case write:
		return p.writeImport(file, before, t.Sections())
	}
	_, err = p.out.Write(t.Sections().YAML())
	return err
}

// importAll reads the servers of all files that the arguments name.
func (p *program) importAll(t *clientconfig.Translator, at surroundings, args []string) error {
	list, err := origins(at, args)
	if err != nil {
		return err
	}
	found := false
	for _, o := range list {
		read, err := p.importFrom(t, o)
		if err != nil {
			return err
		}
		found = found || read
	}
	if !found {
		return errors.New("no client's configuration file was found; name one: toolyard import FILE")
	}
	return nil
}

// listen is the address that this yard is served at, as far as is known.
func (p *program) listen() string {
	if p.opts.ConfigFile != "" {
		if s, err := config.Load(p.opts.ConfigFile, p.opts.Getenv); err == nil {
			return s.Listen
		}
	}
	return config.Default().Listen
}

func programName(executable string) string {
	return strings.TrimSuffix(filepath.Base(executable), ".exe")
}

// origins are the files that the arguments name, or all those that are known.
func origins(at surroundings, args []string) (list []origin, err error) {
	add := func(o origin) {
		if !slices.ContainsFunc(list, func(other origin) bool { return other.file == o.file }) {
			list = append(list, o)
		}
	}
	for _, c := range clientconfig.Clients {
		if len(args) > 0 && !slices.Contains(args, c.ID) {
			continue
		}
		for _, path := range at.paths(c) {
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
		add(origin{file: arg, must: true})
	}
	return list, nil
}

// clientHint names the clients that may be meant, or all.
func clientHint(name string) string {
	var ids, alike []string
	for _, c := range clientconfig.Clients {
		ids = append(ids, c.ID)
		if strings.HasPrefix(c.ID, name) {
			alike = append(alike, c.ID)
		}
	}
	if near := toolyard.Nearest(name, ids); near != "" && len(alike) == 0 {
		alike = []string{near}
	}
	if len(alike) > 0 {
		return "; did you mean " + strings.Join(alike, " or ") + "?"
	}
	return "; the clients are: " + strings.Join(ids, ", ")
}

// importFrom takes over what one file holds, and reports whether it was there.
func (p *program) importFrom(t *clientconfig.Translator, o origin) (bool, error) {
	data, err := readFile(o.file)
	if errors.Is(err, fs.ErrNotExist) && !o.must {
		return false, nil
	}
	var servers []clientconfig.Server
	var warnings []string
	if err == nil {
		servers, warnings, err = clientconfig.Read(o.file, data)
	}
	if err != nil {
		if o.must {
			return false, err
		}
		p.warn("%v", err)
		return true, nil
	}
	for _, w := range warnings {
		p.warn("%s", w)
	}
	p.warn("%s (%s): %s", o.file, cmp.Or(o.client, "file"), countServers(servers))
	t.Add(servers)
	return true, nil
}

func countServers(servers []clientconfig.Server) string {
	switch len(servers) {
	case 0:
		return "no servers"
	case 1:
		return "1 server"
	}
	return fmt.Sprintf("%d servers", len(servers))
}

// warn prints a line, in which a stranger's text may stand, for a person.
func (p *program) warn(format string, args ...any) {
	fmt.Fprintln(p.err, untrusted.Printable(fmt.Sprintf(format, args...)))
}

// writeImport adds the sections to the configuration file.
func (p *program) writeImport(file string, before []byte, s *clientconfig.Sections) error {
	text := before
	if before == nil {
		text = []byte("# The JSON Schema of this file: toolyard schema\n")
	}
	after, left, err := s.AddTo(text)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for _, line := range left {
		p.warn("%s: %s", file, line)
	}
	if err := replaceFile(file, before, after, 0o644); err != nil {
		return err
	}
	p.say("Wrote %s%s. Run toolyard check to try the servers.", file, backupNote(file, before))
	return nil
}
