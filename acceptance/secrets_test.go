package acceptance

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"filippo.io/age"
)

// canaries are secrets with a known prefix and suffix, so that even part of one can be found.
type canaries struct {
	values [50]string
	env    []string // environment of the process, including the canaries stored there
}

var partOfCanary = regexp.MustCompile(`cnry[0-9]{2}[0-9a-f]{4}|[0-9a-f]{4}[0-9]{2}yrnc`)

// logged matches the message in a log line of either format.
var logged = regexp.MustCompile(`(?s)^.*"msg":"([^"]*)".*$|^\S+ \S+ (.*?) \w+=.*$`)

// newCanaries creates 50 secrets and stores each in one of five places: the environment, its own
// file, an age-encrypted file, behind a program, or a Vault server.
func newCanaries(t *testing.T, dir string) (c *canaries, config string) {
	t.Helper()
	c = new(canaries)
	var sealed strings.Builder
	vault := make(map[string]string)
	config = fmt.Sprintf("ageIdentity: identity.txt\nsecretStores:\n  cat: {command: [cat], ttl: 1s}\n  vault: {url: %q, ttl: 1s, auth: {secretRef: env:VAULT_TOKEN}}\nsecrets:\n", vaultServer(t, vault))
	c.env = append(c.env, "VAULT_TOKEN=cnry99abcdefabcdef99yrnc")
	for i := range c.values {
		var b [12]byte
		_, _ = rand.Read(b[:])
		middle := "+/&="
		if !inHeader(i) {
			middle = `"\'$+/&=`
		}
		c.values[i] = fmt.Sprintf("cnry%02d%s%s%s%02dyrnc", i, hex.EncodeToString(b[:6]), middle, hex.EncodeToString(b[6:]), i)
		var where string
		switch i % 5 {
		case 0:
			where = fmt.Sprintf("env:CANARY_%02d", i)
			c.env = append(c.env, fmt.Sprintf("CANARY_%02d=%s", i, c.values[i]))
		case 1:
			where = fmt.Sprintf("file:kept/%02d", i)
			save(t, filepath.Join(dir, fmt.Sprintf("kept/%02d", i)), c.values[i]+"\n")
		case 2:
			where = fmt.Sprintf("age:kept/sealed.age#key%02d", i)
			fmt.Fprintf(&sealed, "key%02d=%s\n", i, c.values[i])
		case 3:
			where = fmt.Sprintf("cat:kept/%02d", i)
			save(t, filepath.Join(dir, fmt.Sprintf("kept/%02d", i)), c.values[i]+"\n")
		case 4:
			where = fmt.Sprintf("vault:canaries#key%02d", i)
			vault[fmt.Sprintf("key%02d", i)] = c.values[i]
		}
		config += fmt.Sprintf("  c%02d: %q\n", i, where)
	}
	seal(t, dir, sealed.String())
	return c, config
}

// vaultServer serves secrets like a Vault server with version 2 of the key/value engine.
func vaultServer(t *testing.T, fields map[string]string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/secret/data/canaries" || r.Header.Get("X-Vault-Token") != "cnry99abcdefabcdef99yrnc" {
			http.Error(w, `{"errors":["permission denied"]}`, http.StatusForbidden)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"data": map[string]any{"data": fields, "metadata": map[string]any{"version": 1}}})
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// inHeader reports whether a canary is sent in a header, where some characters are not allowed.
func inHeader(i int) bool { return i >= 15 && i < 38 || i >= 43 }

// seal encrypts a text with age and stores the key next to it.
func seal(t *testing.T, dir, text string) {
	t.Helper()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	save(t, filepath.Join(dir, "identity.txt"), identity.String()+"\n")
	var out bytes.Buffer
	w, err := age.Encrypt(&out, identity.Recipient())
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(w, text) // writing to memory cannot fail
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	save(t, filepath.Join(dir, "kept/sealed.age"), out.String())
}

// uses returns the lines of a YAML map that refer to a range of canaries.
func (c *canaries) uses(kind, prefix string, from, to int) string {
	var entries []string
	for i := from; i < to; i++ {
		entries = append(entries, fmt.Sprintf(`%s%02d: "v ${secret:c%02d}"`, prefix, i, i))
	}
	return kind + ": {" + strings.Join(entries, ", ") + "}"
}

func bearer(i int) string { return fmt.Sprintf("auth: {type: bearer, secretRef: c%02d}", i) }

// found returns the canaries that occur at least partly in a text, in plain text or in base64.
func (c *canaries) found(text string) (parts []string) {
	parts = partOfCanary.FindAllString(text, -1)
	for _, value := range c.values {
		for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
			if strings.Contains(text, encoding.EncodeToString([]byte(value))) {
				parts = append(parts, value+" in base64")
			}
		}
	}
	slices.Sort(parts)
	return slices.Compact(parts)
}

// mirror responds with the request's headers, either always or if the request asks for it, and
// otherwise forwards to the server behind it.
func mirror(t *testing.T, status *atomic.Int32, behind http.Handler) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := int(status.Load())
		if n == 0 {
			behind.ServeHTTP(w, r)
			return
		}
		var given []string
		for _, values := range r.Header {
			given = append(given, values...)
		}
		slices.Sort(given)
		text := strings.Join(given, " ")
		w.Header().Set("Www-Authenticate", "Bearer error="+strconv.Quote(text))
		w.Header().Set("Location", "http://192.0.2.1/?"+text)
		w.WriteHeader(n)
		_, _ = io.WriteString(w, strings.Repeat("x", 300)+" "+text)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL + "/mcp"
}

// collector receives traces.
type collector struct {
	mu   sync.Mutex
	body bytes.Buffer
	*httptest.Server
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := new(collector)
	c.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, _ = c.body.ReadFrom(r.Body)
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *collector) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.body.String()
}

// leaks is one run of the test: the yard, and everything that was observed, by place.
type leaks struct {
	*canaries
	t      *testing.T
	p      *process
	refuse atomic.Int32 // status that the server proxied responds with
	seen   map[string]string
}

// newLeaks serves servers that receive all canaries: loud over stdio; web, proxied and sse over
// HTTP; and some invalid servers that report why they fail. The server innocent receives none.
func newLeaks(t *testing.T, format string, more ...string) *leaks {
	t.Helper()
	dir := t.TempDir()
	l := &leaks{t: t, seen: make(map[string]string)}
	var config string
	l.canaries, config = newCanaries(t, dir)
	web, behind := startFake(t, freeAddress(t), "both"), startFake(t, freeAddress(t), "both")
	var always atomic.Int32
	always.Store(http.StatusUnauthorized)
	config += fmt.Sprintf("log: {level: debug, format: %s}\n", format) + servers(
		onStdio("innocent", "both"),
		onStdio("loud", "legacy", strings.TrimSuffix(l.uses("env", "TEST_", 0, 15), "}")+fmt.Sprintf(", TEST_API_TOKEN: '%s'}", strings.ReplaceAll(l.values[48], "'", "''"))),
		onHTTP("web", web.url, l.uses("headers", "X-Canary-", 15, 25), bearer(25)),
		onHTTP("proxied", mirror(t, &l.refuse, newFaulty(t, behind.url).Config.Handler), l.uses("headers", "X-Canary-", 26, 32), bearer(32)),
		onHTTP("closed", mirror(t, &always, nil), "required: false", l.uses("headers", "X-Canary-", 33, 37), bearer(37)),
		server("dies", "command: sh", `args: [-c, "env >&2; exit 3"]`, "required: false", l.uses("env", "TEST_", 38, 43)),
		onHTTP("sse", strings.TrimSuffix(web.url, "/mcp")+"/sse", "transport: sse", l.uses("headers", "X-Canary-", 43, 47), bearer(47)),
		onHTTP("gone", "http://"+freeAddress(t)+"/mcp", "required: false", bearer(49)),
	)
	l.p = serveIn(t, dir, "toolyard", config, append(l.env, more...)...)
	return l
}

// see records an observation.
func (l *leaks) see(where, text string) { l.seen[where] += text + "\n" }

// provoke makes the servers reveal their secrets in every possible way. Some paddings cause
// truncation in the middle of a canary.
func (l *leaks) provoke(name string, c client) {
	l.t.Helper()
	for _, id := range []string{"loud", "web", "proxied", "sse"} {
		for _, how := range []string{"stderr", "error", "result"} {
			for _, pad := range []int{0, 130, 380, 890, 1910, 3960, 8060, 16250} {
				m := call(l.t, c, "mcp_"+id+"__spill", fmt.Sprintf(`{"how":%q,"pad":%d}`, how, pad))
				l.see(name+" "+how+" of "+id, fmt.Sprintf("%s %+v", m.Result, m.Error))
			}
		}
	}
	for _, status := range []int32{200, 302, 307, 400, 401, 403, 404, 405, 429, 500, 503} {
		l.refuse.Store(status)
		m := call(l.t, c, "mcp_proxied__ping", "{}")
		l.see(fmt.Sprintf("%s status %d", name, status), fmt.Sprintf("%s %+v", m.Result, m.Error))
		l.refuse.Store(0)
		soon(l.t, "proxied is used again", func() bool { return !call(l.t, c, "mcp_proxied__ping", "{}").result(l.t).IsError })
	}
	for pad := range 8 { // more output than is stored
		for range 8 {
			call(l.t, c, "mcp_loud__spill", `{"how":"stderr","pad":0}`)
		}
		m := call(l.t, c, "mcp_loud__spill", fmt.Sprintf(`{"how":"die","pad":%d}`, 7*pad))
		l.see(name+" die of loud", fmt.Sprintf("%s %+v", m.Result, m.Error))
		soon(l.t, "loud is back", func() bool { return !call(l.t, c, "mcp_loud__ping", "{}").result(l.t).IsError })
	}
}

// lookAround records what other users can see of the process and its children.
func (l *leaks) lookAround() {
	l.t.Helper()
	read := func(pid int, file string) string {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
		if err != nil {
			return "" // the process has ended
		}
		return string(data)
	}
	pid := l.p.cmd.Process.Pid
	own := read(pid, "cmdline")
	l.see("command line", own)
	others := 0
	for _, child := range children(l.t, pid) {
		line := read(child, "cmdline")
		if line == own {
			continue // a process that is just starting still has its parent's environment and arguments
		}
		l.see("command line of a child", line)
		if environment := read(child, "environ"); !strings.Contains(environment, "TEST_00=") && !strings.Contains(environment, "TEST_38=") {
			l.see("environment of a child that is given none", environment)
			others++
		}
	}
	if others == 0 {
		l.t.Error("the server innocent was not checked")
	}
	l.see("catalog", l.p.get("/api/tools/catalog"))
	l.see("metrics", l.p.get("/metrics"))
	for _, command := range [][]string{{"check"}, {"tools"}, {"tools", "--json"}, {"call", "mcp_loud__spill", "how=error", "pad=0"}} {
		_, out, errs := runIn(l.t, l.p.dir, l.env, "toolyard", command...)
		l.see("toolyard "+strings.Join(command, " "), out+errs)
	}
	lock, err := os.ReadFile(filepath.Join(l.p.dir, "toolyard.lock"))
	if err != nil {
		l.t.Error(err)
	}
	l.see("toolyard.lock", string(lock))
}

// Secrets appear only where the operator sends them.
func TestSecrets(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"json", "text"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			traces := newCollector(t)
			l := newLeaks(t, format, "OTEL_EXPORTER_OTLP_ENDPOINT="+traces.URL, "OTEL_BSP_SCHEDULE_DELAY=50")
			text(t, call(t, modernHTTP{t: t, url: l.p.url}, "mcp_web__ping", "{}"))
			if got := reported(t, modernHTTP{t: t, url: l.p.url}, "mcp_web__last").Headers; got.Get("X-Canary-15") != "v "+l.values[15] || got.Get("Authorization") != "Bearer "+l.values[25] {
				t.Errorf("web was given %v", got)
			}
			l.lookAround()
			for name, c := range eras(t, l.p) {
				l.provoke(name, c)
			}
			soon(t, "there are traces", func() bool { return strings.Contains(traces.text(), "tools/call") })
			time.Sleep(500 * time.Millisecond) // waits for the last spans
			l.see("traces", traces.text())
			for line := range strings.Lines(l.p.text()) {
				l.see("log: "+logged.ReplaceAllString(line, "$1$2"), line)
			}
			if !strings.Contains(l.seen["traces"], "mcp_web__ping") && !strings.Contains(l.seen["traces"], "tools/call") {
				t.Error("there are no traces")
			}
			if format == "json" && len(l.p.log()) < 50 {
				t.Errorf("only %d log lines", len(l.p.log()))
			}
			for where, text := range l.seen {
				if found := l.found(text); len(found) > 0 {
					at := max(0, strings.Index(text, found[0])-100)
					t.Errorf("%s: %d parts of canaries, such as %s: …%.200q", where, len(found), found[0], text[at:])
				}
			}
		})
	}
}
