package secret

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolyard/toolyard/internal/base/spelling"
)

// Vault resolves references on demand and redacts resolved secrets. It is safe for concurrent use.
type Vault struct {
	options Options
	known   *known
	stores  map[string]*store // by name

	mu     sync.Mutex
	warned map[string]bool // by path
	opened map[string]aged // by path
}

// Options configures a Vault.
type Options struct {
	Named    map[string]string           // references by name
	Getenv   func(string) (string, bool) // reads an environment variable; may be nil
	Dir      string                      // base folder for relative paths
	Identity string                      // path to the age identity file; may be empty
	Stores   map[string]Store            // by name, which is the scheme in references
	Warn     func(message string)        // receives warnings; may be nil
	Previous *Vault                      // vault to replace: its secrets stay redacted, and unchanged stores are kept; may be nil
}

// NewVault returns a vault. It does not read any secrets.
func NewVault(o Options) *Vault {
	o.Named = maps.Clone(o.Named)
	if o.Getenv == nil {
		o.Getenv = func(string) (string, bool) { return "", false }
	}
	if o.Warn == nil {
		o.Warn = func(string) {}
	}
	previous := o.Previous
	o.Previous = nil // don't keep earlier vaults alive
	v := &Vault{options: o, known: &known{}, stores: make(map[string]*store, len(o.Stores)), warned: make(map[string]bool), opened: make(map[string]aged)}
	if previous != nil {
		v.known = previous.known
	}
	for name, c := range o.Stores {
		if previous != nil && previous.options.Dir == o.Dir && previous.options.Identity == o.Identity {
			if s := previous.stores[name]; s != nil && s.same(c) {
				v.stores[name] = s
				continue
			}
		}
		v.stores[name] = newStore(c, v.newDriver(c))
	}
	return v
}

func (v *Vault) newDriver(c Store) driver {
	if c.URL != "" {
		return newKVDriver(c, v.bootstrap, v.Hide)
	}
	return &commandDriver{command: c.Command, env: c.Env, json: c.JSON, dir: v.options.Dir, expand: func(template string) (string, error) {
		text, _, err := expand(template, func(ref string) (Text, error) {
			s, err := v.bootstrap(ref)
			return New(s), err
		})
		return text.Reveal(), err
	}}
}

// bootstrap resolves a secret that a store needs. It must not be a named secret or a secret in a
// store, so that a store depends only on its own configuration.
func (v *Vault) bootstrap(ref string) (string, error) {
	if r, err := v.parse(ref); err == nil && (r.kind == unknown || r.kind == inStore) {
		return "", errors.New("a secret used by a secret store must be env:NAME, file:path or age:path#key")
	}
	text, err := v.Resolve(ref)
	return text.Reveal(), err
}

// Check returns an error if a reference is invalid. It does not read the secret.
func (v *Vault) Check(ref string) error {
	r, err := v.find(ref)
	if err != nil || r.kind != inStore {
		return err
	}
	if err := CheckReference(v.stores[r.store].config, r.target); err != nil {
		return fmt.Errorf("%s: %w", r, err)
	}
	return nil
}

// Failures returns the secrets that recently could not be read from their stores, sorted.
func (v *Vault) Failures() (list []Failure) {
	for _, name := range slices.Sorted(maps.Keys(v.stores)) {
		failures := v.stores[name].failures(name, time.Now())
		slices.SortFunc(failures, func(a, b Failure) int { return strings.Compare(a.Reference, b.Reference) })
		list = append(list, failures...)
	}
	return list
}

// kind is a kind of reference.
type kind int

const (
	unknown kind = iota
	inEnvironment
	inFile
	inAge
	inStore
)

// reference is a parsed reference.
type reference struct {
	kind   kind
	store  string
	target string // variable, path, or reference within a store
	key    string // key of a value in an age file
}

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// parse parses a reference. Errors do not contain the input, because it may be a misplaced secret.
func (v *Vault) parse(ref string) (reference, error) {
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
	case found && v.stores[scheme] != nil:
		return reference{kind: inStore, store: scheme, target: target}, nil
	}
	return reference{}, nil
}

// Resolve reads the secret that a reference refers to: env:NAME, file:path, age:path, age:path#key,
// STORE:reference for a configured store, or the name of a configured reference. Errors contain no
// part of a secret.
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
	v.known.add(s)
	return New(s), nil
}

// find parses a reference or looks up a named one. A named reference cannot refer to another name.
func (v *Vault) find(ref string) (reference, error) {
	r, err := v.parse(ref)
	if err != nil || r.kind != unknown {
		return r, err
	}
	named, ok := v.options.Named[ref]
	if !ok {
		return r, v.noReference(ref)
	}
	if r, err = v.parse(named); err == nil && r.kind == unknown {
		err = errors.New("not a secret reference: " + v.forms())
	}
	if err != nil {
		return r, fmt.Errorf("secret %s: %w", ref, err)
	}
	return r, nil
}

// forms lists the supported reference formats.
func (v *Vault) forms() string {
	if len(v.stores) == 0 {
		return "use env:NAME, file:path or age:path#key"
	}
	return "use env:NAME, file:path, age:path#key or, for a secret store, " + strings.Join(slices.Sorted(maps.Keys(v.stores)), ":…, ") + ":…"
}

// noReference returns the error for a string that is neither a reference nor a known name.
func (v *Vault) noReference(ref string) error {
	text := "not a secret reference: " + v.forms()
	names := slices.Sorted(maps.Keys(v.options.Named))
	if len(names) > 0 {
		text += ", or the name of a configured secret"
	}
	return errors.New(text + spelling.DidYouMean(ref, names))
}

// String returns the reference as configured. It is not secret.
func (r reference) String() string {
	switch {
	case r.kind == inEnvironment:
		return "env:" + r.target
	case r.kind == inFile:
		return "file:" + r.target
	case r.kind == inStore:
		return r.store + ":" + r.target
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
			err = errors.New("the environment variable is not set")
		}
	case inFile:
		s, err = v.readFile(r.target)
	case inStore:
		s, err = v.stores[r.store].get(r.target)
	default:
		s, err = v.readAge(r.target, r.key)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", r, err)
	}
	return s, nil
}

const opening = "${secret:"

// Expand replaces each ${secret:ref} in a template, and reports whether there were any.
func (v *Vault) Expand(template string) (text Text, secret bool, err error) {
	return expand(template, v.Resolve)
}

// References returns the references in a template, up to the first syntax error.
func References(template string) (refs []string) {
	_, _, _ = expand(template, func(ref string) (Text, error) { refs = append(refs, ref); return Text{}, nil })
	return refs
}

func expand(template string, resolve func(ref string) (Text, error)) (text Text, secret bool, err error) {
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
			return Text{}, true, errors.New("${secret: has no closing }")
		}
		s, err := resolve(ref)
		if err != nil {
			return Text{}, true, fmt.Errorf("${secret:…}: %w", err)
		}
		b.WriteString(s.Reveal())
		rest, secret = more, true
	}
}
