package mcpserve

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/guard"
)

// gate is one gate for as long as it exists. What it shows is swapped as a whole.
type gate struct {
	server *Server
	legacy *legacy
	view   atomic.Pointer[view]
	closed chan struct{}
}

// view is a toolyard.View with what was encoded of it.
type view struct {
	*toolyard.View
	next  chan struct{} // closed when the tools have changed
	lists [2]func() *list
	binds func() map[*toolyard.Tool][]headerBinding
}

func newGate(s *Server) *gate {
	g := &gate{server: s, closed: make(chan struct{})}
	g.legacy = newLegacy(g)
	return g
}

// shown is what the gate shows now, nil before anything.
func (g *gate) shown() *toolyard.View {
	if v := g.view.Load(); v != nil {
		return v.View
	}
	return nil
}

func (g *gate) close() {
	close(g.closed)
	g.legacy.close()
}

// show swaps what the gate shows, and tells its callers if the tools differ.
func (g *gate) show(v *toolyard.View) {
	old := g.view.Load()
	next := &view{View: v}
	same := old != nil && slices.EqualFunc(old.Tools, v.Tools, sameDefinition)
	if same {
		next.next, next.lists = old.next, old.lists
	} else {
		next.next = make(chan struct{})
		for e := range next.lists {
			next.lists[e] = sync.OnceValue(func() *list { return encodeList(v.Tools, era(e)) })
		}
	}
	next.binds = sync.OnceValue(func() map[*toolyard.Tool][]headerBinding { return bindHeaders(v.Tools) })
	g.view.Store(next)
	if old != nil && !same {
		close(old.next)
		g.legacy.notify()
	}
}

// sameDefinition reports whether callers see no difference between two tools.
func sameDefinition(a, b toolyard.Bound) bool {
	return a.Name == b.Name && a.Note == b.Note && (a.Tool == b.Tool || a.Digest() == b.Digest())
}

// era is one of the two wires of MCP.
type era int

const (
	legacyEra era = iota
	modernEra
)

// pageSize is the number of tools in one page of tools/list.
const pageSize = 1000

// list is the tools of a view, encoded once: page i is the bytes between two offsets.
type list struct {
	names   []string
	encoded []byte // {...},{...},
	offsets []int  // where each tool begins, and the end
}

func encodeList(tools []toolyard.Bound, e era) *list {
	l := &list{names: make([]string, 0, len(tools)), offsets: make([]int, 0, len(tools)+1)}
	for _, t := range tools {
		l.names = append(l.names, t.Name)
		l.offsets = append(l.offsets, len(l.encoded))
		l.encoded = append(appendTool(l.encoded, t, e), ',')
	}
	l.offsets = append(l.offsets, len(l.encoded))
	return l
}

// page is the array of tools after the cursor, and the cursor of the next page, nil
// at the end. A cursor is the name of the last tool seen, so that it outlives a change
// of the tools.
func (l *list) page(cursor string) (tools []byte, next []byte, ok bool) {
	last, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return nil, nil, false
	}
	from := sort.SearchStrings(l.names, string(last)+"\x00")
	if len(last) == 0 {
		from = 0
	}
	to := min(from+pageSize, len(l.names))
	tools = bytes.TrimSuffix(l.encoded[l.offsets[from]:l.offsets[to]], []byte(","))
	if to < len(l.names) {
		next = base64.RawURLEncoding.AppendEncode(nil, []byte(l.names[to-1]))
	}
	return tools, next, true
}

// appendTool appends the definition of a tool.
func appendTool(b []byte, t toolyard.Bound, e era) []byte {
	b = append(b, `{"name":`...)
	b = toolyard.AppendJSONString(b, t.Name)
	if t.Title != "" {
		b = toolyard.AppendJSONString(append(b, `,"title":`...), t.Title)
	}
	if d := cmp.Or(t.Description, t.Summary) + t.Note; d != "" {
		b = toolyard.AppendJSONString(append(b, `,"description":`...), d)
	}
	b = append(b, `,"inputSchema":`...)
	b = appendCompact(b, t.Input)
	if len(t.Output) > 0 && (e == modernEra || isObjectSchema(t.Output)) {
		b = append(b, `,"outputSchema":`...)
		b = appendCompact(b, t.Output)
	}
	b = appendExtra(b, t)
	if meta := t.AllMeta(); len(meta) > 0 {
		b = append(b, `,"_meta":`...)
		b = appendMembers(b, meta)
	}
	return append(b, '}')
}

// appendExtra appends the members of a definition that we only pass on. That a tool reads
// only is said among its annotations.
func appendExtra(b []byte, t toolyard.Bound) []byte {
	extra := t.Extra
	if t.ReadsOnly() && string(member(extra["annotations"], "readOnlyHint")) != "true" {
		hints := map[string]json.RawMessage{}
		for key, value := range guard.Members(extra["annotations"]) {
			hints[key] = value
		}
		hints["readOnlyHint"] = json.RawMessage("true")
		extra = maps.Clone(extra)
		if extra == nil {
			extra = map[string]json.RawMessage{}
		}
		extra["annotations"] = appendMembers(nil, hints)
	}
	for _, key := range slices.Sorted(maps.Keys(extra)) {
		b = append(toolyard.AppendJSONString(append(b, ','), key), ':')
		b = appendCompact(b, extra[key])
	}
	return b
}

// isObjectSchema reports whether a schema describes an object, which is all that the
// legacy era takes for an output.
func isObjectSchema(schema json.RawMessage) bool {
	var root struct {
		Type any `json:"type"`
	}
	return json.Unmarshal(schema, &root) == nil && root.Type == "object"
}

func appendCompact(b []byte, raw json.RawMessage) []byte {
	buf := bytes.NewBuffer(b)
	if json.Compact(buf, raw) != nil {
		return append(b, raw...)
	}
	return buf.Bytes()
}

// appendMembers appends an object, its keys in order.
func appendMembers(b []byte, members map[string]json.RawMessage) []byte {
	b = append(b, '{')
	for i, k := range slices.Sorted(maps.Keys(members)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(toolyard.AppendJSONString(b, k), ':')
		b = append(b, members[k]...)
	}
	return append(b, '}')
}

// capabilities are what every gate offers. Prompts and resources are declared although
// their lists are empty until a source has some: a session cannot learn of them later.
func capabilities() *mcp.ServerCapabilities {
	return &mcp.ServerCapabilities{
		Tools:     &mcp.ToolCapabilities{ListChanged: true},
		Prompts:   &mcp.PromptCapabilities{},
		Resources: &mcp.ResourceCapabilities{},
		Logging:   &mcp.LoggingCapabilities{}, //nolint:staticcheck // deprecated, not gone
	}
}
