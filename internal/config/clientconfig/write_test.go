package clientconfig

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// odd lists strings that YAML or JSON parsers often misinterpret.
var odd = []string{
	"", " ", "true", "No", "null", "~", "1", "1e3", "0x1f", "1:30", "2026-01-01", ".inf", "-", "- a", "? a", "a: b", "a #b", "#a",
	"[a]", "{a}", "a,b", "*a", "&a", "!a", "%a", "@a", "`a`", "'a'", "\"a\"", "a\nb", "a\tb", "\x00", "\x1b[0m", "\u2028", "\u202e", "\ufeff", "\u0085",
	"é", "😀", "\U000e0001", "a:", ":a", "<<", "=", "|", ">", "a\\b", "${A}", "---", "...", "a\r\nb", " a", "a ", "-y", "/x:y", "https://x.y/z",
}

func anyText() *rapid.Generator[string] {
	return rapid.OneOf(rapid.SampledFrom(odd), rapid.String())
}

func anyMap() *rapid.Generator[map[string]string] {
	return rapid.MapOfN(anyText(), anyText(), 0, 4)
}

func drawFields(t *rapid.T) []field {
	return []field{
		{"text", anyText().Draw(t, "text")},
		{"list", rapid.SliceOfN(anyText(), 0, 4).Draw(t, "list")},
		{"map", anyMap().Draw(t, "map")},
		{"fields", []field{{"a", anyText().Draw(t, "a")}, {"b", true}}},
	}
}

// Written YAML parses to the same value, stays on its own lines, and contains no invisible
// characters.
func TestYAMLRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fields := drawFields(t)
		printed := strings.Join(yamlOf(fields, ""), "\n") + "\n"
		for _, r := range printed {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Fatalf("%q has %q in it", printed, r)
			}
		}
		var got, want any
		if err := yaml.Unmarshal([]byte(printed), &got); err != nil {
			t.Fatalf("%v\n%s", err, printed)
		}
		if err := json.Unmarshal(jsonOf(fields), &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s\n%s", printed, diff)
		}
		tree, err := parseYAML([]byte(printed))
		if err != nil || !tree.equal(nodeOf(fields)) {
			t.Fatalf("%v\n%s", err, printed)
		}
	})
}

func drawServer(t *rapid.T) Server {
	if rapid.Bool().Draw(t, "remote") {
		return Server{Name: anyText().Draw(t, "name"), URL: "https://example.com/" + rapid.StringMatching(`[a-z]{0,9}`).Draw(t, "path"), Transport: HTTP, Headers: anyMap().Draw(t, "headers")}
	}
	return Server{
		Name: anyText().Draw(t, "name"), Command: "x" + anyText().Draw(t, "command"), Transport: Stdio, Dir: anyText().Draw(t, "dir"),
		Args: rapid.SliceOfN(anyText(), 0, 4).Draw(t, "args"), Env: anyMap().Draw(t, "env"),
	}
}

// For all imported servers, the result is valid YAML, even if it is added to an existing file, and
// repeating the import changes nothing.
func TestImportIsYAML(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tr Translator
		tr.Add([]Server{drawServer(t), drawServer(t), drawServer(t)})
		s := tr.Sections()
		var got struct {
			Secrets map[string]string
			Servers map[string]any
		}
		if err := yaml.Unmarshal(s.YAML(), &got); err != nil || len(got.Servers) != s.Len() || len(got.Secrets) != len(s.secrets) {
			t.Fatalf("%v\n%s", err, s.YAML())
		}
		for _, text := range []string{"", "# mine\nservers:\n  other:\n    command: x # y\n\n# gates\ngates: {}\n", "secrets:\n    a: env:A\n"} {
			once, left, err := s.AddTo([]byte(text))
			if err != nil || len(left) > 0 {
				t.Fatal(err, left)
			}
			twice, left, err := s.AddTo(once)
			if err != nil || !bytes.Equal(once, twice) || len(left) != s.Len() {
				t.Fatalf("%v %d\n%s\n%s", err, len(left), once, twice)
			}
			for line := range strings.Lines(text) {
				if !strings.Contains(string(once), line) {
					t.Fatalf("%q is lost:\n%s", line, once)
				}
			}
		}
	})
}

// A secret is never copied, no matter how it is written.
func TestNoSecretGetsThrough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.SampledFrom([]string{"ghp_", "sk-", "xoxb-", "glpat-", "hf_", "AKIA", "npm_"}).Draw(t, "shape") +
			rapid.StringMatching(`[A-Z0-9]{20}Q`).Draw(t, "secret")
		plain := rapid.StringMatching(`[a-z]{12}q`).Draw(t, "plain")
		var tr Translator
		tr.Add([]Server{
			{Name: "a", Command: "x", Transport: Stdio, Env: map[string]string{"LOG": secret, "MY_TOKEN": plain, "PASSWORD": "${A}" + plain, "X": "${B:-" + secret + "}"}},
			{Name: "b", Command: "x", Transport: Stdio, Args: []string{"--x=" + secret, secret, "--api-key", plain, "--token=" + plain, "Authorization: Bearer " + plain, "postgres://a:" + plain + "@b", "${A}" + secret, "${MY_KEY:-" + plain + "}"}},
			{Name: "c", URL: "https://example.com/" + secret + "?token=" + plain + "&x=" + secret + "#y", Transport: HTTP, Headers: map[string]string{"authorization": "bearer " + plain, "X-Key": plain, "X-Other": "Basic " + plain, "Cookie": "a=" + plain}},
			{Name: "u", URL: "https://u:" + plain + "@example.com/", Transport: HTTP},
			{Name: "d", URL: "https://example.com/?x=1#" + secret, Transport: HTTP, Headers: map[string]string{"Authorization": "Bearer ${A:-" + plain + "}"}},
		})
		out := string(tr.Sections().YAML()) + strings.Join(tr.Notes(), "\n")
		if strings.Contains(out, secret) || strings.Contains(out, plain) {
			t.Fatal(out)
		}
	})
}

// An untrusted file cannot refer to the operator's secrets, no matter how it spells the reference.
func TestNoSecretIsReached(t *testing.T) {
	for _, text := range []string{
		"${secret:github}", "x${secret:github}y", "${X:-$}{secret:github}", "$${X:-{secret:github}}", "${X:-$}${Y:-{}secret:github}", "${env:secret:github}", "${input:}",
		"${userHome}{secret:github}",
	} {
		tr := Translator{Home: "/home/$"}
		tr.Add([]Server{
			{Name: "a", Command: "x", Transport: Stdio, Env: map[string]string{"TOKEN": text}},
			{Name: "b", Command: "x", Transport: Stdio, Env: map[string]string{"LEVEL": text}},
			{Name: "c", Command: "x", Transport: Stdio, Args: []string{text}},
			{Name: "d", Command: text, Transport: Stdio},
			{Name: "e", URL: "https://example.com/?x=" + text, Transport: HTTP},
			{Name: "f", URL: "https://example.com/", Transport: HTTP, Headers: map[string]string{"Authorization": "Bearer " + text}},
		})
		if out := string(tr.Sections().YAML()); out != "" {
			t.Errorf("%s: %s", text, out)
		}
	}
}

func TestAddToRefusesAnothersSecret(t *testing.T) {
	var tr Translator
	tr.Add([]Server{{Name: "github", URL: "https://evil.example.com", Transport: HTTP, Headers: map[string]string{"Authorization": "Bearer x"}}})
	file := "secrets: \n  github-token: file:secret\n"
	out, left, err := tr.Sections().AddTo([]byte(file))
	if err != nil || string(out) != file || len(left) != 1 {
		t.Errorf("%v %v\n%s", err, left, out)
	}
}

func TestServerID(t *testing.T) {
	for name, want := range map[string]string{
		"github": "github", "my_server": "my-server", "My Server!": "My-Server", "io.github.x/y": "io.github.x-y", "..": "server", "": "server",
		"a..b": "a.b", "é": "server", "-a-": "-a-", "_a_": "a", "a.-b_": "a.b", strings.Repeat("a", 99): strings.Repeat("a", 64),
	} {
		if got := ServerID(name); got != want {
			t.Errorf("%q: %q, not %q", name, got, want)
		}
	}
}

func TestSameServersMeetOnce(t *testing.T) {
	var tr Translator
	tr.Add([]Server{{Name: "a", Command: "x", Transport: Stdio, Env: map[string]string{"TOKEN": "1"}}})
	tr.Add([]Server{
		{Name: "a", Command: "x", Transport: Stdio, Env: map[string]string{"TOKEN": "1"}},
		{Name: "a", Command: "x", Transport: Stdio, Env: map[string]string{"TOKEN": "2"}},
	})
	want := "secrets:\n  a-token: env:A_TOKEN\n  a-2-token: env:A_2_TOKEN\nservers:\n" +
		"  a:\n    command: x\n    env:\n      TOKEN: \"${secret:a-token}\"\n  a-2:\n    command: x\n    env:\n      TOKEN: \"${secret:a-2-token}\"\n"
	if diff := cmp.Diff(want, string(tr.Sections().YAML())); diff != "" {
		t.Error(diff)
	}
}

// No matter how often servers are imported into a file, each variable contains the secret of only
// one server.
func TestImportNeverSharesAVariable(t *testing.T) {
	arg := Server{Name: "maps", Command: "maps-mcp", Transport: Stdio, Args: []string{"--api-key", "first"}}
	url := Server{Name: "news", URL: "https://news.example.com/mcp?api_key=second", Transport: HTTP}
	refers := Server{Name: "other", Command: "x", Transport: Stdio, Env: map[string]string{"A": "${MAPS_API_KEY}"}}
	for name, tc := range map[string]struct {
		file  string
		env   map[string]string
		first []Server
		then  []Server
		want  []string
	}{
		"two runs": {first: []Server{arg}, then: []Server{url}, want: []string{"${MAPS_API_KEY}", "${NEWS_API_KEY}"}},
		"in the file": {
			file: "servers:\n  old:\n    command: x\n    env: {K: \"${MAPS_API_KEY}\"}\nsecrets: {s: env:NEWS_API_KEY}\n", first: []Server{arg, url},
			want: []string{"${MAPS_API_KEY_2}", "${NEWS_API_KEY_2}"},
		},
		"in the environment": {
			env: map[string]string{"MAPS_API_KEY": "another", "NEWS_API_KEY": "second"}, first: []Server{arg, url}, want: []string{"${MAPS_API_KEY_2}", "${NEWS_API_KEY}"},
		},
		"referred to": {first: []Server{arg, refers}, want: []string{"${MAPS_API_KEY_2}", "${MAPS_API_KEY}"}},
		"similar ids": {
			first: []Server{{Name: "a-b", Command: "x", Transport: Stdio, Args: []string{"--token", "1"}}, {Name: "a", Command: "x", Transport: Stdio, Args: []string{"--b-token", "2"}}},
			want:  []string{"${A_B_TOKEN}", "${A_B_TOKEN_2}"},
		},
	} {
		file := []byte(tc.file)
		for _, servers := range [][]Server{tc.first, tc.then} {
			tr := Translator{Getenv: func(name string) (string, bool) { v, ok := tc.env[name]; return v, ok }}
			if err := tr.Existing(file); err != nil {
				t.Fatal(err)
			}
			tr.Add(servers)
			after, left, err := tr.Sections().AddTo(file)
			if err != nil || len(left) > 0 {
				t.Fatal(err, left)
			}
			file = after
		}
		for _, want := range tc.want {
			if n := strings.Count(string(file), want); n != 1+strings.Count(tc.file, want) {
				t.Errorf("%s: %s occurs %d times in\n%s", name, want, n, file)
			}
		}
	}
}

// A server in a later file cannot refer to the secret of a server in an earlier file.
func TestImportRefusesReferencesToAnothersSecret(t *testing.T) {
	var tr Translator
	tr.Add([]Server{{Name: "maps", Command: "x", Transport: Stdio, Args: []string{"--api-key", "first"}}})
	tr.Add([]Server{{Name: "other", Command: "x", Transport: Stdio, Env: map[string]string{"A": "${MAPS_API_KEY}"}}})
	if tr.Sections().Len() != 1 || !strings.Contains(strings.Join(tr.Notes(), "\n"), "other is skipped: ${MAPS_API_KEY} contains") {
		t.Error(tr.Notes())
	}
}
