package store

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"
)

// heard returns a channel with the messages that a replica receives until the test ends.
func heard(t *testing.T, s *Store, replica string) <-chan []byte {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	messages, done := make(chan []byte, 100), make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Follow(ctx, replica, func(string) {}, func(m []byte) { messages <- m })
	}()
	t.Cleanup(func() { cancel(); <-done })
	for try := 0; ; try++ { // until it is listening
		if try == 3000 {
			t.Fatal("the replica receives nothing")
		}
		if err := s.Send(t.Context(), replica, []byte("ready")); err != nil {
			t.Fatal(err)
		}
		select {
		case <-messages:
			return messages
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// next returns the next message that is not a probe.
func next(t *testing.T, messages <-chan []byte) string {
	t.Helper()
	for {
		select {
		case m := <-messages:
			if string(m) != "ready" {
				return string(m)
			}
		case <-time.After(time.Minute):
			t.Fatal("nothing was received")
		}
	}
}

func TestMessagesReachTheReplicasThatTheyAreFor(t *testing.T) {
	s := openAt(t, engines["postgres"](t))
	a, b := heard(t, s, "a"), heard(t, s, "b")
	large := bytes.Repeat([]byte("é<"), 20_000)
	for _, m := range []struct {
		to      string
		message []byte
	}{{"", []byte("to all")}, {"a", []byte("to a")}, {"b", large}, {"b", []byte("last")}, {"", []byte("end")}} {
		if err := s.Send(t.Context(), m.to, m.message); err != nil {
			t.Fatal(err)
		}
	}
	for name, got := range map[string][]string{"a": {next(t, a), next(t, a), next(t, a)}, "b": {next(t, b), next(t, b), next(t, b), next(t, b)}} {
		want := map[string][]string{"a": {"to all", "to a", "end"}, "b": {"to all", string(large), "last", "end"}}[name]
		if !slices.Equal(got, want) {
			t.Errorf("%s heard %.100q", name, got)
		}
	}
	if s.Send(t.Context(), "a", make([]byte, MaxMessage+1)) == nil {
		t.Error("a message has no bound")
	}
}

func TestEndedSessionsAreRememberedAndBounded(t *testing.T) {
	s := openAt(t, engines["postgres"](t))
	expires := time.Now().Add(time.Hour)
	for i := range 1005 {
		if err := s.EndSession(t.Context(), fmt.Sprintf("s%04d", i), "acme ann", expires.Add(time.Duration(i)*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.EndSession(t.Context(), "other", "acme bob", expires); err != nil {
		t.Fatal(err)
	}
	if err := s.EndSession(t.Context(), "past", "acme bob", time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	ended, err := s.EndedSessions(t.Context(), 5000)
	if err != nil || len(ended) != 1001 || !slices.Contains(ended, "other") || slices.Contains(ended, "s0000") || !slices.Contains(ended, "s1004") || slices.Contains(ended, "past") {
		t.Errorf("%d ended, %v", len(ended), err)
	}
}
