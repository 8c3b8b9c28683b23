package upstream

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// told returns a history's events as kind@seconds:text, oldest first.
func told(h *history, begin time.Time) (list []string) {
	for _, e := range h.newest() {
		list = append([]string{fmt.Sprintf("%s@%d:%s", e.Kind, int(e.At.Sub(begin).Seconds()), e.Text)}, list...)
	}
	return list
}

func TestHistory(t *testing.T) {
	for name, tt := range map[string]struct{ events, want []string }{
		"nothing":                  {nil, nil},
		"one failure":              {[]string{"start", "down a"}, []string{"start@0:", "down@1:a"}},
		"the same failure again":   {[]string{"start", "down a", "start", "down a", "start", "down a"}, []string{"start@0:", "down@5:a, 3 times"}},
		"while it is tried":        {[]string{"start", "down a", "start", "down a", "start"}, []string{"start@0:", "down@3:a, 2 times", "start@4:"}},
		"another failure":          {[]string{"start", "down a", "start", "down b", "start", "down a"}, []string{"start@0:", "down@1:a", "start@2:", "down@3:b", "start@4:", "down@5:a"}},
		"it was up in between":     {[]string{"start", "up x", "down a", "start", "up x", "down a"}, []string{"start@0:", "up@1:x", "down@2:a", "start@3:", "up@4:x", "down@5:a"}},
		"changes to and fro":       {[]string{"changed 1", "changed 1", "changed 2"}, []string{"changed@1:1, 2 times", "changed@2:2"}},
		"attempts without outcome": {[]string{"start", "start"}, []string{"start@0:", "start@1:"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var h history
				begin := time.Now()
				for _, e := range tt.events {
					kind, text, _ := strings.Cut(e, " ")
					h.add(kind, text)
					time.Sleep(time.Second)
				}
				if diff := cmp.Diff(tt.want, told(&h, begin)); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func TestHistoryIsBounded(t *testing.T) {
	var h history
	for i := range 10 * maxHistory {
		h.add(EventChanged, fmt.Sprint(i))
	}
	events := h.newest()
	if len(events) != maxHistory || events[0].Text != "999" || events[maxHistory-1].Text != "900" || cap(h.events) > 2*maxHistory {
		t.Error(len(events), events[0], cap(h.events))
	}
}

// A server counts as down since its first failure, no matter how often it is retried.
func TestCondition(t *testing.T) {
	down, up := &state{err: errClosed}, &state{session: &session{}}
	for name, tt := range map[string]struct {
		states []*state
		want   string
	}{
		"at first":                {[]*state{{}}, "starting 0"},
		"up":                      {[]*state{{}, up}, "up 1"},
		"never up":                {[]*state{{}, down, down, down}, "down 1"},
		"tried in between":        {[]*state{down, {}, down, {}}, "down 0"},
		"the session has ended":   {[]*state{up, {}}, "starting 1"},
		"and cannot be had again": {[]*state{up, {}, down}, "down 2"},
		"up again":                {[]*state{up, {}, down, {}, up}, "up 4"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				c := condition{state: StateStarting, since: begin}
				for _, s := range tt.states {
					c.update(s)
					time.Sleep(time.Second)
				}
				if got := fmt.Sprint(c.state, " ", int(c.since.Sub(begin).Seconds())); got != tt.want {
					t.Errorf("%s, want %s", got, tt.want)
				}
			})
		})
	}
}

func TestVisible(t *testing.T) {
	for text, want := range map[string]string{
		"plain é 😀\n\ttext":                "plain é 😀\n\ttext",
		"\x1b[1;31mred\x1b[0m \x1b[2Jgone": "red gone",
		"\x1b]0;title\x07 rest":            "]0;title rest",
		"50%\r100%\r\ndone":                "50%\n100%\ndone",
		"a\x00b\x7f\u202ec\u200b\u009bd":   "abcd",
		"a\u00a0b":                         "a b",
		"\xff":                             "\ufffd",
	} {
		if got := visible(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

// FuzzVisible checks that no invisible characters remain and that truncated text stays within its
// limit.
func FuzzVisible(f *testing.F) {
	f.Add("\x1b[1;31mred\x1b[0m\r\n\x00", 10)
	f.Add("\x1b[\x1b[0m0m😀", 4)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		clean := visible(text)
		if again := visible(clean); again != clean {
			t.Errorf("%q became %q and then %q", text, clean, again)
		}
		if limit = max(3, limit); len(untrusted.Truncate(clean, limit)) > limit {
			t.Errorf("%q has %d bytes, of %d", untrusted.Truncate(clean, limit), len(untrusted.Truncate(clean, limit)), limit)
		}
		if strings.ContainsAny(singleLine(text), "\n\t\r\x1b\x00") {
			t.Errorf("%q", singleLine(text))
		}
	})
}
