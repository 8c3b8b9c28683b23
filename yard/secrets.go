package yard

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/trust/secret"
)

// openVault opens an assembly's vault and applies its seal keys.
func (b *assembler) openVault(a *assembly) (*secret.Vault, error) {
	named := make(map[string]string, len(a.Secrets))
	for name, ref := range a.Secrets {
		named[name] = string(ref)
	}
	vault := secret.NewVault(secret.Options{
		Named: named, Getenv: b.opts.Process.Getenv, Dir: filepath.Dir(b.opts.ConfigFile), Identity: b.beside(a.AgeIdentity),
		Stores: a.SecretStoreOptions(), Previous: b.secrets.vault.Load(),
		Warn: func(message string) { b.log.Warn("secret file is not protected", "problem", message) },
	})
	b.secrets.vault.Store(vault)
	for _, text := range a.SensitiveValues {
		vault.Hide(text)
	}
	if keys, faults := sealKeys(a.Source, vault); len(faults) > 0 {
		return nil, faults
	} else if len(keys) > 0 {
		b.sealKey.Replace(keys)
	}
	return vault, nil
}

// sealKeys reads the configured seal keys, or returns nil if there are none.
func sealKeys(c *config.Source, vault *secret.Vault) (keys [][]byte, faults config.Faults) {
	for i, ref := range c.SealKeys {
		key, err := vault.Resolve(ref)
		if err == nil && len(key.Reveal()) < sealKeySize {
			err = fmt.Errorf("the key is shorter than %d characters; generate one with: openssl rand -base64 32", sealKeySize)
		}
		if err != nil {
			faults = append(faults, c.At(toolyard.Problem{Subject: "sealKeys." + strconv.Itoa(i), Message: err.Error()}, "sealKeys", strconv.Itoa(i)))
			continue
		}
		keys = append(keys, []byte(key.Reveal()))
	}
	return keys, faults
}

// secretsInterval is how often seal keys are reread and secret store failures are reported.
const secretsInterval = 5 * time.Second

// followSecrets applies changed seal keys and reports secret store failures until ctx ends.
func (y *Yard) followSecrets(ctx context.Context) {
	ticker := time.NewTicker(secretsInterval)
	defer ticker.Stop()
	var reported []toolyard.Problem
	var applied [][]byte
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		vault := y.secrets.vault.Load()
		keys, faults := sealKeys(y.current.Load().Source, vault)
		if len(faults) == 0 && len(keys) > 0 && !reflect.DeepEqual(keys, applied) {
			y.assembler.sealKey.Replace(keys)
			applied = keys
		}
		if problems := y.secretProblems(y.current.Load()); !slices.Equal(problems, reported) {
			reported = problems
			y.publish()
		}
	}
}

// secretProblems reports secrets that cannot be read. If Command.CheckSecrets is set, it reads all
// of them first.
func (p *publisher) secretProblems(a *assembly) (problems []toolyard.Problem) {
	vault := p.secrets.vault.Load()
	if p.secrets.checkAll {
		for _, name := range slices.Sorted(maps.Keys(a.Secrets)) {
			if _, err := vault.Resolve(name); err != nil {
				problems = append(problems, a.At(toolyard.Problem{
					Subject: "secrets." + name, Message: vault.Redact(err.Error()), Fix: "Check the reference and that this user can read the secret.",
				}, "secrets", name))
			}
		}
	}
	for _, f := range vault.Failures() {
		message, fix := "cannot read "+f.Store+":"+f.Reference+": "+vault.Redact(f.Err.Error()), "Check the secret store; Toolyard retries every few seconds."
		if !f.Until.IsZero() {
			message += "; the last value is used until " + f.Until.UTC().Format("15:04:05 UTC")
		}
		problems = append(problems, a.At(toolyard.Problem{Subject: "secretStores." + f.Store, Message: message, Fix: fix}, "secretStores", f.Store))
	}
	return problems
}

func usesSecrets(s *config.Server) bool {
	isSecret := func(value string) bool { return strings.Contains(value, "${secret:") }
	return s.Auth != nil || slices.ContainsFunc(slices.Collect(maps.Values(s.Env)), isSecret) ||
		slices.ContainsFunc(slices.Collect(maps.Values(s.Headers)), isSecret)
}

// reveal expands the secrets in a map's values. It also redacts values whose names suggest a
// secret.
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

// environment returns a server process's environment variables.
func environment(values map[string]string, vault *secret.Vault) (env []string, err error) {
	err = reveal(values, vault, func(name, value string) { env = append(env, name+"="+value) })
	return env, err
}

// headers returns the headers to send with every request to a server.
func headers(s *config.Server, vault *secret.Vault) (http.Header, error) {
	h := http.Header{}
	if err := reveal(s.Headers, vault, h.Set); err != nil {
		return nil, err
	}
	if s.Auth != nil && s.Auth.Type == config.AuthBearer {
		token, err := vault.Resolve(s.Auth.SecretRef)
		if err != nil {
			return nil, fmt.Errorf("auth: %w", err)
		}
		h.Set("Authorization", "Bearer "+token.Reveal())
	}
	return h, nil
}
