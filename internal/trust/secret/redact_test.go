package secret_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/toolyard/toolyard/internal/trust/secret"
)

// knowing returns a vault that has resolved some secrets.
func knowing(t interface{ Fatal(...any) }, secrets ...string) *secret.Vault {
	env := make(map[string]string)
	v := secret.NewVault(secret.Options{Getenv: func(name string) (string, bool) { s, ok := env[name]; return s, ok }})
	for i, s := range secrets {
		name := fmt.Sprintf("S%d", i)
		env[name] = s
		if _, err := v.Resolve("env:" + name); err != nil {
			t.Fatal(err)
		}
	}
	return v
}

func TestRedact(t *testing.T) {
	v := knowing(t, "hunter2", "hunter2-long", "short", "sécret/with+all?\"<>&\n", "sixsix")
	for text, want := range map[string]string{
		"":                      "",
		"nothing":               "nothing",
		"hunter2":               "[redacted]",
		"a hunter2, a hunter2b": "a [redacted], a [redacted]b",
		"hunter2-long":          "[redacted]",
		"hunter2-lo":            "[redacted]-lo",
		"a short text":          "a short text",
		"c2hvcnQ=":              "c2hvcnQ=",
		"sixsix":                "[redacted]",
		"HUNTER2":               "HUNTER2",
		"s\u00e9cret/with+all?": "s\u00e9cret/with+all?",
	} {
		if got := v.Redact(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := knowing(t).Redact("hunter2"); got != "hunter2" {
		t.Errorf("an empty vault returned %q", got)
	}
}

// A secret is redacted in every likely encoding.
func TestRedactFindsAllSpellings(t *testing.T) {
	letter := rapid.OneOf(rapid.SampledFrom([]rune("abcXYZ019+/=-_~!?&<>%\"'\\ \n\t é€😀\x00\u2028")), rapid.Rune())
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringOfN(letter, 6, 60, -1).Draw(t, "secret")
		v := knowing(t, s)
		asJSON, _ := json.Marshal(s)
		for form, text := range map[string]string{
			"plain": s, "query": url.QueryEscape(s), "path": url.PathEscape(s), "json": string(asJSON[1 : len(asJSON)-1]),
			"std": base64.StdEncoding.EncodeToString([]byte(s)), "raw": base64.RawStdEncoding.EncodeToString([]byte(s)),
			"url": base64.URLEncoding.EncodeToString([]byte(s)), "rawurl": base64.RawURLEncoding.EncodeToString([]byte(s)),
			"bearer": base64.StdEncoding.EncodeToString([]byte("Bearer " + s)), "rawbearer": base64.RawURLEncoding.EncodeToString([]byte("Bearer " + s)),
		} {
			if got := v.Redact("{" + text + "}"); got != "{[redacted]}" {
				t.Fatalf("%s of %q: %q", form, s, got)
			}
		}
	})
}

func TestOnlyTheNewestOfVeryManyAreKnown(t *testing.T) {
	var all []string
	for i := range 1_010 {
		all = append(all, fmt.Sprintf("secret-%04d", i))
	}
	v := knowing(t, all...)
	if got := v.Redact("secret-0000 secret-0500 secret-1009"); got != "secret-0000 [redacted] [redacted]" {
		t.Error(got)
	}
}

// If a token contains another secret or is part of one, the longer one is redacted as a whole.
func TestOverlappingTokensAreRedactedAsAWhole(t *testing.T) {
	v := knowing(t, "secret-0000")
	v.HideToken("first-token")
	for _, token := range []string{"a-secret-0000-b", "a-secret-0000-b-c", "t-0000", "secret", "first"} {
		v.HideToken(token)
	}
	for _, text := range []string{"secret-0000", "first-token", "a-secret-0000-b", "a-secret-0000-b-c"} {
		if got := v.Redact(text); got != "[redacted]" {
			t.Errorf("%s: %s", text, got)
		}
	}
}

// The tokens of many people displace neither secrets nor tokens that are in use.
func TestTokensDoNotDisplaceSecrets(t *testing.T) {
	v := knowing(t, "secret-0000")
	for i := range 3_000 {
		v.HideToken(fmt.Sprintf("token-%04d", i))
		v.HideToken("token-0007")
	}
	if got := v.Redact("secret-0000 token-0007 token-0008 token-2999"); got != "[redacted] [redacted] token-0008 [redacted]" {
		t.Error(got)
	}
}

func BenchmarkRedact(b *testing.B) {
	text := strings.Repeat("an ordinary line of a log with nothing in it\n", 100)
	for _, n := range []int{0, 20} {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf("secret-%04d-%x", i, i*i*7919))
		}
		v := knowing(b, all...)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				_ = v.Redact(text)
			}
		})
	}
}
