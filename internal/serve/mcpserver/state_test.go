package mcpserver

import (
	"encoding/base64"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/serve"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/trust/seal"
)

var noon = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

// keyring returns a keyring with the given key, or with a random one.
func keyring(key string) *seal.Keyring {
	if key == "" {
		return seal.Random()
	}
	return seal.NewKeyring(func() [][]byte { return [][]byte{[]byte(key)} })
}

// stateRequest returns a request for which a state can be sealed.
func stateRequest(change func(*request)) *request {
	r := &request{
		CallRequest: serve.CallRequest{Args: json.RawMessage(`{"a":1,"b":[2,"x"]}`), Caller: toolyard.Caller{ID: "ann"}},
		view:        &view{View: &gates.View{Gate: &gates.Gate{Name: "default"}}},
		method:      "tools/call", tool: &toolyard.Tool{Spec: toolyard.Spec{Server: "docs", Name: "ask"}},
	}
	if change != nil {
		change(r)
	}
	return r
}

func TestStateSealIsBoundToTheCall(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*request)
		fits   bool
	}{
		"the same":           {nil, true},
		"spelled otherwise":  {func(r *request) { r.Args = json.RawMessage(` { "b" : [2,"\u0078"], "a":1 } `) }, true},
		"another gate":       {func(r *request) { r.view.Gate.Name = "other" }, false},
		"another caller":     {func(r *request) { r.Caller.ID = "bob" }, false},
		"another account":    {func(r *request) { r.Caller.Account = "umbrella" }, false},
		"another tool":       {func(r *request) { r.tool.Name = "other" }, false},
		"another server":     {func(r *request) { r.tool.Server = "other" }, false},
		"another method":     {func(r *request) { r.method = "prompts/get" }, false},
		"other arguments":    {func(r *request) { r.Args = json.RawMessage(`{"a":1,"b":[2,"y"]}`) }, false},
		"no arguments":       {func(r *request) { r.Args = nil }, false},
		"a big number":       {func(r *request) { r.Args = json.RawMessage(`{"a":1.0000000000000000001,"b":[2,"x"]}`) }, false},
		"names run together": {func(r *request) { r.tool.Server, r.tool.Name = "doc", "sask" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStateSealer(seal.Random())
			sealed := s.seal("inner", binding(stateRequest(nil)), noon)
			state, _, ok := s.open(sealed, binding(stateRequest(tt.change)), "", noon.Add(time.Minute))
			if ok != tt.fits || ok && state != "inner" {
				t.Errorf("%q %v", state, ok)
			}
		})
	}
}

func TestStateExpires(t *testing.T) {
	s, call := newStateSealer(seal.Random()), binding(stateRequest(nil))
	for after, fits := range map[time.Duration]bool{0: true, stateTime: true, stateTime + time.Second: false, 24 * time.Hour: false} {
		if _, _, ok := s.open(s.seal("x", call, noon), call, "", noon.Add(after)); ok != fits {
			t.Errorf("after %v: %v", after, ok)
		}
	}
	sealed := s.seal("x", call, noon)
	for i, fits := range []bool{true, false, false} {
		if _, _, ok := s.open(sealed, call, "", noon.Add(time.Duration(i)*stateTime/2)); ok != fits {
			t.Errorf("opened for the %d. time: %v", i+1, ok)
		}
	}
}

func TestReplicasOpenEachOthersStates(t *testing.T) {
	call := binding(stateRequest(nil))
	for _, tt := range []struct {
		a, b string
		fits bool
	}{{"secret", "secret", true}, {"secret", "Secret", false}, {"", "", false}} {
		a, b := newStateSealer(keyring(tt.a)), newStateSealer(keyring(tt.b))
		if _, _, ok := b.open(a.seal("x", call, noon), call, "", noon); ok != tt.fits {
			t.Errorf("%q and %q: %v", tt.a, tt.b, ok)
		}
	}
}

// This also applies to a call that did not run.
func TestStateCanBeReusedWithTheSameKey(t *testing.T) {
	s, call := newStateSealer(seal.Random()), binding(stateRequest(nil))
	for _, keys := range [][]string{{"k", "k", "k"}, {"", "", "k"}, {"k", "other", ""}} {
		sealed := s.seal("x", call, noon)
		for i, key := range keys {
			_, id, ok := s.open(sealed, call, key, noon)
			if ok != (i == 0 || key != "" && key == keys[0]) {
				t.Errorf("%q: opened for %q: %v", keys, key, ok)
			}
			if i < 2 {
				continue
			}
			s.forget(id)
			if _, _, ok := s.open(sealed, call, "new", noon); !ok {
				t.Errorf("%q: a call that did not run used the seal up", keys)
			}
		}
	}
}

func TestChangedStateIsRejected(t *testing.T) {
	const mutations = 100_000
	s, call := newStateSealer(seal.Random()), binding(stateRequest(nil))
	sealed := s.seal("the inner state", call, noon)
	r := rand.New(rand.NewPCG(1, 2))
	for range mutations {
		changed := mutate(r, sealed)
		if state, _, ok := s.open(changed, call, "", noon); ok && changed != sealed {
			t.Fatalf("%q opened as %q", changed, state)
		}
		s.opened = recent[seal.Nonce, digest]{max: maxOpened, keep: stateTime} // otherwise it would be rejected because it was opened before
	}
	if _, _, ok := s.open(sealed, call, "", noon); !ok {
		t.Error("the seal itself does not open")
	}
}

// mutate changes a sealed state in one of many ways.
func mutate(r *rand.Rand, sealed string) string {
	b := []byte(sealed)
	at := r.IntN(len(b))
	switch r.IntN(7) {
	case 0:
		b[at] ^= 1 << r.IntN(8)
	case 1:
		b[at] = "ABCabc019-_=+/\n\r "[r.IntN(17)]
	case 2:
		b = slices.Insert(b, at, "AQgw=\n\r-"[r.IntN(8)])
	case 3:
		b = slices.Delete(b, at, min(len(b), at+1+r.IntN(8)))
	case 4:
		b = append(b, b[at:]...)
	case 5:
		last := r.IntN(len(b))
		b[at], b[last] = b[last], b[at]
	case 6:
		raw, _ := base64.RawURLEncoding.DecodeString(sealed)
		raw[r.IntN(len(raw))] ^= byte(1 + r.IntN(255))
		b = base64.RawURLEncoding.AppendEncode(nil, raw)
	}
	return string(b)
}

// The oldest states are forgotten first.
func TestOpenedStatesAreLimited(t *testing.T) {
	s := newStateSealer(seal.Random())
	var id seal.Nonce
	for i := range 3 * maxOpened {
		id[0], id[1], id[2], id[3] = byte(i), byte(i>>8), byte(i>>16), byte(i>>24)
		if !s.use(id, "", noon) {
			t.Fatalf("%d was known before", i)
		}
	}
	if n := len(s.opened.young) + len(s.opened.old); n > 2*maxOpened || s.use(id, "", noon) {
		t.Errorf("%d remembered, the last of them forgotten", n)
	}
}

func FuzzOpen(f *testing.F) {
	s, call := newStateSealer(keyring("secret")), binding(stateRequest(nil))
	f.Add(s.seal("x", call, noon))
	f.Add("")
	f.Add("AAAA")
	f.Fuzz(func(t *testing.T, sealed string) {
		if state, _, ok := s.open(sealed, call, "", noon); ok && state != "x" {
			t.Errorf("%q opened as %q", sealed, state)
		}
	})
}
