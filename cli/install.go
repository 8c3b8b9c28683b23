package cli

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/config/clientconfig"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
	"github.com/toolyard/toolyard/yard"
)

// surroundings are where a command looks for the files of clients.
type surroundings struct {
	home, folder, goos string
	executable         string
	getenv             clientconfig.Getenv
}

func (p *program) surroundings() (surroundings, error) {
	s := surroundings{goos: runtime.GOOS, getenv: p.opts.Getenv}
	s.home = cmp.Or(p.env("HOME"), p.env("USERPROFILE"))
	if !filepath.IsAbs(s.home) {
		return s, errors.New("the variable HOME does not name your home folder; set it")
	}
	var err error
	if s.folder, err = os.Getwd(); err != nil {
		return s, err
	}
	s.executable, err = os.Executable()
	return s, err
}

func (s surroundings) paths(c *clientconfig.Client) []string {
	return c.Paths(s.home, s.folder, s.goos, s.getenv)
}

// file is the client's file for the project or for the user.
func (s surroundings) file(c *clientconfig.Client, project bool) (string, error) {
	paths := s.paths(c)
	switch {
	case !project:
		return paths[len(paths)-1], nil
	case c.Project == "":
		return "", fmt.Errorf("%s has no file for a project; omit --project", c.Name)
	}
	return paths[0], s.checkInside(paths[0])
}

// checkInside refuses a file of a project that a link leads out of it.
func (s surroundings) checkInside(file string) error {
	folder, err := filepath.EvalSymlinks(s.folder)
	if err != nil {
		return err
	}
	for path := file; path != s.folder && path != filepath.Dir(path); path = filepath.Dir(path) {
		real, err := filepath.EvalSymlinks(path)
		if errors.Is(err, fs.ErrNotExist) {
			if _, err := os.Lstat(path); err == nil {
				return fmt.Errorf("%s is a link to nowhere", path)
			}
			continue
		}
		if err != nil {
			return err
		}
		if inside, err := filepath.Rel(folder, real); err != nil || !filepath.IsLocal(inside) {
			return fmt.Errorf("%s is a link that leads out of the project", path)
		}
		return nil
	}
	return nil
}

// installation is what to install, and how.
type installation struct {
	name, url               string
	stdio, project          bool
	remove, dryRun          bool
	config, gate, dir, glob string
}

func (p *program) installCommand() *cobra.Command {
	var i installation
	c := &cobra.Command{
		Use:   "install [CLIENT]",
		Short: "Add Toolyard to the configuration of an MCP client; without one, list the clients",
		Args:  cobra.MaximumNArgs(1),
		Example: `  toolyard install
  toolyard install cursor
  toolyard install claude-code --stdio --project
  toolyard install vscode --url http://127.0.0.1:3001/mcp --dry-run
  toolyard install cursor --remove`,
		RunE: func(_ *cobra.Command, args []string) error {
			at, err := p.surroundings()
			if err != nil {
				return fail(err)
			}
			if len(args) == 0 {
				return fail(p.listClients(at, i.name))
			}
			client, err := findClient(args[0])
			if err == nil && i.url != "" && p.gate != "" {
				err = errors.New("a URL includes its gate; omit --gate")
			}
			if err != nil {
				return exitStatus{exitUsage, err}
			}
			i.config, i.gate, i.dir, i.glob = p.opts.ConfigFile, p.gate, p.opts.Scripts.Dir, p.opts.Scripts.Glob
			return fail(p.install(at, client, i))
		},
	}
	c.Flags().StringVar(&i.name, "name", "toolyard", "the name of Toolyard in the client")
	c.Flags().StringVar(&i.url, "url", "", "where Toolyard is served (default: the configured address)")
	c.Flags().BoolVar(&i.stdio, "stdio", false, "let the client start Toolyard, even if it could use a URL")
	c.Flags().BoolVar(&i.project, "project", false, "use the client's file in this folder, not your user's")
	c.Flags().BoolVar(&i.remove, "remove", false, "remove Toolyard")
	c.Flags().BoolVar(&i.dryRun, "dry-run", false, "only show what would change")
	c.MarkFlagsMutuallyExclusive("url", "stdio")
	return c
}

func findClient(id string) (*clientconfig.Client, error) {
	if c, ok := clientconfig.Lookup(id); ok {
		return c, nil
	}
	return nil, fmt.Errorf("unknown client %s%s", untrusted.Printable(id), clientHint(id))
}

func (p *program) install(at surroundings, client *clientconfig.Client, i installation) error {
	file, err := at.file(client, i.project)
	if err != nil {
		return err
	}
	before, err := readFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var after []byte
	var hints []string
	if i.remove {
		after, err = uninstall(file, before, client, i.name)
	} else {
		after, hints, err = p.installInto(at, before, client, i)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	switch {
	case bytes.Equal(before, after) && i.remove:
		p.say("%s is not in %s; nothing to do.", i.name, file)
		return nil
	case bytes.Equal(before, after):
		p.say("%s is already in %s; nothing to do.", i.name, file)
		for _, hint := range hints {
			p.say("%s", hint)
		}
		return nil
	case i.dryRun:
		showDiff(p.out, file, before, after)
		return nil
	}
	if err := replaceFile(file, before, after, 0o600); err != nil {
		return err
	}
	p.say("Wrote %s%s. Restart %s.", file, backupNote(file, before), client.Name)
	for _, hint := range hints {
		p.say("%s", hint)
	}
	return nil
}

// say prints a line in which a stranger's text may stand.
func (p *program) say(format string, args ...any) {
	fmt.Fprintln(p.out, untrusted.Printable(fmt.Sprintf(format, args...)))
}

// backupNote says where what was in a file has gone.
func backupNote(file string, before []byte) string {
	if before == nil {
		return ""
	}
	return " (the previous version is in " + filepath.Base(file) + backupSuffix + ")"
}

// installInto is the file with us in it, and what else is to be done.
func (p *program) installInto(at surroundings, before []byte, client *clientconfig.Client, i installation) (after []byte, hints []string, err error) {
	server := clientconfig.Server{Name: i.name, URL: i.url}
	if i.url == "" && (i.stdio || !client.Remote) {
		server.Command = at.executable
		if server.Args, err = i.serveArgs(); err == nil {
			hints = p.stdioHints(client)
		}
	} else {
		if i.url == "" {
			server.URL, hints, err = p.address(i.gate)
		}
		hints = append([]string{"toolyard serve --http must be running when the client starts; with --stdio the client starts it."}, hints...)
	}
	if err != nil {
		return nil, nil, err
	}
	after, err = client.Add(before, server)
	return after, hints, err
}

// stdioHints say what a client that starts us must have in its environment.
func (p *program) stdioHints(client *clientconfig.Client) []string {
	if p.opts.ConfigFile == "" {
		return nil
	}
	c, err := config.Load(p.opts.ConfigFile, p.opts.Getenv)
	if err != nil {
		return []string{fmt.Sprintf("%s cannot be used yet: %v", p.opts.ConfigFile, err)}
	}
	if names := c.Variables(); len(names) > 0 {
		return []string{fmt.Sprintf("%s needs %s: set them where %s starts, or under env in its file.", p.opts.ConfigFile, variableList(names), client.Name)}
	}
	return nil
}

func variableList(names []string) string {
	if len(names) == 1 {
		return "the environment variable " + names[0]
	}
	return "the environment variables " + strings.Join(names, ", ")
}

// serveArgs are the arguments with which a client starts us, from whatever folder.
func (i *installation) serveArgs() ([]string, error) {
	args := []string{"serve"}
	for _, option := range []struct {
		flag, value string
		path        bool
	}{{"--config", i.config, true}, {"--target", i.dir, true}, {"--glob", i.glob, false}, {"--gate", i.gate, false}} {
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

// checkGate refuses an address where nothing is served.
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
	return fmt.Errorf("unknown gate %s%s; the gates are: %s", untrusted.Printable(gate), didYouMean(gate, gates), strings.Join(gates, ", "))
}

// address is where the configuration says that we serve, and what a client needs there.
func (p *program) address(gate string) (address string, hints []string, err error) {
	c := config.Default()
	if p.opts.ConfigFile != "" {
		s, err := config.Load(p.opts.ConfigFile, p.opts.Getenv)
		if err != nil {
			return "", nil, err
		}
		c = s.Config
		if names := s.Variables(); len(names) > 0 {
			hints = append(hints, fmt.Sprintf("%s needs %s: set them where toolyard serve runs.", p.opts.ConfigFile, variableList(names)))
		}
	}
	if err := checkGate(c, gate); err != nil {
		return "", nil, err
	}
	host, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return "", nil, err
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		host = "127.0.0.1"
	}
	u := url.URL{Scheme: "http", Host: net.JoinHostPort(host, port), Path: "/mcp"}
	if gate != "" {
		u.Path += "/" + gate
	}
	return u.String(), append(hints, keyHints(c, gate)...), nil
}

// keyHints say that a gate requires a key, and where the client sends it.
func keyHints(c *config.Config, gate string) []string {
	name := cmp.Or(gate, yard.DefaultGate)
	if gate == "" && len(c.Gates) == 1 {
		name = slices.Collect(maps.Keys(c.Gates))[0]
	}
	if c.Gates[name].Callers != config.Keys {
		return nil
	}
	scopes := "--scope gate:" + name
	if c.Gates[name].Mode == toolyard.Write {
		scopes += " --scope write"
	}
	return []string{
		fmt.Sprintf("Gate %s requires an API key. Create one: toolyard keys create --name KEY --caller YOU %s", name, scopes),
		`Add it to the entry in the client's file: "headers": {"Authorization": "Bearer TOKEN"}`,
	}
}

// uninstall is the file without us. If what was there before we came is known to the byte,
// it is that.
func uninstall(file string, before []byte, client *clientconfig.Client, name string) ([]byte, error) {
	after, err := client.Remove(before, name)
	if err != nil || bytes.Equal(before, after) {
		return before, err
	}
	backup, err := readFile(file + backupSuffix)
	if err != nil {
		return after, nil //nolint:nilerr // it is only the better way
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

// listClients shows where each client keeps its servers, and whether we are among them.
func (p *program) listClients(at surroundings, name string) error {
	w := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CLIENT\tINSTALLED\tFILE")
	for _, c := range clientconfig.Clients {
		paths := at.paths(c)
		for n, path := range paths {
			state := installed(path, name)
			if state == "no file" && n < len(paths)-1 {
				continue // projects need not have one
			}
			fmt.Fprintf(w, "%s\t%s\t%s\n", c.ID, state, untrusted.Printable(path))
		}
	}
	return w.Flush()
}

func installed(path, name string) string {
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

// readFile reads a client's file, which must be a file and not too large.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", path)
	}
	f, err := os.Open(path) //nolint:gosec // the files of clients are what this is about
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	data, err := io.ReadAll(io.LimitReader(f, clientconfig.MaxFile+1))
	if err == nil && len(data) > clientconfig.MaxFile {
		err = fmt.Errorf("%s has more than %d MiB", path, clientconfig.MaxFile>>20)
	}
	return data, err
}

const backupSuffix = ".bak"

// replaceFile writes a file as a whole or not at all, with the mode that it had, and keeps
// what was there beside it. A link stays a link.
func replaceFile(path string, before, after []byte, mode fs.FileMode) error {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // as the client itself would make it
		return err
	}
	now, err := readFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if !bytes.Equal(now, before) {
		return fmt.Errorf("%s changed in the meantime; try again", path)
	}
	if err == nil {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		mode = info.Mode().Perm()
		if err := writeAtOnce(path+backupSuffix, before, mode); err != nil {
			return err
		}
	}
	return writeAtOnce(path, after, mode)
}

// writeAtOnce puts a new file in the place of an old one. It follows no link.
func writeAtOnce(path string, data []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".toolyard-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // nothing more can be done
	}
	return err
}

// maxDiffLine is how many characters of a line are shown.
const maxDiffLine = 1000

// showDiff shows the lines that differ. No other line is shown: secrets may stand there.
func showDiff(out io.Writer, file string, before, after []byte) {
	a, b := splitLines(before), splitLines(after)
	first := 0
	for first < min(len(a), len(b)) && a[first] == b[first] {
		first++
	}
	endA, endB := len(a), len(b)
	for endA > first && endB > first && a[endA-1] == b[endB-1] {
		endA--
		endB--
	}
	file = untrusted.Printable(file)
	fmt.Fprintf(out, "--- %s\n+++ %s\n@@ -%s +%s @@\n", file, file, lineRange(first, endA), lineRange(first, endB))
	for _, line := range a[first:endA] {
		fmt.Fprintln(out, "-"+untrusted.Printable(shorten(masked(line), maxDiffLine)))
	}
	for _, line := range b[first:endB] {
		fmt.Fprintln(out, "+"+untrusted.Printable(shorten(masked(line), maxDiffLine)))
	}
}

// secretText is a text beside others that may hold a key.
var secretText = regexp.MustCompile(`(?i)("[^"]*(?:token|secret|key|passw|auth|credential|cookie)[^"]*"\s*:\s*)"[^"]*"`)

// masked is a line of a client's file without the keys that may stand in it.
func masked(line string) string { return secretText.ReplaceAllString(line, `$1"…"`) }

// lineRange is how a diff writes lines; where there are none, it names the line before.
func lineRange(first, end int) string {
	if first == end {
		return fmt.Sprintf("%d,0", first)
	}
	return fmt.Sprintf("%d,%d", first+1, end-first)
}

func splitLines(data []byte) (lines []string) {
	for line := range strings.Lines(string(data)) {
		lines = append(lines, strings.TrimRight(line, "\r\n"))
	}
	return lines
}
