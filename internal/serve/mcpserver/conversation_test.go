package mcpserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/leaktest"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) { leaktest.Main(m) }

var (
	callID = regexp.MustCompile(`"dev\.toolyard/call":"[0-9a-z]{26}"`)
	state  = regexp.MustCompile(`"requestState":"([^"]+)"`)
)

// conversationTools returns the tools used in the conversations.
func conversationTools() []*toolyard.Tool {
	type args struct {
		Text string `json:"text" doc:"What to say"`
	}
	count, _ := counter()
	return []*toolyard.Tool{
		count,
		toolyard.Define(toolyard.Spec{Name: "say", Title: "Say", Description: "Says <it>.", Effects: toolyard.ReadOnly, Terms: toolyard.Terms{Price: toolyard.Price{Set: true, USD: 1_000_000}}},
			func(_ context.Context, c *toolyard.Call, in args) (string, error) {
				c.Progress(1, 2, "half")
				c.Logger().Warn("saying", "text", in.Text)
				return in.Text, nil
			}),
		toolyard.Define(toolyard.Spec{Name: "list", Description: "Returns a list."},
			func(context.Context, *toolyard.Call, struct{}) ([]int, error) { return []int{1, 2}, nil }),
		toolyard.Define(toolyard.Spec{Name: "fail", Description: "Fails."},
			func(context.Context, *toolyard.Call, struct{}) (string, error) { return "", errors.New("boom") }),
	}
}

// Each file in testdata is a conversation over stdio: the client's messages and the expected
// responses.
func TestConversations(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no testdata", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := converse(t, string(archive.Files[0].Data))
			if *update {
				archive.Files = []txtar.File{archive.Files[0], {Name: "server", Data: []byte(got)}}
				if err := os.WriteFile(file, txtar.Format(archive), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(archive.Files[1].Data), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// converse sends the lines and returns all output. Each request is sent after the response to the
// previous one.
func converse(t *testing.T, client string) string {
	t.Helper()
	s := serveOffer(t, conversationOffer())
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- s.ServeStdio(t.Context(), "default", in, out)
		_ = out.Close()
	}()
	lines := bufio.NewScanner(fromServer)
	var got strings.Builder
	last := "" // last received state, which replaces $STATE
	for line := range strings.Lines(client) {
		if strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "" {
			continue
		}
		if _, err := io.WriteString(toServer, strings.ReplaceAll(line, "$STATE", last)); err != nil {
			t.Fatal(err)
		}
		if !answered(line) {
			continue
		}
		for lines.Scan() {
			text := anyCall(lines.Text())
			if m := state.FindStringSubmatch(text); m != nil {
				last, text = m[1], state.ReplaceAllString(text, `"requestState":"…"`)
			}
			got.WriteString(text + "\n")
			if wantsAnswer(text) {
				break
			}
		}
	}
	_ = toServer.Close()
	for lines.Scan() {
		got.WriteString(anyCall(lines.Text()) + "\n")
	}
	if err := <-ended; err != nil {
		t.Errorf("the server ended with %v", err)
	}
	return got.String()
}

// anyCall masks call IDs.
func anyCall(line string) string { return callID.ReplaceAllString(line, `"dev.toolyard/call":"…"`) }

// answered reports whether a line gets a response. Only notifications do not.
func answered(line string) bool {
	var m struct{ Method any }
	return json.Unmarshal([]byte(line), &m) != nil || strings.Contains(line, `"id"`) || m.Method == nil
}

// wantsAnswer reports whether the client has to send the next line, which is the case after a
// response or a question.
func wantsAnswer(line string) bool {
	var m struct{ ID, Method any }
	return json.Unmarshal([]byte(line), &m) == nil && (m.Method == nil || m.ID != nil)
}
