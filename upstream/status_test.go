//go:build linux

package upstream_test

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/upstream"
)

func withoutHunter(s string) string { return strings.ReplaceAll(s, "hunter2", "[redacted]") }

// timeline returns a server's events as kind: text, oldest first.
func timeline(s *upstream.Server) (list []string) {
	for _, e := range slices.Backward(s.Status().Events) {
		list = append(list, strings.TrimSuffix(e.Kind+": "+e.Text, ": "))
	}
	return list
}

// The timeline of a killed server shows that it was up, down and up again.
func TestTheTimelineOfAServerThatDies(t *testing.T) {
	mark := fmt.Sprintf("status-%d-", os.Getpid())
	begin := time.Now()
	v := newVictim(t, mark, 0)
	defer stopAll([]*victim{v})
	v.revive()
	v.kill()
	v.revive()
	want := []string{"start", "up: uses protocol 2025-11-25", "down: signal: killed", "start", "up: uses protocol 2025-11-25"}
	got := timeline(v.Server)
	if i := slices.Index(got, "down: the server closed its output"); i >= 0 {
		got[i] = "down: signal: killed" // the exit status may arrive after the end of the output
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	s := v.Status()
	if s.State != upstream.StateUp || s.Restarts != 1 || s.Error != "" || s.Protocol != "2025-11-25" || s.Name != "mortal" || s.Version != "1" || s.Transport != "stdio" || s.Target == "" {
		t.Errorf("%+v", s)
	}
	if newest := s.Events[0].At; newest.Before(begin) || s.Since.Before(newest) || s.Since.After(time.Now()) {
		t.Error(s.Since, s.Events)
	}
}

// Repeated identical failures form one line, and standard error is shown with colors and secrets
// removed.
func TestAServerThatFailsAgainAndAgain(t *testing.T) {
	script := `printf '\033[31mfirst\033[0m\n\tpassword\001 hunter2\r\nlast\n' >&2; exit 3`
	s := run(t, upstream.Options{Command: []string{"sh", "-c", script, "--token", "hunter2"}, Redact: withoutHunter})
	// On a busy machine, an attempt may be reported before its exit status or all of its standard
	// error is available. Such an attempt forms a line of its own.
	failures := regexp.MustCompile(`^down: exit status 3: first password \[redacted\] last, ([4-9]|\d\d+) times$`)
	s.until("it has failed several times", func() bool { return slices.ContainsFunc(timeline(s.Server), failures.MatchString) })
	s.until("the last attempt has failed, too", func() bool { return s.Status().Error == "exit status 3: first password [redacted] last" })
	got := s.Status()
	list := timeline(s.Server)
	if list[0] != "start" {
		t.Error(list)
	}
	for i, text := range list {
		count := regexp.MustCompile(`, \d+ times$`)
		if i > 1 && strings.HasPrefix(text, "down: ") && count.ReplaceAllString(text, "") == count.ReplaceAllString(list[i-2], "") {
			t.Error("the same failure has two lines: ", list)
		}
	}
	if got.State != upstream.StateDown || got.Restarts != 0 || got.Protocol != "" {
		t.Errorf("%+v", got)
	}
	if events := got.Events; events[0].At.Before(got.Since) {
		t.Error("the time of the first attempt is shown, not that of the last: ", events)
	}
	if !strings.HasPrefix(got.Target, "sh -c printf ") || !strings.HasSuffix(got.Target, " --token [redacted]") {
		t.Error(got.Target)
	}
	s.until("its complaints are there", func() bool { return s.Status().Stderr == "first\n\tpassword [redacted]\nlast" })
}

// The last lines of an endless standard error are kept, with no partial lines.
func TestTheEndOfComplaints(t *testing.T) {
	s := run(t, upstream.Options{Command: []string{"sh", "-c", `i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo "line $i" >&2; done; exit 1`}})
	text := ""
	s.until("it has complained", func() bool {
		text = s.Status().Stderr
		return strings.HasSuffix(text, "\nline 3000")
	})
	if len(text) > 8<<10 || len(text) < 8<<10-20 || !strings.HasPrefix(text, "line ") {
		t.Errorf("%d bytes: %.40q", len(text), text)
	}
}

func TestWhereAServerIs(t *testing.T) {
	long := strings.Repeat("é", 300)
	for name, tt := range map[string]struct {
		opts                    upstream.Options
		wantTarget, wantCarrier string
	}{
		"a program":      {upstream.Options{Command: []string{"npx", "-y", "server", "a\nb\x1b[2J"}}, "npx -y server a b", "stdio"},
		"a url":          {upstream.Options{URL: "https://me:hunter2@example.com:8443/a/hunter2/mcp?key=x#y"}, "https://example.com:8443/a/[redacted]/mcp", "http"},
		"an empty query": {upstream.Options{URL: "https://example.com/mcp?"}, "https://example.com/mcp", "http"},
		"a stream":       {upstream.Options{URL: "https://example.com/sse", Transport: upstream.TransportSSE}, "https://example.com/sse", "sse"},
		"no url":         {upstream.Options{URL: "https://me:hunter2@exa mple.com"}, "an invalid URL", "http"},
		"a long one":     {upstream.Options{Command: []string{long}}, long[:252] + "…", "stdio"},
	} {
		tt.opts.ID, tt.opts.Redact = "up", withoutHunter
		s, err := upstream.New(tt.opts)
		if err != nil {
			t.Fatal(err)
		}
		got := s.Status()
		if got.Target != tt.wantTarget || got.Transport != tt.wantCarrier || len(got.Target) > 256 || got.State != upstream.StateStarting || got.Since.IsZero() {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A server's description of itself is shown as text of limited length.
func TestServerDescriptionIsBounded(t *testing.T) {
	for name, tt := range map[string]struct{ info, wantName, wantVersion string }{
		"a name":     {`{"name":"git","version":"1.2"}`, "git", "1.2"},
		"none":       {`null`, "", ""},
		"no text":    {`{"name":7,"version":[]}`, "", ""},
		"a secret":   {`{"name":"hunter2 inc"}`, "[redacted] inc", ""},
		"hidden":     {`{"name":"a\u202eb\u001b[2Jc\nd","version":"\u0000"}`, "abc d", ""},
		"a long one": {`{"name":"` + strings.Repeat("n", 1<<20) + `"}`, strings.Repeat("n", 125) + "…", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, true, echoTool)
			answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Mcp-Method") != "server/discover" {
					f.ServeHTTP(w, r)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"_meta":{"io.modelcontextprotocol/serverInfo":%s}}}`, tt.info)
			})
			f.instead.Store(&answer)
			got := run(t, upstream.Options{URL: f.URL, Redact: withoutHunter}).up().Status()
			if got.Name != tt.wantName || got.Version != tt.wantVersion || got.Protocol != "2026-07-28" || got.Transport != "http" {
				t.Errorf("%q %q %q %q", got.Name, got.Version, got.Protocol, got.Transport)
			}
		})
	}
}

// A lost session is reopened, and the timeline shows it.
func TestAForgottenSessionIsShown(t *testing.T) {
	f := newFake(t, false, echoTool)
	s := run(t, upstream.Options{URL: f.URL}).up()
	call := func() {
		if _, err := s.call(&toolyard.Call{}, "echo", `{}`); err != nil {
			t.Error(err)
		}
	}
	call()
	f.session.Store(-1)
	call()
	want := []string{"start", "up: uses protocol 2025-06-18", "down: the server no longer recognizes the MCP session", "start", "up: uses protocol 2025-06-18"}
	if diff := cmp.Diff(want, timeline(s.Server)); diff != "" {
		t.Error(diff)
	}
	if got := s.Status(); got.Restarts != 1 || got.State != upstream.StateUp || got.Name != "f" {
		t.Errorf("%+v", got)
	}
}

// The status is consistent at any time.
func TestStatusWhileThingsChange(t *testing.T) {
	f := newFake(t, true, echoTool)
	s := run(t, upstream.Options{URL: f.URL, Exposure: upstream.Exposure{Pins: &book{}}}).up()
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if got := s.Status(); got.State == "" || got.State == upstream.StateDown && got.Error == "" {
					t.Errorf("%+v", got)
				}
				_, _ = s.PendingCount()
				_, _ = s.Pending()
				_ = s.Hashes()
				_ = s.Explain("echo")
				_ = s.Problems()
			}
		})
	}
	changed := strings.Replace(echoTool, `"echo"`, `"echo","description":"New."`, 1)
	for i := range 6 {
		f.offer([]string{echoTool, changed}[i%2])
		s.Recheck()
		if pending, err := s.Pending(); err == nil && len(pending) > 0 {
			act := []func([]upstream.Pending) error{s.Approve, s.Reject}[i/2%2]
			if err := act(pending); err != nil {
				t.Error(err)
			}
		}
		f.CloseClientConnections()
		time.Sleep(50 * time.Millisecond)
	}
	close(stop)
	wg.Wait()
}

// BenchmarkStatus measures a server with a full standard error buffer.
func BenchmarkStatus(b *testing.B) {
	var pairs []string
	for i := range 100 {
		pairs = append(pairs, fmt.Sprintf("secret-number-%d-of-many", i), "[redacted]")
	}
	s, err := connect(b.Context(), upstream.Options{
		ID: "up", Redact: strings.NewReplacer(pairs...).Replace,
		Command: []string{"sh", "-c", `i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo "2026-01-01T00:00:00Z INFO request $i was served" >&2; done; sleep 1000`},
	})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { s.stop(); <-s.ended }()
	for !strings.Contains(s.Status().Stderr, "request 3000") {
		time.Sleep(10 * time.Millisecond)
	}
	for name, look := range map[string]func() upstream.Status{"status": s.Status, "brief": s.Summary} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				_ = look()
			}
		})
	}
}
