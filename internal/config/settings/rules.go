package settings

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/spelling"
	"github.com/toolyard/toolyard/internal/callpath/rules"
	"github.com/toolyard/toolyard/internal/config"
)

// newRules compiles the rules in a configuration.
func newRules(c *config.Config) (*rules.Set, error) {
	list := make([]rules.Rule, len(c.Rules))
	for i := range c.Rules {
		list[i] = c.Rules[i].Rule()
	}
	return rules.New(list)
}

// checkRules returns an error if rules refer to unknown gates or servers.
func (s *Settings) checkRules() error {
	var gateNames []string
	for _, g := range s.Gates {
		gateNames = append(gateNames, g.Name)
	}
	servers := slices.Concat(slices.Sorted(maps.Keys(s.Servers)), s.loader.opts.Sources)
	var faults config.Faults
	check := func(i int, key, kind string, names, known []string) {
		for n, name := range names {
			if !slices.Contains(known, name) {
				p := toolyard.Problem{Subject: "rules." + s.Source.Rules[i].Name, Message: fmt.Sprintf("unknown %s %q", kind, name), Fix: spelling.Fix(name, known)}
				faults = append(faults, s.At(p, "rules", fmt.Sprint(i), key, fmt.Sprint(n)))
			}
		}
	}
	for i, r := range s.Source.Rules {
		check(i, "gates", "gate", r.Gates, gateNames)
		check(i, "servers", "server", r.Servers, servers)
		for n, pattern := range r.Tools {
			if server, _, qualified := strings.Cut(pattern, "/"); qualified && !slices.Contains(servers, server) {
				p := toolyard.Problem{Subject: "rules." + r.Name, Message: fmt.Sprintf("unknown server %q", server), Fix: spelling.Fix(server, servers)}
				faults = append(faults, s.At(p, "rules", fmt.Sprint(i), "tools", fmt.Sprint(n)))
			}
		}
	}
	return orNil(faults)
}

// RuleProblems finds rules that refer to tools or arguments that do not exist, and therefore match
// no calls. definitions returns the names of all of a server's tools, or nil until the server has
// listed them. Local tools are checked only if they are loaded.
func (s *Settings) RuleProblems(tools []*toolyard.Tool, loaded bool, definitions func(server string) []string) (problems []toolyard.Problem) {
	var local []string
	for _, t := range tools {
		if t.Server == "" {
			local = append(local, t.Name)
		}
	}
	for i := range s.Source.Rules {
		r := &s.Source.Rules[i]
		for n, pattern := range r.Tools {
			server, name, qualified := strings.Cut(pattern, "/")
			known := local
			if !qualified {
				server, name = "", pattern
			} else {
				known = definitions(server)
			}
			if !loaded && !qualified || qualified && len(known) == 0 || slices.ContainsFunc(known, func(k string) bool { return rules.MatchesName(name, k) }) {
				continue
			}
			p := toolyard.Problem{Source: server, Subject: "rules." + r.Name, Message: fmt.Sprintf("unknown tool %q", pattern), Fix: unknownToolFix(name, known, tools)}
			problems = append(problems, s.At(p, "rules", fmt.Sprint(i), "tools", fmt.Sprint(n)))
		}
		if loaded {
			problems = append(problems, s.unknownArguments(i, tools)...)
		}
	}
	return problems
}

// unknownToolFix suggests a tool. A name that has no server may be meant for a server's tool.
func unknownToolFix(name string, known []string, tools []*toolyard.Tool) string {
	for _, t := range tools {
		if t.Server != "" && rules.MatchesName(name, t.Name) {
			return fmt.Sprintf("To refer to the tool from server %s, write %s/%s.", t.Server, t.Server, name)
		}
	}
	return cmp.Or(spelling.Fix(strings.TrimSuffix(name, "*"), known), "Remove it, or add the tool.")
}

// unknownArguments finds arguments in a rule's schema that none of its tools have.
func (s *Settings) unknownArguments(i int, tools []*toolyard.Tool) (problems []toolyard.Problem) {
	r := &s.Source.Rules[i]
	var condition objectSchema
	if len(r.Tools) == 0 || json.Unmarshal(r.Args, &condition) != nil {
		return nil
	}
	var known []string
	for _, t := range tools {
		if !slices.ContainsFunc(r.Tools, func(pattern string) bool { return rules.MatchesTool(pattern, t) }) {
			continue
		}
		var input objectSchema
		if json.Unmarshal(t.CallerInput(), &input) != nil || len(input.Properties) == 0 {
			return nil // the tool may accept any argument
		}
		known = append(known, slices.Sorted(maps.Keys(input.Properties))...)
	}
	if len(known) == 0 { // none of its tools is currently offered
		return nil
	}
	names := append(slices.Sorted(maps.Keys(condition.Properties)), condition.Required...)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if !slices.Contains(known, name) {
			p := toolyard.Problem{Subject: "rules." + r.Name, Message: fmt.Sprintf("unknown argument %q for %s", name, strings.Join(r.Tools, ", ")), Fix: spelling.Fix(name, known)}
			problems = append(problems, s.At(p, "rules", fmt.Sprint(i), "args"))
		}
	}
	return problems
}

// objectSchema is the part of a schema that defines properties.
type objectSchema struct {
	Properties map[string]json.RawMessage `json:"properties"`
	Required   []string                   `json:"required"`
}
