package yard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/ident"
	"github.com/toolyard/toolyard/internal/base/spelling"
	"github.com/toolyard/toolyard/internal/callpath"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/serve/httpapi"
)

// Pack returns the source of an enabled pack, or nil if the configuration does not enable it.
func (y *Yard) Pack(name string) toolyard.Source {
	if p := y.current.Load().packs[name]; p != nil {
		return p.source
	}
	return nil
}

// Actions returns a pack's operator actions.
func (y *Yard) Actions(pack string) ([]*toolyard.Tool, error) {
	p, err := y.pack(pack)
	if err != nil {
		return nil, err
	}
	defer p.release()
	return p.actions, nil
}

// RunAction runs a pack's action. The program must first check that the caller is an operator, and
// must audit the action.
func (y *Yard) RunAction(ctx context.Context, pack, action string, caller toolyard.Caller, args json.RawMessage) (*toolyard.Result, error) {
	p, err := y.pack(pack)
	if err != nil {
		return nil, err
	}
	defer p.release()
	tool, err := p.action(action)
	if err != nil {
		return nil, err
	}
	limits, now := &y.current.Load().Limits, y.opts.Process.Now()
	run := callpath.Chain(callpath.Run, callpath.Recover(), callpath.Cap(int(limits.Args), 0), callpath.Validate(limits.Timeout.Std()),
		callpath.Cap(0, int(limits.Result)), callpath.Deadline(limits.Timeout.Std()))
	c := &toolyard.Call{
		ID: ident.NewCallID(now), Tool: tool, Args: args, Caller: caller, Mode: toolyard.Write, Surface: ident.SurfaceBoth, AsOf: now, Start: now,
	}
	c.Log = p.log
	res, err := run(ctx, c)
	if err == nil && res.InputRequired() {
		return nil, toolyard.Errorf(toolyard.MissingCapability, "Action %s requires user input, which is not available in actions.", action)
	}
	p.log.LogAttrs(ctx, slog.LevelInfo, "action", slog.String("action", action), slog.String("caller", caller.ID), slog.Bool("ok", err == nil && !res.IsError))
	return res, err
}

// pack returns an enabled pack. The caller must release it.
func (y *Yard) pack(name string) (*openPack, error) {
	packs := y.current.Load().packs
	p := packs[name]
	switch {
	case p == nil:
		return nil, toolyard.Errorf(toolyard.NotFound, "Pack %q is not enabled%s.", name, spelling.DidYouMean(name, slices.Sorted(maps.Keys(packs))))
	case !p.acquire():
		return nil, errReloaded
	}
	return p, nil
}

// readActions reads the pack's actions once, when it is opened.
func (p *openPack) readActions() (err error) {
	o, ok := p.source.(Operator)
	if !ok {
		return nil
	}
	defer recoverPack(p.log, &err)
	p.actions = slices.Clone(o.Actions())
	if slices.Contains(p.actions, nil) {
		return errors.New("the pack contains a nil action")
	}
	slices.SortFunc(p.actions, func(a, b *toolyard.Tool) int { return strings.Compare(a.Name, b.Name) })
	for i := 1; i < len(p.actions); i++ {
		if name := p.actions[i].Name; name == p.actions[i-1].Name {
			return fmt.Errorf("the pack has two actions named %s", name)
		}
	}
	return nil
}

func (p *openPack) action(name string) (*toolyard.Tool, error) {
	var names []string
	for _, t := range p.actions {
		if t.Name == name {
			return t, nil
		}
		names = append(names, t.Name)
	}
	return nil, toolyard.Errorf(toolyard.NotFound, "Pack %s has no action %q%s.", p.name, name, spelling.DidYouMean(name, names))
}

// Packs describes the enabled packs for the API.
func (c controlled) Packs() []httpapi.PackItem {
	a, snapshot := c.current.Load(), c.snapshot.Load()
	list := []httpapi.PackItem{}
	for _, name := range slices.Sorted(maps.Keys(a.packs)) {
		p := a.packs[name]
		item := httpapi.PackItem{Name: name, State: "starting", Gates: []string{}, Actions: []httpapi.PackAction{}, Problems: []toolyard.Problem{}}
		select {
		case <-p.offered:
			item.State = "up"
		default:
		}
		ofPack := func(t *toolyard.Tool) bool { return gates.PackOf(t) == name }
		for _, t := range snapshot.Tools {
			if ofPack(t) {
				item.Tools++
			}
		}
		for _, g := range a.Gates {
			if v, ok := c.View(g.Name); ok && slices.ContainsFunc(v.Tools, func(t NamedTool) bool { return ofPack(t.Tool) }) {
				item.Gates = append(item.Gates, g.Name)
			}
		}
		for _, problem := range snapshot.Problems {
			if problem.Source == packSource(name) {
				item.Problems = append(item.Problems, problem)
			}
		}
		for _, t := range p.actions {
			item.Actions = append(item.Actions, httpapi.PackAction{
				Name: t.Name, Title: t.Title, Description: t.Description, InputSchema: t.Input, ReadOnly: t.IsReadOnly(),
			})
		}
		list = append(list, item)
	}
	return list
}
