package secret_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/age"
	"filippo.io/age/armor"

	"github.com/toolyard/toolyard/internal/trust/secret"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// place is a folder with secrets, and the vault that reads them.
type place struct {
	testing.TB
	dir      string
	key      *age.X25519Identity
	warnings []string
	env      map[string]string
	*secret.Vault
}

func newPlace(t testing.TB, named map[string]string) *place {
	p := &place{TB: t, dir: t.TempDir(), env: map[string]string{"TOKEN": "env-canary", "EMPTY": ""}}
	var err error
	p.key, err = age.GenerateX25519Identity()
	must(t, err)
	p.write("key.txt", "# made for a test\n"+p.key.String()+"\n", 0o600)
	p.Vault = secret.NewVault(secret.Options{
		Named:    named,
		Getenv:   func(name string) (string, bool) { v, ok := p.env[name]; return v, ok },
		Dir:      p.dir,
		Identity: "key.txt",
		Warn:     func(m string) { p.warnings = append(p.warnings, m) },
	})
	return p
}

func (p *place) write(name, content string, mode os.FileMode) {
	p.Helper()
	path := filepath.Join(p.dir, name)
	must(p, os.WriteFile(path, []byte(content), 0o600))
	must(p, os.Chmod(path, mode))
}

// encrypt writes an age file.
func (p *place) encrypt(name, content string, armored bool, to age.Recipient) {
	p.Helper()
	var b bytes.Buffer
	var out io.Writer = &b
	if armored {
		a := armor.NewWriter(&b)
		defer func() { p.write(name, b.String(), 0o644) }()
		defer func() { must(p, a.Close()) }()
		out = a
	}
	w, err := age.Encrypt(out, to)
	must(p, err)
	_, err = io.WriteString(w, content)
	must(p, err)
	must(p, w.Close())
	p.write(name, b.String(), 0o644)
}

const dotenv = "# the keys of canary\n\nplain=plain-canary\nspaced = spaced-canary \r\nquoted=\"quoted # canary\"\n" +
	"single='single canary'\nsigns=a=b#c\\nd\nempty=\nopen=\"open-canary\ntwice=canary-1\ntwice=canary-2\n"

func TestResolve(t *testing.T) {
	p := newPlace(t, map[string]string{"github": "env:TOKEN", "db": "age:all.age#plain"})
	p.write("token", "file-canary\n", 0o600)
	p.write("windows", "file-canary\r\n", 0o600)
	p.write("pem", "line-1\nline-2\n\n", 0o600)
	p.write("full", strings.Repeat("x", 64<<10), 0o600)
	p.encrypt("all.age", dotenv, false, p.key.Recipient())
	p.encrypt("armored.age", "age-canary\n", true, p.key.Recipient())
	for ref, want := range map[string]string{
		"env:TOKEN":                     "env-canary",
		"github":                        "env-canary",
		"file:token":                    "file-canary",
		"file:./token":                  "file-canary",
		"file:" + p.dir + "/token":      "file-canary",
		"file:windows":                  "file-canary",
		"file:pem":                      "line-1\nline-2",
		"file:full":                     strings.Repeat("x", 64<<10),
		"age:armored.age":               "age-canary",
		"age:" + p.dir + "/armored.age": "age-canary",
		"age:all.age":                   strings.TrimRight(dotenv, "\n"),
		"age:all.age#plain":             "plain-canary",
		"db":                            "plain-canary",
		"age:all.age#spaced":            "spaced-canary",
		"age:all.age#quoted":            "quoted # canary",
		"age:all.age#single":            "single canary",
		"age:all.age#signs":             `a=b#c\nd`,
		"age:all.age#open":              `"open-canary`,
	} {
		got, err := p.Resolve(ref)
		if err != nil || got.Reveal() != want {
			t.Errorf("%s: %.100q, %v, want %.100q", ref, got.Reveal(), err, want)
		}
	}
}

func TestResolveRefuses(t *testing.T) {
	p := newPlace(t, map[string]string{"github": "env:TOKEN", "other": "github", "bad": "canary", "worse": "env:canary-1"})
	stranger, err := age.GenerateX25519Identity()
	must(t, err)
	p.write("large", strings.Repeat("canary", 64<<10), 0o600)
	p.write("plain.age", "canary=1", 0o600)
	p.write("cut.age", "age-encryption.org/v1\ncanary", 0o600)
	p.write("blank", "\n", 0o600)
	p.encrypt("all.age", dotenv, false, p.key.Recipient())
	p.encrypt("lines.age", "a=1\nthe-canary\n", false, p.key.Recipient())
	p.encrypt("stranger.age", "canary", false, stranger.Recipient())
	p.encrypt("large.age", strings.Repeat("canary", 11<<10), true, p.key.Recipient())
	p.encrypt("huge.age", strings.Repeat("canary", 100<<10), false, p.key.Recipient())
	must(t, os.Mkdir(filepath.Join(p.dir, "folder"), 0o700))
	for ref, want := range map[string]string{
		"":                     "env:NAME, file:path or age:path#key, or the name of a configured secret",
		"sk-canary":            "not a secret reference",
		"githib":               "did you mean \"github\"?",
		"vault:canary":         "env:NAME, file:path or age:path#key",
		"ENV:TOKEN":            "env:NAME",
		"other":                "secret other: not a secret reference: use env:NAME",
		"bad":                  "secret bad: not a secret reference: use env:NAME",
		"worse":                "secret worse: expected env: followed by the name of",
		"env:":                 "letters, digits and _",
		"env:a canary":         "letters, digits and _",
		"env:NONE":             "env:NONE: the environment variable is not set",
		"env:EMPTY":            "env:EMPTY is empty",
		"file:":                "followed by a path",
		"file:none":            "file:none: no such file",
		"file:folder":          "file:folder: the path is not a regular file",
		"file:" + os.DevNull:   "the path is not a regular file",
		"file:large":           "larger than 64 KiB",
		"file:blank":           "file:blank is empty",
		"age:":                 "followed by a path",
		"age:#key":             "followed by a path",
		"age:all.age#":         "a path, # and a key",
		"age:none":             "check that it exists",
		"age:folder":           "the path is not a regular file",
		"age:plain.age":        "not an age file",
		"age:plain.age#canary": "not an age file",
		"age:cut.age":          "not an age file",
		"age:stranger.age":     "no key in the identity file can decrypt the secret",
		"age:large.age":        "is larger than 64 KiB",
		"age:huge.age":         "larger than 256 KiB",
		"age:all.age#none":     "age:all.age#none: the file does not contain this key",
		"age:all.age#empty":    "age:all.age#empty is empty",
		"age:all.age#twice":    "line 11: duplicate key",
		"age:lines.age#b":      "line 2 does not have the form key=value",
	} {
		got, err := p.Resolve(ref)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", ref, err, want)
		}
		if got.Reveal() != "" {
			t.Errorf("%s: a secret comes with an error", ref)
		}
		if err != nil && strings.Contains(strings.ReplaceAll(err.Error(), "#canary", ""), "canary") {
			t.Errorf("%s: part of a secret in %v", ref, err)
		}
	}
}

func TestIdentityFile(t *testing.T) {
	dir := t.TempDir()
	p := newPlace(t, nil)
	p.encrypt("a.age", "age-canary", false, p.key.Recipient())
	must(t, os.WriteFile(filepath.Join(dir, "bad"), []byte("canary\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "cut"), []byte(p.key.String()[:40]+"\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "empty"), []byte("# canary\n"), 0o600))
	for identity, want := range map[string]string{
		"":                              "no age identity file is configured",
		filepath.Join(dir, "none"):      "no such file",
		filepath.Join(dir, "bad"):       "must contain only age-keygen keys",
		filepath.Join(dir, "cut"):       "must contain only age-keygen keys",
		filepath.Join(dir, "empty"):     "must contain only age-keygen keys",
		dir:                             "the path is not a regular file",
		filepath.Join(p.dir, "key.txt"): "",
	} {
		v := secret.NewVault(secret.Options{Dir: p.dir, Identity: identity})
		_, err := v.Resolve("age:a.age")
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %s", identity, err, want)
		}
		if err != nil && (strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), "AGE-SECRET")) {
			t.Errorf("part of a secret in %v", err)
		}
	}
}

func TestRotationNeedsNoRestart(t *testing.T) {
	p := newPlace(t, nil)
	check := func(ref, want string) {
		t.Helper()
		if got, err := p.Resolve(ref); err != nil || got.Reveal() != want {
			t.Errorf("%s: %q, %v, want %q", ref, got.Reveal(), err, want)
		}
	}
	p.write("token", "first-canary", 0o600)
	p.encrypt("a.age", "first-canary", false, p.key.Recipient())
	check("file:token", "first-canary")
	check("age:a.age", "first-canary")
	check("env:TOKEN", "env-canary")
	p.write("token", "second-canary", 0o600)
	p.encrypt("a.age", "second-canary", false, p.key.Recipient())
	p.env["TOKEN"] = "env-second"
	check("file:token", "second-canary")
	check("age:a.age", "second-canary")
	check("env:TOKEN", "env-second")
	if got := p.Redact("first-canary second-canary env-canary env-second"); got != "[redacted] [redacted] [redacted] [redacted]" {
		t.Errorf("after a rotation: %s", got)
	}
}

// An age file is decrypted once. It can be read even after the key is deleted, until the file
// changes.
func TestAgeFilesAreDecryptedOnce(t *testing.T) {
	p := newPlace(t, nil)
	p.encrypt("a.age", "one=first-canary\ntwo=second-canary\n", false, p.key.Recipient())
	if _, err := p.Resolve("age:a.age#one"); err != nil {
		t.Fatal(err)
	}
	must(t, os.Remove(filepath.Join(p.dir, "key.txt")))
	if got, err := p.Resolve("age:a.age#two"); err != nil || got.Reveal() != "second-canary" {
		t.Errorf("%q, %v", got.Reveal(), err)
	}
	later := time.Now().Add(time.Hour)
	must(t, os.Chtimes(filepath.Join(p.dir, "a.age"), later, later))
	if _, err := p.Resolve("age:a.age#two"); err == nil {
		t.Error("another file was not decrypted again")
	}
}

func TestWarnsOnceOfFilesThatOthersCanRead(t *testing.T) {
	p := newPlace(t, nil)
	p.write("open", "file-canary", 0o644)
	p.write("group", "file-canary", 0o640)
	p.write("closed", "file-canary", 0o600)
	p.write("key.txt", p.key.String(), 0o644)
	p.encrypt("a.age", "age-canary", false, p.key.Recipient()) // intentionally readable by others
	for range 2 {
		for _, ref := range []string{"file:open", "file:group", "file:closed", "age:a.age"} {
			if _, err := p.Resolve(ref); err != nil {
				t.Error(err)
			}
		}
	}
	got := strings.Join(p.warnings, "\n")
	want := "open is readable by other users (mode 0644); run chmod 600 on it\n" +
		"group is readable by other users (mode 0640); run chmod 600 on it\n" +
		"key.txt is readable by other users (mode 0644); run chmod 600 on it"
	if got != want {
		t.Errorf("got %s", got)
	}
}

func TestExpand(t *testing.T) {
	p := newPlace(t, map[string]string{"name": "env:TOKEN"})
	p.env["NESTED"] = "${secret:env:TOKEN}"
	for template, want := range map[string]string{
		"":                                      "",
		"plain":                                 "plain",
		"$ {secret:name} ${VAR} ${SECRET:x} ${": "$ {secret:name} ${VAR} ${SECRET:x} ${",
	} {
		got, secret, err := p.Expand(template)
		if err != nil || secret || got.Reveal() != want {
			t.Errorf("%s: %q, %v, %v", template, got.Reveal(), secret, err)
		}
	}
	for template, want := range map[string]string{
		"${secret:name}":                      "env-canary",
		"Bearer ${secret:env:TOKEN}":          "Bearer env-canary",
		"${secret:name}:${secret:env:TOKEN}}": "env-canary:env-canary}",
		"a${secret:env:NESTED}b":              "a${secret:env:TOKEN}b", // the content of a secret is not expanded
	} {
		got, secret, err := p.Expand(template)
		if err != nil || !secret || got.Reveal() != want {
			t.Errorf("%s: %q, %v, %v", template, got.Reveal(), secret, err)
		}
	}
	for template, want := range map[string]string{
		"Bearer ${secret:name":                  "has no closing }",
		"my-canary ${secret:}":                  "not a secret reference",
		"my-canary ${secret:name}${secret:nme}": "did you mean \"name\"?",
		"${secret:${secret:name}}":              "not a secret reference",
	} {
		got, _, err := p.Expand(template)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") || got.Reveal() != "" {
			t.Errorf("%s: %q, %v, want %s", template, got.Reveal(), err, want)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	p := newPlace(t, nil)
	p.encrypt("a.age", "age-canary", false, p.key.Recipient())
	for i := range 8 {
		p.env[fmt.Sprintf("V%d", i)] = fmt.Sprintf("value-canary-%d", i)
	}
	var g sync.WaitGroup
	for i := range 8 {
		g.Go(func() {
			for range 20 {
				if _, err := p.Resolve(fmt.Sprintf("env:V%d", i)); err != nil {
					t.Error(err)
				}
				if _, err := p.Resolve("age:a.age"); err != nil {
					t.Error(err)
				}
				if got := p.Redact(fmt.Sprintf("is value-canary-%d age-canary", i)); got != "is [redacted] [redacted]" {
					t.Error(got)
				}
			}
		})
	}
	g.Wait()
}

// For any reference or template, only the requested secrets are read, and no error contains a
// secret.
func FuzzExpand(f *testing.F) {
	for _, s := range []string{"env:TOKEN", "name", "file:x", "age:x#y", "a ${secret:name} b", "${secret:env:TOKEN}", "${secret:", "${secret:}}", "env:"} {
		f.Add(s)
	}
	v := secret.NewVault(secret.Options{
		Named:  map[string]string{"name": "env:TOKEN"},
		Getenv: func(name string) (string, bool) { return "fuzz-canary", name == "TOKEN" },
		Dir:    f.TempDir(),
	})
	f.Fuzz(func(t *testing.T, s string) {
		if strings.Contains(s, "canary") || strings.Contains(s, "file:") || strings.Contains(s, "age:") {
			return // don't read files on this machine
		}
		got, err := v.Resolve(s)
		if resolves := s == "name" || s == "env:TOKEN"; resolves != (err == nil) {
			t.Fatalf("%q: %v", s, err)
		}
		if err != nil && (strings.Contains(err.Error(), "canary") || got.Reveal() != "") {
			t.Fatalf("%q: %v", s, err)
		}
		expanded, has, err := v.Expand(s)
		if has != strings.Contains(s, "${secret:") {
			t.Fatalf("%q: has a secret: %v", s, has)
		}
		want := strings.NewReplacer("${secret:name}", "fuzz-canary", "${secret:env:TOKEN}", "fuzz-canary").Replace(s)
		if err == nil && expanded.Reveal() != want {
			t.Fatalf("%q became %q", s, expanded.Reveal())
		}
		if err != nil && strings.Contains(err.Error(), "canary") {
			t.Fatalf("%q: %v", s, err)
		}
		if strings.Contains(v.Redact(expanded.Reveal()), "fuzz-canary") {
			t.Fatalf("%q is not redacted", s)
		}
	})
}
