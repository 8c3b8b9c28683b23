package clientconfig

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/toolyard/toolyard/internal/base/ident"
)

// maxID is the maximum length of an imported server's ID.
const maxID = 64

// Sections are the sections of toolyard.yaml for imported servers.
type Sections struct {
	servers []yardServer
	secrets []yardSecret
}

// yardServer is a server in toolyard.yaml.
type yardServer struct {
	id      string
	fields  []field
	secrets []string // names of the secrets that it uses
}

// yardSecret is a secret and the source of its value.
type yardSecret struct{ name, source string }

// Translator converts clients' servers to sections of toolyard.yaml. It replaces values that look
// like secrets with references to environment variables.
type Translator struct {
	Home, Project string   // values of ${userHome} and ${workspaceFolder}
	Self          []string // base names of programs that are Toolyard itself
	Address       string   // host:port at which Toolyard itself is served
	Getenv        Getenv   // reads Toolyard's environment; may be nil

	sections Sections
	notes    []string
	taken    map[string]*Server // by ID
	named    map[string]bool    // names of all secrets
	literals map[string]string  // value that each variable of an imported server must have
	words    map[string]bool    // names that new variables must not have: all words in the configuration file, and variables that servers reference
	present  map[string]bool    // IDs of the servers in the configuration file
}

var word = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)

// Existing sets the configuration file to which the servers are added. Servers that it already
// contains are skipped, and its variables and secrets are not reused for other servers.
func (t *Translator) Existing(data []byte) error {
	tree, err := parseYAML(data)
	if err != nil {
		return err
	}
	t.init()
	for _, w := range word.FindAllString(string(data), -1) {
		t.words[w] = true
	}
	if servers := tree.get("servers"); servers != nil {
		for _, m := range servers.members {
			t.present[m.name] = true
		}
	}
	if secrets := tree.get("secrets"); secrets != nil {
		for _, m := range secrets.members {
			t.named[m.name] = true
		}
	}
	return nil
}

func (t *Translator) init() {
	if t.taken == nil {
		t.taken, t.named, t.literals = make(map[string]*Server), make(map[string]bool), make(map[string]string)
		t.words, t.present = make(map[string]bool), make(map[string]bool)
	}
}

// Add converts servers.
func (t *Translator) Add(servers []Server) {
	t.init()
	for i := range servers {
		for _, text := range servers[i].texts() {
			for _, m := range urlVariable.FindAllStringSubmatch(text, -1) {
				t.words[word.FindString(strings.TrimPrefix(m[1], "env:"))] = true
			}
		}
	}
	for i := range servers {
		t.add(&servers[i])
	}
}

// Sections returns the sections of all converted servers.
func (t *Translator) Sections() *Sections { return &t.sections }

// Notes returns messages for the user, one line each.
func (t *Translator) Notes() []string { return t.notes }

func (t *Translator) note(format string, args ...any) {
	t.notes = append(t.notes, brief(fmt.Sprintf(format, args...)))
}

// isAddress reports whether a URL refers to Toolyard itself.
func (t *Translator) isAddress(address string) bool {
	u, err := url.Parse(address)
	_, port, _ := net.SplitHostPort(t.Address)
	return err == nil && port != "" && u.Port() == port && slices.Contains([]string{"127.0.0.1", "localhost", "::1"}, u.Hostname())
}

func (t *Translator) add(s *Server) {
	switch {
	case s.Project != "" && s.Project != t.Project:
		return
	case slices.Contains(t.Self, programOf(s.Command)), t.isAddress(s.URL):
		t.note("%s is Toolyard itself and is skipped", s.Name)
		return
	case s.Disabled:
		t.note("%s is disabled and is skipped", s.Name)
		return
	}
	id, known := t.id(s)
	if known {
		return
	}
	if t.present[id] {
		t.note("server %s is already in the configuration and is unchanged", id)
		t.taken[id] = s
		return
	}
	c := conversion{t: t, id: id}
	server := yardServer{id: id, fields: c.fields(s)}
	if c.problem != "" {
		t.note("%s is skipped: %s", s.Name, c.problem)
		return
	}
	if id != s.Name {
		t.note("%s is imported as %s", s.Name, id)
	}
	t.notes = append(t.notes, c.notes...)
	t.taken[id] = s
	maps.Copy(t.literals, c.literals)
	for _, secret := range c.secrets {
		server.secrets = append(server.secrets, secret.name)
		t.named[secret.name] = true
	}
	t.sections.servers = append(t.sections.servers, server)
	t.sections.secrets = append(t.sections.secrets, c.secrets...)
}

// programOf returns the name of a program without its folder and the suffix .exe.
func programOf(command string) string {
	if i := strings.LastIndexAny(command, `/\`); i >= 0 {
		command = command[i+1:]
	}
	return strings.TrimSuffix(command, ".exe")
}

// id returns an unused ID for a server. If the same server was already added from another client,
// known is true.
func (t *Translator) id(s *Server) (id string, known bool) {
	base := ServerID(s.Name)
	for n := 1; ; n++ {
		id = base
		if n > 1 {
			id = fmt.Sprintf("%s-%d", base, n)
		}
		present, taken := t.taken[id]
		if !taken {
			return id, false
		}
		if present.same(s) {
			return id, true
		}
	}
}

// ServerID converts a name to a valid server ID.
func ServerID(name string) string {
	if ident.CheckServerID(name) == nil && len(name) <= maxID {
		return name
	}
	var b strings.Builder
	for _, r := range name {
		last := byte('-')
		if b.Len() > 0 {
			last = b.String()[b.Len()-1]
		}
		switch {
		case b.Len() >= maxID:
		case r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)):
			b.WriteRune(r)
		case last != '-' && last != '.' && r == '.':
			b.WriteByte('.')
		case last != '-' && last != '.':
			b.WriteByte('-')
		}
	}
	id := strings.Trim(b.String(), "-.")
	if id == "" {
		return "server"
	}
	return id
}

// Len returns the number of servers.
func (s *Sections) Len() int { return len(s.servers) }

// YAML encodes the sections.
func (s *Sections) YAML() []byte {
	var lines []string
	if len(s.secrets) > 0 {
		lines = append(lines, "secrets:")
	}
	for _, e := range s.secretEntries() {
		lines = append(lines, e.lines("  ")...)
	}
	if len(s.servers) > 0 {
		lines = append(lines, "servers:")
	}
	for _, e := range s.serverEntries() {
		lines = append(lines, e.lines("  ")...)
	}
	if len(lines) == 0 {
		return nil
	}
	return []byte(strings.Join(lines, "\n") + "\n")
}

func (s *Sections) secretEntries() (entries []yamlEntry) {
	for _, secret := range s.secrets {
		entries = append(entries, yamlEntry{secret.name, secret.source})
	}
	return entries
}

func (s *Sections) serverEntries() (entries []yamlEntry) {
	for _, server := range s.servers {
		entries = append(entries, yamlEntry{server.id, server.fields})
	}
	return entries
}

// AddTo adds the sections to the text of a toolyard.yaml and preserves the rest, including comments
// and order. It returns messages about servers that are skipped, because their ID already exists or
// the name of one of their secrets has another source.
func (s *Sections) AddTo(data []byte) (out []byte, left []string, err error) {
	tree, err := parseYAML(data)
	if err != nil {
		return nil, nil, err
	}
	fresh, left := s.without(tree)
	if len(fresh.secrets) > 0 {
		if data, err = insertYAML(data, "secrets", fresh.secretEntries()); err != nil {
			return nil, nil, err
		}
	}
	if len(fresh.servers) > 0 {
		data, err = insertYAML(data, "servers", fresh.serverEntries())
	}
	return data, left, err
}

// without returns the sections, excluding entries that the file already contains.
func (s *Sections) without(tree *node) (fresh *Sections, left []string) {
	fresh = &Sections{}
	sources := make(map[string]string)
	for _, secret := range s.secrets {
		sources[secret.name] = secret.source
	}
	secrets, needed := tree.get("secrets"), make(map[string]bool)
	for _, server := range s.servers {
		taken := slices.IndexFunc(server.secrets, func(name string) bool {
			present := secrets.get(name)
			return present != nil && present.text != sources[name]
		})
		switch {
		case tree.get("servers").get(server.id) != nil:
			left = append(left, fmt.Sprintf("server %s already exists and was not changed", server.id))
			continue
		case taken >= 0:
			left = append(left, fmt.Sprintf("server %s is skipped: a different secret %s already exists; rename it", server.id, server.secrets[taken]))
			continue
		}
		fresh.servers = append(fresh.servers, server)
		for _, name := range server.secrets {
			needed[name] = secrets.get(name) == nil
		}
	}
	for _, secret := range s.secrets {
		if needed[secret.name] {
			fresh.secrets = append(fresh.secrets, secret)
		}
	}
	return fresh, left
}
