package secret_test

import (
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/trust/secret"
)

// programs runs sh with a script and returns a vault whose store uses it.
func programs(t *testing.T, script string, change func(*secret.Store)) *secret.Vault {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs sh")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "script")
	must(t, os.WriteFile(file, []byte(script), 0o600))
	s := secret.Store{Command: []string{"sh", file, "read"}, TTL: time.Minute, Stale: time.Minute}
	if change != nil {
		change(&s)
	}
	env := map[string]string{"TOKEN": "bootstrap-canary"}
	return secret.NewVault(secret.Options{
		Stores: map[string]secret.Store{"op": s}, Dir: dir,
		Getenv: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
	})
}

func TestCommandPrintsTheSecret(t *testing.T) {
	for name, test := range map[string]struct {
		script, ref, want string
		change            func(*secret.Store)
	}{
		"the reference is the last argument": {script: `printf '%s|' "$@"`, ref: "op://Eng/Jira/secret", want: "read|op://Eng/Jira/secret|"},
		"one newline is removed":             {script: `echo value-canary`, ref: "x", want: "value-canary"},
		"no shell reads the reference":       {script: `printf '%s|' "$@"`, ref: "$(id); rm -rf / 'x' \"y\" *", want: "read|$(id); rm -rf / 'x' \"y\" *|"},
		"a placeholder": {script: `printf '%s|' "$@"`, ref: "--help", want: "a--help/b|c|", change: func(s *secret.Store) {
			s.Command = append(s.Command[:2:2], "a{ref}/b", "c")
		}},
		"a field of JSON":           {script: `echo '{"user": "x", "password": "p#canary"}'`, ref: "prod/db#1#password", want: "p#canary", change: func(s *secret.Store) { s.JSON = true }},
		"standard error is ignored": {script: `echo noise >&2; echo value-canary`, ref: "x", want: "value-canary"},
		"the environment": {script: `echo "$OP_TOKEN $PLAIN"`, ref: "x", want: "bootstrap-canary y", change: func(s *secret.Store) {
			s.Env = map[string]string{"OP_TOKEN": "${secret:env:TOKEN}", "PLAIN": "y"}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			v := programs(t, test.script, test.change)
			got, err := v.Resolve("op:" + test.ref)
			if err != nil || got.Reveal() != test.want {
				t.Errorf("%q, %v, want %q", got.Reveal(), err, test.want)
			}
			if redacted := v.Redact("a " + test.want); redacted != "a [redacted]" {
				t.Errorf("not redacted: %s", redacted)
			}
		})
	}
}

func TestCommandHasAMinimalEnvironment(t *testing.T) {
	t.Setenv("TOOLYARD_TEST_CANARY", "canary")
	got, err := programs(t, `env`, nil).Resolve("op:x")
	must(t, err)
	names := make(map[string]bool)
	for line := range strings.Lines(got.Reveal()) {
		name, _, _ := strings.Cut(line, "=")
		names[name] = true
	}
	maps.DeleteFunc(names, func(name string, _ bool) bool {
		return strings.Contains(" PATH HOME LANG TZ TMPDIR PWD OLDPWD SHLVL _ TOOLYARD_CHILD TOOLYARD_DEPTH ", " "+name+" ")
	})
	if len(names) > 0 {
		t.Errorf("unexpected variables: %v", names)
	}
}

func TestCommandFails(t *testing.T) {
	asJSON := func(s *secret.Store) { s.JSON = true }
	for name, test := range map[string]struct {
		script, ref, want string
		change            func(*secret.Store)
	}{
		"an exit status":     {script: "echo canary; echo canary >&2; exit 3", ref: "x", want: "sh failed (exit status 3); its output is not shown because it may contain secrets; run the command in a terminal"},
		"too much output":    {script: "yes canary", ref: "x", want: "printed more than 64 KiB"},
		"no output":          {script: "true", ref: "x", want: "the secret is empty"},
		"not JSON":           {script: "echo canary", ref: "x#y", want: "the secret is not a JSON object", change: asJSON},
		"an array":           {script: "echo '[\"canary\"]'", ref: "x#y", want: "the secret is not a JSON object", change: asJSON},
		"duplicate fields":   {script: `echo '{"y": "canary", "y": "b"}'`, ref: "x#y", want: "the secret is not a JSON object", change: asJSON},
		"another field":      {script: `echo '{"z": "canary"}'`, ref: "x#y", want: "the secret does not contain this field", change: asJSON},
		"no field":           {script: "echo", ref: "x", want: "expected PATH#FIELD", change: asJSON},
		"an option":          {script: "echo", ref: "--help", want: "starts with -"},
		"a newline":          {script: "echo", ref: "a\nb", want: "control character"},
		"an empty reference": {script: "echo", ref: "", want: "is empty"},
		"a missing program":  {script: "", ref: "x", want: "no-such-program is not in PATH", change: func(s *secret.Store) { s.Command = []string{"no-such-program"} }},
		"a bootstrap secret": {script: "echo x", ref: "x", want: "env A: ${secret:…}: env:NONE: the environment variable is not set", change: func(s *secret.Store) { s.Env = map[string]string{"A": "${secret:env:NONE}"} }},
		"a store of a store": {script: "echo x", ref: "x", want: "a secret used by a secret store must be env:NAME", change: func(s *secret.Store) { s.Env = map[string]string{"A": "${secret:op:y}"} }},
	} {
		t.Run(name, func(t *testing.T) {
			v := programs(t, test.script, test.change)
			got, err := v.Resolve("op:" + test.ref)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "canary") || got.Reveal() != "" {
				t.Errorf("%q, %v, want %s", got.Reveal(), err, test.want)
			}
		})
	}
}
