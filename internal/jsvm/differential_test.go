package jsvm

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf16"
)

// differentialCases runs generated cases and returns one text per case. The same source runs in the
// engine and in Node.
//
//go:embed testdata/differential.mjs
var differentialCases string

// differentialCase is one generated input.
type differentialCase struct {
	Kind string `json:"kind"`
	Args []any  `json:"args"`
}

// knownDifferences are intended or accepted differences from Node. Any other difference fails the
// test.
var knownDifferences = []struct {
	kinds  string
	match  func(args, ours, node string) bool
	reason string
}{
	{"clone inspect format", func(args, ours, _ string) bool {
		return strings.Contains(args, `["promise"]`) && strings.Contains(ours, "Promise {}")
	}, "the state of a promise is not accessible"},
	{"format", func(_, _, node string) bool {
		return node == "throws TypeError"
	}, "format does not throw"},
	{"format", func(args, _, _ string) bool {
		return strings.Contains(args, "%o")
	}, "%o does not show non-enumerable properties"},
	{"params", func(args, _, _ string) bool {
		return strings.Contains(args, "é") && (strings.Contains(args, "%ff") || strings.Contains(args, "%zz"))
	}, "Node decodes non-ASCII characters of a query with invalid escapes as invalid UTF-8"},
	{"bufferText", func(args, _, _ string) bool {
		return wideUnit.MatchString(args) && strings.Contains(args, `"base64`)
	}, "Node decodes the low byte of base64 characters beyond U+00FF"},
	{"path", func(args, ours, _ string) bool {
		return strings.HasPrefix(args, `["basename","/`) && ours == `""`
	}, "Node returns the path for the basename of slashes with a suffix"},
	{"events", func(args, _, node string) bool {
		return strings.Contains(args, "removeAllListeners") && node == "throws TypeError ERR_INVALID_ARG_TYPE"
	}, "removeAllListeners in Node fails if a listener removes others meanwhile"},
}

// wideUnit matches a UTF-16 code unit beyond U+00FF in the arguments of a case.
var wideUnit = regexp.MustCompile(`[\[,](?:25[6-9]|2[6-9]\d|[3-9]\d\d|\d{4,5})[\],]`)

// The runtime behaves like Node for thousands of generated inputs.
func TestRuntimeMatchesNode(t *testing.T) {
	node := findNode(t)
	scale := 10
	if testing.Short() {
		scale = 1
	}
	g := &generator{rand.New(rand.NewPCG(7, 11))}
	var cases []differentialCase
	for range scale {
		cases = append(cases, g.cases()...)
	}
	ours := runInEngine(t, cases)
	theirs := runInNode(t, node, cases)
	known := map[string]int{}
	failed := 0
	for i, c := range cases {
		if ours[i] == theirs[i] {
			continue
		}
		args := argsText(t, c)
		if reason := knownDifference(c.Kind, args, ours[i], theirs[i]); reason != "" {
			known[reason]++
			continue
		}
		if failed++; failed <= 40 {
			t.Errorf("%s %s\n  ours %q\n  Node %q", c.Kind, args, ours[i], theirs[i])
		}
	}
	t.Logf("%d cases, %d unexpected differences, known differences: %v", len(cases), failed, known)
}

func argsText(t *testing.T, c differentialCase) string {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(c.Args); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(b.String())
}

func knownDifference(kind, args, ours, node string) string {
	for _, k := range knownDifferences {
		if slices.Contains(strings.Fields(k.kinds), kind) && k.match(args, ours, node) {
			return k.reason
		}
	}
	return ""
}

var nodeVersion = regexp.MustCompile(`^v(\d+)\.`)

// findNode returns the Node version that the console pins, or one in PATH. Versions before 24 do
// not follow the current URL and encoding standards.
func findNode(t *testing.T) string {
	t.Helper()
	node, err := exec.LookPath(filepath.Join("..", "..", "console", "node_modules", "node", "bin", "node"))
	if err != nil {
		node, err = exec.LookPath("node")
	}
	if err != nil {
		t.Skip("node is not installed")
	}
	out, err := exec.Command(node, "--version").Output()
	if err != nil {
		t.Skip("node does not run:", err)
	}
	m := nodeVersion.FindSubmatch(out)
	if m == nil {
		t.Skipf("unknown version of node: %s", out)
	}
	if major, _ := strconv.Atoi(string(m[1])); major < 24 {
		t.Skipf("node is older than 24: %s", out)
	}
	return node
}

func runInEngine(t *testing.T, cases []differentialCase) []string {
	t.Helper()
	const batch = 200
	p := testPool(t)
	m := NewModule("m.js", differentialCases, nil)
	var results []string
	for start := 0; start < len(cases); start += batch {
		part := cases[start:min(start+batch, len(cases))]
		request, err := json.Marshal(map[string]any{"args": part})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		raw, err := p.Run(ctx, &Run{Module: m, Request: request})
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		if err := json.Unmarshal(raw, &got); err != nil || len(got) != len(part) {
			t.Fatalf("%d results for %d cases: %v", len(got), len(part), err)
		}
		results = append(results, got...)
	}
	return results
}

func runInNode(t *testing.T, node string, cases []differentialCase) []string {
	t.Helper()
	dir := t.TempDir()
	main := `import run from "./cases.mjs"; import { readFileSync } from "node:fs"; process.stdout.write(JSON.stringify(run(JSON.parse(readFileSync(0, "utf8")))));`
	for name, text := range map[string]string{"cases.mjs": differentialCases, "main.mjs": main} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	input, err := json.Marshal(cases)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), node, "--no-warnings", filepath.Join(dir, "main.mjs"))
	cmd.Stdin = bytes.NewReader(input)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.Bytes())
	}
	var got []string
	if err := json.Unmarshal(out, &got); err != nil || len(got) != len(cases) {
		t.Fatalf("%d results for %d cases: %v", len(got), len(cases), err)
	}
	return got
}

// generator creates random inputs that concentrate on edge cases.
type generator struct{ *rand.Rand }

// cases returns one round of every kind.
func (g *generator) cases() []differentialCase {
	var all []differentialCase
	add := func(n int, kind string, args func() []any) {
		for range n {
			all = append(all, differentialCase{kind, args()})
		}
	}
	add(120, "url", func() []any { return []any{g.url()} })
	add(80, "url", func() []any { return []any{g.reference(), g.url()} })
	add(80, "urlSet", func() []any {
		return []any{g.url(), oneOf(g, "href", "protocol", "username", "password", "host", "hostname", "port", "pathname", "search", "hash"), g.reference()}
	})
	add(60, "params", func() []any { return []any{g.query(), g.paramOps()} })
	add(40, "encode", func() []any { return []any{g.units()} })
	add(60, "decode", func() []any {
		return []any{g.bytes(), oneOf(g, "utf-8", "utf8", "utf-16le", "latin1", "ascii", "windows-1252"), g.IntN(2) == 0, g.IntN(2) == 0, g.IntN(8)}
	})
	encodings := []string{"utf8", "utf-8", "hex", "base64", "base64url", "latin1", "binary", "ascii", "utf16le", "ucs2"}
	add(60, "bufferText", func() []any { return []any{g.units(), oneOf(g, encodings...), oneOf(g, encodings...)} })
	add(60, "bufferBytes", func() []any {
		return []any{g.bytes(), g.bytes(), g.IntN(24) - 8, g.IntN(24) - 8, oneOf(g, encodings...)}
	})
	add(60, "bufferNumber", func() []any {
		return []any{
			oneOf(g, "UInt8", "UInt16LE", "UInt16BE", "UInt32LE", "UInt32BE", "Int8", "Int16LE", "Int16BE", "Int32LE", "Int32BE", "FloatLE", "FloatBE", "DoubleLE", "DoubleBE", "UIntLE", "UIntBE", "IntLE", "IntBE"),
			g.number(), g.IntN(10) - 1, 1 + g.IntN(6),
		}
	})
	add(60, "clone", func() []any { return []any{g.value(3)} })
	add(100, "inspect", func() []any { return []any{g.value(4), g.inspectOptions()} })
	add(30, "format", func() []any {
		return []any{strings.Join([]string{oneOf(g, "%s", "%d", "%i", "%f", "%j", "%o", "%O", "%%", "%c", "x"), oneOf(g, " ", "-", ""), oneOf(g, "%s", "%d", "%", "%x", "")}, ""), g.value(1), g.value(2), g.value(0)}
	})
	add(80, "path", func() []any { return g.pathCall() })
	add(60, "equal", func() []any {
		v := g.value(3)
		return []any{v, oneOf(g, v, v, g.value(3), g.value(0))}
	})
	add(60, "events", func() []any { return []any{g.program()} })
	return all
}

func oneOf[T any](g *generator, from ...T) T { return from[g.IntN(len(from))] }

func (g *generator) repeat(most int, next func() string) string {
	var b strings.Builder
	for range g.IntN(most + 1) {
		b.WriteString(next())
	}
	return b.String()
}

func (g *generator) fragment() string {
	return oneOf(g, "a", "b", "Z", "9", ".", "..", "%2e", "%2E%2e", "/", "//", "\\", "?", "#", "&", "=", "+", " ", "%", "%4", "%41", "%zz", "é", "€", "😀", "'", "\"", "<", "|", "^", "`", "{", "}", "[", "]", "@", ":", ";", "$", "\t", "\n", "~", "!", "*", "(", "\u00ad", "\u3002")
}

func (g *generator) host() string {
	if g.IntN(3) > 0 {
		return oneOf(g, "example.com", "EXAMPLE.com", "localhost", "127.0.0.1", "0x7f.1", "1.2.3", "256.256.256.256", "0300.1", "[::1]", "[1:2::3:0:0:0]", "[::ffff:1.2.3.4]", "[::1", "bücher.example", "faß.de", "日本。jp", "a_b.c", "a..b", "xn--bcher-kva.de", "example.com.", "1e3", "0x", "ex%41mple.com", "a b", "*")
	}
	return g.repeat(4, g.fragment)
}

func (g *generator) url() string {
	scheme := oneOf(g, "http:", "https:", "HTTPS:", "ftp:", "file:", "ws:", "data:", "mailto:", "javascript:", "custom:", "a+b-1.c:", "1x:", "")
	authority := ""
	if g.IntN(5) > 0 {
		authority = oneOf(g, "//", "//", "//", "/", "///", "\\\\", "") + oneOf(g, "", "", "", "user@", "u:p@", "u:@", ":p@", "é:%zz@", "a@b@") + g.host() + oneOf(g, "", "", "", ":80", ":443", ":8080", ":", ":65536", ":00081", ":x")
	}
	return oneOf(g, "", "", "", " ", "\t") + scheme + authority + oneOf(g, "", "/", "/", "") + g.repeat(6, g.fragment) + oneOf(g, "", "", "?"+g.repeat(4, g.fragment)) + oneOf(g, "", "", "#"+g.repeat(4, g.fragment))
}

func (g *generator) reference() string {
	if g.IntN(5) == 0 {
		return g.url()
	}
	return oneOf(g, "", "", "/", "//", "?", "#", ".", "../", "C:", "c|/", "8080", "https", "x") + g.repeat(5, g.fragment)
}

func (g *generator) path() string {
	return oneOf(g, "", "", "/", "//", "./", "../") + g.repeat(8, func() string {
		return oneOf(g, "a", "b.c", ".d", "e.", "..", ".", "/", "/", "//", " ", "é", "...", "f.g.h")
	})
}

// pathCall returns a function in node:path and its arguments. The results of relative and resolve
// must not depend on the working directory.
func (g *generator) pathCall() []any {
	absolute := func() string { return "/" + g.path() }
	switch name := oneOf(g, "normalize", "join", "resolve", "relative", "dirname", "basename", "extname", "parse", "format", "isAbsolute"); name {
	case "join":
		return []any{name, g.path(), g.path(), g.path()}
	case "resolve":
		return []any{name, absolute(), g.path(), g.path()}
	case "relative":
		return []any{name, absolute(), absolute()}
	case "basename":
		return []any{name, g.path(), oneOf(g, "", ".c", "c", ".", "/", "b.c")}
	case "format":
		parts := map[string]any{}
		for _, part := range []string{"root", "dir", "base", "name", "ext"} {
			if g.IntN(2) == 0 {
				parts[part] = g.path()
			}
		}
		return []any{name, parts}
	default:
		return []any{name, g.path()}
	}
}

// program returns a list of operations on an event emitter.
func (g *generator) program() []any {
	ops := []any{}
	for range 1 + g.IntN(14) {
		ops = append(ops, []any{
			oneOf(g, "on", "on", "once", "prependListener", "prependOnceListener", "off", "removeAllListeners", "emit", "emit", "listeners", "rawListeners", "listenerCount", "eventNames"),
			oneOf(g, "a", "a", "b", "error", "newListener", "removeListener", "0"), g.IntN(3),
		})
	}
	return ops
}

func (g *generator) query() string {
	return oneOf(g, "", "?", "") + g.repeat(8, func() string {
		return oneOf(g, "a", "b", "a=1", "b=2", "&", "&", "=", "+", "%20", "%zz", "%C3%A9", "é", "%ff", " ", "?", "a=1&a=2")
	})
}

func (g *generator) paramOps() []any {
	ops := []any{}
	for range g.IntN(4) {
		ops = append(ops, []any{oneOf(g, "append", "set", "delete", "get", "getAll", "has", "sort"), oneOf(g, "a", "b", "é", ""), oneOf(g, "1", "2", "a b", "€&=+%")})
	}
	return ops
}

// units returns UTF-16 code units, including lone surrogates, which Go's JSON strings cannot
// represent.
func (g *generator) units() []any {
	units := []any{}
	for range g.IntN(12) {
		switch g.IntN(6) {
		case 0:
			units = append(units, 0xd800+g.IntN(0x800))
		case 1:
			high, low := utf16.EncodeRune(rune(0x10000 + g.IntN(0x100000)))
			units = append(units, int(high), int(low))
		case 2:
			units = append(units, g.IntN(0x10000))
		case 3:
			units = append(units, int(oneOf(g, '=', '-', '_', '+', '/', ' ', '\n', 'g')))
		default:
			units = append(units, g.IntN(0x180))
		}
	}
	return units
}

func (g *generator) bytes() []any {
	all := []any{}
	for range g.IntN(14) {
		switch g.IntN(4) {
		case 0:
			all = append(all, oneOf(g, 0xef, 0xbb, 0xbf, 0xe2, 0x82, 0xac, 0xf0, 0x9f, 0x98, 0x80, 0xed, 0xa0, 0xc0, 0xf5, 0xff))
		case 1:
			for _, b := range []byte(oneOf(g, "é", "€", "😀", "\ufeff", "a")) {
				all = append(all, int(b))
			}
		default:
			all = append(all, g.IntN(256))
		}
	}
	return all
}

func (g *generator) number() any {
	return oneOf[any](g, 0, 1, -1, 127, 128, 255, 256, -128, -129, 65535, 65536, 2147483647, -2147483648, 4294967295, 4294967296, 1.5, -0.1, 1e40, 281474976710655, g.IntN(1<<40))
}

// value returns a recipe that build in differential.mjs turns into a value.
func (g *generator) value(depth int) any {
	leaf := func() any {
		return oneOf[any](g,
			[]any{"undefined"}, []any{"null"}, []any{"number", g.number()}, []any{"number", "NaN"}, []any{"number", "-0"}, []any{"number", "Infinity"},
			[]any{"boolean", g.IntN(2) == 0}, []any{"string", g.units()}, []any{"text", oneOf(g, "", "a", "it's", `say "hi"`, "it's \"x\"", "a\nb", "`", strings.Repeat("long text ", 12))},
			[]any{"bigint", strconv.Itoa(g.IntN(1 << 30))}, []any{"date", g.IntN(1 << 40)}, []any{"date", "NaN"}, []any{"regexp", oneOf(g, "a+", "[/]", "(?:)"), oneOf(g, "", "g", "im")},
			[]any{"bytes", g.bytes()}, []any{"buffer", g.bytes()}, []any{"arrayBuffer", g.bytes()}, []any{"boxed", oneOf[any](g, 1, "s", true)},
			[]any{"error", oneOf(g, "Error", "TypeError", "RangeError"), oneOf(g, "", "failed", "two\nlines")},
		)
	}
	if depth == 0 || g.IntN(3) == 0 {
		if g.IntN(12) == 0 {
			return oneOf[any](g, []any{"symbol", oneOf(g, "", "s")}, []any{"function", oneOf(g, "", "f")}, []any{"class", "C"}, []any{"promise"}, []any{"weakmap"})
		}
		return leaf()
	}
	list := func(n int) []any {
		items := []any{}
		for range g.IntN(n + 1) {
			items = append(items, g.value(depth-1))
		}
		return items
	}
	members := func() []any {
		items := []any{}
		for i := range g.IntN(5) {
			items = append(items, []any{oneOf(g, "a", "b", "key with space", "1", "é", "x-y", "$") + strconv.Itoa(i), g.value(depth - 1)})
		}
		return items
	}
	switch g.IntN(9) {
	case 0:
		return []any{"array", list(8)}
	case 1:
		return []any{"sparse", g.IntN(6), list(3)}
	case 2:
		return []any{"map", members()}
	case 3:
		return []any{"set", list(5)}
	case 4:
		return []any{"nullObject", members()}
	case 5:
		return []any{"instance", members()}
	case 6:
		return []any{"cycle", members()}
	case 7:
		return []any{"shared", g.value(depth - 1)}
	default:
		return []any{"object", members()}
	}
}

func (g *generator) inspectOptions() map[string]any {
	o := map[string]any{}
	if g.IntN(3) == 0 {
		o["depth"] = oneOf[any](g, 0, 1, 5, nil)
	}
	if g.IntN(4) == 0 {
		o["compact"] = oneOf[any](g, false, true, 1)
	}
	if g.IntN(5) == 0 {
		o["breakLength"] = oneOf(g, 20, 60, 120)
	}
	if g.IntN(5) == 0 {
		o["maxArrayLength"] = oneOf(g, 0, 2)
	}
	if g.IntN(6) == 0 {
		o["sorted"] = true
	}
	if g.IntN(6) == 0 {
		o["maxStringLength"] = oneOf(g, 0, 5)
	}
	return o
}
