package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/trust/accesstoken"
	"github.com/toolyard/toolyard/internal/trust/identity"
	"github.com/toolyard/toolyard/internal/trust/secret"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// maxTokenInput limits how much is read from standard input.
const maxTokenInput = 16 << 10

// explainToken reads an access token from standard input. It prints the caller that the token
// identifies and its permissions, or the reason why the token is refused.
func (c whyCommand) explainToken(ctx context.Context, in io.Reader) error {
	source, err := c.loadConfig()
	if err != nil {
		return err
	}
	if len(source.Issuers) == 0 {
		return fmt.Errorf("%s does not configure any access token issuers; see docs/IDENTITY.md", config.File)
	}
	name, err := c.tokenGate(source.Config)
	if err != nil {
		return err
	}
	raw, err := io.ReadAll(io.LimitReader(in, maxTokenInput))
	if err != nil {
		return err
	}
	token := strings.TrimPrefix(strings.TrimSpace(string(raw)), "Bearer ")
	verifier := accesstoken.New(accesstoken.Options{
		Issuers: source.AccessIssuers(c.secretResolver(source)), Private: config.Prefixes(source.PrivateNetworks), Now: c.opts.Process.Now, Log: slog.New(slog.DiscardHandler),
	})
	resource := source.URL + "/mcp/" + name
	caller, err := verifier.Explain(ctx, token, []string{resource, source.URL + "/mcp"})
	if err != nil {
		fmt.Fprintf(c.out, "✗ %s\n", untrusted.Printable(err.Error()))
		return exitStatus{exitTool, nil}
	}
	fmt.Fprintf(c.out, "✓ The token is valid for %s.\n  caller   %s\n  account  %s\n  access   %s\n", resource, caller.ID, caller.Account, rightsText(caller.Roles))
	return nil
}

// secretResolver returns a function that reads a configuration's secrets.
func (a *app) secretResolver(source *config.Source) func(ref string) (string, error) {
	named := make(map[string]string, len(source.Secrets))
	for name, ref := range source.Secrets {
		named[name] = string(ref)
	}
	dir := filepath.Dir(a.opts.ConfigFile)
	identity := source.AgeIdentity
	if identity != "" && !filepath.IsAbs(identity) {
		identity = filepath.Join(dir, identity)
	}
	vault := secret.NewVault(secret.Options{Named: named, Getenv: a.opts.Process.Getenv, Dir: dir, Identity: identity, Stores: source.SecretStoreOptions()})
	return func(ref string) (string, error) {
		text, err := vault.Resolve(ref)
		return text.Reveal(), err
	}
}

// tokenGate returns the gate to check the token for: the one that --gate specifies, or the only
// one.
func (c whyCommand) tokenGate(cfg *config.Config) (string, error) {
	names := slices.Sorted(maps.Keys(cfg.Gates))
	switch {
	case c.gate != "" && slices.Contains(names, c.gate):
		return c.gate, nil
	case c.gate == "" && len(names) == 1:
		return names[0], nil
	}
	return "", c.gateError(names)
}

// rightsText lists the permissions among a caller's roles.
func rightsText(roles []string) string {
	rights := slices.DeleteFunc(slices.Clone(roles), func(role string) bool {
		return role == identity.NamedGatesOnly || strings.HasPrefix(role, "issuer:")
	})
	if len(rights) == 0 {
		return "none, because the token lacks scopes"
	}
	return strings.Join(rights, ", ")
}
