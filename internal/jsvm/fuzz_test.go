package jsvm

import (
	"bytes"
	"testing"
)

// Messages from a worker are untrusted: it may be compromised.
func FuzzReceive(f *testing.F) {
	var good bytes.Buffer
	c := newConn(nil, &good)
	_ = c.send(frameAnswer, 7, []byte{endAnswer}, []byte(`{"value":1}`))
	f.Add(good.Bytes())
	f.Add([]byte{255, 255, 255, 255, 'a', 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		c := newConn(bytes.NewReader(data), nil)
		m := NewModule("m.ts", "", []byte(`{"version":3,"sources":["m.ts"],"names":[],"mappings":"AAAA"}`))
		for range 100 {
			frame, err := c.receive()
			if err != nil {
				return
			}
			_, _, _ = readRunHeader(frame.body)
			_, _ = m.open(frame.body)
		}
	})
}

// Stacks are controlled by the script.
func FuzzStack(f *testing.F) {
	f.Add("    at inner (m.ts:1:1)\n    at m.ts:99999999999999999999:1\n")
	m := NewModule("m.ts", "", []byte(`{"version":3,"sources":["m.ts"],"names":[],"mappings":"AAAA;AACA"}`))
	f.Fuzz(func(t *testing.T, stack string) {
		e := m.mapped(&Exception{Stack: stack})
		if e.Line < 0 || e.Column < 0 {
			t.Errorf("%+v", e)
		}
	})
}
