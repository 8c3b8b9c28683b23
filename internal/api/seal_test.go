package api

import (
	"strings"
	"testing"
	"time"
)

func TestSeal(t *testing.T) {
	now := time.Now()
	s, other := newSeal(NewSealKey()), newSeal(NewSealKey())
	text := s.close("ty_secret", now.Add(time.Minute))
	if key, ok := s.open(text, now); !ok || key != "ty_secret" || strings.Contains(text, "secret") {
		t.Errorf("%q is %q", text, key)
	}
	for name, open := range map[string]func() (string, bool){
		"too late":    func() (string, bool) { return s.open(text, now.Add(time.Minute+time.Second)) },
		"another key": func() (string, bool) { return other.open(text, now) },
		"cut":         func() (string, bool) { return s.open(text[:len(text)-2], now) },
		"changed":     func() (string, bool) { return s.open("A"+text[1:], now) },
		"empty":       func() (string, bool) { return s.open("", now) },
		"a key":       func() (string, bool) { return s.open("ty_secret", now) },
	} {
		if key, ok := open(); ok {
			t.Errorf("%s: %q", name, key)
		}
	}
}

func FuzzSeal(f *testing.F) {
	s := newSeal(SealKey{})
	f.Add("")
	f.Add(s.close("x", time.Unix(1, 0)))
	f.Fuzz(func(t *testing.T, text string) {
		if _, ok := s.open(text, time.Unix(2, 0)); ok {
			t.Error("it is open")
		}
	})
}
