package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/base/spelling"
	"github.com/toolyard/toolyard/internal/trust/secret"
)

// SecretRef is a reference to a secret.
type SecretRef string

// JSONSchema describes a SecretRef.
func (SecretRef) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"string","pattern":"^(env:[A-Za-z_][A-Za-z0-9_]*|file:.+|age:[^#]+(#.+)?|[a-z][a-z0-9-]{0,31}:.+)$","examples":["env:GITHUB_TOKEN","file:/run/secrets/github","age:secrets.age#github","vault:toolyard/github#token"]}`)
}

// SecretStore configures a secret store: a program that prints secrets, or a Vault or OpenBao
// server.
type SecretStore struct {
	Command []string          `json:"command,omitempty" maxItems:"64" doc:"A program that prints a secret to standard output, and its arguments. It isn't run in a shell. {ref} in an argument is replaced by the part of the reference after the colon. If no argument contains {ref}, that part is added as the last argument."`
	Env     map[string]string `json:"env,omitempty" doc:"Environment variables for the program, in addition to PATH, HOME, LANG, TZ and TMPDIR. Values can contain ${secret:env:NAME}, ${secret:file:path} and ${secret:age:path#key}."`
	Output  string            `json:"output" default:"text" enum:"text,json" doc:"What the program prints: the secret as text, or a JSON object. With json, references end with #FIELD."`
	VaultServer
	TTL   Duration `json:"ttl" default:"5m" doc:"How long a value is used before it is read again, 1s to 24h."`
	Stale Duration `json:"stale" default:"1h" doc:"How much longer a value is used if the store fails, at most 24h."`
}

// VaultServer is a Vault or OpenBao server.
type VaultServer struct {
	URL       string     `json:"url,omitempty" maxLength:"2048" doc:"The URL of a Vault or OpenBao server, such as https://vault.example.com:8200. References have the form PATH#FIELD."`
	Namespace string     `json:"namespace,omitempty" pattern:"^[^\\s]+$" doc:"The namespace that contains the secrets."`
	Mount     string     `json:"mount" default:"secret" pattern:"^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$" doc:"The mount path of the key/value engine."`
	KV        int        `json:"kv" default:"2" minimum:"1" maximum:"2" doc:"The version of the key/value engine."`
	Auth      *StoreAuth `json:"auth,omitempty" doc:"How to authenticate to the server."`
	Insecure  bool       `json:"insecure" default:"false" doc:"Allow plain HTTP outside loopback. Others on the network can then read the token and the secrets."`
}

// StoreAuth configures how to authenticate to a Vault or OpenBao server.
type StoreAuth struct {
	Type      string `json:"type" default:"token" enum:"token,approle,kubernetes" doc:"How to log in: with a token, AppRole or Kubernetes."`
	SecretRef string `json:"secretRef,omitempty" doc:"A reference (env:NAME, file:path or age:path#key) to the token, the AppRole secret ID, or the Kubernetes service account token. The default for Kubernetes is file:/var/run/secrets/kubernetes.io/serviceaccount/token."`
	Role      string `json:"role,omitempty" doc:"The AppRole role ID, or the Kubernetes role name."`
	Mount     string `json:"mount,omitempty" pattern:"^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*$" doc:"The mount path of the login method. Default: the type."`
}

const serviceAccountToken = "file:/var/run/secrets/kubernetes.io/serviceaccount/token" //nolint:gosec // default path in Kubernetes

// SecretStoreOptions returns the options for the configured secret stores.
func (c *Config) SecretStoreOptions() map[string]secret.Store {
	stores := make(map[string]secret.Store, len(c.SecretStores))
	for name, s := range c.SecretStores {
		store := secret.Store{
			Command: s.Command, Env: s.Env, JSON: s.Output == "json",
			URL: s.URL, Namespace: s.Namespace, Mount: s.Mount, Version: s.KV,
			TTL: s.TTL.Std(), Stale: s.Stale.Std(),
		}
		if s.URL != "" {
			store.Private = Prefixes(c.PrivateNetworks)
		}
		if a := s.Auth; a != nil {
			store.Login = secret.Login{Method: a.Type, Mount: a.Mount, Role: a.Role, Secret: a.SecretRef}
			if a.Mount == "" {
				store.Login.Mount = a.Type
			}
			if a.Type == "kubernetes" && a.SecretRef == "" {
				store.Login.Secret = serviceAccountToken
			}
		}
		stores[name] = store
	}
	return stores
}

var (
	storeName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)
	// schemes lists the reference schemes that need no store.
	schemes = []string{"env", "file", "age"}
)

const maxStoreTime = 24 * time.Hour

func (c *Config) checkSecretStores(report reportFunc) {
	for _, name := range slices.Sorted(maps.Keys(c.SecretStores)) {
		at := func(message string, steps ...string) {
			report(message, append([]string{"secretStores", name}, steps...)...)
		}
		if !storeName.MatchString(name) || slices.Contains(schemes, name) {
			at("invalid secret store name: use a-z, 0-9 and -, and not env, file or age")
		}
		s := c.SecretStores[name]
		s.check(at)
	}
	for i, ref := range c.SealKeys {
		c.checkSecret(ref, func(message string) { report(message, "sealKeys", strconv.Itoa(i)) })
	}
	for _, name := range slices.Sorted(maps.Keys(c.Secrets)) {
		c.checkSecret(string(c.Secrets[name]), func(message string) { report(message, "secrets", name) })
	}
}

func (s *SecretStore) check(at reportFunc) {
	switch {
	case (len(s.Command) > 0) == (s.URL != ""):
		at("set either command or url")
	case s.URL == "" && s.Auth != nil:
		at("applies only to a url: pass credentials to a command in env", "auth")
	case s.URL != "" && len(s.Env) > 0:
		at("applies only to a command", "env")
	case s.URL != "":
		s.VaultServer.check(at)
	case s.Command[0] == "" || strings.Contains(s.Command[0], "{ref}"):
		at("must be an absolute path or the name of a program in PATH", "command", "0")
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		for _, ref := range secret.References(s.Env[name]) {
			if !isBootstrap(ref) {
				at("a secret used by a secret store must be env:NAME, file:path or age:path#key", "env", name)
			}
		}
	}
	if s.TTL.Std() < time.Second || s.TTL.Std() > maxStoreTime {
		at("must be between 1s and 24h", "ttl")
	}
	if s.Stale < 0 || s.Stale.Std() > maxStoreTime {
		at("must be between 0s and 24h", "stale")
	}
}

// isBootstrap reports whether a reference can be resolved without a store.
func isBootstrap(ref string) bool {
	scheme, _, found := strings.Cut(ref, ":")
	return found && slices.Contains(schemes, scheme)
}

func (v *VaultServer) check(at reportFunc) {
	u, err := url.Parse(v.URL)
	switch {
	case err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		at("must be a URL such as https://vault.example.com:8200", "url")
	case u.Scheme == "http" && !IsLoopback(u.Hostname()) && !v.Insecure:
		at("must be an https URL, unless insecure: true is set", "url")
	}
	a := v.Auth
	switch {
	case a == nil:
		at("is required; for example, {secretRef: env:VAULT_TOKEN}", "auth")
	case a.SecretRef == "" && a.Type != "kubernetes":
		at("is required; for example, env:VAULT_TOKEN", "auth", "secretRef")
	case a.SecretRef != "" && !isBootstrap(a.SecretRef):
		at("must be env:NAME, file:path or age:path#key", "auth", "secretRef")
	case (a.Role == "") != (a.Type == "token"):
		at("is required for approle and kubernetes, and not allowed otherwise", "auth", "role")
	}
}

// checkSecret reports a secret name that is not defined, or a reference with an unknown scheme.
func (c *Config) checkSecret(ref string, report func(message string)) {
	if _, ok := c.Secrets[ref]; ok {
		return
	}
	if scheme, rest, found := strings.Cut(ref, ":"); found {
		if _, ok := c.SecretStores[scheme]; ok || slices.Contains(schemes, scheme) {
			c.checkStoreRef(scheme, rest, report)
			return
		}
		fix := spelling.DidYouMean(scheme, slices.Concat(schemes, slices.Collect(maps.Keys(c.SecretStores))))
		if fix == "" {
			fix = "; use env:, file: or age:, or add the store under secretStores"
		}
		report("unknown secret store" + fix) // omits the reference, which may be a misplaced secret
		return
	}
	fix := spelling.DidYouMean(ref, slices.Collect(maps.Keys(c.Secrets)))
	if fix == "" {
		fix = fmt.Sprintf("; add secrets: {%s: env:%s}", ref, variableFor(ref))
	}
	report(fmt.Sprintf("secret %q is not defined%s", ref, fix))
}

// checkStoreRef reports a reference that its store cannot read.
func (c *Config) checkStoreRef(name, ref string, report func(message string)) {
	s, ok := c.SecretStores[name]
	if !ok || len(s.Command) == 0 && s.URL == "" {
		return
	}
	if err := secret.CheckReference(c.SecretStoreOptions()[name], ref); err != nil {
		report(err.Error())
	}
}

// checkTemplates reports ${secret:…} references that cannot be resolved.
func (c *Config) checkTemplates(values map[string]string, report reportFunc) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		for _, ref := range secret.References(values[name]) {
			c.checkSecret(ref, func(message string) { report("${secret:…}: "+message, name) })
		}
	}
}
