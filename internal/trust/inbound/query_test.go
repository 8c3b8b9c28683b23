package inbound_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/internal/trust/inbound"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

func TestReadQuery(t *testing.T) {
	for raw, want := range map[string]map[string]string{
		"":                  {},
		"tool=search":       {"tool": "search"},
		"tool=&limit=5":     {"tool": "", "limit": "5"},
		"limit":             {"limit": ""},
		"tool=%C3%A4+b":     {"tool": "ä b"},
		"&&tool=a%26b%3D1&": {"tool": "a&b=1"},
	} {
		got, err := inbound.ParseQuery(raw, 8, "tool", "limit")
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%q: %v %s", raw, err, diff)
		}
	}
}

func TestReadQueryRefuses(t *testing.T) {
	for raw, want := range map[string]string{
		"sort=name":                    "sort is unknown; use one of tool, limit",
		"Tool=a":                       "Tool is unknown; use one of tool, limit",
		"=a":                           `"" is unknown; use one of tool, limit`,
		"a%0Ab=1":                      `"a\nb" is unknown; use one of tool, limit`,
		"tool=a&tool=a":                "tool must be set only once",
		"tool=123456789":               "tool must be a string of at most 8 bytes",
		"tool=%FF":                     "tool must be a string of at most 8 bytes",
		"tool=a%00":                    "tool must be a string of at most 8 bytes",
		"tool=%zz":                     "the query string is malformed: percent-encode its values",
		"tool=a;limit=1":               "the query string is malformed: percent-encode its values",
		"z=1&a=1":                      "a is unknown; use one of tool, limit",
		strings.Repeat("tool=a&", 2e3): "the query string exceeds 8192 bytes",
	} {
		if got, err := inbound.ParseQuery(raw, 8, "tool", "limit"); err == nil || err.Error() != want || got != nil {
			t.Errorf("%.40q: %v, want %s", raw, err, want)
		}
	}
	if _, err := inbound.ParseQuery("a=1", 8); err == nil || err.Error() != "a is unknown; no parameters are accepted" {
		t.Error(err)
	}
}

// Every accepted parameter is known, is short and valid text, and parses to the same value after
// encoding.
func FuzzReadQuery(f *testing.F) {
	for _, seed := range []string{"tool=a&limit=1", "tool=%zz", "tool=a;b", "a=1", "tool", "tool=%00", "=", "&"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		got, err := inbound.ParseQuery(raw, 8, "tool", "limit")
		if err != nil {
			if bad, ok := errors.AsType[*inbound.QueryError](err); !ok || len(bad.Error()) > 1000 || untrusted.Printable(bad.Error()) != bad.Error() {
				t.Fatalf("%q: %v", raw, err)
			}
			return
		}
		written := url.Values{}
		for name, value := range got {
			if name != "tool" && name != "limit" || len(value) > 8 || !utf8.ValidString(value) {
				t.Fatalf("%q: %q is %q", raw, name, value)
			}
			written.Set(name, value)
		}
		again, err := inbound.ParseQuery(written.Encode(), 8, "tool", "limit")
		if diff := cmp.Diff(got, again); err != nil || diff != "" {
			t.Fatalf("%q: %v %s", raw, err, diff)
		}
	})
}
