package main

import (
	"testing"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/toolyardtest"
)

func TestCountWorkdays(t *testing.T) {
	for args, want := range map[string]string{
		`{"from":"2026-12-21","to":"2026-12-27"}`:                           `{"days":5}`,
		`{"from":"2026-12-21","to":"2026-12-27","holidays":["2026-12-25"]}`: `{"days":4}`,
		`{"from":"2026-12-27","to":"2026-12-27"}`:                           `{"days":0}`,
	} {
		res, err := toolyardtest.Call(t, countWorkdays, args, nil)
		if err != nil || string(res.Structured) != want {
			t.Errorf("%s: %v, %v", args, res, err)
		}
	}
	for _, args := range []string{`{"from":"2026-12-27","to":"2026-12-21"}`, `{"from":"2026-02-30","to":"2026-03-01"}`, `{"form":"2026-12-21"}`} {
		if _, err := toolyardtest.Call(t, countWorkdays, args, nil); toolyard.AsError(err).Code != toolyard.Invalid {
			t.Errorf("%s: %v", args, err)
		}
	}
}
