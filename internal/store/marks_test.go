package store

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestMarks(t *testing.T) {
	us := time.Microsecond
	for text, want := range map[string][]Mark{
		"":                       nil,
		"cap:0,inject:12,ran:45": {{Step: "cap"}, {Step: "inject", At: 12 * us}, {Step: "ran", At: 45 * us}},
		"cap:0,inject":           {{Step: "cap"}},
		"cap:-1":                 nil,
		"cap:1:2":                nil,
		":1":                     nil,
		"cap:9223372036854775":   {{Step: "cap", At: 9223372036854775 * us}},
		"cap:9223372036854776":   nil,
	} {
		if diff := cmp.Diff(want, parseMarks(text)); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
	odd := []Mark{{Step: "a,b"}, {Step: "a:b"}, {}, {Step: "late", At: -1}, {Step: strings.Repeat("x", maxStep+1)}, {Step: "run", At: 2999}}
	if got := formatMarks(odd); got != "run:2" {
		t.Errorf("%q", got)
	}
	var many []Mark
	for i := range maxMarks + 5 {
		many = append(many, Mark{Step: fmt.Sprint("s", i), At: time.Duration(i) * us})
	}
	if diff := cmp.Diff(many[:maxMarks], parseMarks(formatMarks(many))); diff != "" {
		t.Error(diff)
	}
}

// Marks that were read from the store can be stored again unchanged.
func FuzzMarks(f *testing.F) {
	f.Add("cap:0,inject:12,admit:40,run:2100,ran:45000")
	f.Add("cap:9223372036854775,\xff:1,:,,")
	f.Add(strings.Repeat("a:1,", 40))
	f.Fuzz(func(t *testing.T, text string) {
		marks := parseMarks(text)
		if len(marks) > maxMarks {
			t.Fatalf("%d marks", len(marks))
		}
		if diff := cmp.Diff(marks, parseMarks(formatMarks(marks))); diff != "" {
			t.Fatal(diff)
		}
	})
}
