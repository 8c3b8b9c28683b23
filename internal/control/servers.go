package control

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/serve/httpapi"
	"github.com/toolyard/toolyard/upstream"
)

// Servers implements [httpapi.Yard].
func (c *Control) Servers() (list []httpapi.ServerItem) {
	s, problems := c.yard.State(), c.serverProblems()
	for _, id := range slices.Sorted(maps.Keys(s.Upstreams)) {
		list = append(list, serverItem(s.Upstreams[id], id, s.Servers[id], s.Upstreams[id].Summary(), len(problems[id])))
	}
	return list
}

// serverProblems returns each server's problems.
func (c *Control) serverProblems() map[string][]toolyard.Problem {
	problems := make(map[string][]toolyard.Problem)
	for _, p := range c.yard.Snapshot().Problems {
		if p.Source != "" {
			problems[p.Source] = append(problems[p.Source], p)
		}
	}
	return problems
}

func serverItem(s *upstream.Server, id string, c config.Server, status upstream.Status, problems int) httpapi.ServerItem {
	item := httpapi.ServerItem{
		ID: id, Transport: status.Transport, Target: status.Target, State: status.State, Since: status.Since.UTC(),
		ServerIdentity: httpapi.ServerIdentity{Protocol: status.Protocol, Name: status.Name, Version: status.Version}, Error: status.Error, Tools: len(s.Tools()), Restarts: status.Restarts,
		Required: c.Required, Pin: c.Pin, Problems: problems, People: c.Auth.PerPerson(),
	}
	item.Waiting, item.Rejected = s.PendingCount()
	return item
}

// Server implements [httpapi.Yard].
func (c *Control) Server(id string) (*httpapi.ServerDetail, bool) {
	state := c.yard.State()
	s := state.Upstreams[id]
	if s == nil {
		return nil, false
	}
	problems, status := c.serverProblems()[id], s.Status()
	d := &httpapi.ServerDetail{
		ServerItem: serverItem(s, id, state.Servers[id], status, len(problems)), Stderr: status.Stderr,
		Resources: len(s.Resources()), Prompts: len(s.Prompts()), ProblemList: problems,
	}
	for _, e := range status.Events {
		d.Events = append(d.Events, httpapi.ServerEvent{At: e.At.UTC(), Kind: e.Kind, Text: e.Text})
	}
	hashes := s.Hashes()
	for _, tool := range slices.Sorted(maps.Keys(hashes)) {
		d.Pins = append(d.Pins, httpapi.DefinitionRef{Tool: tool, Hash: hashes[tool]})
	}
	return d, true
}

// upstream returns a server, or a NotFound error.
func (c *Control) upstream(id string) (*upstream.Server, error) {
	if s := c.yard.State().Upstreams[id]; s != nil {
		return s, nil
	}
	return nil, toolyard.Errorf(toolyard.NotFound, "Server %s not found.", id)
}

// pending returns a server's definitions that differ from the approved ones.
func (c *Control) pending(id string) (*upstream.Server, []upstream.Pending, error) {
	s, err := c.upstream(id)
	if err != nil {
		return nil, nil, err
	}
	list, err := s.Pending()
	return s, list, err
}

// Pending implements [httpapi.Yard].
func (c *Control) Pending(id string) (list []httpapi.Pending, err error) {
	_, pending, err := c.pending(id)
	for _, d := range pending {
		item := httpapi.Pending{DefinitionRef: refOf(d), Kind: d.Kind(), Approved: d.Approved, Offered: d.Offered, Refused: d.Refused, Rejected: d.Rejected}
		if d.Approved != nil && d.Offered != nil {
			item.ApprovedText, item.OfferedText = indented(d.Approved), indented(d.Offered)
			for _, change := range d.Changes() {
				item.Changes = append(item.Changes, httpapi.DefinitionChange(change))
			}
		}
		list = append(list, item)
	}
	return list, err
}

// Waiting implements [httpapi.Yard].
func (c *Control) Waiting(id string) (list []httpapi.Waiting) {
	_, pending, _ := c.pending(id)
	for _, d := range pending {
		if !d.Rejected {
			list = append(list, httpapi.Waiting{Server: id, Tool: d.Tool, Kind: d.Kind()})
		}
	}
	return list
}

// indented formats a definition without changing its numbers.
func indented(definition json.RawMessage) string {
	var b bytes.Buffer
	_ = json.Indent(&b, definition, "", "  ") // cannot fail: it is valid JSON
	return b.String()
}

func refOf(d upstream.Pending) httpapi.DefinitionRef {
	return httpapi.DefinitionRef{Tool: d.Tool, Hash: d.Hash}
}

// Approve implements [httpapi.Yard].
func (c *Control) Approve(id string, tools []httpapi.DefinitionRef) error {
	s, pending, err := c.pending(id)
	if err != nil {
		return err
	}
	if pending, err = httpapi.SelectPending(pending, refOf, tools); err != nil {
		return err
	}
	for _, d := range pending {
		if d.Refused != "" {
			return toolyard.Errorf(toolyard.Invalid, "%s cannot be approved: %s.", d.Tool, d.Refused)
		}
	}
	return s.Approve(pending)
}

// Reject implements [httpapi.Yard].
func (c *Control) Reject(id string, tools []httpapi.DefinitionRef) error {
	s, pending, err := c.pending(id)
	if err == nil {
		pending, err = httpapi.SelectPending(pending, refOf, tools)
	}
	if err != nil {
		return err
	}
	return s.Reject(pending)
}

// Retry implements [httpapi.Yard].
func (c *Control) Retry(id string) error {
	s, err := c.upstream(id)
	if err == nil {
		s.Refresh()
	}
	return err
}
