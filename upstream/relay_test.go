package upstream_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/callpath"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/serve/mcpserver"
	"github.com/toolyard/toolyard/internal/sources/catalog"
	"github.com/toolyard/toolyard/upstream"
)

// watchedServer is an MCP server with resources that report changes.
type watchedServer struct {
	*httptest.Server
	watchers toolyard.ResourceWatchers
	gone     atomic.Bool // whether to stop responding
}

func newWatchedServer(t *testing.T, modern bool) *watchedServer {
	t.Helper()
	f := &watchedServer{}
	reader, err := toolyard.NewTool(toolyard.Spec{Name: "read", Effects: toolyard.ReadOnly}, func(context.Context, *toolyard.Call) (*toolyard.Result, error) {
		return &toolyard.Result{}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	server := mcpserver.New(mcpserver.Options{Call: callpath.Run})
	server.Publish([]*gates.Gate{{Name: "default", Mode: toolyard.Read}}, catalog.Offer{Resources: []*toolyard.Resource{
		{URI: "a://1", Definition: json.RawMessage(`{"uri":"a://1","name":"1"}`), Reader: reader, Watch: f.watchers.Watch},
		{URI: "a://item/{id}", Template: true, Definition: json.RawMessage(`{"uriTemplate":"a://item/{id}","name":"item"}`), Reader: reader, Watch: f.watchers.Watch},
	}}, true)
	mcp := server.Handler(func(*http.Request) string { return "default" })
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		switch {
		case f.gone.Load():
			http.Error(w, "gone", http.StatusServiceUnavailable)
		case !modern && strings.Contains(string(body), "server/discover"):
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"method not found"}}`)
		default:
			mcp.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(func() {
		server.Close()
		f.CloseClientConnections()
		f.Close()
	})
	return f
}

// Updates to a server's resources reach their watchers, even after a reconnect.
func TestUpdatesOfAServerAreRelayed(t *testing.T) {
	for name, modern := range map[string]bool{"modern": true, "legacy": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newWatchedServer(t, modern)
			s := run(t, upstream.Options{URL: f.URL}).up()
			var resources []*toolyard.Resource
			s.until("the resources are listed", func() bool { resources = s.Resources(); return len(resources) == 2 })
			updates := make(chan string, 1000)
			watch := func(uri string) (stop func()) { return resources[0].Watch(uri, func() { updates <- uri }) }
			// next waits for an update to a resource. Other resources may be reported again, for
			// example after a stream is reopened.
			next := func(want string, each func()) {
				t.Helper()
				again := time.NewTicker(1100 * time.Millisecond) // updates to one resource are combined for a second
				defer again.Stop()
				for deadline := time.After(time.Minute); ; {
					select {
					case got := <-updates:
						if got == want {
							return
						}
					case <-again.C:
						each()
					case <-deadline:
						t.Fatalf("no update of %s", want)
					}
				}
			}
			stop := watch("a://1")
			next("a://1", func() {}) // the resource may have changed before
			next("a://1", func() { f.watchers.Changed("a://1") })
			stopItem := watch("a://item/7")
			next("a://item/7", func() {})
			stop()
			s.until("the server is unsubscribed", func() bool { return !f.watchers.Watched("a://1") })
			if !f.watchers.Watched("a://item/7") {
				t.Error("the other resource is not watched")
			}

			f.gone.Store(true)
			f.CloseClientConnections()
			s.until("the server has lost the streams", func() bool { return !f.watchers.Watched("a://item/7") })
			f.gone.Store(false)
			s.Retry()
			next("a://item/7", func() {}) // the resource may have changed in the meantime
			s.until("it is watched again", func() bool { return f.watchers.Watched("a://item/7") })
			stopItem()
			s.until("nothing is watched", func() bool { return !f.watchers.Watched("a://item/7") })
		})
	}
}

// Resources can be watched only if their server declares that it reports changes.
func TestResourcesOfOtherServersAreNotWatched(t *testing.T) {
	f := newFake(t, true)
	f.answer("resources/list", func(json.RawMessage) string { return `{"resources":[{"uri":"a://1","name":"1"}]}` })
	s := run(t, upstream.Options{URL: f.URL}).up()
	if list := s.Resources(); len(list) != 1 || list[0].Watch != nil {
		t.Error(fmt.Sprint(list))
	}
}
