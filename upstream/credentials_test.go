package upstream_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/upstream"
)

// Changed headers take effect in the existing session.
func TestChangedHeadersAreUsedWithoutANewSession(t *testing.T) {
	for _, modern := range []bool{true, false} {
		t.Run(fmt.Sprintf("modern=%v", modern), func(t *testing.T) {
			f := newFake(t, modern, echoTool)
			var token atomic.Value
			token.Store("first")
			s := run(t, upstream.Options{URL: f.URL, Headers: func() (http.Header, error) {
				if token.Load() == "" {
					return nil, fmt.Errorf("the secret store is down")
				}
				return http.Header{"Authorization": {"Bearer " + token.Load().(string)}}, nil
			}}).up()
			uses := func(want string) {
				t.Helper()
				s.until("it uses "+want, func() bool {
					if _, err := s.call(&toolyard.Call{}, "echo", `{"text":"x"}`); err != nil {
						t.Fatal(err)
					}
					calls := f.got("tools/call")
					return calls[len(calls)-1].header.Get("Authorization") == "Bearer "+want
				})
			}
			uses("first")
			token.Store("second")
			s.Refresh()
			uses("second")
			token.Store("")
			listed := len(f.got("tools/list"))
			s.Refresh()
			s.until("it was listed again", func() bool { return len(f.got("tools/list")) > listed })
			uses("second")
			if n := f.sessions.Load(); !modern && n != 1 {
				t.Errorf("%d MCP sessions, want 1", n)
			}
		})
	}
}

func init() { roles["environment"] = serveEnvironment }

// serveEnvironment is an MCP server whose tool returns an environment variable.
func serveEnvironment() {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if json.Unmarshal(in.Bytes(), &m) != nil || m.ID == nil {
			continue
		}
		answer := `"error":{"code":-32601,"message":"method not found"}`
		switch m.Method {
		case "initialize":
			answer = `"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"e","version":"1"}}`
		case "tools/list":
			answer = `"result":{"tools":[` + echoTool + `]}`
		case "tools/call":
			answer = fmt.Sprintf(`"result":{"content":[{"type":"text","text":%q}]}`, os.Getenv("SECRET"))
		case "ping":
			answer = `"result":{}`
		}
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,%s}`+"\n", m.ID, answer)
	}
}

// When its environment changes, a process is restarted and no call fails.
func TestAChangedEnvironmentRestartsTheProcess(t *testing.T) {
	var secret atomic.Value
	secret.Store("first")
	s := run(t, upstream.Options{Command: []string{os.Args[0]}, Env: func() ([]string, error) {
		return []string{roleVariable + "=environment", "SECRET=" + secret.Load().(string), "GOMAXPROCS=1"}, nil
	}}).up()
	uses := func(want string) {
		t.Helper()
		s.until("it has "+want, func() bool {
			res, err := s.call(&toolyard.Call{}, "echo", `{"text":"x"}`)
			if err != nil {
				t.Fatal(err)
			}
			return strings.Contains(string(res.Raw()), want)
		})
	}
	uses("first")
	secret.Store("second")
	s.Refresh()
	uses("second")
}
