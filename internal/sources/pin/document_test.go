package pin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/toolyard/toolyard/internal/sources/pin"
)

// shared is an in-memory document.
type shared struct {
	mu      sync.Mutex
	body    string
	version int64
	fails   error  // error returned by reads and writes
	between func() // called before the next write
}

func (s *shared) Read(context.Context) ([]byte, int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return []byte(s.body), s.version, s.fails
}

func (s *shared) Write(_ context.Context, body []byte, version int64) (int64, error) {
	if between := s.between; between != nil {
		s.between = nil
		between()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.fails != nil:
		return 0, s.fails
	case version != s.version:
		return 0, pin.ErrChanged
	}
	s.body, s.version = string(body), version+1
	return s.version, nil
}

func openIn(t testing.TB, d pin.Document) *pin.Book {
	t.Helper()
	b, err := pin.OpenIn(d)
	must(t, err)
	return b
}

// A book in a document has the same format as a book in a file. It reports an error if the document
// contains something else.
func TestABookInADocument(t *testing.T) {
	d := &shared{}
	a, b := openIn(t, d), openIn(t, d)
	reload := func(want bool) {
		t.Helper()
		if changed, err := b.Reload(); changed != want || err != nil {
			t.Errorf("changed: %v, %v", changed, err)
		}
	}
	reload(false)
	must(t, a.Update("none", func(e *pin.Entry) { e.Tools = map[string]json.RawMessage{} }))
	must(t, a.Update("git", add("log", "{\"name\":\"log\", \"description\":\"a\u202eb é\", \"inputSchema\":{\"type\":\"object\",\"required\":[\"a\",\"b\"]}}")))
	must(t, a.Update("git", func(*pin.Entry) {}))
	if d.body != small || d.version != 2 || a.Path() != "" {
		t.Errorf("version %d:\n%s", d.version, d.body)
	}
	reload(true)
	reload(false)
	if got := entries(b, "git", "none"); len(got) != 2 {
		t.Errorf("got %v", got)
	}
	must(t, b.Remove("git"))
	reload(false) // the change was made by this book
	d.body, d.version = "{", d.version+1
	if changed, err := b.Reload(); changed || err == nil || !strings.Contains(err.Error(), "in the store:1: ") {
		t.Error(changed, err)
	}
	if err := b.Update("x", add("y", "{}")); err == nil || d.body != "{" {
		t.Errorf("a damaged document was overwritten: %v %s", err, d.body)
	}
	if _, err := pin.OpenIn(d); err == nil {
		t.Error("a damaged document was read")
	}
}

// A book reports which servers others have changed, even if it detected the change itself.
func TestChanged(t *testing.T) {
	d := &shared{}
	a, b := openIn(t, d), openIn(t, d)
	changed := func(want ...string) {
		t.Helper()
		if got, err := b.Changed(); !slices.Equal(got, want) || err != nil {
			t.Errorf("%v, %v, want %v", got, err, want)
		}
	}
	changed()
	must(t, a.Update("x", add("t", "{}")))
	must(t, a.Update("y", add("t", "{}")))
	must(t, b.Update("z", add("t", "{}")))
	changed("x", "y")
	changed()
	must(t, a.Update("y", add("u", "{}")))
	changed("y")
	must(t, a.Remove("x"))
	must(t, b.Update("y", add("v", "{}")))
	changed("x")
	d.body, d.version = strings.ReplaceAll(d.body, "\n", "\n "), d.version+1
	changed() // only the formatting changed
}

// A second writer reads the first one's changes and updates them.
func TestSecondWriterUpdatesTheFirst(t *testing.T) {
	for _, other := range []string{"s", "another"} {
		d := &shared{}
		a, b := openIn(t, d), openIn(t, d)
		must(t, a.Update("s", add("old", "{}")))
		d.between = func() { must(t, b.Update(other, add("of b", "{}"))) }
		var seen []string
		must(t, a.Update("s", func(e *pin.Entry) {
			seen = append(seen, strings.Join(slices.Sorted(maps.Keys(e.Tools)), " "))
			add("of a", "{}")(e)
		}))
		want := []string{"old", "of b old"}
		if other != "s" {
			want[1] = "old" // its own first attempt does not count
		}
		if !slices.Equal(seen, want) {
			t.Errorf("the change saw %q, want %q", seen, want)
		}
		tools := map[string]bool{}
		for _, e := range entries(openIn(t, d), "s", "another") {
			for name := range e.Tools {
				tools[name] = true
			}
		}
		if len(tools) != 3 {
			t.Errorf("got %v", tools)
		}
	}
}

// rival is a document that another writer always changes first.
type rival struct{ tries int }

func (*rival) Read(context.Context) ([]byte, int64, error) { return nil, 0, nil }

func (r *rival) Write(context.Context, []byte, int64) (int64, error) {
	r.tries++
	return 0, pin.ErrChanged
}

func TestTriesAreBounded(t *testing.T) {
	r := &rival{}
	b := openIn(t, r)
	err := b.Update("a", add("x", "{}"))
	if !errors.Is(err, pin.ErrChanged) || !strings.Contains(err.Error(), "only in memory") || r.tries != 50 {
		t.Errorf("%d tries: %v", r.tries, err)
	}
	if got := entries(b, "a"); len(got["a"].Tools) != 1 {
		t.Errorf("got %v", got)
	}
}

// A change that cannot be written because the document is unavailable is written with the next one.
func TestADocumentOutOfReach(t *testing.T) {
	d := &shared{}
	b := openIn(t, d)
	d.fails = errors.New("out of reach")
	if err := b.Update("a", add("x", "{}")); !errors.Is(err, d.fails) {
		t.Error(err)
	}
	if _, err := b.Reload(); !errors.Is(err, d.fails) {
		t.Error(err)
	}
	if _, err := pin.OpenIn(d); !errors.Is(err, d.fails) {
		t.Error(err)
	}
	d.fails = nil
	must(t, openIn(t, d).Update("b", add("y", "{}")))
	must(t, b.Update("c", add("z", "{}")))
	if got := entries(openIn(t, d), "a", "b", "c"); len(got) != 3 {
		t.Errorf("got %v", got)
	}
}

func TestBooksLoseNothingOfEachOther(t *testing.T) {
	const books, changes = 8, 20
	d := &shared{}
	var g sync.WaitGroup
	for i := range books {
		b := openIn(t, d)
		g.Go(func() {
			for j := range changes {
				for _, server := range []string{"shared", fmt.Sprint("s", i)} {
					if err := b.Update(server, add(fmt.Sprint("t", i, "-", j), "{}")); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	g.Wait()
	b := openIn(t, d)
	for server, want := range map[string]int{"shared": books * changes, "s0": changes, "s7": changes} {
		if e, _ := b.Entry(server); len(e.Tools) != want {
			t.Errorf("%s has %d tools, want %d", server, len(e.Tools), want)
		}
	}
}
