package upstream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/jsonobject"
	"github.com/toolyard/toolyard/internal/sources/pin"
	"github.com/toolyard/toolyard/internal/trust/paramheader"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// offered is a tool or a prompt as a server defines it, and what we made of it.
type offered struct {
	key       string // what it is approved by: the name of a tool, or promptKey and that of a prompt
	name      string
	raw       json.RawMessage
	canonical json.RawMessage  // nil if it cannot be used
	tool      *toolyard.Tool   // nil if it is withheld
	prompt    *toolyard.Prompt // the same for a prompt
	why       string           // why it is withheld
	fix       string
	unwanted  bool // it is withheld because the operator did not name it
	unpinned  bool // it is withheld because it is not as it was approved
	rejected  bool // somebody has decided that it stays withheld
}

// promptKey begins what a prompt is approved by. No tool has such a name.
const promptKey = "prompts/"

func (o *offered) isPrompt() bool { return strings.HasPrefix(o.key, promptKey) }

// refused reports whether it is withheld because it is not fit to be approved.
func (o *offered) refused() bool { return o.why != "" && !o.unwanted && !o.unpinned }

// withhold notes why something is not offered; the first reason stands.
func (o *offered) withhold(why, fix string) {
	if o.why == "" {
		o.why, o.fix = why, fix
	}
	o.tool, o.prompt = nil, nil
}

// use takes another definition that means the same. What was made of the old one is made
// anew only if the bytes differ.
func (o *offered) use(raw json.RawMessage) {
	if !bytes.Equal(o.raw, raw) {
		o.raw, o.tool, o.prompt = raw, nil, nil
	}
}

// define makes tools and prompts of definitions. Nothing of a stranger's schema is compiled
// before it is checked, and nothing is offered that is not as it was when it was approved.
func (v *Server) define(l *listing) []*offered {
	list := make([]*offered, 0, len(l.tools)+len(l.prompts))
	for _, raw := range l.tools {
		list = append(list, &offered{key: text(raw, "name"), name: text(raw, "name"), raw: compact(raw)})
	}
	for _, raw := range l.prompts {
		list = append(list, &offered{key: promptKey + text(raw, "name"), name: text(raw, "name"), raw: compact(raw)})
	}
	for _, o := range list {
		err := o.check()
		if err == nil {
			err = v.make(o)
		}
		if err != nil {
			o.withhold(err.Error(), "Tell its author, or leave it out.")
		}
	}
	v.pick(list)
	keepApart(list)
	v.comparePins(list)
	for _, o := range list {
		if o.why == "" {
			if err := v.make(o); err != nil { // of what was approved
				o.withhold(err.Error(), "Approve it anew: toolyard approve "+v.opts.ID)
			}
		}
	}
	v.markRejected(list)
	return list
}

// compact is a definition without white space, as the pins have it.
func compact(raw json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return raw
	}
	return b.Bytes()
}

// make makes the tool or the prompt of a definition that was checked, unless it is there.
func (v *Server) make(o *offered) (err error) {
	if o.tool != nil || o.prompt != nil {
		return nil
	}
	if o.isPrompt() {
		o.prompt = &toolyard.Prompt{
			Server: v.opts.ID, Name: o.name, Definition: o.raw,
			Getter: v.action("prompts.get", v.getPrompt), Completer: v.action("completion.complete", v.complete),
		}
		return nil
	}
	if o.tool = v.madeOf(o.raw); o.tool == nil {
		o.tool, err = v.tool(o)
	}
	return err
}

// pick withholds the tools that the operator did not name, if some are named.
func (v *Server) pick(list []*offered) {
	for _, o := range list {
		if o.why == "" && len(v.opts.Tools) > 0 && !o.isPrompt() && !slices.Contains(v.opts.Tools, o.name) {
			o.unwanted = true
			o.withhold("tools in the configuration of the server does not name it", "")
		}
	}
}

// check refuses what could mislead people or harm us.
func (o *offered) check() (err error) {
	switch {
	case len(o.raw) == 0 || o.raw[0] != '{':
		return errors.New("its definition is no object")
	case len(o.raw) > maxDefinition:
		return fmt.Errorf("its definition has more than %d KiB", maxDefinition>>10)
	case o.name == "" || len(o.name) > 128:
		return errors.New("it has no name, or a long one")
	}
	if err := untrusted.CheckJSONText(o.raw); err != nil {
		return err
	}
	o.canonical, err = pin.Canonical(o.raw)
	return err
}

// keepApart withholds tools that have one name, or names that look alike.
func keepApart(list []*offered) {
	alike := make(map[string][]*offered)
	for _, o := range list {
		if o.name != "" && !o.unwanted {
			key := strings.TrimSuffix(o.key, o.name) + untrusted.Skeleton(o.name)
			alike[key] = append(alike[key], o)
		}
	}
	for _, same := range alike {
		if len(same) == 1 {
			continue
		}
		for _, o := range same {
			other := same[0]
			if other == o {
				other = same[1]
			}
			if other.name == o.name {
				o.withhold("the server has two of this name", "Tell its author.")
			} else {
				o.withhold("its name looks like that of "+untrusted.Quote(other.name), "Name the one that is meant in tools, or tell its author.")
			}
		}
	}
}

// madeOf is the tool that was made of a definition before.
func (v *Server) madeOf(definition json.RawMessage) *toolyard.Tool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.made[string(definition)]
}

// known are the members of a definition that have a place in a Spec.
var known = []string{"name", "title", "description", "inputSchema", "outputSchema", "_meta"}

// tool makes the tool of a definition that was checked.
func (v *Server) tool(o *offered) (*toolyard.Tool, error) {
	spec := toolyard.Spec{
		Name: o.name, Server: v.opts.ID, Origin: "server " + v.opts.ID, Category: "external",
		Title: text(o.raw, "title"), Description: text(o.raw, "description"),
		Input: objectSchema(strictjson.Member(o.raw, "inputSchema")), Output: strictjson.Member(o.raw, "outputSchema"),
		Effects: v.effects(o), Timeout: v.timeout(o.name), Bounds: v.opts.Bounds,
	}
	if string(spec.Output) == "null" {
		spec.Output = nil
	}
	for key, value := range strictjson.Members(o.raw) {
		if !slices.Contains(known, key) && (key != "icons" || safeIcons(value)) {
			if spec.Extra == nil {
				spec.Extra = make(map[string]json.RawMessage)
			}
			spec.Extra[key] = value
		}
	}
	if !v.opts.Trust {
		spec.Extra = withoutPromises(spec.Extra)
	}
	meta := maps.Collect(strictjson.Members(strictjson.Member(o.raw, "_meta"))) // no member, no metadata
	maps.DeleteFunc(meta, func(key string, _ json.RawMessage) bool { return strings.HasPrefix(key, ownPrefix) })
	if err := spec.SetMeta(meta); err != nil {
		return nil, err
	}
	binds, err := paramheader.Bindings(spec.Input)
	if err != nil {
		return nil, err
	}
	return toolyard.NewTool(spec, v.caller(o.name, o.raw, binds))
}

// ownPrefix begins the metadata that only we may speak of.
const ownPrefix = "dev.toolyard/"

// safeIcons reports whether pictures are where clients may fetch them from.
func safeIcons(icons json.RawMessage) bool {
	var list []struct{ Src string }
	return json.Unmarshal(icons, &list) == nil && !slices.ContainsFunc(list, func(i struct{ Src string }) bool {
		return !strings.HasPrefix(i.Src, "https://") && !strings.HasPrefix(i.Src, "data:image/")
	})
}

// objectSchema is the input schema of a tool; some servers leave out what must be said.
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

// effects returns the effects of a tool: those that the operator sets or, if the server is
// trusted, those that it declares.
func (v *Server) effects(o *offered) toolyard.Effects {
	effect, said := v.opts.Effects[o.name]
	if !said {
		effect, said = v.opts.Effects["*"]
	}
	hint := string(strictjson.Member(strictjson.Member(o.raw, "annotations"), "readOnlyHint")) == "true"
	if effect == toolyard.Read || !said && v.opts.Trust && hint {
		return toolyard.ReadOnly
	}
	return ""
}

// withoutPromises leaves out the annotations by which a tool seems safer than one of which
// nothing is known: whoever reads ours would believe that we vouch for them.
func withoutPromises(extra map[string]json.RawMessage) map[string]json.RawMessage {
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
