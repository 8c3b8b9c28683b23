package guard_test

import (
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/guard"
)

func TestSeal(t *testing.T) {
	now := time.Now()
	s, other, elsewhere := guard.NewSeal([]byte("one"), "cookie"), guard.NewSeal([]byte("two"), "cookie"), guard.NewSeal([]byte("one"), "state")
	text := s.Close("ty_secret", nil, now.Add(time.Minute))
	if key, _, ok := s.Open(text, nil, now); !ok || key != "ty_secret" || strings.Contains(text, "secret") {
		t.Errorf("%q is %q", text, key)
	}
	for name, open := range map[string]func() (string, guard.Nonce, bool){
		"too late":        func() (string, guard.Nonce, bool) { return s.Open(text, nil, now.Add(time.Minute+time.Second)) },
		"another key":     func() (string, guard.Nonce, bool) { return other.Open(text, nil, now) },
		"another purpose": func() (string, guard.Nonce, bool) { return elsewhere.Open(text, nil, now) },
		"another binding": func() (string, guard.Nonce, bool) { return s.Open(text, []byte("x"), now) },
		"cut":             func() (string, guard.Nonce, bool) { return s.Open(text[:len(text)-2], nil, now) },
		"changed":         func() (string, guard.Nonce, bool) { return s.Open("A"+text[1:], nil, now) },
		"spelled anew":    func() (string, guard.Nonce, bool) { return s.Open(text+"\n", nil, now) },
		"empty":           func() (string, guard.Nonce, bool) { return s.Open("", nil, now) },
		"a key":           func() (string, guard.Nonce, bool) { return s.Open("ty_secret", nil, now) },
	} {
		if key, _, ok := open(); ok {
			t.Errorf("%s: %q", name, key)
		}
	}
}

func FuzzSeal(f *testing.F) {
	s := guard.NewSeal([]byte("secret"), "test")
	f.Add("")
	f.Add(s.Close("x", nil, time.Unix(1, 0)))
	f.Fuzz(func(t *testing.T, text string) {
		if _, _, ok := s.Open(text, nil, time.Unix(2, 0)); ok {
			t.Error("it is open")
		}
	})
}
