package untrusted_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

func TestTruncate(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{untrusted.Prefix("äöü", 6), "äöü"},
		{untrusted.Prefix("äöü", 5), "äö"},
		{untrusted.Prefix("äöü", 0), ""},
		{untrusted.Suffix("äöü", 5), "öü"},
		{untrusted.Suffix("äöü", 0), ""},
		{untrusted.Truncate("äöü", 6), "äöü"},
		{untrusted.Truncate("äöüä", 7), "äö…"},
		{untrusted.Truncate("abcdef", 5), "ab…"},
		{untrusted.TruncateRunes("äöü", 3), "äöü"},
		{untrusted.TruncateRunes("äöüä", 3), "äö…"},
		{untrusted.TruncateRunes("a bc", 3), "a…"},
	} {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}

func FuzzTruncate(f *testing.F) {
	f.Add("日本語", 4)
	f.Add(strings.Repeat("\x80", 10), 5)
	f.Fuzz(func(t *testing.T, s string, n int) {
		n = 3 + max(n, -n)%100
		for _, got := range []string{untrusted.Prefix(s, n), untrusted.Suffix(s, n), untrusted.Truncate(s, n)} {
			if len(got) > n || utf8.ValidString(s) && !utf8.ValidString(got) {
				t.Errorf("%q cut to %d bytes is %q", s, n, got)
			}
		}
		if got := untrusted.TruncateRunes(s, n); utf8.RuneCountInString(got) > n {
			t.Errorf("%q cut to %d characters is %q", s, n, got)
		}
	})
}
