package upstream_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/upstream"
)

func hashed(definition string) string {
	sum := sha256.Sum256([]byte(definition))
	return hex.EncodeToString(sum[:])
}

// Canonical forms of echoTool: the approved version and two changed ones.
const (
	echoCanonical = `{"inputSchema":{"properties":{"text":{"type":"string"}},"type":"object"},"name":"echo"}`
	worse         = `{"description":"Worse.","inputSchema":{"type":"object"},"name":"echo"}`
	worst         = `{"description":"Worst.","inputSchema":{"type":"object"},"name":"echo"}`
	otherTool     = `{"inputSchema":{"type":"object"},"name":"other"}`
	hiding        = `{"name":"hiding","description":"a\u202eb","inputSchema":{"type":"object"}}`
)

// pendingOf returns a server's pending definitions, formatted as tool, kind, hash and rejected.
func pendingOf(t *testing.T, s *source) (list []string) {
	t.Helper()
	pending, err := s.Pending()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pending {
		list = append(list, fmt.Sprintf("%s %s %.8s %v", p.Tool, p.Kind(), p.Hash, p.Rejected))
	}
	return list
}

// expect waits until a server has the given numbers of pending and rejected definitions, and then
// compares them.
func expect(t *testing.T, s *source, waiting, rejected int, want ...string) {
	t.Helper()
	s.until(fmt.Sprintf("%d wait and %d are rejected", waiting, rejected), func() bool {
		w, r := s.PendingCount()
		return w == waiting && r == rejected
	})
	if diff := cmp.Diff(want, pendingOf(t, s)); diff != "" {
		t.Error(diff)
	}
}

func line(tool, kind, definition string, rejected bool) string {
	return fmt.Sprintf("%s %s %.8s %v", tool, kind, hashed(definition), rejected)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// decide approves or rejects all pending definitions, or only those of the given tools.
func decide(t *testing.T, s *source, act func([]upstream.Pending) error, only ...string) {
	t.Helper()
	pending, err := s.Pending()
	must(t, err)
	must(t, act(slices.DeleteFunc(pending, func(p upstream.Pending) bool { return len(only) > 0 && !slices.Contains(only, p.Tool) })))
}

// offerNow makes a server offer other tools and lists it again.
func offerNow(f *fake, s *source, tools ...string) {
	f.offer(tools...)
	s.Recheck()
}

// A definition is offered, rejected, changed again and finally approved.
func TestRejections(t *testing.T) {
	f := newFake(t, true, echoTool)
	s := run(t, upstream.Options{URL: f.URL, Exposure: upstream.Exposure{Pins: &book{}}}).up()
	expect(t, s, 0, 0)
	if diff := cmp.Diff(map[string]string{"echo": hashed(echoCanonical)}, s.Hashes()); diff != "" {
		t.Error(diff)
	}
	offerNow(f, s, worse, otherTool, hiding)
	expect(t, s, 3, 0, line("echo", "changed", worse, false), line("other", "new", otherTool, false), line("hiding", "refused", hiding, false))

	decide(t, s, s.Reject)
	if waiting, rejected := s.PendingCount(); waiting != 0 || rejected != 3 {
		t.Errorf("right after it was rejected %d wait and %d are rejected", waiting, rejected)
	}
	expect(t, s, 0, 3, line("echo", "changed", worse, true), line("other", "new", otherTool, true), line("hiding", "refused", hiding, true))
	s.until("nothing is to be done", func() bool { return len(s.Problems()) == 0 })
	if s.tool("echo") != nil || s.tool("other") != nil || s.tool("hiding") != nil {
		t.Error("a rejected definition is offered: ", s.offered())
	}
	for tool, want := range map[string]string{"echo": "description", "other": "new and has not been approved; an operator rejected it", "hiding": "U+202E"} {
		last := s.Explain(tool)[len(s.Explain(tool))-1]
		if !last.Stops || !strings.Contains(last.Text, want) || !strings.HasSuffix(last.Text, "; an operator rejected it") || (tool != "hiding") != strings.Contains(last.Fix, "toolyard approve up "+tool) {
			t.Errorf("%s: %+v", tool, last)
		}
	}

	offerNow(f, s, worst, otherTool)
	expect(t, s, 1, 1, line("echo", "changed", worst, false), line("other", "new", otherTool, true))
	s.until("it is to be looked at", func() bool { return s.problem("echo is withheld") && !s.problem("other") })

	offerNow(f, s, worse, otherTool) // offers the rejected definition again
	expect(t, s, 0, 2, line("echo", "changed", worse, true), line("other", "new", otherTool, true))
	decide(t, s, s.Approve, "echo")
	expect(t, s, 0, 1, line("other", "new", otherTool, true))
	s.until("it is offered", func() bool { return s.tool("echo") != nil })

	offerNow(f, s, echoTool, otherTool)
	expect(t, s, 1, 1, line("echo", "changed", echoCanonical, false), line("other", "new", otherTool, true))
	decide(t, s, s.Approve, "echo")
	offerNow(f, s, worse, otherTool) // its rejection was cleared when it was approved
	expect(t, s, 1, 1, line("echo", "changed", worse, false), line("other", "new", otherTool, true))
}

// A removed tool can stay approved in case it returns.
func TestARemovedToolStaysApproved(t *testing.T) {
	f := newFake(t, true, echoTool, otherTool)
	s := run(t, upstream.Options{URL: f.URL, Exposure: upstream.Exposure{Pins: &book{}}}).up()
	offerNow(f, s, otherTool)
	expect(t, s, 1, 0, line("echo", "gone", echoCanonical, false))
	decide(t, s, s.Reject)
	expect(t, s, 0, 1, line("echo", "gone", echoCanonical, true))
	offerNow(f, s, echoTool, otherTool)
	expect(t, s, 0, 0)
	s.until("it is offered", func() bool { return s.tool("echo") != nil })
	offerNow(f, s, otherTool)
	expect(t, s, 0, 1, line("echo", "gone", echoCanonical, true))
	decide(t, s, s.Approve)
	expect(t, s, 0, 0)
	if got := s.Hashes(); len(got) != 1 || got["other"] != hashed(otherTool) {
		t.Error(got)
	}
}

// A decision is reported once, even by another server that shares the pins.
func TestDecisionsAreEvents(t *testing.T) {
	f, pins := newFake(t, true, echoTool), &book{}
	s := run(t, upstream.Options{URL: f.URL, Exposure: upstream.Exposure{Pins: pins}}).up()
	other := run(t, upstream.Options{URL: f.URL, Exposure: upstream.Exposure{Pins: pins}}).up()
	both := func(waiting, rejected int) {
		t.Helper()
		for _, one := range []*source{s, other} {
			one.Recheck()
			one.until("it is counted", func() bool {
				w, r := one.PendingCount()
				return w == waiting && r == rejected
			})
		}
	}
	f.offer(worse, otherTool)
	both(2, 0)
	decide(t, s, s.Reject, "other")
	both(1, 1)
	decide(t, s, s.Approve, "echo")
	both(0, 1)
	f.offer(echoTool, otherTool) // changes back, which is another change
	both(1, 1)
	f.offer(worse, otherTool)
	both(0, 1)
	want := []string{
		"changed: 2 definitions changed since approval: echo, other", "rejected: 1 definition rejected: other",
		"approved: 1 definition approved: echo", "changed: 1 definition changed since approval: echo",
	}
	for _, one := range []*source{s, other} {
		var got []string
		for _, e := range slices.Backward(one.Status().Events) {
			if e.Kind != upstream.EventStart && e.Kind != upstream.EventUp && e.Kind != upstream.EventDown {
				got = append(got, e.Kind+": "+e.Text)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}

// Pending definitions are available while the server is down, and follow changes to the pins.
func TestWaitingWhileDown(t *testing.T) {
	f, pins := newFake(t, true, echoTool), &book{}
	s := run(t, upstream.Options{URL: f.URL, Exposure: upstream.Exposure{Pins: pins}}).up()
	offerNow(f, s, worse)
	expect(t, s, 1, 0, line("echo", "changed", worse, false))
	f.CloseClientConnections()
	f.Close()
	s.Recheck() // detects the change
	s.until("it is down", func() bool { return s.Status().State == upstream.StateDown })
	if waiting, rejected := s.PendingCount(); waiting != 1 || rejected != 0 {
		t.Error(waiting, rejected)
	}
	must(t, pins.SetRejections("up", func(map[string]string) map[string]string { return map[string]string{"echo": hashed(worse)} }))
	s.Recheck()
	if waiting, rejected := s.PendingCount(); waiting != 0 || rejected != 1 {
		t.Error(waiting, rejected)
	}
	never := run(t, upstream.Options{URL: f.URL, Exposure: upstream.Exposure{Pins: pins}})
	never.until("it is down", func() bool { return never.Status().State == upstream.StateDown })
	never.Recheck()
	if waiting, rejected := never.PendingCount(); waiting+rejected != 0 || len(never.Hashes()) != 1 {
		t.Error(waiting, rejected, never.Hashes())
	}
}

// A rejected definition is not approved as part of the first listing.
func TestRejectedDefinitionsAreNotApprovedFirst(t *testing.T) {
	f, pins := newFake(t, true, echoTool, otherTool), &book{}
	strict := run(t, upstream.Options{URL: f.URL, Exposure: upstream.Exposure{Pins: pins, Pinning: upstream.PinApprove}}).up()
	decide(t, strict, strict.Reject, "other")
	s := run(t, upstream.Options{URL: f.URL, Exposure: upstream.Exposure{Pins: pins}}).up()
	expect(t, s, 0, 1, line("other", "new", otherTool, true))
	if s.tool("echo") == nil || s.tool("other") != nil {
		t.Error(s.offered())
	}
}

// Two invalid definitions with the same name are rejected together. If one of them is added later,
// the name is pending again.
func TestRejectedTwins(t *testing.T) {
	f := newFake(t, true, worse, worst)
	s := run(t, upstream.Options{URL: f.URL}).up()
	expect(t, s, 1, 0, line("echo", "refused", worse+"\n"+worst, false))
	decide(t, s, s.Reject)
	expect(t, s, 0, 1, line("echo", "refused", worse+"\n"+worst, true))
	offerNow(f, s, worse, strings.Replace(worst, "Worst", "Unheard of", 1))
	s.until("it waits again", func() bool { waiting, _ := s.PendingCount(); return waiting == 1 })
}

func TestDefinitionsThatCannotBeRejected(t *testing.T) {
	f := newFake(t, true, echoTool)
	for name, tt := range map[string]struct {
		opts    upstream.Options
		pending upstream.Pending
		want    string
	}{
		"nothing":     {upstream.Options{}, upstream.Pending{Tool: "x"}, "x cannot be rejected: it has no definition"},
		"a long name": {upstream.Options{}, upstream.Pending{Tool: strings.Repeat("x", 300), Hash: hashed(worse)}, "longer than 256 bytes"},
		"no pins":     {upstream.Options{Exposure: upstream.Exposure{Pinning: upstream.PinOff}}, upstream.Pending{Tool: "x", Hash: hashed(worse)}, "cannot be rejected because up has pin: off"},
		"no book":     {upstream.Options{Exposure: upstream.Exposure{Pins: full{&book{}}}}, upstream.Pending{Tool: "x", Hash: hashed(worse)}, "the book is full"},
	} {
		tt.opts.URL, tt.opts.ID = f.URL, "up"
		s, err := upstream.New(tt.opts)
		must(t, err)
		if err := s.Reject([]upstream.Pending{tt.pending}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
		if tt.opts.Pinning == upstream.PinOff && s.Hashes() != nil {
			t.Error(s.Hashes())
		}
	}
}

// full stores pins but accepts no rejections.
type full struct{ *book }

func (full) SetRejections(string, func(map[string]string) map[string]string) error {
	return errors.New("the book is full")
}

// An approved tool stays approved if its rejection cannot be removed.
func TestApprovalPrecedesRemovingTheRejection(t *testing.T) {
	f := newFake(t, true, echoTool)
	pins := full{&book{tools: map[string]json.RawMessage{}, rejected: map[string]string{"echo": hashed(echoCanonical)}}}
	s := run(t, upstream.Options{URL: f.URL, Exposure: upstream.Exposure{Pins: pins}}).up()
	pending, err := s.Pending()
	must(t, err)
	if err := s.Approve(pending); err == nil || len(pending) != 1 || !pending[0].Rejected {
		t.Error(pending, err)
	}
	s.until("it is offered", func() bool { return s.tool("echo") != nil })
	expect(t, s, 0, 0)
}
