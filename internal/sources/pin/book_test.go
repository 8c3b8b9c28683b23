package pin_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/toolyard/toolyard/internal/sources/pin"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, path string) *pin.Book {
	t.Helper()
	b, err := pin.Open(path)
	must(t, err)
	return b
}

// add pins one tool.
func add(name, definition string) func(*pin.Entry) {
	return func(e *pin.Entry) {
		e.Protocol = "2026-07-28"
		if e.Tools == nil {
			e.Tools = make(map[string]json.RawMessage)
		}
		e.Tools[name] = json.RawMessage(definition)
	}
}

// entries returns the entries of some servers, omitting missing ones.
func entries(b *pin.Book, servers ...string) map[string]pin.Entry {
	all := make(map[string]pin.Entry)
	for _, s := range servers {
		if e, ok := b.Entry(s); ok {
			all[s] = e
		}
	}
	return all
}

const small = `{
  "version": 1,
  "servers": {
    "git": {
      "protocol": "2026-07-28",
      "tools": {
        "log": {
          "digest": "sha256:011eb7d53d24783ad20103c820160314b27906036ebc1da814a0cd1e3311ed15",
          "definition": {
            "name": "log",
            "description": "a\u202eb é",
            "inputSchema": {
              "type": "object",
              "required": [
                "a",
                "b"
              ]
            }
          }
        }
      }
    },
    "none": {
      "protocol": "",
      "tools": {}
    }
  }
}
`

func TestTheFileIsMadeForReview(t *testing.T) {
	path := filepath.Join(t.TempDir(), "toolyard.lock")
	b := open(t, path)
	must(t, b.Update("none", func(e *pin.Entry) { e.Tools = map[string]json.RawMessage{} }))
	must(t, b.Update("git", add("log", "{\"name\":\"log\", \"description\":\"a\u202eb é\", \"inputSchema\":{\"type\":\"object\",\"required\":[\"a\",\"b\"]}}")))
	got, err := os.ReadFile(path)
	must(t, err)
	if diff := cmp.Diff(small, string(got)); diff != "" {
		t.Error(diff)
	}
	e, ok := open(t, path).Entry("git")
	want := pin.Entry{Protocol: "2026-07-28", Tools: map[string]json.RawMessage{
		"log": json.RawMessage(`{"name":"log","description":"a\u202eb é","inputSchema":{"type":"object","required":["a","b"]}}`),
	}}
	if diff := cmp.Diff(want, e, cmpopts.IgnoreUnexported(pin.Entry{})); diff != "" || !ok {
		t.Error(diff)
	}
	names, err := os.ReadDir(filepath.Dir(path))
	must(t, err)
	if len(names) != 1 {
		t.Errorf("there is more than the file: %v", names)
	}
}

func TestDamagedFiles(t *testing.T) {
	edited := func(old, new string) string { return strings.Replace(small, old, new, 1) }
	for content, want := range map[string]string{
		"":                             ":1: unexpected end of JSON input",
		"\n\n{":                        ":3: unexpected end",
		"[]":                           ":1: expected an object",
		"null":                         ":1: expected an object",
		"{}":                           ":1: version is missing",
		edited("1,", "2,"):             ":2: unsupported version 2; only version 1 is supported",
		edited("1,", `"1",`):           ":2: the value has the wrong type",
		edited(`"log"`, `"log" x`):     ":7: invalid character 'x'",
		edited(`"log": {`, `"log": [`): ":8: invalid character ':'",
		edited("é", "\xff"):            ":11: the file is not valid UTF-8",
		strings.Replace(small, "{", "<<<<<<< ours\n{", 1): " contains a merge conflict",
		edited(`"digest": `, `"diggest": `):               `:8: unknown key "diggest"`,
		edited(`"tools"`, `"trust"`):                      `:6: unknown key "trust"`,
		edited(`"type"`, `"required"`):                    ":7: definition of log: at byte",
		edited("none", "git"):                             `:23: duplicate key "git"`,
		edited(`"servers"`, `"version"`):                  `:3: duplicate key "version"`,
		edited(`"tools": {}`, `"tools": 7`):               ":25: expected an object",
		edited(`"protocol": ""`, `"protocol": {}`):        ":24: the value has the wrong type",
		edited(`"tools": {}`, `"rejected": []`):           ":25: expected an object",
		edited(`"tools": {}`, `"rejected": {"a": 7}`):     ":25: the value has the wrong type",
		edited(`"tools": {}`, `"rejected": {"a": null}`):  ":25: the rejected hash for a is invalid",
		edited(`"tools": {}`, `"rejected": {"a": "00"}`):  ":25: the rejected hash for a is invalid",
		small + "{}": ":29: invalid character '{' after top-level value",
		small[:300]:  ":11: unexpected end",
		`{"version":1,"servers":{"a":{"tools":{"b":{"digest":""}}}}}`: ":1: definition of b: ",
		`{"version":1,"servers":` + strings.Repeat("[", 20_000):       ":1: invalid character '[' exceeded max depth",
	} {
		path := filepath.Join(t.TempDir(), "toolyard.lock")
		must(t, os.WriteFile(path, []byte(content), 0o600))
		if _, err := pin.Open(path); err == nil || !strings.Contains(err.Error(), path+want) {
			t.Errorf("%.60q: %v, want %s", content, err, want)
		}
	}
}

func TestUnreadableFiles(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "large")
	must(t, os.WriteFile(large, nil, 0o600))
	must(t, os.Truncate(large, 64<<20+1))
	for path, want := range map[string]string{dir: "the path is not a regular file", large: "the file is larger than", os.DevNull: "the path is not a regular file"} {
		if _, err := pin.Open(path); err == nil || !strings.Contains(err.Error(), path+": "+want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
}

func TestAMissingFileIsAnEmptyBook(t *testing.T) {
	path := filepath.Join(t.TempDir(), "toolyard.lock")
	b := open(t, path)
	if _, ok := b.Entry("git"); ok || b.Path() != path {
		t.Error("it is not empty")
	}
	if changed, err := b.Reload(); changed || err != nil {
		t.Error(changed, err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a file was made by reading it")
	}
}

func TestABookInMemory(t *testing.T) {
	b := open(t, "")
	must(t, b.Update("a", add("x", `{}`)))
	must(t, b.Update("b", add("y", `{}`)))
	must(t, b.Remove("b"))
	if changed, err := b.Reload(); changed || err != nil {
		t.Error(changed, err)
	}
	want := map[string]pin.Entry{"a": {Protocol: "2026-07-28", Tools: map[string]json.RawMessage{"x": json.RawMessage(`{}`)}}}
	if diff := cmp.Diff(want, entries(b, "a", "b"), cmpopts.IgnoreUnexported(pin.Entry{})); diff != "" {
		t.Error(diff)
	}
}

// Changing an entry after passing or receiving it does not affect the book.
func TestEntriesAreCopies(t *testing.T) {
	b := open(t, filepath.Join(t.TempDir(), "toolyard.lock"))
	given := json.RawMessage(`{"a":1}`)
	var kept *pin.Entry
	must(t, b.Update("s", func(e *pin.Entry) { e.Tools = map[string]json.RawMessage{"t": given}; kept = e }))
	want := entries(b, "s")
	copy(given, `{"b":2}`)
	e, _ := b.Entry("s")
	copy(e.Tools["t"], `{"c":3}`)
	e.Tools["u"] = given
	must(t, b.Update("s", func(e *pin.Entry) { kept = e }))
	copy(kept.Tools["t"], `{"d":4}`)
	if diff := cmp.Diff(want, entries(b, "s"), cmpopts.IgnoreUnexported(pin.Entry{})); diff != "" {
		t.Error(diff)
	}
}

func TestUpdateRejectsValuesWithoutCanonicalForm(t *testing.T) {
	path := filepath.Join(t.TempDir(), "toolyard.lock")
	b := open(t, path)
	must(t, b.Update("s", add("t", `{"a":1}`)))
	want := entries(b, "s")
	for _, c := range []struct{ server, tool, definition, want string }{
		{"s", "t", `{"a":1,"a":2}`, `tool "t": at byte 7: duplicate key a`},
		{"s", "t", ``, `tool "t": at byte 0`},
		{"s", "\xff", `{}`, "its name is not valid UTF-8"},
		{"\xff", "t", `{}`, "is not valid UTF-8"},
	} {
		calls := 0
		err := b.Update(c.server, func(e *pin.Entry) { calls++; add(c.tool, c.definition)(e) })
		if err == nil || !strings.Contains(err.Error(), c.want) || calls != 1 {
			t.Errorf("%d calls, %v, want %s", calls, err, c.want)
		}
	}
	if diff := cmp.Diff(want, entries(b, "s", "\xff"), cmpopts.IgnoreUnexported(pin.Entry{})); diff != "" {
		t.Error(diff)
	}
}

// A definition with the maximum nesting depth can be read again.
func TestTheDeepestDefinition(t *testing.T) {
	path := filepath.Join(t.TempDir(), "toolyard.lock")
	deep := strings.Repeat("[", 65) + strings.Repeat("]", 65)
	must(t, open(t, path).Update("s", add("t", deep)))
	e, _ := open(t, path).Entry("s")
	if string(e.Tools["t"]) != deep {
		t.Errorf("got %s", e.Tools["t"])
	}
}

func TestUpdateKeepsConcurrentChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "toolyard.lock")
	a, b := open(t, path), open(t, path)
	must(t, a.Update("a", add("x", `{}`)))
	must(t, b.Update("b", add("y", `{}`)))
	must(t, a.Update("b", add("z", `{}`)))
	must(t, b.Remove("a"))
	must(t, b.Remove("never"))
	for name, book := range map[string]*pin.Book{"b": b, "the file": open(t, path)} {
		e, ok := book.Entry("b")
		if _, gone := book.Entry("a"); gone || !ok || len(e.Tools) != 2 {
			t.Errorf("%s: %v", name, e)
		}
	}
}

func TestUpdateWithoutAChangeDoesNotWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "toolyard.lock")
	b := open(t, path)
	must(t, b.Update("a", add("x", `{"a":1}`)))
	before, err := os.Stat(path)
	must(t, err)
	must(t, b.Update("a", add("x", `{ "a":1.0 }`)))
	after, err := os.Stat(path)
	must(t, err)
	if !os.SameFile(before, after) {
		t.Error("it was written")
	}
}

func TestModesAndLinksStay(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "real"), filepath.Join(dir, "toolyard.lock")
	must(t, os.WriteFile(path, []byte(small), 0o600))
	if err := os.Symlink(path, link); err != nil {
		t.Skip(err)
	}
	for _, mode := range []fs.FileMode{0o600, 0o664} {
		must(t, os.Chmod(path, mode))
		must(t, open(t, link).Update("a", add(mode.String(), `{}`)))
		info, err := os.Stat(path)
		must(t, err)
		if info.Mode() != mode {
			t.Errorf("the mode is %v", info.Mode())
		}
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v", err)
	}
	if got := entries(open(t, path), "a", "git", "none"); len(got) != 3 {
		t.Errorf("got %v", got)
	}
}

func TestReload(t *testing.T) {
	path := filepath.Join(t.TempDir(), "toolyard.lock")
	b, other := open(t, path), open(t, path)
	reload := func(want bool) {
		t.Helper()
		if changed, err := b.Reload(); changed != want || err != nil {
			t.Errorf("changed: %v, %v", changed, err)
		}
	}
	must(t, other.Update("s", add("t", `{}`)))
	reload(true)
	reload(false)
	later := time.Now().Add(time.Hour)
	must(t, os.Chtimes(path, later, later)) // different time, same content
	reload(false)
	must(t, os.WriteFile(path, []byte("{"), 0o600))
	if changed, err := b.Reload(); changed || err == nil {
		t.Errorf("a damaged file: %v, %v", changed, err)
	}
	if _, ok := b.Entry("s"); !ok {
		t.Error("a damaged file has emptied the book")
	}
	must(t, os.Remove(path))
	reload(true)
	reload(false)
	if _, ok := b.Entry("s"); ok {
		t.Error("a deleted file is still in the book")
	}
}

// Two changes of the same size within the file system's time resolution are both detected.
func TestReloadSeesQuickChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "toolyard.lock")
	must(t, open(t, path).Update("s", add("t", `{"a":1}`)))
	b := open(t, path)
	info, err := os.Stat(path)
	must(t, err)
	must(t, open(t, path).Update("s", add("t", `{"a":2}`)))
	must(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
	if changed, err := b.Reload(); !changed || err != nil {
		t.Error(changed, err)
	}
}

// A change that cannot be written stays in memory and is written together with the next one.
func TestUnwrittenChangesAreKeptInMemory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	path := filepath.Join(dir, "toolyard.lock")
	b := open(t, path)
	calls := 0
	err := b.Update("a", func(e *pin.Entry) { calls++; add("x", `{}`)(e) })
	if err == nil || !strings.Contains(err.Error(), "could not save the definitions from server a, so they are kept only in memory: ") || calls != 1 {
		t.Errorf("%d calls, %v", calls, err)
	}
	if err := b.Remove("b"); err == nil {
		t.Error("no error")
	}
	if changed, err := b.Reload(); changed || err != nil {
		t.Error(changed, err)
	}
	if _, ok := b.Entry("a"); !ok {
		t.Error("it is not in memory")
	}
	must(t, os.Mkdir(dir, 0o700))
	must(t, open(t, path).Update("c", add("z", `{}`)))
	must(t, b.Update("d", add("w", `{}`)))
	if got := entries(open(t, path), "a", "c", "d"); len(got) != 3 {
		t.Errorf("the file holds %v", got)
	}
}

// Changes made to the file by others take precedence over changes that could not be written.
func TestTheFileTakesPrecedence(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	path := filepath.Join(dir, "toolyard.lock")
	b := open(t, path)
	if err := b.Update("a", add("x", `{"by":"memory"}`)); err == nil {
		t.Error("no error")
	}
	must(t, os.Mkdir(dir, 0o700))
	must(t, open(t, path).Update("a", add("x", `{"by":"file"}`)))
	if changed, err := b.Reload(); !changed || err != nil {
		t.Error(changed, err)
	}
	if e, _ := b.Entry("a"); string(e.Tools["x"]) != `{"by":"file"}` {
		t.Errorf("got %s", e.Tools["x"])
	}
}

// A definition edited by hand matches nothing.
func TestAnEditedDefinition(t *testing.T) {
	path := filepath.Join(t.TempDir(), "toolyard.lock")
	for _, edit := range [][2]string{{"é", "e"}, {"sha256:0", "sha256:9"}} {
		must(t, os.WriteFile(path, []byte(strings.Replace(small, edit[0], edit[1], 1)), 0o600))
		if e, ok := open(t, path).Entry("git"); !ok || !strings.Contains(string(e.Tools["log"]), "by hand") {
			t.Errorf("%q: %s", edit, e.Tools["log"])
		}
	}
}

// reject rejects one tool.
func reject(name, hash string) func(*pin.Entry) {
	return func(e *pin.Entry) {
		if e.Rejected == nil {
			e.Rejected = make(map[string]string)
		}
		e.Rejected[name] = hash
	}
}

// Rejections stay in the file as long as there are any.
func TestRejections(t *testing.T) {
	path := filepath.Join(t.TempDir(), "toolyard.lock")
	must(t, os.WriteFile(path, []byte(small), 0o600))
	b, other := open(t, path), open(t, path)
	hash := pin.Hash(json.RawMessage(`{}`))
	must(t, b.Update("none", reject("new\u202e", hash)))
	must(t, b.Update("never", reject("x", hash))) // nothing was ever approved for this server
	got, err := os.ReadFile(path)
	must(t, err)
	never := "    \"never\": {\n      \"protocol\": \"\",\n      \"rejected\": {\n        \"x\": \"" + hash + "\"\n      }\n    },\n"
	want := strings.Replace(small, "    \"none\"", never+"    \"none\"", 1)
	want = strings.Replace(want, `"tools": {}`, "\"tools\": {},\n      \"rejected\": {\n        \"new\\u202e\": \""+hash+"\"\n      }", 1)
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
	if changed, err := other.Changed(); err != nil || !cmp.Equal(changed, []string{"never", "none"}) {
		t.Error("another process is reported", changed, err)
	}
	if diff := cmp.Diff(entries(b, "git", "none", "never"), entries(other, "git", "none", "never"), cmpopts.IgnoreUnexported(pin.Entry{})); diff != "" {
		t.Error(diff)
	}
	if e, _ := other.Entry("never"); e.Tools != nil {
		t.Error("that something is rejected counts as that something was approved")
	}
	must(t, other.Update("none", func(e *pin.Entry) { clear(e.Rejected) }))
	must(t, other.Remove("never"))
	if got, err = os.ReadFile(path); err != nil || string(got) != small {
		t.Error("without rejections the file differs: ", cmp.Diff(small, string(got)), err)
	}
}

func TestUpdateRejectsInvalidHashes(t *testing.T) {
	hash := pin.Hash(json.RawMessage(`{}`))
	b := open(t, filepath.Join(t.TempDir(), "toolyard.lock"))
	for _, bad := range []string{"", hash[1:], strings.ToUpper(hash), "sha256:" + hash, "x" + hash[1:]} {
		if err := b.Update("s", reject("t", bad)); err == nil || err.Error() != "the rejected hash for t is invalid" {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if err := b.Update("s", reject("\xff", hash)); err == nil || !strings.Contains(err.Error(), "is not valid UTF-8") {
		t.Error(err)
	}
	if e, ok := b.Entry("s"); ok {
		t.Error(e)
	}
}

// Changing rejections after passing or receiving them does not affect the book.
func TestRejectionsAreCopies(t *testing.T) {
	b := open(t, "")
	given := map[string]string{"t": pin.Hash(json.RawMessage(`{}`))}
	must(t, b.Update("s", func(e *pin.Entry) { e.Rejected = given }))
	want := entries(b, "s")
	clear(given)
	e, _ := b.Entry("s")
	clear(e.Rejected)
	if diff := cmp.Diff(want, entries(b, "s"), cmpopts.IgnoreUnexported(pin.Entry{})); diff != "" || len(want["s"].Rejected) != 1 {
		t.Error(diff)
	}
}

// A server for which nothing was ever approved differs from one for which nothing is currently
// approved.
func TestNothingApproved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "toolyard.lock")
	b := open(t, path)
	must(t, b.Update("a", func(e *pin.Entry) { e.Protocol = "1" }))
	must(t, b.Update("b", func(e *pin.Entry) { e.Tools = map[string]json.RawMessage{} }))
	again := open(t, path)
	if e, ok := again.Entry("a"); !ok || e.Tools != nil {
		t.Error(e, ok)
	}
	if e, ok := again.Entry("b"); !ok || e.Tools == nil {
		t.Error(e, ok)
	}
}

// A file that was damaged while the book was open is not overwritten.
func TestADamagedFileIsNotOverwritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "toolyard.lock")
	b := open(t, path)
	must(t, b.Update("a", add("x", `{}`)))
	must(t, os.WriteFile(path, []byte("<<<<<<< ours"), 0o600))
	if err := b.Update("b", add("y", `{}`)); err == nil || !strings.Contains(err.Error(), "toolyard.lock contains a merge conflict") {
		t.Error(err)
	}
	if got, _ := os.ReadFile(path); string(got) != "<<<<<<< ours" {
		t.Errorf("it holds %s", got)
	}
	if got := entries(b, "a", "b"); len(got) != 2 {
		t.Errorf("the book holds %v", got)
	}
}

func TestConcurrentUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "toolyard.lock")
	b := open(t, path)
	var g sync.WaitGroup
	for i := range 8 {
		g.Go(func() {
			for j := range 5 {
				if err := b.Update(fmt.Sprint("s", i%4), add(fmt.Sprint("t", i, "-", j), `{}`)); err != nil {
					t.Error(err)
				}
				_, _ = b.Entry("s1")
				if _, err := b.Reload(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	g.Wait()
	for _, e := range entries(open(t, path), "s0", "s1", "s2", "s3") {
		if len(e.Tools) != 10 {
			t.Errorf("%d tools", len(e.Tools))
		}
	}
}

// many creates a book of 200 servers with 50 tools each.
func many(t testing.TB, path string) {
	t.Helper()
	type object = map[string]any
	tools := make(object)
	for i := range 50 {
		c := json.RawMessage(canonical(t, definition(i)))
		tools[fmt.Sprint("tool_", i)] = object{"digest": pin.Digest(c), "definition": c}
	}
	servers := make(object)
	for i := range 200 {
		servers[fmt.Sprint("server-", i)] = object{"protocol": "2025-11-25", "tools": tools}
	}
	data, err := json.MarshalIndent(object{"version": 1, "servers": servers}, "", "  ")
	must(t, err)
	must(t, os.WriteFile(path, data, 0o600))
}

func TestManyToolsLoadQuickly(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes it very slow")
	}
	path := filepath.Join(t.TempDir(), "toolyard.lock")
	many(t, path)
	start := time.Now()
	b := open(t, path)
	took := time.Since(start)
	t.Logf("10,000 tools loaded in %v", took)
	if took > 30*time.Second { // takes half a second on an idle machine
		t.Errorf("it took %v", took)
	}
	start = time.Now()
	must(t, b.Update("server-7", add("new", `{}`)))
	t.Logf("and one was added in %v", time.Since(start))
	if e, _ := open(t, path).Entry("server-7"); len(e.Tools) != 51 {
		t.Errorf("%d tools", len(e.Tools))
	}
}

func TestAFileThatWouldBeTooLargeIsNotWritten(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes it very slow")
	}
	path := filepath.Join(t.TempDir(), "toolyard.lock")
	b := open(t, path)
	err := b.Update("a", add("x", `"`+strings.Repeat("x", 64<<20)+`"`))
	if err == nil || !strings.Contains(err.Error(), "would be larger than 64 MiB") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it was written: %v", err)
	}
}

// A definition that would become very long if indented is not indented.
func TestIndentationIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "toolyard.lock")
	deep := strings.Repeat("[", 60) + strings.Repeat("0,", 10_000) + "0" + strings.Repeat("]", 60)
	must(t, open(t, path).Update("a", add("x", deep)))
	if info, err := os.Stat(path); err != nil || info.Size() > 8*int64(len(deep)) {
		t.Errorf("it has %d bytes, %v", info.Size(), err)
	}
	if e, _ := open(t, path).Entry("a"); string(e.Tools["x"]) != deep {
		t.Error("it was read as something else")
	}
}

// Every file that Open accepts can be written and read again with the same meaning.
func FuzzOpen(f *testing.F) {
	f.Add([]byte(small))
	f.Add([]byte(strings.Replace(small, `"tools": {}`, `"rejected": {"a": "`+pin.Hash(nil)+`"}`, 1)))
	f.Add([]byte(strings.Replace(small, `"tools": {}`, `"rejected": {}`, 1)))
	for _, s := range []string{"", "{}", `{"version":1}`, `{"servers":{},"version":1}`, `{"version":1,"servers":{"a":{"tools":{"b":{}}}}}`, "{\"version\":1,\"servers\":{\"\xff\":{}}}"} {
		f.Add([]byte(s))
	}
	path := filepath.Join(f.TempDir(), "toolyard.lock")
	f.Fuzz(func(t *testing.T, data []byte) {
		must(t, os.WriteFile(path, data, 0o600))
		b, err := pin.Open(path)
		if err != nil {
			if !strings.HasPrefix(err.Error(), path+":") {
				t.Fatalf("%q: %v", data, err)
			}
			return
		}
		want := entries(b, "git", "none", "a", "")
		must(t, b.Update("fuzz", add("tool", `{"a":1}`)))
		if diff := cmp.Diff(want, entries(open(t, path), "git", "none", "a", ""), cmpopts.IgnoreUnexported(pin.Entry{})); diff != "" {
			t.Fatalf("%q: %s", data, diff)
		}
	})
}

func BenchmarkOpen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "toolyard.lock")
	many(b, path)
	info, err := os.Stat(path)
	must(b, err)
	b.SetBytes(info.Size())
	for b.Loop() {
		open(b, path)
	}
}
