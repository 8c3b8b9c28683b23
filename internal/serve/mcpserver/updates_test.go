package mcpserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/callpath"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/serve/mcpserver"
	"github.com/toolyard/toolyard/internal/sources/catalog"
)

// house returns an offer with resources that report changes to watchers, and one that does not.
func house(watchers *toolyard.ResourceWatchers) catalog.Offer {
	reader := raw(toolyard.Spec{Name: "read", Effects: toolyard.ReadOnly}, func(*toolyard.Call) (string, error) { return `{"contents":[]}`, nil })
	resource := func(server, uri string, watch func(string, func()) func()) *toolyard.Resource {
		return &toolyard.Resource{
			Server: server, URI: uri, Template: strings.Contains(uri, "{"), Definition: json.RawMessage(fmt.Sprintf(`{"uri":%q}`, uri)), Reader: reader, Watch: watch,
		}
	}
	return catalog.Offer{Resources: []*toolyard.Resource{
		resource("", "home://lamp", watchers.Watch), resource("", "home://states/{id}", watchers.Watch), resource("", "home://plan", nil),
		resource("garage", "garage://door", watchers.Watch),
	}}
}

// events returns the data of the events in a stream.
func events(body io.ReadCloser) <-chan string {
	found := make(chan string, 100)
	go func() {
		defer close(found)
		defer func() { _ = body.Close() }()
		for lines := bufio.NewScanner(body); lines.Scan(); {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				found <- data
			}
		}
	}()
	return found
}

// listenFor opens a subscriptions/listen stream.
func listenFor(t *testing.T, url string, uris ...string) <-chan string {
	t.Helper()
	list, err := json.Marshal(uris)
	if err != nil {
		t.Fatal(err)
	}
	body := `{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":` + string(list) + `},` + goodMeta + `}}`
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	r.Header.Set("Mcp-Method", "subscriptions/listen")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return events(res.Body)
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

func updateOf(uri string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":7},"uri":%q}}`, uri)
}

// A modern client is notified of changes to the resources that it subscribed to, if they are
// visible and report changes.
func TestModernClientsAreNotifiedOfUpdates(t *testing.T) {
	var watchers toolyard.ResourceWatchers
	s := mcpserver.New(mcpserver.Options{Call: callpath.Run})
	defer s.Close()
	all := []*gates.Gate{
		{Name: "default", Mode: toolyard.Write},
		{Name: "garage", Mode: toolyard.Read, Toolset: &gates.Toolset{Name: "g", Servers: []gates.ServerPick{{ID: "garage"}}}},
	}
	s.Publish(all, house(&watchers), true)
	server := httptest.NewServer(s.Handler(func(r *http.Request) string { return strings.Trim(r.URL.Path, "/") }))
	defer server.Close()
	defer s.Close()
	defer http.DefaultClient.CloseIdleConnections()

	told := listenFor(t, server.URL+"/default", "home://lamp", "home://plan", "home://none", "home://states/a", "home://lamp")
	if first := hear(told); !strings.Contains(first, `"notifications":{"resourceSubscriptions":["home://lamp","home://states/a"]}`) {
		t.Error(first)
	}
	elsewhere := listenFor(t, server.URL+"/garage", "home://lamp", "garage://door")
	if first := hear(elsewhere); !strings.Contains(first, `"notifications":{"resourceSubscriptions":["garage://door"]}`) {
		t.Error(first)
	}
	for _, uri := range []string{"home://states/b", "home://states/a", "home://plan"} {
		watchers.Changed(uri)
	}
	if got := hear(told); got != updateOf("home://states/a") {
		t.Error(got)
	}
	watchers.Changed("home://lamp")
	if got := hear(told); got != updateOf("home://lamp") {
		t.Error(got)
	}

	// The new view's resources are watched, and resources that no longer exist are not.
	var others toolyard.ResourceWatchers
	offer := house(&others)
	offer.Resources = offer.Resources[1:]
	s.Publish(all, offer, true)
	eventually(t, "the subscription was not renewed, or a removed resource is watched", func() bool {
		return others.Watched("home://states/a") && !watchers.Watched("home://states/a") && !watchers.Watched("home://lamp")
	})
	if others.Watched("home://lamp") {
		t.Error("a removed resource is watched")
	}
	others.Changed("home://states/a")
	if got := hear(told); got != updateOf("home://states/a") {
		t.Error(got)
	}
	s.Publish(all, house(&others), true)
	eventually(t, "the resource is not watched again", func() bool { return others.Watched("home://lamp") && others.Watched("garage://door") })

	others.Changed("garage://door")
	if got := hear(elsewhere); got != updateOf("garage://door") {
		t.Error(got)
	}
	s.Close()
	for range told {
	}
	eventually(t, "a resource is watched after the stream has ended", func() bool { return !others.Watched("home://lamp") && !others.Watched("garage://door") })
}

// Several changes to a resource within a second become one update.
func TestUpdatesAreCoalesced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var watchers toolyard.ResourceWatchers
		s := serveOffer(t, house(&watchers))
		c := open(t, s, `{}`)
		defer c.close()
		for i, uri := range []string{"home://lamp", "home://states/a"} {
			c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"resources/subscribe","params":{"uri":%q}}`, i, uri))
			if line := c.next(); !strings.Contains(line, `"result":{}`) {
				t.Error(line)
			}
		}
		start := time.Now()
		var got []string
		go func() {
			for range 950 { // for 9.5 seconds
				watchers.Changed("home://lamp")
				time.Sleep(10 * time.Millisecond)
			}
			watchers.Changed("home://states/a")
		}()
		for {
			line := c.next()
			if strings.Contains(line, "home://states/a") {
				break
			}
			got = append(got, time.Since(start).Round(100*time.Millisecond).String())
		}
		if diff := cmp.Diff([]string{"0s", "1s", "2s", "3s", "4s", "5s", "6s", "7s", "8s", "9s"}, got); diff != "" {
			t.Error(diff)
		}
		if line := c.next(); !strings.Contains(line, "home://lamp") { // the last change is never lost
			t.Error(line)
		}
		c.send(`{"jsonrpc":"2.0","id":3,"method":"resources/unsubscribe","params":{"uri":"home://lamp"}}`)
		c.next()
		if watchers.Watched("home://lamp") {
			t.Error("it is still watched")
		}
	})
}

func TestLegacySubscriptionsAreChecked(t *testing.T) {
	var watchers toolyard.ResourceWatchers
	s := serveOffer(t, house(&watchers))
	c := open(t, s, `{}`)
	for uri, want := range map[string]string{
		"home://none": `"code":-32002`,
		"home://plan": "does not report changes",
		"home://states/" + strings.Repeat("x", 600): "does not report changes",
		"home://lamp": `"result":{}`,
	} {
		c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":%q}}`, uri))
		if line := c.next(); !strings.Contains(line, want) {
			t.Errorf("%.40s: %s", uri, line)
		}
	}
	c.send(`{"jsonrpc":"2.0","id":1,"method":"resources/unsubscribe","params":{"uri":"home://none"}}`)
	if line := c.next(); !strings.Contains(line, `"result":{}`) {
		t.Error(line)
	}
	c.close()
	if watchers.Watched("home://lamp") {
		t.Error("it is watched after the connection has ended")
	}
	h := s.Handler(func(*http.Request) string { return "default" })
	sessionless := post(h, []byte(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"home://lamp"}}`), nil).Body.String()
	if !strings.Contains(sessionless, "requires an MCP session") {
		t.Error(sessionless)
	}
	if modern := modern(h, "resources/subscribe", "", `"uri":"home://lamp"`); !strings.Contains(modern, "unknown method") {
		t.Error(modern)
	}
}

func TestSubscriptionsAreLimited(t *testing.T) {
	const limit = 500
	var watchers toolyard.ResourceWatchers
	s := serveOffer(t, house(&watchers))
	c := open(t, s, `{}`)
	defer c.close()
	for i := range limit + 1 {
		c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"home://states/%d"}}`, i))
		if line := c.next(); strings.Contains(line, "at most 500") != (i == limit) {
			t.Fatalf("%d: %s", i, line)
		}
	}
	uris := strings.TrimSuffix(strings.Repeat(`"home://lamp",`, limit+1), ",")
	h := s.Handler(func(*http.Request) string { return "default" })
	if got := modern(h, "subscriptions/listen", "", `"notifications":{"resourceSubscriptions":[`+uris+`]}`); !strings.Contains(got, "at most 500 URIs") {
		t.Error(got)
	}
	if got := modern(h, "subscriptions/listen", "", `"notifications":{"resourceSubscriptions":[1]}`); !strings.Contains(got, "at most 500 URIs") {
		t.Error(got)
	}
}

// A legacy client can subscribe at any replica and open its stream at any other. Changes before the
// stream opens are not lost.
func TestLegacySubscriptionsAreSharedByReplicas(t *testing.T) {
	var watchers toolyard.ResourceWatchers
	_, urls := startReplicas(t, 2, house(&watchers))
	c := connect(t, urls[0], "ann")
	request := func(replica int, method, uri string) {
		t.Helper()
		if status, text := c.send(http.MethodPost, urls[replica], fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{"uri":%q}}`, method, uri)); status != 200 || !strings.Contains(text, `"result":{}`) {
			t.Fatalf("%d %s", status, text)
		}
	}
	stream := func(replica int) (<-chan string, func()) {
		ctx, cancel := context.WithCancel(t.Context())
		return events(c.do(ctx, http.MethodGet, urls[replica], "").Body), cancel
	}
	request(0, "resources/subscribe", "home://lamp")
	first, stop := stream(1)
	if got := hear(first); !strings.Contains(got, "home://lamp") { // the resource may have changed before
		t.Error(got)
	}
	request(0, "resources/subscribe", "home://states/a") // sent while the stream is open
	eventually(t, "it is not watched", func() bool { return watchers.Watched("home://states/a") })
	watchers.Changed("home://states/a")
	if got := hear(first); !strings.Contains(got, "home://states/a") {
		t.Error(got)
	}
	stop()
	eventually(t, "it is watched without a stream", func() bool { return !watchers.Watched("home://lamp") })
	request(1, "resources/unsubscribe", "home://lamp")

	second, stop := stream(0)
	defer stop()
	if got := hear(second); !strings.Contains(got, "home://states/a") {
		t.Error(got)
	}
	if watchers.Watched("home://lamp") {
		t.Error("it is watched")
	}
	if status, text := c.send(http.MethodDelete, urls[1], ""); status != http.StatusNoContent {
		t.Fatal(status, text)
	}
	eventually(t, "it is watched after the session has ended", func() bool { return !watchers.Watched("home://states/a") })
}
