//go:build unix

package script

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/ident"
	"github.com/toolyard/toolyard/internal/jsvm"
)

// runProvider runs a provider whose file is in a new folder. updated receives a value after each
// load.
func runProvider(t *testing.T, source string, opts Options) (p *Provider, file string, updated chan struct{}) {
	t.Helper()
	if err := jsvm.Available(); err != nil {
		t.Skip(err)
	}
	file = filepath.Join(t.TempDir(), "crm.ts")
	if source != "" {
		if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	opts.CacheDir = filepath.Join(os.TempDir(), "toolyard-test-cache")
	p, err := NewProvider("crm", file, opts, func(context.Context, toolyard.Caller) (map[string]string, error) {
		return map[string]string{"crm": "C-17"}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	updated = make(chan struct{}, 100)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- p.Run(ctx, func(toolyard.Offer) { updated <- struct{}{} }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	<-updated
	return p, file, updated
}

func TestProviderReturnsWhatItsFunctionReturns(t *testing.T) {
	p, _, _ := runProvider(t, `export default async (caller, asOf: Date) => ({ ...caller, at: asOf.toISOString(), year: asOf.getUTCFullYear() });`, Options{})
	at := time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC)
	got, err := p.Provide(t.Context(), toolyard.Caller{ID: "ann", Account: "acme", Roles: []string{"user"}}, at)
	want := `{"id":"ann","account":"acme","roles":["user"],"links":{"crm":"C-17"},"at":"2024-05-06T07:08:09.000Z","year":2024}`
	if err != nil || string(got) != want {
		t.Errorf("%s %v", got, err)
	}
	// An unauthenticated caller has no ID and no links.
	got, err = p.Provide(t.Context(), toolyard.Caller{ID: ident.Anonymous}, at)
	if err != nil || !strings.HasPrefix(string(got), `{"id":"","account":"","roles":[],"links":{}`) {
		t.Errorf("%s %v", got, err)
	}
	if problems := p.Problems(); len(problems) > 0 {
		t.Error(problems)
	}
}

func TestProviderFailures(t *testing.T) {
	for source, tt := range map[string]struct {
		code    toolyard.Code
		message string
		logged  string
	}{
		`export default () => null;`:      {toolyard.NoData, "has no data for you", ""},
		`export default () => undefined;`: {toolyard.NoData, "has no data for you", ""},
		`export default () => "gold";`:    {toolyard.Unavailable, "did not return an object", ""},
		`export default () => [1];`:       {toolyard.Unavailable, "did not return an object", ""},
		`export default () => 7;`:         {toolyard.Unavailable, "did not return an object", ""},
		"export default () => {\n  throw new Error('token abc was refused');\n};": {toolyard.Unavailable, "its script failed", "crm.ts:2"},
		`export default () => { for (;;) {} };`:                                   {toolyard.Unavailable, "its script failed", "context provider is failing"},
		`export default async () => await fetch("http://10.0.0.7/");`:             {toolyard.Unavailable, "its script failed", `context: {crm: {grants: {net: [\"10.0.0.7\"]}}}`},
	} {
		t.Run(source, func(t *testing.T) {
			var log bytes.Buffer
			p, _, _ := runProvider(t, source, Options{CPU: 200 * time.Millisecond, Log: slog.New(slog.NewTextHandler(&log, nil))})
			_, err := p.Provide(t.Context(), toolyard.Caller{ID: "ann"}, time.Now())
			var e *toolyard.Error
			if !errors.As(err, &e) || e.Code != tt.code || !strings.Contains(e.Message, tt.message) || strings.Contains(e.Message, "abc") {
				t.Error(err)
			}
			if !strings.Contains(strings.ReplaceAll(log.String(), `\\`, `\`), tt.logged) || tt.logged == "" && log.Len() > 0 {
				t.Errorf("logged: %s", log.String())
			}
		})
	}
}

func TestProviderThatCannotBeLoaded(t *testing.T) {
	for source, want := range map[string]string{
		`export default 7;`:           "there is no default function",
		`export default (`:            "",
		`throw new Error("no luck");`: "no luck",
		``:                            "file not found",
	} {
		p, _, _ := runProvider(t, source, Options{})
		problems := p.Problems()
		if len(problems) != 1 || problems[0].Source != "context.crm" || !strings.Contains(problems[0].Message, want) {
			t.Errorf("%s: %v", source, problems)
		}
		_, err := p.Provide(t.Context(), toolyard.Caller{ID: "ann"}, time.Now())
		if e := toolyard.AsError(err); e.Code != toolyard.Unavailable || e.Message != "Context crm is unavailable: its script cannot be loaded." {
			t.Errorf("%s: %v", source, err)
		}
	}
}

// Saving the file takes effect at once. If the new version is broken, the last valid one stays in
// use.
func TestProviderIsReloaded(t *testing.T) {
	p, file, updated := runProvider(t, `export default () => ({ v: 1 });`, Options{})
	provide := func() string {
		got, err := p.Provide(t.Context(), toolyard.Caller{ID: "ann"}, time.Now())
		return fmt.Sprint(string(got), err)
	}
	for _, step := range []struct {
		source, want string
		problems     int
	}{
		{`export default () => ({ v: 2 });`, `{"v":2}<nil>`, 0},
		{`export default (`, `{"v":2}<nil>`, 1},
		{`export default () => ({ v: 3 });`, `{"v":3}<nil>`, 0},
	} {
		if err := os.WriteFile(file, []byte(step.source), 0o600); err != nil {
			t.Fatal(err)
		}
		got := ""
		for deadline := time.After(time.Minute); got != step.want || len(p.Problems()) != step.problems; { // the file may be read while it is being written
			select {
			case <-updated:
				got = provide()
			case <-deadline:
				t.Fatalf("%s: %s, %v", step.source, got, p.Problems())
			}
		}
	}
}

func TestProviderUsesItsGrants(t *testing.T) {
	crm := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"path":"`+r.URL.Path+`","key":"`+r.Header.Get("X-Key")+`"}`)
	}))
	defer crm.Close()
	p, _, _ := runProvider(t, `export default async (caller) => {
		const r = await fetch(process.env.CRM_URL + "/customers/" + encodeURIComponent(caller.links.crm), { headers: { "X-Key": process.env.CRM_KEY } });
		return await r.json();
	};`, Options{
		Grants: map[string]Grant{"*": {Net: []string{"127.0.0.1"}, Env: []string{"CRM_*"}}},
		Getenv: func(name string) (string, bool) {
			value, ok := map[string]string{"CRM_URL": crm.URL, "CRM_KEY": "k"}[name]
			return value, ok
		},
	})
	got, err := p.Provide(t.Context(), toolyard.Caller{ID: "ann"}, time.Now())
	if err != nil || string(got) != `{"path":"/customers/C-17","key":"k"}` {
		t.Errorf("%s %v", got, err)
	}
}
