package yamltree_test

import (
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/config/yamltree"
)

func TestParse(t *testing.T) {
	root, err := yamltree.Parse([]byte("\uFEFFa: &x [1, true]\r\nb: *x\r\nc:\r\n"))
	if err != nil {
		t.Fatal(err)
	}
	b := root.Members[1]
	if b.Name != "b" || b.Line != 2 || b.Column != 1 || len(b.Value.Items) != 2 || b.Value.Items[1].Value != true || !b.Value.Flow {
		t.Errorf("%+v", b)
	}
	if c := root.Members[2]; c.Line != 3 || c.Value.Kind != yamltree.Null {
		t.Errorf("%+v", c)
	}
	if empty, err := yamltree.Parse(nil); err != nil || empty.Kind != yamltree.Mapping || len(empty.Members) != 0 {
		t.Error(empty, err)
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"a: 1\na: 2":                     "line 2: mapping key \"a\" already defined",
		"a: *x":                          "line 1: refers to an unknown anchor",
		"a: 1\n---\nb: 2":                "line 3: only one YAML document",
		"a: !!set {x}":                   "unsupported YAML",
		"a: {":                           "line 1:",
		"a: " + strings.Repeat("[", 300): "nested more than",
		"\xff":                           "not valid UTF-8",
		"a: &a {b: &b [0,0,0,0,0,0,0,0,0,0]}\n" + bomb("a"): "too many values",
	} {
		if _, err := yamltree.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80q: %v, want %q", text, err, want)
		}
	}
}

// bomb repeats an anchor until it exceeds every limit.
func bomb(anchor string) string {
	var b strings.Builder
	for next := 'c'; next < 'k'; next++ {
		b.WriteString(string(next) + ": &" + string(next) + " [" + strings.Repeat("*"+anchor+", ", 9) + "*" + anchor + "]\n")
		anchor = string(next)
	}
	return b.String()
}
