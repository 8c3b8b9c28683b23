package yard

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/control/live"
	"github.com/toolyard/toolyard/internal/serve/httpapi"
	"github.com/toolyard/toolyard/internal/sources/catalog"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/store/record"
	"github.com/toolyard/toolyard/upstream"
)

// people is the yard as the people who look after it see it: what the API tells of and
// changes.
type people struct{ *Yard }

var _ httpapi.Yard = people{}

// About implements httpapi.Yard.
func (p people) About() httpapi.About {
	c := p.config.Load()
	a := httpapi.About{
		Name: c.Name, Version: p.opts.Version, Store: "none", StoreUp: !p.contract.away.Load(), Arguments: cmp.Or(p.opts.Watch, c.Record.Arguments),
		Replica: p.id, Since: p.begun.UTC(), Keys: p.contract.verifier != nil && p.opts.Identify == nil,
	}
	if s := p.contract.store; s != nil {
		a.Store = s.Kind()
	}
	return a
}

// Config implements httpapi.Yard.
func (p people) Config() *config.Config { return p.config.Load().Config }

// show keeps what the gates show now for people, if it is something else than before.
func (y *Yard) show(g *catalog.Generation, problems []toolyard.Problem) {
	next := &httpapi.Snapshot{Generation: g.Number, Problems: problems}
	for _, name := range y.server.Gates() {
		if v, ok := y.server.View(name); ok {
			next.Views = append(next.Views, v)
		}
	}
	slices.SortFunc(next.Views, func(a, b *toolyard.View) int { return cmp.Compare(a.Gate.Name, b.Gate.Name) })
	old := y.shown.Load()
	if old != nil && old.Generation == next.Generation && slices.Equal(old.Views, next.Views) && slices.Equal(old.Problems, next.Problems) {
		return
	}
	next.Tools = y.config.Load().terms.apply(y.offerOf(g)).Tools
	y.shown.Store(next)
}

// Snapshot implements httpapi.Yard.
func (p people) Snapshot() *httpapi.Snapshot { return p.shown.Load() }

// Servers implements httpapi.Yard.
func (p people) Servers() (list []httpapi.ServerItem) {
	servers, faults := p.config.Load().servers, p.faults()
	for _, id := range slices.Sorted(maps.Keys(servers)) {
		list = append(list, serverItem(id, servers[id], servers[id].Brief(), len(faults[id])))
	}
	return list
}

// faults are the problems of each server.
func (p people) faults() map[string][]toolyard.Problem {
	faults := make(map[string][]toolyard.Problem)
	for _, problem := range p.shown.Load().Problems {
		if problem.Source != "" {
			faults[problem.Source] = append(faults[problem.Source], problem)
		}
	}
	return faults
}

func serverItem(id string, s *server, status upstream.Status, problems int) httpapi.ServerItem {
	item := httpapi.ServerItem{
		ID: id, Transport: status.Transport, Target: status.Target, State: status.State, Since: status.Since.UTC(), Protocol: status.Protocol,
		Name: status.Name, Version: status.Version, Error: status.Error, Tools: len(s.Tools()), Restarts: status.Restarts,
		Required: s.config.Required, Pin: s.config.Pin, Problems: problems,
	}
	item.Waiting, item.Rejected = s.Waiting()
	return item
}

// Server implements httpapi.Yard.
func (p people) Server(id string) (*httpapi.ServerDetail, bool) {
	s := p.config.Load().servers[id]
	if s == nil {
		return nil, false
	}
	faults := p.faults()[id]
	status := s.Status()
	d := &httpapi.ServerDetail{ServerItem: serverItem(id, s, status, len(faults)), Stderr: status.Stderr, Resources: len(s.Resources()), Prompts: len(s.Prompts()), Faults: faults}
	for _, e := range status.Events {
		d.Events = append(d.Events, httpapi.ServerEvent{At: e.At.UTC(), Kind: e.Kind, Text: e.Text})
	}
	hashes := s.Hashes()
	for _, tool := range slices.Sorted(maps.Keys(hashes)) {
		d.Pins = append(d.Pins, httpapi.Pick{Tool: tool, Hash: hashes[tool]})
	}
	return d, true
}

// Explain implements httpapi.Yard.
func (p people) Explain(server, tool string) []toolyard.Step {
	if s := p.config.Load().servers[server]; s != nil {
		return s.Explain(tool)
	}
	return []toolyard.Step{{Rule: "source", Text: server}}
}

// pending are the definitions of a server that are not as they were approved.
func (p people) pending(id string) (*server, []upstream.Pending, error) {
	s := p.config.Load().servers[id]
	if s == nil {
		return nil, nil, toolyard.Errorf(toolyard.NotFound, "There is no server %s.", id)
	}
	list, err := s.Pending()
	return s, list, err
}

// Pending implements httpapi.Yard.
func (p people) Pending(id string) (list []httpapi.Pending, err error) {
	_, pending, err := p.pending(id)
	for _, d := range pending {
		item := httpapi.Pending{Pick: pickOf(d), Kind: d.Kind(), Approved: d.Approved, Offered: d.Offered, Refused: d.Refused, Rejected: d.Rejected}
		if d.Approved != nil && d.Offered != nil {
			item.ApprovedText, item.OfferedText = indented(d.Approved), indented(d.Offered)
			for _, c := range d.Changes() {
				item.Changes = append(item.Changes, httpapi.DefinitionChange(c))
			}
		}
		list = append(list, item)
	}
	return list, err
}

// Waiting implements httpapi.Yard.
func (p people) Waiting(id string) (list []httpapi.Waiting) {
	_, pending, _ := p.pending(id)
	for _, d := range pending {
		if !d.Rejected {
			list = append(list, httpapi.Waiting{Server: id, Tool: d.Tool, Kind: d.Kind()})
		}
	}
	return list
}

// indented is a definition as people read it, to the last digit.
func indented(definition json.RawMessage) string {
	var b bytes.Buffer
	_ = json.Indent(&b, definition, "", "  ") // it was read as JSON
	return b.String()
}

func pickOf(d upstream.Pending) httpapi.Pick { return httpapi.Pick{Tool: d.Tool, Hash: d.Hash} }

// Approve implements httpapi.Yard.
func (p people) Approve(id string, tools []httpapi.Pick) error {
	s, pending, err := p.pending(id)
	if err != nil {
		return err
	}
	if pending, err = httpapi.Picked(pending, pickOf, tools); err != nil {
		return err
	}
	for _, d := range pending {
		if d.Refused != "" {
			return toolyard.Errorf(toolyard.Invalid, "%s cannot be approved: %s.", d.Tool, d.Refused)
		}
	}
	return s.Approve(pending)
}

// Reject implements httpapi.Yard.
func (p people) Reject(id string, tools []httpapi.Pick) error {
	s, pending, err := p.pending(id)
	if err == nil {
		pending, err = httpapi.Picked(pending, pickOf, tools)
	}
	if err != nil {
		return err
	}
	return s.Reject(pending)
}

// Retry implements httpapi.Yard.
func (p people) Retry(id string) error {
	s := p.config.Load().servers[id]
	if s == nil {
		return toolyard.Errorf(toolyard.NotFound, "There is no server %s.", id)
	}
	s.Retry()
	return nil
}

// Limits implements httpapi.Yard.
func (p people) Limits(ctx context.Context) (limits []httpapi.Limit, err error) {
	s := p.config.Load()
	var keys []string
	places := make(map[string]int)
	for _, t := range p.shown.Load().Tools {
		for _, pace := range s.paces(t) {
			if _, ok := places[pace.Key]; ok {
				continue
			}
			places[pace.Key] = len(limits)
			limits = append(limits, limitOf(pace, t))
			if !pace.Local {
				keys = append(keys, pace.Key)
			}
		}
	}
	for key, lane := range p.contract.desk.Lanes() {
		if i, ok := places[key]; ok {
			limits[i].Waiting, limits[i].Running = lane.Waiting, lane.Running
		}
	}
	shared, err := p.contract.paces(ctx, keys)
	for key, state := range shared {
		l := &limits[places[key]]
		l.Used, l.Running = state.Used, max(l.Running, state.Running)
		if state.Next.After(p.opts.Now()) {
			l.NextAt = state.Next.UTC()
		}
	}
	return limits, err
}

// paces are the limits as the store has them.
func (k *contract) paces(ctx context.Context, keys []string) (map[string]store.PaceState, error) {
	s := k.store
	if s == nil {
		s = k.memory.made.Load()
	}
	if s == nil || len(keys) == 0 {
		return nil, nil
	}
	return s.Paces(ctx, keys)
}

func limitOf(pace admission.LimitRef, t *toolyard.Tool) httpapi.Limit {
	l := httpapi.Limit{
		Kind: "server", Server: t.Server, Name: pace.Name, PerMinute: pace.Limit.PerMinute, Concurrency: pace.Limit.Concurrency,
		CooldownMs: pace.Limit.Cooldown.Milliseconds(), Local: pace.Local,
	}
	if pace.Key == toolPace(t) {
		l.Kind, l.Tool = "tool", t.Name
	}
	return l
}

// maxResult is how many bytes of a result are told to who watches.
const maxResult = 16 << 10

// newLive makes what tells of calls as they happen. Results are told if the configuration
// wants arguments to be kept in full.
func (y *Yard) newLive(c *config.Source) *live.Hub {
	args := y.arguments(c.Config)
	args.Keep = record.Keep(cmp.Or(y.opts.Watch, string(args.Keep)))
	o := live.Options{
		Now: y.opts.Now, Row: func(c *toolyard.Call, o toolyard.Outcome) *store.CallRow { return record.Row(c, o, args) },
	}
	if args.Keep == record.Full {
		o.Result = y.resultText
	}
	if s := y.contract.store; s != nil && s.Kind() == "postgres" {
		o.Others = func(ctx context.Context, since time.Time) ([]*store.CallRow, error) {
			return s.Calls(ctx, store.CallQuery{Ended: since})
		}
	}
	return live.New(o)
}

// resultText is a result without secrets, if it is not too large. One that asks something is
// not told: it holds the state of its tool, which is nobody's business.
func (y *Yard) resultText(r *toolyard.Result) json.RawMessage {
	if r.InputRequired() || r.Size() > maxResult {
		return nil
	}
	raw, err := r.MarshalJSON()
	if err != nil {
		return nil
	}
	if hidden := json.RawMessage(y.redact(string(raw))); json.Valid(hidden) {
		return hidden
	}
	return nil
}
