package cli

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/dialect"
	"github.com/toolyard/toolyard/internal/guard"
)

func (p *program) importCommand() *cobra.Command {
	var write bool
	c := &cobra.Command{
		Use:   "import [FILE|CLIENT]...",
		Short: "Take over the MCP servers that other clients know, without their secrets",
		Example: `  toolyard import                       # look everywhere, print what would be added
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
	t := &dialect.Translator{Home: at.home, Project: at.folder, Self: []string{"toolyard", programName(at.executable)}, Address: p.listen()}
	found := false
	for _, o := range origins(at, args) {
		read, err := p.importFrom(t, o)
		if err != nil {
			return err
		}
		found = found || read
	}
	for _, note := range t.Notes() {
		p.warn("%s", note)
	}
	switch {
	case !found:
		return errors.New("no client's file was found; name one: toolyard import FILE")
	case t.Sections().Len() == 0:
		p.warn("there is nothing to take over")
		return nil
	case write:
		return p.writeImport(t.Sections())
	}
	_, err := p.out.Write(t.Sections().YAML())
	return err
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
func origins(at surroundings, args []string) (list []origin) {
	add := func(o origin) {
		if !slices.ContainsFunc(list, func(other origin) bool { return other.file == o.file }) {
			list = append(list, o)
		}
	}
	for _, c := range dialect.Clients {
		if len(args) > 0 && !slices.Contains(args, c.ID) {
			continue
		}
		for _, path := range at.paths(c) {
			add(origin{file: path, client: c.Name})
		}
	}
	for _, arg := range args {
		if _, ok := dialect.Lookup(arg); ok {
			continue
		}
		add(origin{file: arg, must: true})
	}
	return list
}

// importFrom takes over what one file holds, and reports whether it was there.
func (p *program) importFrom(t *dialect.Translator, o origin) (bool, error) {
	data, err := readFile(o.file)
	if errors.Is(err, fs.ErrNotExist) && !o.must {
		return false, nil
	}
	var servers []dialect.Server
	var warnings []string
	if err == nil {
		servers, warnings, err = dialect.Read(o.file, data)
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

func countServers(servers []dialect.Server) string {
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
	fmt.Fprintln(p.err, guard.Printable(fmt.Sprintf(format, args...)))
}

// writeImport adds the sections to the configuration file.
func (p *program) writeImport(s *dialect.Sections) error {
	file := cmp.Or(p.opts.ConfigFile, config.File)
	before, err := readFile(file)
	text := before
	if errors.Is(err, fs.ErrNotExist) {
		text, err = []byte("# The JSON Schema of this file: toolyard schema\n"), nil
	}
	if err != nil {
		return err
	}
	after, left, err := s.AddTo(text)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for _, line := range left {
		p.warn("%s: %s", file, line)
	}
	if bytes.Equal(text, after) {
		p.say("%s is as it should be", file)
		return nil
	}
	if err := replaceFile(file, before, after, 0o644); err != nil {
		return err
	}
	p.say("wrote %s%s; toolyard check tries them", file, backupNote(file, before))
	return nil
}
