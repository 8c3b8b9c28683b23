package upstream

import (
	"encoding/json"
	"errors"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// resourcesOf returns the resources that may be read. Resources that the operator lists by their
// full URI can be read even if the server does not list them.
func (d *definitions) resourcesOf(l *listing) (resources []*toolyard.Resource, problems []toolyard.Problem) {
	reader, completer := d.action("resources.read", d.handlers.readResource), d.action("completion.complete", d.handlers.complete)
	seen := make(map[string]bool)
	add := func(r *toolyard.Resource) {
		if r.MatchesAny(d.opts.Resources) && !seen[r.URI] {
			seen[r.URI] = true
			r.Server, r.Reader, r.Completer = d.opts.ID, reader, completer
			if l.watchable {
				r.Watch = d.relay.watch
			}
			resources = append(resources, r)
		}
	}
	for _, list := range []struct {
		items    []json.RawMessage
		key      string
		template bool
	}{{l.resources, "uri", false}, {l.templates, "uriTemplate", true}} {
		for _, raw := range list.items {
			uri := text(raw, list.key)
			if err := checkResource(raw, uri); err != nil {
				problems = append(problems, d.problem("", "resource "+untrusted.Quote(uri)+" is omitted: "+err.Error(), ""))
				continue
			}
			add(&toolyard.Resource{URI: uri, Template: list.template, Definition: raw})
		}
	}
	for _, uri := range d.opts.Resources {
		if len(uri) > 0 && uri[len(uri)-1] != '*' {
			add(&toolyard.Resource{URI: uri, Unlisted: true})
		}
	}
	return resources, problems
}

// maxDefinition limits the size of one definition, in bytes.
const maxDefinition = 512 << 10

func checkResource(raw json.RawMessage, uri string) error {
	switch {
	case len(raw) == 0 || raw[0] != '{' || uri == "":
		return errors.New("its definition is invalid")
	case len(uri) > 2<<10 || len(raw) > maxDefinition:
		return errors.New("it is too long")
	}
	return untrusted.CheckJSONText(raw)
}
