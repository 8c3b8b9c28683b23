package upstream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/ident"
	"github.com/toolyard/toolyard/internal/base/jsonobject"
	"github.com/toolyard/toolyard/internal/base/spelling"
	"github.com/toolyard/toolyard/internal/sources/pin"
	"github.com/toolyard/toolyard/internal/trust/paramheader"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// definitions turns a server's definitions into tools, resources and prompts.
type definitions struct {
	*reporter
	handlers *conversations
	relay    *relay

	mu        sync.Mutex
	listed    []*definition
	pins      map[string]json.RawMessage // pins as last read
	sum       [32]byte                   // hash of the last listing
	complete  bool                       // whether the server has been listed at least once
	byRaw     map[string]*toolyard.Tool  // tools, keyed by their definition
	actions   map[string]*toolyard.Tool  // keyed by resources.read, prompts.get and completion.complete
	resources []*toolyard.Resource
	prompts   []*toolyard.Prompt
	problems  []toolyard.Problem // problems with the last listing
	notices   []toolyard.Problem // problems that do not concern a definition
	silent    bool               // whether the server has been silent for too long
}

func newDefinitions(r *reporter) *definitions {
	return &definitions{reporter: r, relay: newRelay(), byRaw: make(map[string]*toolyard.Tool), actions: make(map[string]*toolyard.Tool)}
}

// definition is a server's definition of a tool or a prompt.
type definition struct {
	key        string // key of its pin: a tool's name, or promptKey followed by a prompt's name
	name       string
	raw        json.RawMessage
	canonical  json.RawMessage  // nil if it is invalid
	tool       *toolyard.Tool   // nil for a prompt, or if withheld
	prompt     *toolyard.Prompt // nil for a tool, or if withheld
	reason     string           // why it is withheld
	fix        string
	unselected bool // withheld because the operator did not select it
	unapproved bool // withheld because it differs from the approved definition
	rejected   bool // whether an operator has rejected it
}

// promptKey is the prefix of prompts' pins. No tool name contains a slash.
const promptKey = "prompts/"

func (def *definition) isPrompt() bool { return strings.HasPrefix(def.key, promptKey) }

// isInvalid reports whether the definition is withheld because it cannot be approved.
func (def *definition) isInvalid() bool {
	return def.reason != "" && !def.unselected && !def.unapproved
}

// withhold records why a definition is not offered. The first reason is kept.
func (def *definition) withhold(reason, fix string) {
	if def.reason == "" {
		def.reason, def.fix = reason, fix
	}
	def.tool, def.prompt = nil, nil
}

// replaceRaw replaces the definition with an equivalent one. The tool is rebuilt only if the bytes
// have changed.
func (def *definition) replaceRaw(raw json.RawMessage) {
	if !bytes.Equal(def.raw, raw) {
		def.raw, def.tool, def.prompt = raw, nil, nil
	}
}

// applyIfChanged applies a listing from the server, and reports whether it differs from the last
// one.
func (d *definitions) applyIfChanged(l *listing) bool {
	sum := l.sum()
	d.mu.Lock()
	changed := d.sum != sum
	d.sum = sum
	d.mu.Unlock()
	if changed {
		d.apply(l)
		d.mu.Lock()
		d.complete = true
		d.mu.Unlock()
	}
	return changed
}

// forgetListing makes the next listing count as changed.
func (d *definitions) forgetListing() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sum = [32]byte{}
}

// wasListed reports whether the definitions come from the server itself, not from the pins.
func (d *definitions) wasListed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.complete
}

// apply builds the tools, resources and prompts in a listing and offers them.
func (d *definitions) apply(l *listing) {
	d.mu.Lock()
	d.notices = nil
	d.mu.Unlock()
	list := d.evaluate(l)
	resources, problems := d.resourcesOf(l)
	var prompts []*toolyard.Prompt
	for _, text := range l.problems {
		problems = append(problems, d.problem("", text, ""))
	}
	problems = append(problems, d.findProblems(list)...)
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.byRaw)
	for _, def := range list {
		if def.tool != nil {
			d.byRaw[string(def.raw)] = def.tool
		}
		if def.prompt != nil {
			prompts = append(prompts, def.prompt)
		}
	}
	d.listed, d.resources, d.prompts, d.problems = list, resources, prompts, problems
}

// evaluate checks definitions, compares them with the pins and builds tools and prompts. No
// schema is compiled before its definition is checked.
func (d *definitions) evaluate(l *listing) []*definition {
	list := make([]*definition, 0, len(l.tools)+len(l.prompts))
	for _, raw := range l.tools {
		list = append(list, &definition{key: text(raw, "name"), name: text(raw, "name"), raw: compact(raw)})
	}
	for _, raw := range l.prompts {
		list = append(list, &definition{key: promptKey + text(raw, "name"), name: text(raw, "name"), raw: compact(raw)})
	}
	for _, def := range list {
		err := def.check()
		if err == nil {
			err = d.build(def)
		}
		if err != nil {
			def.withhold(err.Error(), "Report this to the server's author, or exclude the tool from the server's tools setting.")
		}
	}
	d.withholdUnselected(list)
	withholdLookalikes(list)
	d.withholdUnapproved(list)
	for _, def := range list {
		if def.reason == "" {
			if err := d.build(def); err != nil { // builds from the approved bytes
				def.withhold(err.Error(), "Approve it again: toolyard approve "+d.opts.ID)
			}
		}
	}
	d.markRejected(list)
	return list
}

// compact removes white space from a definition, as is done for pins.
func compact(raw json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return raw
	}
	return b.Bytes()
}

// check rejects definitions that could mislead users or harm the yard.
func (def *definition) check() (err error) {
	switch {
	case len(def.raw) == 0 || def.raw[0] != '{':
		return errors.New("its definition is not an object")
	case len(def.raw) > maxDefinition:
		return fmt.Errorf("its definition is larger than %d KiB", maxDefinition>>10)
	case def.name == "" || len(def.name) > 128:
		return errors.New("its name is empty or longer than 128 bytes")
	}
	if err := untrusted.CheckJSONText(def.raw); err != nil {
		return err
	}
	def.canonical, err = pin.Canonical(def.raw)
	return err
}

// withholdUnselected withholds the tools that the operator did not select, if any are selected.
func (d *definitions) withholdUnselected(list []*definition) {
	for _, def := range list {
		if def.reason == "" && len(d.opts.Tools) > 0 && !def.isPrompt() && !slices.Contains(d.opts.Tools, def.name) {
			def.unselected = true
			def.withhold("it is not listed under tools in the server's configuration", "")
		}
	}
}

// withholdLookalikes withholds definitions with the same name, or with names that look alike.
func withholdLookalikes(list []*definition) {
	alike := make(map[string][]*definition)
	for _, def := range list {
		if def.name != "" && !def.unselected {
			key := strings.TrimSuffix(def.key, def.name) + untrusted.Skeleton(def.name)
			alike[key] = append(alike[key], def)
		}
	}
	for _, same := range alike {
		if len(same) == 1 {
			continue
		}
		for _, def := range same {
			other := same[0]
			if other == def {
				other = same[1]
			}
			if other.name == def.name {
				def.withhold("the server defines this name more than once", "Report this to the server's author.")
			} else {
				def.withhold("its name looks like "+untrusted.Quote(other.name), "List the correct tool under tools, or report this to the server's author.")
			}
		}
	}
}

// build builds a valid definition's tool or prompt, unless it exists.
func (d *definitions) build(def *definition) (err error) {
	if def.tool != nil || def.prompt != nil {
		return nil
	}
	if def.isPrompt() {
		def.prompt = &toolyard.Prompt{
			Server: d.opts.ID, Name: def.name, Definition: def.raw,
			Getter: d.action("prompts.get", d.handlers.getPrompt), Completer: d.action("completion.complete", d.handlers.complete),
		}
		return nil
	}
	if def.tool = d.toolOf(def.raw); def.tool == nil {
		def.tool, err = d.newTool(def)
	}
	return err
}

// toolOf returns the tool that was already built from a definition, or nil.
func (d *definitions) toolOf(raw json.RawMessage) *toolyard.Tool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.byRaw[string(raw)]
}

// specMembers are the members of a definition that correspond to a field of Spec.
var specMembers = []string{"name", "title", "description", "inputSchema", "outputSchema", "_meta"}

func (d *definitions) newTool(def *definition) (*toolyard.Tool, error) {
	spec := toolyard.Spec{
		Name: def.name, Server: d.opts.ID, Origin: "server " + d.opts.ID, Category: ident.ExternalCategory,
		Title: text(def.raw, "title"), Description: text(def.raw, "description"),
		Input: objectSchema(strictjson.Member(def.raw, "inputSchema")), Output: strictjson.Member(def.raw, "outputSchema"),
		Effects: d.opts.effects(def), Terms: d.opts.terms(d.opts.timeoutOf(def.name)),
	}
	if string(spec.Output) == "null" {
		spec.Output = nil
	}
	for key, value := range strictjson.Members(def.raw) {
		if !slices.Contains(specMembers, key) && (key != "icons" || safeIcons(value)) {
			if spec.Extra == nil {
				spec.Extra = make(map[string]json.RawMessage)
			}
			spec.Extra[key] = value
		}
	}
	if !d.opts.Trust {
		spec.Extra = withoutSafetyHints(spec.Extra)
	}
	meta := maps.Collect(strictjson.Members(strictjson.Member(def.raw, "_meta")))
	maps.DeleteFunc(meta, func(key string, _ json.RawMessage) bool { return strings.HasPrefix(key, reservedPrefix) })
	if err := spec.SetMeta(meta); err != nil {
		return nil, err
	}
	bindings, err := paramheader.Bindings(spec.Input)
	if err != nil {
		return nil, err
	}
	return toolyard.NewTool(spec, d.handlers.toolHandler(def.name, def.raw, bindings))
}

// action returns the tool that reads resources, gets prompts or completes arguments.
func (d *definitions) action(name string, h toolyard.Handler) *toolyard.Tool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.actions[name]; t != nil {
		return t
	}
	t, err := toolyard.NewTool(toolyard.Spec{
		Name: name, Server: d.opts.ID, Origin: "server " + d.opts.ID, Category: ident.ExternalCategory,
		Effects: toolyard.ReadOnly, Terms: d.opts.terms(d.opts.Timeout),
	}, h)
	if err != nil {
		panic(err) // the Spec is constant
	}
	d.actions[name] = t
	return t
}

// reservedPrefix is the prefix of metadata keys that only Toolyard may set.
const reservedPrefix = "dev.toolyard/"

// safeIcons reports whether clients may fetch all of the icons' URLs.
func safeIcons(icons json.RawMessage) bool {
	var list []struct{ Src string }
	return json.Unmarshal(icons, &list) == nil && !slices.ContainsFunc(list, func(i struct{ Src string }) bool {
		return !strings.HasPrefix(i.Src, "https://") && !strings.HasPrefix(i.Src, "data:image/")
	})
}

// objectSchema adds "type": "object" to an input schema that lacks it.
func objectSchema(schema json.RawMessage) json.RawMessage {
	if len(schema) < 2 || schema[0] != '{' || strictjson.Member(schema, "type") != nil {
		return schema
	}
	rest := strings.TrimLeft(string(schema[1:]), " \t\r\n")
	if rest[0] != '}' {
		rest = "," + rest
	}
	return json.RawMessage(`{"type":"object"` + rest)
}

// effects returns a tool's effects: those that the operator sets or, if the server is trusted,
// those that it declares.
func (o *Options) effects(def *definition) toolyard.Effects {
	effect, ok := o.Effects[def.name]
	if !ok {
		effect, ok = o.Effects["*"]
	}
	hint := string(strictjson.Member(strictjson.Member(def.raw, "annotations"), "readOnlyHint")) == "true"
	if effect == toolyard.Read || !ok && o.Trust && hint {
		return toolyard.ReadOnly
	}
	return ""
}

// withoutSafetyHints removes annotations that would make a tool look safer than one that declares
// nothing, because clients would assume that the yard vouches for them.
func withoutSafetyHints(extra map[string]json.RawMessage) map[string]json.RawMessage {
	annotations, ok := extra["annotations"]
	if !ok {
		return extra
	}
	b := []byte{'{'}
	for key, value := range strictjson.Members(annotations) {
		switch key + "=" + string(value) {
		case "readOnlyHint=true", "idempotentHint=true", "destructiveHint=false", "openWorldHint=false":
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(jsonobject.AppendString(b, key), ':'), value...)
	}
	extra = maps.Clone(extra)
	if extra["annotations"] = append(b, '}'); len(b) == 1 {
		delete(extra, "annotations")
	}
	return extra
}

// maxProblems limits how many problems are reported for one server.
const maxProblems = 50

// findProblems reports selected tools that are withheld, and configured tools that do not exist.
func (d *definitions) findProblems(list []*definition) (problems []toolyard.Problem) {
	var names []string
	for _, def := range list {
		if !def.isPrompt() {
			names = append(names, def.name)
		}
		if def.reason != "" && !def.unselected && !def.rejected {
			problems = append(problems, d.problem(untrusted.Quote(def.key), untrusted.Quote(def.key)+" is withheld: "+def.reason, def.fix))
		}
	}
	for _, setting := range []struct {
		key   string
		tools []string
	}{{"tools", d.opts.Tools}, {"effects", slices.Sorted(maps.Keys(d.opts.Effects))}, {"timeouts", slices.Sorted(maps.Keys(d.opts.Timeouts))}} {
		for _, tool := range setting.tools {
			if tool == "*" || slices.Contains(names, tool) {
				continue
			}
			fix := spelling.Fix(tool, names)
			problems = append(problems, d.problem(tool, setting.key+" refers to "+tool+", which the server does not have", fix))
		}
	}
	if extra := len(problems) - maxProblems; extra > 0 {
		problems = append(problems[:maxProblems], d.problem("", "and "+spelling.Count(extra, "more problem"), ""))
	}
	return problems
}

// expectResponse reports a problem and calls publish if the server has not responded after some
// time. The returned function clears or prevents the problem.
func (d *definitions) expectResponse(limit time.Duration, publish func()) (heard func()) {
	responded := false // guarded by d.mu
	timer := time.AfterFunc(limit, func() {
		d.mu.Lock()
		d.silent = !responded
		d.mu.Unlock()
		publish()
	})
	return func() {
		timer.Stop()
		d.mu.Lock()
		defer d.mu.Unlock()
		responded, d.silent = true, false
	}
}

// addNotice adds a problem that does not concern a definition. The next listing clears it.
func (d *definitions) addNotice(message, fix string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.notices = append(d.notices, d.problem("", message, fix))
}

func (d *definitions) tools() (tools []*toolyard.Tool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, def := range d.listed {
		if def.tool != nil {
			tools = append(tools, def.tool)
		}
	}
	return tools
}

func (d *definitions) listResources() []*toolyard.Resource {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.resources
}

func (d *definitions) listPrompts() []*toolyard.Prompt {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.prompts
}

func (d *definitions) listProblems() []toolyard.Problem {
	d.mu.Lock()
	defer d.mu.Unlock()
	problems := slices.Concat(d.notices, d.problems)
	if d.silent {
		problems = append(problems, d.problem("", "the server has not responded yet", "If this persists, run the server's command manually to see its output."))
	}
	return problems
}

// names returns the keys of all definitions.
func (d *definitions) names() (names []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, def := range d.listed {
		names = append(names, def.key)
	}
	return names
}

// find returns the definition with the given key, or nil.
func (d *definitions) find(key string) *definition {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := slices.IndexFunc(d.listed, func(def *definition) bool { return def.key == key }); i >= 0 {
		return d.listed[i]
	}
	return nil
}
