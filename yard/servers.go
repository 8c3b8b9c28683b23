package yard

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/sources/pin"
	"github.com/toolyard/toolyard/internal/trust/secret"
	"github.com/toolyard/toolyard/upstream"
)

// LockFile is the name of the file beside a configuration that holds the definitions of the
// tools that were approved: toolyard.lock for toolyard.yaml.
func LockFile(config string) string {
	return strings.TrimSuffix(config, filepath.Ext(config)) + ".lock"
}

// server is an MCP server of the configuration.
type server struct {
	*upstream.Server
	config serverConfig
}

// serverConfig is all of a configuration that one server is made of.
type serverConfig struct {
	config.Server
	private  []config.Network
	secrets  map[string]config.SecretRef
	identity string
}

// newServers makes the servers of a configuration. Those that the old settings have and
// that are still asked for as they were go on.
func (y *Yard) newServers(c *config.Source, old *settings) (map[string]*server, error) {
	servers := make(map[string]*server, len(c.Servers))
	vault := y.newVault(c.Config)
	if old := y.vault.Load(); old != nil {
		vault.Inherit(old)
	}
	y.vault.Store(vault)
	for _, text := range c.Hushed {
		vault.Hide(text)
	}
	for id, s := range c.Servers {
		sc := serverConfig{Server: s, private: c.Private}
		sc.Rate, sc.ExecuteUSD, sc.Terms = nil, nil, nil // they are read from the settings, and no reason to start anew
		if usesSecrets(&s) {
			sc.secrets, sc.identity = c.Secrets, c.Identity
		}
		if old != nil && old.servers[id] != nil && reflect.DeepEqual(old.servers[id].config, sc) {
			servers[id] = old.servers[id]
			continue
		}
		u, err := upstream.New(y.serverOptions(id, sc, vault))
		if err != nil {
			return nil, err
		}
		servers[id] = &server{u, sc}
	}
	return servers, nil
}

// located are problems with the place of their server in the configuration file, where they
// are about a server as a whole.
func (s *settings) located(problems []toolyard.Problem) []toolyard.Problem {
	list := slices.Clone(problems)
	for i, p := range list {
		server, ok := s.Servers[p.Source]
		if !ok || p.File != "" || p.Tool != "" {
			continue
		}
		key := "command"
		if server.URL != "" {
			key = "url"
		}
		list[i] = s.At(p, "servers", p.Source, key)
	}
	return list
}

func (y *Yard) newVault(c *config.Config) *secret.Vault {
	named := make(map[string]string, len(c.Secrets))
	for name, ref := range c.Secrets {
		named[name] = string(ref)
	}
	return secret.NewVault(secret.Options{
		Named: named, Getenv: y.opts.Getenv, Dir: filepath.Dir(y.opts.ConfigFile), Identity: y.beside(c.Identity),
		Warn: func(message string) { y.log.Warn("secret", "problem", message) },
	})
}

// beside is a path of the configuration, which is relative to its file.
func (y *Yard) beside(path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(y.opts.ConfigFile), path)
}

func usesSecrets(s *config.Server) bool {
	isSecret := func(value string) bool { return strings.Contains(value, "${secret:") }
	return s.Auth != nil || slices.ContainsFunc(slices.Collect(maps.Values(s.Env)), isSecret) ||
		slices.ContainsFunc(slices.Collect(maps.Values(s.Headers)), isSecret)
}

func (y *Yard) serverOptions(id string, c serverConfig, vault *secret.Vault) upstream.Options {
	o := upstream.Options{
		ID: id, Transport: upstream.Transport(c.Transport), URL: c.URL, Dir: y.beside(c.Dir), Connections: c.Limits.Concurrency,
		Tools: c.Tools, Resources: c.Resources, Effects: c.Effects, Trust: c.Trust == "annotations",
		Pins: pins{y.book}, Pinning: upstream.Pinning(c.Pin), Timeout: time.Duration(c.Limits.Timeout), Timeouts: make(map[string]time.Duration),
		Name: "toolyard", Version: y.opts.Version, Self: y.id, Redact: vault.Redact, Log: y.log,
		Env:     func() ([]string, error) { return environment(c.Env, vault) },
		Headers: func() (http.Header, error) { return headers(&c.Server, vault) },
	}
	if y.opts.AskFirst && o.Pinning != upstream.PinOff {
		o.Pinning = upstream.PinApprove
	}
	if c.Command != "" {
		program := c.Command
		if strings.ContainsRune(program, '/') { // otherwise it is looked for in PATH
			if abs, err := filepath.Abs(y.beside(program)); err == nil {
				program = abs
			}
		}
		o.Command = append([]string{program}, c.Args...)
	}
	if c.Dir == "" && c.Command != "" {
		o.Dir = filepath.Dir(y.opts.ConfigFile)
	}
	o.Private = prefixes(c.private)
	for tool, timeout := range c.Timeouts {
		o.Timeouts[tool] = time.Duration(timeout)
	}
	if c.Limits.Args != nil {
		o.Bounds.Args = int(*c.Limits.Args)
	}
	if c.Limits.Result != nil {
		o.Bounds.Result = int(*c.Limits.Result)
	}
	return o
}

// reveal fills the secrets into the values of a map. What looks like a secret by its name
// is hidden as one.
func reveal(values map[string]string, vault *secret.Vault, use func(name, value string)) error {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value, isSecret, err := vault.Expand(values[name])
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if !isSecret && config.LooksSecret(name) {
			vault.Hide(value.Reveal())
		}
		use(name, value.Reveal())
	}
	return nil
}

// environment is what the process of a server gets.
func environment(values map[string]string, vault *secret.Vault) (env []string, err error) {
	err = reveal(values, vault, func(name, value string) { env = append(env, name+"="+value) })
	return env, err
}

// headers are what every request to a server carries.
func headers(s *config.Server, vault *secret.Vault) (http.Header, error) {
	h := http.Header{}
	if err := reveal(s.Headers, vault, h.Set); err != nil {
		return nil, err
	}
	if s.Auth != nil {
		token, err := vault.Resolve(s.Auth.SecretRef)
		if err != nil {
			return nil, fmt.Errorf("auth: %w", err)
		}
		h.Set("Authorization", "Bearer "+token.Reveal())
	}
	return h, nil
}

// checkPicks finds servers that toolsets of the file name and nobody has approved.
func (y *Yard) checkPicks(s *settings) error {
	known := slices.Concat(slices.Collect(maps.Keys(s.servers)), slices.Collect(maps.Keys(y.opts.Sources)))
	var faults config.Faults
	for _, name := range slices.Sorted(maps.Keys(s.Toolsets)) {
		if s.edits.changes(name) { // it was checked when it was changed; the rest is a problem of the gates
			continue
		}
		for i, pick := range s.Toolsets[name].Servers {
			if slices.Contains(known, pick.ID) {
				continue
			}
			p := toolyard.Problem{Subject: "toolsets." + name, Message: fmt.Sprintf("names the server %q, which is not under servers", pick.ID), Fix: "Only servers that stand under servers can be used."}
			if near := toolyard.Nearest(pick.ID, known); near != "" {
				p.Fix = "Did you mean " + near + "?"
			}
			faults = append(faults, s.At(p, "toolsets", name, "servers", fmt.Sprint(i)))
		}
	}
	if len(faults) > 0 {
		return faults
	}
	return nil
}

// ups are all servers, and whether they can be used.
func (y *Yard) ups() map[string]bool {
	up := make(map[string]bool)
	for id, s := range y.config.Load().servers {
		up[id] = s.Up()
	}
	return up
}

// Down are the servers that cannot be used now, sorted.
func (y *Yard) Down() (ids []string) {
	for id, s := range y.config.Load().servers {
		if !s.Up() {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// missing are the servers that must be up and are not.
func (y *Yard) missing() (ids []string) {
	for id, s := range y.config.Load().servers {
		if s.config.Required && (!s.Up() || !y.shows(s)) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// shows reports whether the gates know of all tools of a server.
func (y *Yard) shows(s *server) bool {
	y.publishing.Lock()
	defer y.publishing.Unlock()
	g := y.catalog.Now()
	known := make(map[*toolyard.Tool]bool, len(g.Tools))
	for _, t := range g.Tools {
		known[t] = true
	}
	return y.published.offered == g.Offered && !slices.ContainsFunc(s.Tools(), func(t *toolyard.Tool) bool { return !known[t] })
}

// pins are the approved definitions as servers see them.
type pins struct{ book *pin.Book }

// Pinned implements [upstream.Pins].
func (p pins) Pinned(server string) map[string]json.RawMessage {
	e, _ := p.book.Entry(server)
	return e.Tools
}

// Pin implements [upstream.Pins].
func (p pins) Pin(server string, change func(map[string]json.RawMessage) map[string]json.RawMessage) error {
	return p.book.Update(server, func(e *pin.Entry) { e.Tools = change(e.Tools) })
}

// Rejections implements [upstream.Pins].
func (p pins) Rejections(server string) map[string]string {
	e, _ := p.book.Entry(server)
	return e.Rejected
}

// SetRejections implements [upstream.Pins].
func (p pins) SetRejections(server string, change func(map[string]string) map[string]string) error {
	return p.book.Update(server, func(e *pin.Entry) { e.Rejected = change(e.Rejected) })
}

// Protocol implements [upstream.Pins].
func (p pins) Protocol(server string) string {
	e, _ := p.book.Entry(server)
	return e.Protocol
}

// SetProtocol implements [upstream.Pins].
func (p pins) SetProtocol(server, version string) error {
	return p.book.Update(server, func(e *pin.Entry) { e.Protocol = version })
}

// prefixes are networks as the configuration, which was checked, has them.
func prefixes(networks []config.Network) (list []netip.Prefix) {
	for _, network := range networks {
		if p, err := netip.ParsePrefix(string(network)); err == nil {
			list = append(list, p)
		}
	}
	return list
}
