package cli

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/yard"
)

// serveTools serves an MCP server with tools of these names and returns its URL.
func serveTools(t *testing.T, names ...string) string {
	t.Helper()
	var tools []*toolyard.Tool
	for _, name := range names {
		tools = append(tools, toolyard.Define(toolyard.Spec{Name: name, Description: "Says " + name + "."},
			func(context.Context, *toolyard.Call, struct{}) (string, error) { return name, nil }))
	}
	return serveYard(t, yard.Options{Tools: tools}) + "/mcp"
}

// serveYard serves a yard until the test ends and returns its URL.
func serveYard(t *testing.T, opts yard.Options) string {
	t.Helper()
	opts.Process.Getenv = func(string) (string, bool) { return "", false }
	y, err := yard.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		y.Run(ctx)
	}()
	<-y.Ready()
	server := httptest.NewServer(y.Handler())
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		stop()
		<-done
	})
	return server.URL
}

func TestApproveListsPendingDefinitions(t *testing.T) {
	u := newUser(t)
	u.write("toolyard.yaml", "servers:\n  changing: {url: "+serveTools(t, "delete_all", "look")+", pin: approve}\n")
	for _, step := range []struct {
		args  string
		types string
		code  int
		want  string
	}{
		{"approve", "n\n", exitError, "Approved nothing; 2 still pending for changing: delete_all, look\n"},
		{"approve changing lok", "", exitError, "lok is not pending (did you mean \"look\"?)"},
		{"approve changing look --yes", "", exitOK, "Approved 1; 1 still pending for changing: delete_all\n"},
		{"approve --list", "", exitError, "changing: 1 pending\n"},
		{"approve", "y\n", exitOK, "Approved 1 for changing; nothing else is pending.\n"},
		{"approve", "", exitOK, "No definitions are pending.\n"},
	} {
		u.types = step.types
		code, stdout, stderr := u.run(strings.Fields(step.args)...)
		if code != step.code || !strings.Contains(stdout+stderr, step.want) || strings.Contains(stdout, "No definitions") != strings.HasPrefix(step.want, "No definitions") {
			t.Errorf("%s: exit %d\n%s%s", step.args, code, stdout, stderr)
		}
	}
}
