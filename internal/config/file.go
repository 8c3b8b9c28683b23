package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/config/yamltree"
	"github.com/toolyard/toolyard/internal/trust/jsonschema"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// Faults are the errors in a file.
type Faults []toolyard.Problem

func (f Faults) Error() string {
	var lines []string
	for _, p := range f {
		lines = append(lines, p.String())
	}
	return strings.Join(lines, "\n")
}

// Source is a parsed file and the positions of its keys.
type Source struct {
	*Config
	SensitiveValues []string           // values of variables whose names suggest secrets
	Warnings        []toolyard.Problem // warnings about renamed keys

	name      string
	text      []byte
	positions map[string]position
	variables map[string]bool // variables that have no default
}

// Text returns the text that the configuration was parsed from; it may be nil.
func (s *Source) Text() []byte { return s.text }

// Variables returns the environment variables that the configuration requires: those that have no
// default, and those used for secrets.
func (s *Source) Variables() []string {
	names := maps.Clone(s.variables)
	if names == nil {
		names = make(map[string]bool)
	}
	refs := slices.Collect(maps.Values(s.Secrets))
	for _, ref := range s.Connections.Keys {
		refs = append(refs, SecretRef(ref))
	}
	for _, server := range s.Servers {
		if server.Auth != nil {
			for _, ref := range server.Auth.secretRefs() {
				refs = append(refs, SecretRef(ref))
			}
		}
	}
	for _, store := range s.SecretStores {
		if store.Auth != nil {
			refs = append(refs, SecretRef(store.Auth.SecretRef))
		}
	}
	for _, issuer := range s.Issuers {
		if issuer.Console != nil {
			refs = append(refs, SecretRef(issuer.Console.SecretRef))
		}
		if issuer.Introspect != nil {
			refs = append(refs, SecretRef(issuer.Introspect.SecretRef))
		}
	}
	for _, ref := range refs {
		if name, ok := strings.CutPrefix(string(ref), "env:"); ok {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

var secretName = regexp.MustCompile(`(?i)token|secret|key|passw|auth|credential|cookie`)

// LooksSecret reports whether a name suggests a secret.
func LooksSecret(name string) bool { return secretName.MatchString(name) }

type position struct{ line, column int }

// Load reads a file. The error has type Faults, unless the file cannot be read.
func Load(name string, getenv func(string) (string, bool)) (*Source, error) {
	data, err := os.ReadFile(name) //nolint:gosec // the operator's own file
	if err != nil {
		return nil, err
	}
	return Parse(name, data, getenv)
}

// Parse parses and validates a configuration. It uses getenv to expand ${VAR} and ${VAR:-default}
// in values.
func Parse(name string, data []byte, getenv func(string) (string, bool)) (*Source, error) {
	if len(data) > maxFile {
		return nil, Faults{{Subject: "file", File: name, Line: 1, Column: 1, Message: fmt.Sprintf("exceeds %d bytes", maxFile)}}
	}
	s := &Source{name: name, text: data, positions: make(map[string]position), variables: make(map[string]bool)}
	tree, err := yamltree.Parse(data)
	if problems, ok := errors.AsType[yamltree.Error](err); ok {
		return nil, s.unreadable(problems, data)
	} else if err != nil {
		return nil, err
	}
	w := walker{source: s, getenv: getenv}
	value := w.value(tree, nil)
	if len(w.faults) > 0 {
		return nil, w.faults
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, Faults{{Subject: "file", File: name, Line: 1, Column: 1, Message: err.Error()}}
	}
	config, issues := decode(raw)
	if len(issues) > 0 {
		return nil, s.faults(issues)
	}
	s.Config = config
	return s, nil
}

// At sets a problem's position to that of a key.
func (s *Source) At(p toolyard.Problem, steps ...string) toolyard.Problem {
	p.File = s.name
	at := s.nearest(steps)
	p.Line, p.Column = at.line, at.column
	return p
}

// nearest returns the position of the deepest key on a path that exists in the file.
func (s *Source) nearest(steps []string) position {
	for n := len(steps); n > 0; n-- {
		if at, ok := s.positions[key(steps[:n])]; ok {
			return at
		}
	}
	return position{1, 1}
}

func key(steps []string) string { return strings.Join(steps, "\x00") }

// Located converts issues with a part of the configuration to faults. steps is the path to the
// part.
func (s *Source) Located(issues []toolyard.Issue, steps ...string) (f Faults) {
	for _, i := range issues {
		at := slices.Concat(steps, i.Location)
		f = append(f, s.At(toolyard.Problem{Subject: untrusted.Prefix(jsonschema.FormatPath(at), 200), Message: i.Message}, at...))
	}
	return f
}

func (s *Source) faults(issues []toolyard.Issue) (f Faults) {
	for _, i := range issues {
		f = append(f, s.At(toolyard.Problem{Subject: i.Path, Message: i.Message}, i.Location...))
	}
	slices.SortStableFunc(f, func(a, b toolyard.Problem) int { return a.Line - b.Line })
	return f
}

// unreadable reports a file that cannot be parsed.
func (s *Source) unreadable(problems []yamltree.Problem, data []byte) (f Faults) {
	for _, p := range problems {
		fault := toolyard.Problem{Subject: strings.Join(p.Path, "."), File: s.name, Line: p.Line, Column: p.Column, Message: p.Message}
		if p.Syntax {
			fault.Subject = "syntax"
			if odd, ok := oddIndent(data, p.Line); ok {
				fault.Subject, fault.Message, fault.Line, fault.Column = "indentation", odd.String(), odd.line, odd.indent+1
			}
		}
		f = append(f, fault)
	}
	return f
}

const maxFile = 1 << 20

// walker converts a YAML tree to a JSON value, expands variables, and records the position of each
// key.
type walker struct {
	source *Source
	getenv func(string) (string, bool)
	faults Faults
}

func (w *walker) fault(at position, steps []string, message string) {
	w.faults = append(w.faults, toolyard.Problem{Subject: strings.Join(steps, "."), File: w.source.name, Line: at.line, Column: at.column, Message: message})
}

// warnRenamed warns about a key or value that uses its old name.
func (w *walker) warnRenamed(at position, old []string, renamed string) {
	w.source.Warnings = append(w.source.Warnings, toolyard.Problem{
		Subject: strings.Join(old, "."), File: w.source.name, Line: at.line, Column: at.column,
		Message: "was renamed to " + renamed, Fix: "Use the new name: support for the old name will be removed.", Warning: true,
	})
}

func (w *walker) value(n *yamltree.Node, steps []string) any {
	at := position{n.Line, n.Column}
	if _, known := w.source.positions[key(steps)]; !known {
		w.source.positions[key(steps)] = at
	}
	switch n.Kind {
	case yamltree.Mapping:
		return w.mapping(n, steps)
	case yamltree.Sequence:
		list := make([]any, 0, len(n.Items))
		for i, item := range n.Items {
			list = append(list, w.value(item, append(slices.Clip(steps), strconv.Itoa(i))))
		}
		return list
	case yamltree.String:
		value := w.expand(at, n.Text, steps)
		if renamed := newValue(steps, value); renamed != value {
			w.warnRenamed(at, append(slices.Clip(steps), fmt.Sprint(value)), fmt.Sprint(renamed))
			return renamed
		}
		return value
	case yamltree.Number:
		if f, ok := n.Value.(float64); ok && (math.IsInf(f, 0) || math.IsNaN(f)) {
			w.fault(at, steps, "must be a finite number")
		}
	}
	return n.Value
}

func (w *walker) mapping(n *yamltree.Node, steps []string) any {
	m := make(map[string]any, len(n.Members))
	for _, member := range n.Members {
		name, at := member.Name, position{member.Line, member.Column}
		if renamed := newKey(steps, name); renamed != name {
			w.warnRenamed(at, append(slices.Clip(steps), name), renamed)
			name = renamed
		}
		name = aliasedKey(steps, name)
		path := append(slices.Clip(steps), name)
		if _, twice := m[name]; twice {
			w.fault(at, path, "duplicate key")
			continue
		}
		w.source.positions[key(path)] = at
		before := len(w.faults)
		value := w.value(member.Value, path)
		if member.Name == nestedServers && name != nestedServers {
			value = unnest(value)
		}
		switch {
		case value != nil:
			m[name] = value
		case len(steps) > 0 && len(w.faults) == before: // a top-level key with no value counts as absent
			w.fault(at, path, "has no value")
		}
	}
	return m
}

// expand expands the variables in a string. If the result is true or false, it becomes a boolean.
func (w *walker) expand(at position, text string, steps []string) any {
	if !strings.Contains(text, "${") {
		return text
	}
	var b strings.Builder
	secrets := 0
	for rest := text; rest != ""; {
		before, after, found := strings.Cut(rest, "${")
		b.WriteString(before)
		if !found {
			break
		}
		expression, tail, closed := strings.Cut(after, "}")
		if !closed {
			w.fault(at, steps, "unterminated variable: write ${NAME} or ${NAME:-default}")
			return text
		}
		value, err := w.variable(expression)
		if name, _, _ := strings.Cut(expression, ":"); err == nil && LooksSecret(name) {
			w.source.SensitiveValues = append(w.source.SensitiveValues, value)
		}
		if strings.HasPrefix(expression, "secret:") {
			value, err = "${"+expression+"}", checkSecretPath(steps)
			secrets++
		}
		if err != nil {
			w.fault(at, steps, err.Error())
			return text
		}
		b.WriteString(value)
		rest = tail
	}
	expanded := b.String()
	if strings.Count(expanded, "${secret:") != secrets {
		w.fault(at, steps, "a variable contains a secret reference: write the reference directly in this file")
		return text
	}
	if isBool := expanded == "true" || expanded == "false"; isBool && !isString(steps) {
		return expanded == "true"
	}
	return expanded
}

// isString reports whether the value at a path stays a string even if it is true or false, because
// it is passed on as text.
func isString(steps []string) bool {
	return len(steps) > 3 && steps[0] == "servers" && slices.Contains([]string{"env", "headers", "args"}, steps[2]) ||
		len(steps) > 3 && steps[0] == "secretStores" && steps[2] != "auth" || isContextHeader(steps)
}

func (w *walker) variable(expression string) (string, error) {
	name, fallback, hasFallback := strings.Cut(expression, ":-")
	if !isName(name) {
		return "", fmt.Errorf("invalid variable name %q: write ${NAME} or ${NAME:-default}", expression)
	}
	if !hasFallback {
		w.source.variables[name] = true
	}
	if value, ok := w.getenv(name); ok && (value != "" || !hasFallback) {
		return value, nil
	}
	if !hasFallback {
		return "", fmt.Errorf("variable %s is not set: set it, or write ${%s:-default}", name, name)
	}
	return fallback, nil
}

// checkSecretPath allows secrets only in env and headers of servers, env of secret stores, headers
// of contexts, and settings of packs. They are expanded when they are used.
func checkSecretPath(steps []string) error {
	if len(steps) > 1 && steps[0] == "packs" || len(steps) == 4 && steps[0] == "servers" && (steps[2] == "env" || steps[2] == "headers") ||
		len(steps) == 4 && steps[0] == "secretStores" && steps[2] == "env" || isContextHeader(steps) {
		return nil
	}
	return errors.New("secrets are allowed only in a server's env and headers, in a context's headers and in packs, where other users cannot read them")
}

func isContextHeader(steps []string) bool {
	return len(steps) == 5 && steps[0] == "context" && steps[2] == "http" && steps[3] == "headers"
}

func isName(s string) bool {
	for i, c := range []byte(s) {
		letter := c == '_' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}
