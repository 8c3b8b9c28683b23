package seal_test

import (
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/trust/seal"
)

func TestSeal(t *testing.T) {
	now := time.Now()
	s, other, elsewhere := seal.New([]byte("one"), "cookie"), seal.New([]byte("two"), "cookie"), seal.New([]byte("one"), "state")
	text := s.Seal("ty_secret", nil, now.Add(time.Minute))
	if key, _, ok := s.Open(text, nil, now); !ok || key != "ty_secret" || strings.Contains(text, "secret") {
		t.Errorf("opened %q as %q", text, key)
	}
	first := "A"
	if text[0] == 'A' { // the nonce is random
		first = "B"
	}
	changed := first + text[1:]
	for name, open := range map[string]func() (string, seal.Nonce, bool){
		"too late":        func() (string, seal.Nonce, bool) { return s.Open(text, nil, now.Add(time.Minute+time.Second)) },
		"another key":     func() (string, seal.Nonce, bool) { return other.Open(text, nil, now) },
		"another purpose": func() (string, seal.Nonce, bool) { return elsewhere.Open(text, nil, now) },
		"another binding": func() (string, seal.Nonce, bool) { return s.Open(text, []byte("x"), now) },
		"cut":             func() (string, seal.Nonce, bool) { return s.Open(text[:len(text)-2], nil, now) },
		"changed":         func() (string, seal.Nonce, bool) { return s.Open(changed, nil, now) },
		"spelled anew":    func() (string, seal.Nonce, bool) { return s.Open(text+"\n", nil, now) },
		"empty":           func() (string, seal.Nonce, bool) { return s.Open("", nil, now) },
		"a key":           func() (string, seal.Nonce, bool) { return s.Open("ty_secret", nil, now) },
	} {
		if key, _, ok := open(); ok {
			t.Errorf("%s: %q", name, key)
		}
	}
}

// The first key seals and every key opens. A key that was removed no longer opens anything.
func TestKeysAreReplaced(t *testing.T) {
	now := time.Now()
	keys := [][]byte{[]byte("2025")}
	ring := seal.NewKeyring(func() [][]byte { return keys })
	s := ring.Sealer("cookie")
	opens := func(text string, want bool) {
		t.Helper()
		if got, _, ok := s.Open(text, nil, now); ok != want || want && got != "x" {
			t.Errorf("opened: %v, want %v", ok, want)
		}
	}
	old := s.Seal("x", nil, now.Add(time.Minute))
	opens(old, true)
	ring.Replace([][]byte{[]byte("2026"), []byte("2025")})
	fresh := s.Seal("x", nil, now.Add(time.Minute))
	opens(old, true)
	opens(fresh, true)
	if _, _, ok := seal.New([]byte("2026"), "cookie").Open(fresh, nil, now); !ok {
		t.Error("the first key does not seal")
	}
	ring.Replace([][]byte{[]byte("2026")})
	opens(old, false)
	opens(fresh, true)
	early := seal.NewKeyring(func() [][]byte { panic("loaded") })
	early.Replace(keys)
	if _, _, ok := early.Sealer("cookie").Open(old, nil, now); !ok {
		t.Error("a key that was replaced before the first use does not open")
	}
}

func FuzzSeal(f *testing.F) {
	s := seal.New([]byte("secret"), "test")
	f.Add("")
	f.Add(s.Seal("x", nil, time.Unix(1, 0)))
	f.Fuzz(func(t *testing.T, text string) {
		if _, _, ok := s.Open(text, nil, time.Unix(2, 0)); ok {
			t.Error("it is open")
		}
	})
}
