package taint_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/taint"
)

func tool(t interface{ Fatal(...any) }, name string, labels ...string) *toolyard.Tool {
	made, err := toolyard.NewTool(toolyard.Spec{Name: name, Terms: toolyard.Terms{Labels: labels}},
		func(context.Context, *toolyard.Call) (*toolyard.Result, error) { return nil, nil })
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestDefaultLabelsOfTools(t *testing.T) {
	closed := map[string]json.RawMessage{"annotations": json.RawMessage(`{"openWorldHint":false}`)}
	open := map[string]json.RawMessage{"annotations": json.RawMessage(`{"openWorldHint":true}`)}
	for _, test := range []struct {
		name string
		spec toolyard.Spec
		want []string
	}{
		{"local tool", toolyard.Spec{}, nil},
		{"reader of a server", toolyard.Spec{Server: "s", Effects: toolyard.ReadOnly}, []string{taint.Untrusted}},
		{"reader with an open world", toolyard.Spec{Server: "s", Effects: toolyard.ReadOnly, Extra: open}, []string{taint.Untrusted}},
		{"reader with a closed world", toolyard.Spec{Server: "s", Effects: toolyard.ReadOnly, Extra: closed}, nil},
		{"writer of a server", toolyard.Spec{Server: "s"}, []string{taint.Untrusted, taint.Egress}},
		{"writer with a closed world", toolyard.Spec{Server: "s", Extra: closed}, []string{taint.Egress}},
	} {
		if got := taint.Defaults(&test.spec); !cmp.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

func TestEgressNeedsApprovalAfterPrivateAndUntrustedResults(t *testing.T) {
	private, untrusted := tool(t, "inbox", taint.Private), tool(t, "web", taint.Untrusted)
	mail, plain := tool(t, "send", taint.Egress), tool(t, "vat")
	for _, order := range [][]*toolyard.Tool{{private, untrusted}, {untrusted, private}} {
		tracker := &taint.Tracker{}
		for _, one := range order {
			if reason := tracker.Reason(mail); reason != "" {
				t.Errorf("before both: %s", reason)
			}
			tracker.Received(one)
		}
		if got, want := tracker.Reason(mail), "send sends data out, after private data from inbox and untrusted text from web were read"; got != want {
			t.Errorf("reason %q, want %q", got, want)
		}
		if reason := tracker.Reason(plain); reason != "" {
			t.Errorf("a tool without the label egress: %s", reason)
		}
	}
	var none *taint.Tracker
	none.Received(private)
	if none.Reason(mail) != "" || taint.From(t.Context()) != nil {
		t.Error("a nil tracker restricts calls")
	}
}

func TestTrackerDependsOnlyOnTheLabelsReceived(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tracker := &taint.Tracker{}
		var entered []string
		sets := rapid.SliceOfN(rapid.SliceOfDistinct(rapid.SampledFrom(taint.Labels), rapid.ID[string]), 0, 12).Draw(t, "results")
		for _, labels := range sets {
			tracker.Received(tool(t, "x", labels...))
			entered = append(entered, labels...)
		}
		want := slices.Contains(entered, taint.Private) && slices.Contains(entered, taint.Untrusted)
		for range 2 { // asking for the reason changes nothing
			if got := tracker.Reason(tool(t, "out", taint.Egress)) != ""; got != want {
				t.Fatalf("after %v: %v, want %v", entered, got, want)
			}
		}
	})
}

func TestRuleOfTwoNamesAToolForEachLabel(t *testing.T) {
	a, b, c := tool(t, "a", taint.Private), tool(t, "b", taint.Untrusted), tool(t, "c", taint.Egress, taint.Untrusted)
	if found := taint.RuleOfTwo([]*toolyard.Tool{a, b}); found != nil {
		t.Errorf("two labels: %v", found)
	}
	found := taint.RuleOfTwo([]*toolyard.Tool{a, c, b})
	if len(found) != 3 || found[taint.Private] != a || found[taint.Untrusted] != c || found[taint.Egress] != c {
		t.Errorf("three labels: %v", found)
	}
}
