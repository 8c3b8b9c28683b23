package acceptance

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// nodeServer is a server that runs on Node.
type nodeServer struct {
	file string // path in the clients folder
	args []string
}

// command returns a configuration that starts the server as a command.
func (s nodeServer) command(t *testing.T, id string, lines ...string) string {
	t.Helper()
	args, err := json.Marshal(append([]string{script(t, s.file)}, s.args...))
	if err != nil {
		t.Fatal(err)
	}
	return server(id, append([]string{fmt.Sprintf("command: %q", script(t, "node_modules/.bin/node")), "args: " + string(args)}, lines...)...)
}

// listening starts the server on a free port and returns its URL.
func (s nodeServer) listening(t *testing.T) (base string) {
	t.Helper()
	address := freeAddress(t)
	_, port, _ := net.SplitHostPort(address)
	args := []string{script(t, s.file)}
	for _, arg := range s.args {
		args = append(args, strings.ReplaceAll(arg, "PORT", port))
	}
	cmd := exec.Command(script(t, "node_modules/.bin/node"), args...)
	cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), "PORT="+port)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	soon(t, s.file+" listens", func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return "http://" + address
}

// schema contains the members of a tool's schema that arguments are generated from.
type schema struct {
	Type           string
	Format         string
	Enum           []any
	Const, Default any
	Minimum        *float64
	Properties     map[string]schema
	Required       []string
	Items          *schema
}

// example returns a value that matches a schema.
func (s schema) example() any {
	switch {
	case s.Const != nil:
		return s.Const
	case s.Default != nil:
		return s.Default
	case len(s.Enum) > 0:
		return s.Enum[0]
	}
	switch s.Type {
	case "object":
		o := make(map[string]any)
		for _, name := range s.Required {
			o[name] = s.Properties[name].example()
		}
		return o
	case "array":
		if s.Items == nil {
			return []any{}
		}
		return []any{s.Items.example()}
	case "number", "integer":
		if s.Minimum != nil {
			return *s.Minimum
		}
		return 1
	case "boolean":
		return true
	}
	return "x"
}

// listed is a tool in a list.
type listed struct {
	Name        string
	InputSchema schema
}

func listSchemas(t *testing.T, c client) (tools []listed) {
	t.Helper()
	m, _ := c.send("1", "tools/list", "")
	var list struct{ Tools []listed }
	if m.Error != nil {
		t.Fatal(m.Error)
	}
	if err := json.Unmarshal(m.Result, &list); err != nil {
		t.Fatal(err)
	}
	return list.Tools
}

// expected lists the tools of third-party servers, by server name.
var expected = map[string][]string{
	"everything": {
		"echo", "get-annotated-message", "get-env", "get-resource-links", "get-resource-reference", "get-structured-content", "get-sum",
		"get-tiny-image", "gzip-file-as-resource", "simulate-research-query", "toggle-simulated-logging", "toggle-subscriber-updates",
		"trigger-elicitation-request", "trigger-long-running-operation", "trigger-url-elicitation",
	},
	"files": {
		"create_directory", "directory_tree", "edit_file", "get_file_info", "list_allowed_directories", "list_directory",
		"list_directory_with_sizes", "move_file", "read_file", "read_media_file", "read_multiple_files", "read_text_file", "search_files", "write_file",
	},
	"memory": {
		"add_observations", "create_entities", "create_relations", "delete_entities", "delete_observations", "delete_relations",
		"open_nodes", "read_graph", "search_nodes",
	},
	"typescript": {"add", "greet"},
	"fake":       {"a__b", "big", "count", "echo", "fail", "grow", "last", "mutate", "odd", "order", "ping", "plain", "progress", "rd", "rm", "sleep", "spill"},
}

// special returns arguments for tools whose schema is not specific enough.
func special(dir string) map[string]string {
	q := func(name string) string { return fmt.Sprintf("%q", filepath.Join(dir, name)) }
	m := map[string]string{
		"everything__gzip-file-as-resource":          `{"name":"a.gz","data":"data:text/plain,hello","outputType":"resource"}`,
		"everything__trigger-long-running-operation": `{"duration":0.2,"steps":2}`,
		"files__create_directory":                    `{"path":` + q("made") + `}`,
		"files__edit_file":                           `{"path":` + q("edited.txt") + `,"edits":[{"oldText":"edited","newText":"new"}]}`,
		"files__move_file":                           `{"source":` + q("moved.txt") + `,"destination":` + q("there.txt") + `}`,
		"files__read_media_file":                     `{"path":` + q("pixel.png") + `}`,
		"files__read_multiple_files":                 `{"paths":[` + q("a.txt") + `]}`,
		"files__search_files":                        `{"path":` + q("") + `,"pattern":"*.txt"}`,
		"files__write_file":                          `{"path":` + q("written.txt") + `,"content":"x"}`,
		"memory__add_observations":                   `{"observations":[]}`,
	}
	for _, tool := range []string{"read_file", "read_text_file", "get_file_info"} {
		m["files__"+tool] = `{"path":` + q("a.txt") + `}`
	}
	for _, tool := range []string{"directory_tree", "list_directory", "list_directory_with_sizes"} {
		m["files__"+tool] = `{"path":` + q("") + `}`
	}
	return m
}

// mayFail lists the tools whose result is an error by design: one that always fails, those that
// need a capability that the client lacks, and one that runs only as a task.
var mayFail = []string{
	"fake__fail", "everything__trigger-elicitation-request", "everything__trigger-url-elicitation", "everything__simulate-research-query",
}

// kinds maps the servers behind the gate to the origin of their tools.
var kinds = map[string]string{
	"everything-stdio": "everything", "everything-http": "everything", "everything-sse": "everything", "files": "files", "memory": "memory",
	"ts-legacy": "typescript", "ts-legacy-http": "typescript", "ts-modern": "typescript", "ts-modern-http": "typescript",
	"go-legacy": "fake", "go-modern": "fake", "go-http": "fake",
}

// serveReal serves all of these servers, with a folder for the filesystem server.
func serveReal(t *testing.T, dir string) *process {
	t.Helper()
	const modules = "node_modules/@modelcontextprotocol/"
	everything := func(how string) nodeServer {
		return nodeServer{modules + "server-everything/dist/index.js", []string{how}}
	}
	memory := fmt.Sprintf("env: {MEMORY_FILE_PATH: %q}", filepath.Join(t.TempDir(), "memory.jsonl"))
	return serve(t, "toolyard", servers(
		everything("stdio").command(t, "everything-stdio"),
		onHTTP("everything-http", everything("streamableHttp").listening(t)+"/mcp"),
		onHTTP("everything-sse", everything("sse").listening(t)+"/sse"),
		nodeServer{modules + "server-filesystem/dist/index.js", []string{dir}}.command(t, "files"),
		nodeServer{modules + "server-memory/dist/index.js", nil}.command(t, "memory", memory),
		nodeServer{file: "server-legacy.mjs"}.command(t, "ts-legacy"),
		onHTTP("ts-legacy-http", nodeServer{"server-legacy.mjs", []string{"PORT"}}.listening(t)+"/mcp"),
		nodeServer{file: "server-modern.mjs"}.command(t, "ts-modern"),
		onHTTP("ts-modern-http", nodeServer{"server-modern.mjs", []string{"PORT"}}.listening(t)+"/mcp"),
		onStdio("go-legacy", "legacy"), onStdio("go-modern", "modern"), onHTTP("go-http", startFake(t, freeAddress(t), "both").url),
	))
}

// Third-party servers of both eras, over all transports, work behind one gate: each of their tools
// is listed and responds, and questions are answered.
func TestRealServers(t *testing.T) {
	heavy(t)
	if _, err := node(t, "--version"); err != nil { // skips the test if Node is missing
		t.Fatal(err)
	}
	dir := folder(t, map[string]string{"a.txt": "a", "edited.txt": "edited", "moved.txt": "moved", "pixel.png": "\x89PNG"})
	p := serveReal(t, dir)
	seen := callEach(t, modernHTTP{t: t, url: p.url}, special(dir))
	for id, kind := range kinds {
		for _, name := range expected[kind] {
			if !slices.Contains(seen[id], name) {
				t.Errorf("%s does not show %s", id, name)
			}
		}
		if kind != "everything" {
			continue
		}
		for _, client := range []string{"ask-legacy.mjs", "ask-modern.mjs"} {
			out, err := node(t, script(t, client), p.url, "mcp_"+id+"__trigger-elicitation-request", "Ann")
			if err != nil || !strings.Contains(out, "User provided the requested information") {
				t.Errorf("%s, %s: %v %s", id, client, err, out)
			}
		}
	}
}

// callEach calls each of the servers' tools once and returns their names by server.
func callEach(t *testing.T, c client, arguments map[string]string) map[string][]string {
	t.Helper()
	seen := make(map[string][]string)
	for _, tool := range listSchemas(t, c) {
		id, name, _ := strings.Cut(strings.TrimPrefix(tool.Name, "mcp_"), "__")
		if name == "die" || name == "ask" {
			continue // one tool ends its server, and one needs a client that answers questions
		}
		seen[id] = append(seen[id], name)
		known := kinds[id] + "__" + name
		args, ok := arguments[known]
		if !ok {
			made, err := json.Marshal(tool.InputSchema.example())
			if err != nil {
				t.Fatal(err)
			}
			args = string(made)
		}
		switch m := call(t, c, tool.Name, args); {
		case m.Error != nil:
			t.Errorf("%s %s: error %d: %s", tool.Name, args, m.Error.Code, m.Error.Message)
		case m.result(t).IsError && !slices.Contains(mayFail, known):
			t.Errorf("%s %s: %.500s", tool.Name, args, m.Result)
		}
	}
	return seen
}
