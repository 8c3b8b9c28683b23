package yard_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/toolyard/toolyard/packs/basics"
	"github.com/toolyard/toolyard/yard"
)

// changeSomething makes a change through the API of a yard that exports to a collector, then closes
// the yard.
func changeSomething(t *testing.T, endpoint string) {
	t.Helper()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
	file := filepath.Join(t.TempDir(), "toolyard.yaml")
	if err := os.WriteFile(file, []byte("name: audited\nstore: memory\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	y, err := yard.New(yard.Options{ConfigFile: file, Tools: basics.Tools(), Command: yard.Command{OperatorToken: "tyl_operator"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); y.Run(ctx) }()
	<-y.Ready()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/v1/keys", strings.NewReader(`{"name":"ci","caller":"ci","account":"acme"}`))
	r.Host = "localhost"
	r.Header.Set("Authorization", "Bearer tyl_operator")
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	y.Handler().ServeHTTP(w, r)
	if w.Code != http.StatusCreated {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	cancel()
	<-done // exports the remaining changes
}

func checkExported(t *testing.T, text string) {
	t.Helper()
	for _, want := range []string{"key.create", "toolyard.audit", "audited", "toolyard.caller"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in the exported record", want)
		}
	}
	if strings.Contains(text, "ty_") {
		t.Error("the record has the new key")
	}
}

func TestChangesAreExported(t *testing.T) {
	var mu sync.Mutex
	var got bytes.Buffer
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		if r.URL.Path == "/v1/logs" {
			got.Write(body)
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	defer collector.Close()
	changeSomething(t, collector.URL)
	mu.Lock()
	defer mu.Unlock()
	checkExported(t, got.String())
}
