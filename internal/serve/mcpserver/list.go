package mcpserver

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"sort"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/toolyard/toolyard/internal/base/jsonobject"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/serve/offer"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

// listings maps each list method to its result member, the kind of its items and their encoder.
var listings = map[string]struct {
	member string
	kind   kind
	encode func(*gates.View, era) *list
}{
	"tools/list":               {"tools", toolKind, encodeTools},
	"prompts/list":             {"prompts", promptKind, encodePrompts},
	"resources/list":           {"resources", resourceKind, func(v *gates.View, _ era) *list { return encodeResources(v, false) }},
	"resources/templates/list": {"resourceTemplates", resourceKind, func(v *gates.View, _ era) *list { return encodeResources(v, true) }},
}

// pageSize is the number of definitions per page.
const pageSize = 1000

// list is an encoded list of definitions. A page is the range between two offsets.
type list struct {
	names   []string
	encoded []byte // {...},{...},
	offsets []int  // start of each definition, followed by the end of the last
}

// add appends a definition.
func (l *list) add(name string, write func([]byte) []byte) {
	l.names = append(l.names, name)
	l.offsets = append(l.offsets, len(l.encoded))
	l.encoded = append(write(l.encoded), ',')
}

// end completes the list.
func (l *list) end() *list {
	l.offsets = append(l.offsets, len(l.encoded))
	return l
}

// encodeTools encodes the meta-tools and the listed tools. A gate that lists every tool sorts both
// by name, because its pages are sorted by name. Other gates list the meta-tools first, on one page
// with the pinned tools.
func encodeTools(v *gates.View, e era) *list {
	tools, meta := v.Listed(), offer.Definitions(v.Gate)
	l := &list{names: make([]string, 0, len(tools)+len(meta)), offsets: make([]int, 0, len(tools)+len(meta)+1)}
	addMeta := func() {
		l.add(meta[0].Name, meta[0].AppendJSON)
		meta = meta[1:]
	}
	for _, t := range tools {
		for len(meta) > 0 && (!v.Gate.ListsAll() || meta[0].Name < t.Name) {
			addMeta()
		}
		l.add(t.Name, func(b []byte) []byte { return appendTool(b, t, e) })
	}
	for len(meta) > 0 {
		addMeta()
	}
	return l.end()
}

// encodePrompts encodes prompts under their names at the gate.
func encodePrompts(v *gates.View, _ era) *list {
	l := &list{}
	for _, p := range v.Prompts {
		definition := p.Definition
		if name := strictjson.Member(definition, "name"); name != nil {
			definition = apply(definition, []edit{replacement(definition, name, string(jsonobject.AppendString(nil, p.Name)))})
		}
		l.add(p.Name, func(b []byte) []byte { return appendCompact(b, definition) })
	}
	return l.end()
}

// encodeResources encodes either the resources or the templates.
func encodeResources(v *gates.View, templates bool) *list {
	l := &list{}
	for _, r := range listed(v) {
		if r.Template == templates {
			l.add(r.URI, func(b []byte) []byte { return appendCompact(b, r.Definition) })
		}
	}
	return l.end()
}

// privateList is the start of a list in the modern era. Lists depend on the gate and thus on the
// caller, so shared caches must not store them.
const privateList = `{"resultType":"complete","ttlMs":0,"cacheScope":"private","_meta":{`

// listResult encodes a page of a list.
func (g *gate) listResult(v *view, e era, method, cursor string) ([]byte, *jsonrpc.Error) {
	items, next, ok := v.lists[method][e]().page(cursor)
	if !ok {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "unknown cursor"}
	}
	b, down := make([]byte, 0, len(items)+512), g.down(v)
	switch {
	case e == modernEra:
		b = append(append(append(b, privateList...), g.server.serverInfo...), down...)
		b = append(b, "},"...)
	case down != "":
		b = append(append(append(b, `{"_meta":{`...), down[1:]...), "},"...)
	default:
		b = append(b, '{')
	}
	if next != nil {
		b = append(append(append(b, `"nextCursor":"`...), next...), `",`...)
	}
	b = append(append(append(b, '"'), listings[method].member...), `":[`...)
	return append(append(b, items...), "]}"...), nil
}

// metaDown is the _meta member that lists the unavailable servers.
const metaDown = "dev.toolyard/down"

// down returns a comma and the _meta member that lists the view's unavailable servers, or "" if
// there are none.
func (g *gate) down(v *view) string {
	if g.server.opts.Down == nil {
		return ""
	}
	ids := slices.DeleteFunc(g.server.opts.Down(), func(id string) bool { return !v.Gate.ShowsServer(id) })
	if len(ids) == 0 {
		return ""
	}
	names, _ := json.Marshal(ids) // cannot fail
	return `,"` + metaDown + `":` + string(names)
}

// page returns the items after a cursor and the next cursor, or nil at the end. A cursor contains
// the name of the last item, so it stays valid when the list changes.
func (l *list) page(cursor string) (items []byte, next []byte, ok bool) {
	last, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return nil, nil, false
	}
	from := sort.SearchStrings(l.names, string(last)+"\x00")
	if len(last) == 0 {
		from = 0
	}
	to := min(from+pageSize, len(l.names))
	items = bytes.TrimSuffix(l.encoded[l.offsets[from]:l.offsets[to]], []byte(","))
	if to < len(l.names) {
		next = base64.RawURLEncoding.AppendEncode(nil, []byte(l.names[to-1]))
	}
	return items, next, true
}

// appendTool encodes a tool's definition.
func appendTool(b []byte, t gates.NamedTool, e era) []byte {
	b = append(b, `{"name":`...)
	b = jsonobject.AppendString(b, t.Name)
	if t.Title != "" {
		b = jsonobject.AppendString(append(b, `,"title":`...), t.Title)
	}
	if d := cmp.Or(t.Description, t.Summary) + t.Note; d != "" {
		b = jsonobject.AppendString(append(b, `,"description":`...), d)
	}
	b = append(b, `,"inputSchema":`...)
	b = appendCompact(b, t.CallerInput())
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

// appendExtra appends a definition's other members, and the annotation for read-only tools.
func appendExtra(b []byte, t gates.NamedTool) []byte {
	extra := t.Extra
	if t.IsReadOnly() && string(strictjson.Member(extra["annotations"], "readOnlyHint")) != "true" {
		hints := maps.Collect(strictjson.Members(extra["annotations"]))
		hints["readOnlyHint"] = json.RawMessage("true")
		extra = maps.Clone(extra)
		if extra == nil {
			extra = map[string]json.RawMessage{}
		}
		extra["annotations"] = appendMembers(nil, hints)
	}
	for _, key := range slices.Sorted(maps.Keys(extra)) {
		b = append(jsonobject.AppendString(append(b, ','), key), ':')
		b = appendCompact(b, extra[key])
	}
	return b
}

// isObjectSchema reports whether a schema describes an object. The legacy era requires this of
// output schemas.
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

// appendMembers encodes an object with sorted keys.
func appendMembers(b []byte, members map[string]json.RawMessage) []byte {
	b = append(b, '{')
	for i, k := range slices.Sorted(maps.Keys(members)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(jsonobject.AppendString(b, k), ':')
		b = append(b, members[k]...)
	}
	return append(b, '}')
}
