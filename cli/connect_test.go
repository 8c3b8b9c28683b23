package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard/yard"
)

const connectConfig = `
store: sqlite:connect.db
servers:
  crm: {url: "http://127.0.0.1:1/mcp", auth: {type: person}}
  gitlab: {url: "http://127.0.0.1:1/mcp", auth: {type: header, header: PRIVATE-TOKEN}}
  other: {url: "http://127.0.0.1:1/mcp"}
`

// sendFromPage sends a request as the console's page at base does.
func sendFromPage(t *testing.T, browser *http.Client, base, method, path, secret, body string) (answer map[string]any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, base+"/api/v1"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if secret != "" {
		r.Header.Set("Toolyard-Page-Secret", secret)
	}
	res, err := browser.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode >= 400 {
		t.Fatal(res.Status, string(raw), err)
	}
	_ = json.Unmarshal(raw, &answer)
	return answer
}

func TestConnectOnThisComputer(t *testing.T) {
	f := newFixture(t, connectConfig)
	if out, errs, code := f.run("connect"); strings.Count(out, "not connected") != 2 || strings.Contains(out, "other") || code != exitOK {
		t.Errorf("%q %q %d", out, errs, code)
	}
	if _, errs, code := f.run("connect", "gitlba"); !strings.Contains(errs, `did you mean "gitlab"?`) || code != exitUsage {
		t.Errorf("%q %d", errs, code)
	}
	if _, errs, code := f.run("connect", "gitlab", "--timeout", "1ms"); !strings.Contains(errs, "waiting for you to connect") || code != exitError {
		t.Errorf("%q %d", errs, code)
	}

	// The user opens the URL that the command prints, is signed in by it, and enters a key.
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	lines, stderr := io.Pipe()
	var out bytes.Buffer
	noEnv := func(string) (string, bool) { return "", false }
	a := &app{opts: yard.Options{Process: yard.Process{Getenv: noEnv, Now: func() time.Time { return f.now }}}, in: strings.NewReader(""), out: &out, err: stderr}
	root := a.rootCommand()
	root.SetArgs([]string{"--config", f.file, "connect", "gitlab"})
	ended := make(chan error, 1)
	go func() {
		err := root.ExecuteContext(ctx)
		_ = stderr.Close()
		ended <- err
	}()
	printed := bufio.NewScanner(lines)
	link := ""
	for link == "" && printed.Scan() {
		if text := strings.TrimSpace(printed.Text()); strings.HasPrefix(text, "http://127.0.0.1:") {
			link = text
		}
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	address, err := url.Parse(link)
	key, ok := strings.CutPrefix(address.Fragment, "key=")
	if err != nil || !ok || address.Path != "/console/connections/gitlab" {
		t.Fatalf("%q", link)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser, base := &http.Client{Jar: jar}, "http://"+address.Host
	secret, _ := sendFromPage(t, browser, base, "POST", "/signin", "", `{"key":"`+key+`"}`)["pageSecret"].(string)
	sendFromPage(t, browser, base, "PUT", "/connections/gitlab/key", secret, `{"key":"my-own-key"}`)
	browser.CloseIdleConnections()
	if err := <-ended; err != nil || out.String() != "Connected to gitlab.\n" {
		t.Errorf("%q %v", out.String(), err)
	}

	if out, errs, code := f.run("connect"); strings.Count(out, "not connected") != 1 || code != exitOK {
		t.Errorf("%q %q %d", out, errs, code)
	}
	if out, errs, code := f.run("connect", "gitlab", "--disconnect"); out != "Disconnected from gitlab.\n" || code != exitOK {
		t.Errorf("%q %q %d", out, errs, code)
	}
	if out, errs, code := f.run("connect", "--json"); strings.Count(out, `"none"`) != 2 || code != exitOK {
		t.Errorf("%q %q %d", out, errs, code)
	}
	for _, args := range [][]string{{"--disconnect"}, {"gitlab", "--port", "70000"}, {"gitlab", "--url", "nowhere"}} {
		if _, errs, code := f.run(append([]string{"connect"}, args...)...); code != exitUsage {
			t.Errorf("%v: %q %d", args, errs, code)
		}
	}
}
