package secret

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/toolyard/toolyard/internal/base/spelling"
)

// Vault resolves references on demand and redacts resolved secrets. It is safe for concurrent use.
type Vault struct {
	options Options

	mu     sync.Mutex
	warned map[string]bool // by path
	opened map[string]aged // by path
	known  []string        // resolved secrets, oldest first; elements are immutable

	replacer atomic.Pointer[func() *strings.Replacer] // nil while there is nothing to redact; built on first use
}

// Options configure a Vault.
type Options struct {
	Named    map[string]string           // references by name
	Getenv   func(string) (string, bool) // reads an environment variable; nil for none
	Dir      string                      // relative paths are relative to it
	Identity string                      // path of the age identity file, "" for none
	Warn     func(message string)        // receives warnings; may be nil
}

// NewVault returns a vault. It does not read any secret.
func NewVault(o Options) *Vault {
	o.Named = maps.Clone(o.Named)
	if o.Getenv == nil {
		o.Getenv = func(string) (string, bool) { return "", false }
	}
	if o.Warn == nil {
		o.Warn = func(string) {}
	}
	return &Vault{options: o, warned: make(map[string]bool), opened: make(map[string]aged)}
}

// kind is the type of a reference.
type kind int

const (
	unknown kind = iota
	inEnvironment
	inFile
	inAge
)

// reference is a parsed reference.
type reference struct {
	kind   kind
	target string // a variable or a path
	key    string // of one value in an age file
}

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// parse parses a reference. Its errors do not quote the input, which may be a misplaced secret.
func parse(ref string) (reference, error) {
	scheme, target, found := strings.Cut(ref, ":")
	switch {
	case found && scheme == "env":
		if !variable.MatchString(target) {
			return reference{}, errors.New("expected env: followed by the name of an environment variable (letters, digits and _)")
		}
		return reference{kind: inEnvironment, target: target}, nil
	case found && scheme == "file":
		if target == "" {
			return reference{}, errors.New(`expected "file:" followed by a path`)
		}
		return reference{kind: inFile, target: target}, nil
	case found && scheme == "age":
		path, key, hasKey := strings.Cut(target, "#")
		if path == "" || hasKey && key == "" {
			return reference{}, errors.New("expected age: followed by a path, or by a path, # and a key")
		}
		return reference{kind: inAge, target: path, key: key}, nil
	}
	return reference{}, nil
}

// Resolve reads the secret of a reference: env:NAME, file:path, age:path, age:path#key, or the name
// of a configured reference. Its errors contain no part of a secret.
func (v *Vault) Resolve(ref string) (Text, error) {
	r, err := v.find(ref)
	if err != nil {
		return Text{}, err
	}
	s, err := v.read(r)
	if err != nil {
		return Text{}, err
	}
	if s == "" {
		return Text{}, fmt.Errorf("%s is empty", r)
	}
	v.remember(s)
	return New(s), nil
}

// find parses a reference or looks up a named one. A name cannot refer to another name.
func (v *Vault) find(ref string) (reference, error) {
	r, err := parse(ref)
	if err != nil || r.kind != unknown {
		return r, err
	}
	named, ok := v.options.Named[ref]
	if !ok {
		return r, v.noReference(ref)
	}
	if r, err = parse(named); err == nil && r.kind == unknown {
		err = errors.New("not a secret reference: " + forms)
	}
	if err != nil {
		return r, fmt.Errorf("the secret named %s: %w", ref, err)
	}
	return r, nil
}

const forms = "use env:NAME, file:path or age:path#key"

// noReference returns the error for a string that is neither a reference nor a known name.
func (v *Vault) noReference(ref string) error {
	text := "not a secret reference: " + forms
	names := slices.Sorted(maps.Keys(v.options.Named))
	if len(names) > 0 {
		text += ", or the name of a configured secret"
	}
	return errors.New(text + spelling.DidYouMean(ref, names))
}

// String returns the reference as configured, which is not secret.
func (r reference) String() string {
	switch {
	case r.kind == inEnvironment:
		return "env:" + r.target
	case r.kind == inFile:
		return "file:" + r.target
	case r.key != "":
		return "age:" + r.target + "#" + r.key
	}
	return "age:" + r.target
}

func (v *Vault) read(r reference) (string, error) {
	var s string
	var err error
	switch r.kind {
	case inEnvironment:
		var ok bool
		if s, ok = v.options.Getenv(r.target); !ok {
			err = errors.New("this environment variable is not set")
		}
	case inFile:
		s, err = v.readFile(r.target)
	default:
		s, err = v.readAge(r.target, r.key)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", r, err)
	}
	return s, nil
}

const opening = "${secret:"

// Expand replaces each ${secret:ref} in a template, and reports whether there was any.
func (v *Vault) Expand(template string) (text Text, secret bool, err error) {
	var b strings.Builder
	rest := template
	for {
		before, after, found := strings.Cut(rest, opening)
		b.WriteString(before)
		if !found {
			return New(b.String()), secret, nil
		}
		ref, more, closed := strings.Cut(after, "}")
		if !closed {
			return Text{}, true, errors.New("a ${secret: is unterminated")
		}
		s, err := v.Resolve(ref)
		if err != nil {
			return Text{}, true, fmt.Errorf("${secret:…}: %w", err)
		}
		b.WriteString(s.Reveal())
		rest, secret = more, true
	}
}
