package offer

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/jsonobject"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// Signature is a tool's definition as TypeScript. It needs about a quarter of the tokens of the
// corresponding JSON Schema.
type Signature struct {
	Params   string // arguments on one line: "city: string; days?: number"
	Complete bool   // Params covers the whole schema
	Purpose  string // first sentence of the description
	long     func() string
}

// Long returns the multi-line signature, including the arguments' descriptions but not the tool's
// name: "(args: {...}): {...}".
func (s *Signature) Long() string { return s.long() }

// Signatures compiles signatures and caches them by definition. It is safe for concurrent use.
type Signatures struct {
	mu       sync.RWMutex
	byDigest map[[32]byte]*Signature
}

// maxSignatures is the maximum size of the cache. When it is full, it is emptied.
const maxSignatures = 40_000

// Of returns a tool's signature.
func (s *Signatures) Of(t *toolyard.Tool) *Signature {
	digest := t.Digest()
	s.mu.RLock()
	found := s.byDigest[digest]
	s.mu.RUnlock()
	if found != nil {
		return found
	}
	made := Compile(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byDigest == nil || len(s.byDigest) >= maxSignatures {
		s.byDigest = make(map[[32]byte]*Signature)
	}
	s.byDigest[digest] = made
	return made
}

// Hint returns a tool's signature, for a model that called the tool with invalid arguments without
// seeing its schema.
func (s *Signatures) Hint(name string, t *toolyard.Tool) string {
	signature := s.Of(t)
	if !signature.Complete {
		return name + signature.Long()
	}
	return name + "(" + signature.Params + ")"
}

// Limits on a one-line signature.
const (
	maxParams   = 320 // bytes; exceeded only if the names of required arguments alone are longer
	maxRequired = 64  // number of required arguments that are named
	maxPurpose  = 120 // characters
)

// The levels of detail.
var (
	lineDetail  = detail{depth: 3, enum: 8, nodes: 256}
	briefDetail = detail{depth: 0, enum: 8, nodes: 256}
	longDetail  = detail{depth: 8, enum: 64, nodes: 2048, comments: true}
)

// Compile returns a tool's signature. Tools with equal definitions have equal signatures.
func Compile(t *toolyard.Tool) *Signature {
	s := &Signature{Purpose: firstSentence(cmp.Or(t.Summary, t.Description, t.Title))}
	s.Params, s.Complete = compileLine(t.CallerInput())
	input, output := t.CallerInput(), t.Output
	s.long = sync.OnceValue(func() string { return compileLong(input, output) })
	return s
}

// compileLine compiles the arguments to one line. If the line is too long, it omits members of
// objects first, then optional arguments, then the types of required arguments.
func compileLine(schema json.RawMessage) (params string, complete bool) {
	c := newCompiler(schema, lineDetail)
	fields := c.fields(schema, 0)
	if lengthOf(fields) > maxParams {
		c.detail, c.nodes = briefDetail, briefDetail.nodes
		fields, c.partial = c.fields(schema, 0), true
	}
	required := slices.IndexFunc(fields, func(f field) bool { return f.optional })
	if required < 0 {
		required = len(fields)
	}
	for lengthOf(fields) > maxParams && len(fields) > required {
		fields = fields[:len(fields)-1]
	}
	if len(fields) > maxRequired {
		fields = fields[:maxRequired]
	}
	if lengthOf(fields) > maxParams {
		for i := range fields {
			fields[i].kind = "unknown"
		}
	}
	texts := make([]string, len(fields))
	for i, f := range fields {
		texts[i] = f.String()
	}
	return strings.Join(texts, "; "), !c.partial
}

func lengthOf(fields []field) (n int) {
	for _, f := range fields {
		n += len(f.key) + len(f.kind) + len("?: ; ")
	}
	return n
}

// maxSchema is the maximum size of a JSON Schema that is appended to a signature that cannot
// express it.
const maxSchema = 8 << 10

// compileLong compiles the arguments and the result with comments.
func compileLong(input, output json.RawMessage) string {
	c := newCompiler(input, longDetail)
	text := "(args: " + c.object(input, 0).text + ")"
	partial := c.partial
	if len(output) > 0 {
		o := newCompiler(output, longDetail)
		text += ": " + o.kind(output, 0).text
	}
	text += ";"
	if partial && len(input) <= maxSchema {
		if compact, err := jsonobject.Marshal(input); err == nil {
			text += "\n// JSON Schema of args: " + escape(string(compact))
		}
	}
	return text
}

// detail limits how much of a schema is shown.
type detail struct {
	depth    int // nesting depth of objects
	enum     int // number of enum values
	nodes    int // number of schemas to read
	comments bool
}

// compiler converts one schema to a TypeScript type.
type compiler struct {
	detail
	definitions map[string]map[string]json.RawMessage // by location, such as $defs
	root        json.RawMessage
	level       int  // nesting level of the schema being read
	partial     bool // something was omitted
}

func newCompiler(root json.RawMessage, d detail) *compiler {
	return &compiler{detail: d, root: root}
}

// kind is a TypeScript type. A compound type needs parentheses in an array type.
type kind struct {
	text     string
	compound bool
}

var (
	unknown = kind{text: "unknown"}
	simple  = map[string]string{"string": "string", "number": "number", "integer": "number", "boolean": "boolean", "null": "null"}

	// inexpressible lists keywords that a signature cannot show.
	inexpressible = []string{
		"not", "if", "patternProperties", "propertyNames", "dependentSchemas", "dependentRequired", "dependencies",
		"contains", "unevaluatedProperties", "unevaluatedItems", "$dynamicRef", "$recursiveRef",
	}
)

const (
	maxLevel  = 16 // nesting level of schemas
	maxUnion  = 8
	maxMember = 128 // bytes of a name or value
)

// kind returns the type of the values that match a schema.
func (c *compiler) kind(schema json.RawMessage, depth int) kind {
	c.nodes--
	c.level++
	defer func() { c.level-- }()
	if c.nodes < 0 || c.level > maxLevel {
		c.partial = true
		return unknown
	}
	s, ok := jsonobject.Map(schema)
	if !ok {
		if string(schema) == "false" {
			return kind{text: "never"}
		}
		return unknown
	}
	for _, keyword := range inexpressible {
		c.partial = c.partial || s[keyword] != nil
	}
	var parts []kind
	if own := c.own(schema, s, depth); own.text != "" {
		parts = append(parts, own)
	}
	if s["$ref"] != nil {
		parts = append(parts, c.reference(s["$ref"], depth))
	}
	for _, word := range []string{"anyOf", "oneOf"} {
		if s[word] != nil {
			parts = append(parts, c.union(s[word], depth))
		}
	}
	parts = append(parts, c.list(s["allOf"], depth)...)
	return join(parts, " & ")
}

// own returns the type that a schema declares itself, ignoring references and branches, or the zero
// kind if it declares none.
func (c *compiler) own(schema json.RawMessage, s map[string]json.RawMessage, depth int) kind {
	switch {
	case s["const"] != nil:
		return c.values([]json.RawMessage{s["const"]}, s)
	case s["enum"] != nil:
		var list []json.RawMessage
		_ = json.Unmarshal(s["enum"], &list) // an invalid list is treated as empty
		return c.values(list, s)
	}
	return c.typed(schema, s, depth)
}

// values returns the type for a list of constants.
func (c *compiler) values(list []json.RawMessage, s map[string]json.RawMessage) kind {
	var parts []kind
	for _, value := range list {
		text, ok := literal(value)
		if !ok || len(parts) == c.enum {
			c.partial = true
			return c.typed(nil, s, c.depth+1)
		}
		parts = append(parts, kind{text: text})
	}
	return join(parts, " | ")
}

// literal returns a constant as a TypeScript literal if it is short and scalar.
func literal(value json.RawMessage) (string, bool) {
	if text, ok := jsonobject.String(value); ok {
		return quote(text), len(text) <= maxMember
	}
	kind := jsonobject.Kind(value)
	return string(value), kind != '{' && kind != '[' && len(value) > 0 && len(value) <= 24
}

// typed returns the type declared by the type keyword, or implied by other keywords.
func (c *compiler) typed(schema json.RawMessage, s map[string]json.RawMessage, depth int) kind {
	var names []string
	if name, ok := jsonobject.String(s["type"]); ok {
		names = []string{name}
	} else {
		_ = json.Unmarshal(s["type"], &names) // an invalid list is treated as empty
	}
	if len(names) == 0 {
		switch {
		case s["properties"] != nil:
			names = []string{"object"}
		case s["items"] != nil || s["prefixItems"] != nil:
			names = []string{"array"}
		}
	}
	var parts []kind
	for _, name := range names[:min(len(names), maxUnion)] {
		switch name {
		case "object":
			parts = append(parts, c.object(schema, depth))
		case "array":
			parts = append(parts, c.array(s, depth))
		default:
			parts = append(parts, kind{text: cmp.Or(simple[name], "unknown")})
		}
	}
	if len(parts) == 0 {
		return kind{}
	}
	return join(parts, " | ")
}

// array returns the type of an array or a tuple.
func (c *compiler) array(s map[string]json.RawMessage, depth int) kind {
	if items := c.list(s["prefixItems"], depth); len(items) > 0 {
		texts := make([]string, len(items))
		for i, item := range items {
			texts[i] = item.text
		}
		return kind{text: "[" + strings.Join(texts, ", ") + ", ...unknown[]]"}
	}
	if s["items"] == nil || jsonobject.Kind(s["items"]) == '[' {
		return kind{text: "unknown[]"}
	}
	item := c.kind(s["items"], depth)
	if item.compound {
		item.text = "(" + item.text + ")"
	}
	return kind{text: item.text + "[]"}
}

// list returns the types for a list of schemas.
func (c *compiler) list(raw json.RawMessage, depth int) (kinds []kind) {
	var schemas []json.RawMessage
	_ = json.Unmarshal(raw, &schemas) // an invalid list is treated as empty
	if len(schemas) > maxUnion {
		schemas, c.partial = schemas[:maxUnion], true
	}
	for _, schema := range schemas {
		kinds = append(kinds, c.kind(schema, depth))
	}
	return kinds
}

func (c *compiler) union(raw json.RawMessage, depth int) kind { return join(c.list(raw, depth), " | ") }

// join combines types. It adds parentheses around compound parts.
func join(parts []kind, operator string) kind {
	var texts []string
	for _, p := range parts {
		if p.compound && len(parts) > 1 {
			p.text = "(" + p.text + ")"
		}
		if !slices.Contains(texts, p.text) {
			texts = append(texts, p.text)
		}
	}
	switch len(texts) {
	case 0:
		return unknown
	case 1:
		return kind{texts[0], len(parts) == 1 && parts[0].compound}
	}
	return kind{strings.Join(texts, operator), true}
}

// reference returns the type for a definition in the same schema.
func (c *compiler) reference(raw json.RawMessage, depth int) kind {
	ref, _ := jsonobject.String(raw)
	for _, place := range []string{"$defs", "definitions"} {
		name, ok := strings.CutPrefix(ref, "#/"+place+"/")
		if !ok {
			continue
		}
		if target := c.definition(place, strings.NewReplacer("~1", "/", "~0", "~").Replace(name)); target != nil {
			return c.kind(target, depth)
		}
	}
	c.partial = true
	return unknown
}

func (c *compiler) definition(place, name string) json.RawMessage {
	if c.definitions == nil {
		c.definitions = make(map[string]map[string]json.RawMessage)
	}
	if c.definitions[place] == nil {
		root, _ := jsonobject.Map(c.root)
		c.definitions[place], _ = jsonobject.Map(root[place])
	}
	return c.definitions[place][name]
}

// object returns the type of an object.
func (c *compiler) object(schema json.RawMessage, depth int) kind {
	s, _ := jsonobject.Map(schema)
	if depth > 0 && depth > c.depth {
		c.partial = c.partial || s["properties"] != nil || s["$ref"] != nil || schema == nil
		return kind{text: "object"}
	}
	fields := c.fields(schema, depth)
	rest := s["additionalProperties"]
	switch {
	case len(fields) > 0:
		return kind{text: c.braces(fields, depth)}
	case string(rest) == "false":
		return kind{text: "{}"}
	case jsonobject.Kind(rest) == '{':
		return kind{text: "Record<string, " + c.kind(rest, depth+1).text + ">"}
	case depth == 0:
		return kind{text: "{}"}
	}
	return kind{text: "object"}
}

// braces writes an object type, either on one line or on several lines with comments.
func (c *compiler) braces(fields []field, depth int) string {
	var b strings.Builder
	b.WriteByte('{')
	indent := "\n" + strings.Repeat("  ", depth+1)
	for i, f := range fields {
		switch {
		case c.comments && f.comment != "":
			b.WriteString(indent + "/** " + f.comment + " */" + indent)
		case c.comments:
			b.WriteString(indent)
		case i > 0:
			b.WriteByte(' ')
		}
		b.WriteString(f.String())
		if c.comments || i < len(fields)-1 {
			b.WriteByte(';')
		}
	}
	if c.comments {
		b.WriteString(indent[:len(indent)-len("  ")])
	}
	b.WriteByte('}')
	return b.String()
}

// field is a member of an object.
type field struct {
	key, kind string
	optional  bool
	comment   string
}

func (f field) String() string {
	if f.optional {
		return f.key + "?: " + f.kind
	}
	return f.key + ": " + f.kind
}

// fields returns an object's members: required members in the order of the schema, then optional
// members sorted by name.
func (c *compiler) fields(schema json.RawMessage, depth int) (fields []field) {
	s, _ := jsonobject.Map(schema)
	if depth == 0 {
		for _, keyword := range append([]string{"anyOf", "oneOf", "allOf", "$ref"}, inexpressible...) {
			c.partial = c.partial || s[keyword] != nil
		}
	}
	properties, _ := jsonobject.Members(s["properties"])
	var names []string
	_ = json.Unmarshal(s["required"], &names) // an invalid list is treated as empty
	required := make(map[string]bool, len(names))
	for _, name := range names {
		required[name] = true
	}
	var optional []field
	for _, p := range properties {
		f, ok := c.field(p.Key, p.Value, depth)
		if !ok {
			continue
		}
		if f.optional = !required[p.Key]; f.optional {
			optional = append(optional, f)
		} else {
			fields = append(fields, f)
		}
		delete(required, p.Key)
	}
	for _, name := range slices.Sorted(maps.Keys(required)) {
		if f, ok := c.field(name, json.RawMessage("{}"), depth); ok {
			fields = append(fields, f)
		}
	}
	slices.SortStableFunc(optional, func(a, b field) int { return cmp.Compare(a.key, b.key) })
	return append(fields, optional...)
}

func (c *compiler) field(name string, schema json.RawMessage, depth int) (field, bool) {
	if len(name) > maxMember {
		c.partial = true
		return field{}, false
	}
	f := field{key: quoteKey(name), kind: c.kind(schema, depth+1).text}
	if c.comments {
		f.comment = comment(schema)
	}
	return f, true
}

// identifier matches member names that don't need quotes.
var identifier = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$]*$`)

func quoteKey(name string) string {
	if identifier.MatchString(name) {
		return name
	}
	return quote(name)
}

// quote returns a string literal in which all characters are visible.
func quote(s string) string {
	return `"` + escape(strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s)) + `"`
}

// escape replaces characters that are not visible on one line with escape sequences that are valid
// in JSON and TypeScript.
func escape(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case ' ' <= r && r <= '~', r > '~' && unicode.IsPrint(r) && untrusted.CheckText(string(r)) == nil:
			b.WriteRune(r)
		case r > 0xFFFF:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// Limits on an argument's comment.
const (
	maxComment = 300 // characters
	maxDefault = 20  // bytes
)

// bounds lists the keywords whose values are shown in comments.
var bounds = []struct{ keyword, word string }{
	{"format", "Format"},
	{"pattern", "Pattern"},
	{"minimum", "Minimum"},
	{"maximum", "Maximum"},
	{"exclusiveMinimum", "Greater than"},
	{"exclusiveMaximum", "Less than"},
	{"minLength", "Minimum length"},
	{"maxLength", "Maximum length"},
	{"minItems", "Minimum items"},
	{"maxItems", "Maximum items"},
	{"default", "Default"},
}

// comment returns an argument's description, default and bounds on one line.
func comment(schema json.RawMessage) string {
	s, _ := jsonobject.Map(schema)
	description, _ := jsonobject.String(s["description"])
	var parts []string
	if text := untrusted.TruncateRunes(oneLine(description), maxComment); text != "" {
		parts = append(parts, text)
	}
	for _, b := range bounds {
		value := string(s[b.keyword])
		if value == "" || len(value) > 2*maxDefault || b.keyword == "default" && len(value) > maxDefault {
			continue
		}
		parts = append(parts, b.word+": "+oneLine(escape(value))+".")
	}
	return strings.ReplaceAll(strings.Join(parts, " "), "*/", "* /")
}

// oneLine puts an untrusted text on one line and makes all characters visible.
func oneLine(s string) string { return strings.Join(strings.Fields(untrusted.Visible(s)), " ") }

// abbreviations lists words whose period does not end a sentence.
var abbreviations = []string{"e.g.", "i.e.", "etc.", "vs.", "approx.", "no."}

// firstSentence returns the first sentence of a description on one line.
func firstSentence(description string) string {
	text := oneLine(untrusted.Prefix(description, 4*maxPurpose+1<<10))
	for i := 0; i < len(text); i++ {
		if !strings.ContainsRune(".!?", rune(text[i])) || i+1 < len(text) && text[i+1] != ' ' {
			continue
		}
		last := text[strings.LastIndexByte(text[:i], ' ')+1 : i+1]
		if !slices.Contains(abbreviations, strings.ToLower(strings.TrimLeft(last, "("))) {
			text = text[:i+1]
			break
		}
	}
	return untrusted.TruncateRunes(text, maxPurpose)
}
