package jsvm

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// writeFiles creates a tools folder.
func writeFiles(t testing.TB, files map[string]string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "tools")
	for name, text := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func testCompiler(t testing.TB) *Compiler {
	c := NewCompiler()
	t.Cleanup(c.Close)
	return c
}

// compileOne compiles m.ts in a folder and expects one fault.
func compileOne(t *testing.T, c *Compiler, dir string) Fault {
	t.Helper()
	_, faults, err := c.Compile(t.Context(), "m.ts", CompileOptions{Root: dir, Provided: []string{"zod"}})
	if err != nil || len(faults) != 1 {
		t.Fatalf("%v, %v", faults, err)
	}
	return faults[0]
}

func TestComputedImportIsRefused(t *testing.T) {
	c := testCompiler(t)
	for name, tt := range map[string]struct {
		text         string
		line, column int
	}{
		"concatenation": {"export default async (x: string) =>\n  await import(\"../../../../\" + x + \".nonexistent\");\n", 2, 9},
		"template":      {"export default (x: string) => import(`./${x}.ts`);\n", 1, 31},
		"variable":      {"export default (x: string) => import(x);\n", 1, 31},
		"condition":     {"export default (x: string) => import(x ? './m' : './' + x);\n", 1, 31},
		"require":       {"export default (x: string) => require('./' + x);\n", 1, 31},
		"comment":       {"export default (x: string) => import /* ( */ (`../${x}`);\n", 1, 31},
		"space":         {"export default (x: string) => import\u00a0(`../${x}`);\n", 1, 31},
		"escape":        {"export default (x: string) => \\u0072equire(`../${x}`);\n", 1, 31},
		"deferred":      {"export default (x: string) => import.defer(`../${x}`);\n", 1, 31},
	} {
		f := compileOne(t, c, writeFiles(t, map[string]string{"m.ts": tt.text}))
		if f.File != "m.ts" || f.Line != tt.line || f.Column != tt.column || !strings.Contains(f.Message, "requires a literal path") || f.Fix == "" {
			t.Errorf("%s: %+v", name, f)
		}
	}
	imported := compileOne(t, c, writeFiles(t, map[string]string{"m.ts": `export { default } from "./lib";`, "lib.ts": "\nexport default (x: string) => import(`./${x}`);"}))
	if imported.File != "lib.ts" || imported.Line != 2 {
		t.Errorf("%+v", imported)
	}
}

func TestLiteralImportsAreCompiled(t *testing.T) {
	c := testCompiler(t)
	dir := writeFiles(t, map[string]string{
		"m.ts": `import p from "pack"; const text = "import(x)"; // require(x)
export default async () => [p, text, (await import("./lib")).a, (await import(` + "`./lib`" + `)).a, require("./data.json").a];`,
		"lib.ts": "export const a = 1;\n", "data.json": `{"a": 2}`,
		"node_modules/pack/package.json": `{"name": "pack", "main": "index.js"}`,
		"node_modules/pack/index.js":     "module.exports = typeof window === 'undefined' ? null : require(window.name);\n",
	})
	m, faults, err := c.Compile(t.Context(), "m.ts", CompileOptions{Root: dir})
	if err != nil || len(faults) > 0 || !strings.Contains(m.Code, "a = 1") || len(m.Map) == 0 || len(m.Inputs) < 4 {
		t.Errorf("%v, %v, %+v", faults, err, m)
	}
}

// Even in packages, no import makes the compiler search the disk.
func TestPackagesCannotSearchFiles(t *testing.T) {
	f := compileOne(t, testCompiler(t), writeFiles(t, map[string]string{
		"m.ts":                           `export { default } from "pack";`,
		"node_modules/pack/package.json": `{"name": "pack", "main": "index.js"}`,
		"node_modules/pack/index.js":     "export default (x) => import(\n '../../../../../' + x + '.nonexistent');\n",
	}))
	if f.File != "node_modules/pack/index.js" || f.Line != 1 {
		t.Errorf("%+v", f)
	}
}

// Files outside the folder cannot be imported, and errors do not reveal whether they exist.
func TestOutsideFilesAreNotNamed(t *testing.T) {
	c := testCompiler(t)
	dir := writeFiles(t, map[string]string{"m.ts": "", "node_modules/inner/package.json": `{"main": "../../../../secret.ts"}`})
	outside := filepath.Dir(dir)
	for name, text := range map[string]string{
		"secret.ts": "export const secret = 1;\n", "node_modules/outer/index.js": "export const secret = 1;\n", "package.json": "{ broken secret",
	} {
		file := filepath.Join(outside, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(outside, "secret.ts"), filepath.Join(dir, "link.ts")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"../secret", "../nothing", "./link", "./sub/../../secret.ts", filepath.Join(outside, "secret.ts"), "/etc/passwd", "/nothing", "outer", "inner", "file://" + outside + "/secret.ts"} {
		if err := os.WriteFile(filepath.Join(dir, "m.ts"), []byte("import x from "+`"`+path+`";`+"\nexport default x;\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		m, faults, err := c.Compile(t.Context(), "m.ts", CompileOptions{Root: dir})
		if err != nil || len(faults) == 0 {
			t.Fatalf("%s: %v, %v, %s", path, faults, err, m.Code)
		}
		for _, f := range faults {
			told := strings.ReplaceAll(f.Message, path, "")
			if strings.Contains(told, "secret") || strings.Contains(told, outside) || strings.Contains(f.File, "..") || strings.Contains(f.Text, "broken") {
				t.Errorf("%s: %+v", path, f)
			}
		}
		for _, in := range m.Inputs {
			if !strings.HasPrefix(in.Path, dir) {
				t.Errorf("%s: %s is watched", path, in.Path)
			}
		}
	}
}

// A file that would exhaust memory or stack crashes only its compiler process.
func TestCompilerIsBounded(t *testing.T) {
	if raceEnabled {
		t.Skip("memory means nothing under the race detector")
	}
	c := testCompiler(t)
	deep := "export default " + strings.Repeat("(", 400_000) + "1" + strings.Repeat(")", 400_000) + ";\n"
	if f := compileOne(t, c, writeFiles(t, map[string]string{"m.ts": deep})); !strings.Contains(f.Message, "nested too deeply") {
		t.Errorf("%+v", f)
	}
	large := map[string]string{}
	var imports strings.Builder
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		large[name+".ts"] = "export default [" + strings.Repeat("{},", 340_000) + "];\n"
		imports.WriteString("export { default as " + name + " } from \"./" + name + "\";\n")
	}
	large["m.ts"] = imports.String()
	start := time.Now()
	if f := compileOne(t, c, writeFiles(t, large)); !strings.Contains(f.Message, "MiB") && !strings.Contains(f.Message, "timed out") {
		t.Errorf("%+v", f)
	}
	t.Log(time.Since(start))
	m, faults, err := c.Compile(t.Context(), "m.ts", CompileOptions{Root: writeFiles(t, map[string]string{"m.ts": "export default 1;\n"})})
	if err != nil || len(faults) > 0 || m.Code == "" {
		t.Errorf("%v, %v", faults, err)
	}
}

func TestCompilerProcessIsReused(t *testing.T) {
	c := testCompiler(t)
	dir := writeFiles(t, map[string]string{"m.ts": "export default 1;\n"})
	pid := func() int {
		t.Helper()
		if _, faults, err := c.Compile(t.Context(), "m.ts", CompileOptions{Root: dir}); err != nil || len(faults) > 0 {
			t.Fatal(faults, err)
		}
		if len(c.idle) != 1 {
			t.Fatal(c.idle)
		}
		return c.idle[0].process.PID()
	}
	first := pid()
	if pid() != first {
		t.Error("it was started again without need")
	}
	c.idle[0].process.Kill() // as the system does when memory runs out
	if pid() == first {
		t.Error("a dead process was used")
	}
	second := c.idle[0]
	second.uses = compileUses - 1
	if _, _, err := c.Compile(t.Context(), "m.ts", CompileOptions{Root: dir}); err != nil || len(c.idle) != 0 {
		t.Error("it was not replaced", err)
	}
	<-second.process.Ended()
}

// No compilation waits for the start of a process that replaces another one.
func TestCompilerProcessHasASuccessor(t *testing.T) {
	c := testCompiler(t)
	compile := func() {
		t.Helper()
		if _, faults, err := c.Snippet(t.Context(), "code", "tools", "return 1;"); err != nil || len(faults) > 0 {
			t.Fatal(faults, err)
		}
	}
	compile()
	old := c.idle[0]
	old.uses = compileUses - compileAhead - 1
	compile()
	c.preparing.Wait()
	if len(c.idle) != 2 || c.idle[1] != old {
		t.Fatalf("%d idle processes", len(c.idle))
	}
	successor := c.idle[0]
	compile()
	if successor.uses > 0 {
		t.Error("the successor is used before the process is replaced")
	}
	old.uses = compileUses - 1
	compile()
	<-old.process.Ended()
	if compile(); len(c.idle) != 1 || c.idle[0] != successor || successor.uses != 1 {
		t.Errorf("%d idle processes, %d compilations in the successor", len(c.idle), successor.uses)
	}
}

func TestClosedCompilerHasNoSuccessor(t *testing.T) {
	c := NewCompiler()
	if _, _, err := c.Snippet(t.Context(), "code", "tools", "return 1;"); err != nil {
		t.Fatal(err)
	}
	c.idle[0].uses = compileUses - compileAhead - 1
	if _, _, err := c.Snippet(t.Context(), "code", "tools", "return 1;"); err != nil {
		t.Fatal(err)
	}
	if c.Close(); len(c.idle) > 0 {
		t.Error("a process was kept")
	}
}

func TestCompileEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := testCompiler(t).Compile(ctx, "m.ts", CompileOptions{Root: writeFiles(t, map[string]string{"m.ts": ""})}); err == nil {
		t.Error("it went on")
	}
}

func BenchmarkCompile(b *testing.B) {
	dir := writeFiles(b, map[string]string{"m.ts": "import { z } from \"zod\";\nexport const inputSchema = z.object({});\nexport default async () => 1;\n"})
	o := CompileOptions{Root: dir, Provided: []string{"zod"}}
	b.Run("process", func(b *testing.B) {
		c := testCompiler(b)
		for b.Loop() {
			if _, faults, err := c.Compile(b.Context(), "m.ts", o); err != nil || len(faults) > 0 {
				b.Fatal(faults, err)
			}
		}
	})
	b.Run("start", func(b *testing.B) {
		for b.Loop() {
			c := NewCompiler()
			if _, faults, err := c.Compile(b.Context(), "m.ts", o); err != nil || len(faults) > 0 {
				b.Fatal(faults, err)
			}
			c.Close()
		}
	})
	b.Run("inside", func(b *testing.B) {
		for b.Loop() {
			if _, faults := compile("m.ts", o); len(faults) > 0 {
				b.Fatal(faults)
			}
		}
	})
}
