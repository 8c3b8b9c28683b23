// Package homeassistant is a pack of tools for Home Assistant: a compact view of the home, its
// history, and controls that ask the user before they operate locks, alarms and the like.
//
//	packs:
//	  homeassistant: {url: "http://192.168.1.5:8123", token: "${secret:home}"}
//
// Reads make no requests, because package hass mirrors the home. Tools see only the entities in
// the configured scope, and writes check every entity that they resolve to.
package homeassistant

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/homeassistant/hass"
	"github.com/toolyard/toolyard/yard"
)

// Name is the name of the pack in the configuration.
const Name = "homeassistant"

// Pack returns the pack, for yard.Options.Packs.
func Pack() yard.Pack {
	return yard.Pack{Settings: toolyard.SchemaFor[settings](), GateSettings: toolyard.SchemaFor[gateSettings](), Open: open}
}

// settings are the settings in packs.homeassistant.
type settings struct {
	URL      string            `json:"url" pattern:"^https?://[^/]" doc:"Address of Home Assistant, such as http://192.168.1.5:8123."`
	Token    string            `json:"token" minLength:"1" doc:"Long-lived access token of a Home Assistant user who is not an administrator."`
	Expose   exposure          `json:"expose,omitzero" doc:"Entities that tools can see. assist means the entities that you expose to voice assistants in Home Assistant."`
	Confirm  []string          `json:"confirm,omitempty" doc:"Entities that require confirmation, in addition to locks, alarms, valves, sirens and garage doors. * matches any characters."`
	Deny     []string          `json:"deny,omitempty" doc:"Entities that tools can neither see nor control. Takes precedence over everything else."`
	Codes    map[string]string `json:"codes,omitempty" doc:"Lock and alarm codes, by entity. They are sent only to Home Assistant."`
	Services []string          `json:"services,omitempty" doc:"Services that call_service can call, such as vacuum.* or notify.family. If empty, the tool isn't offered."`
}

// gateSettings are the settings in gates.GATE.packs.homeassistant.
type gateSettings struct {
	Expose exposure `json:"expose,omitzero" doc:"Entities that tools at this gate can see, out of those that the pack exposes."`
}

// source is the pack's source.
type source struct {
	home    *home
	offer   toolyard.Offer
	changed chan struct{} // signaled when the connection is established or lost
	updates *updates
}

func open(_ context.Context, setup yard.PackSetup) (toolyard.Source, error) {
	var s settings
	if err := json.Unmarshal(setup.Settings, &s); err != nil {
		return nil, err
	}
	p, err := newPolicy(&s)
	if err != nil {
		return nil, err
	}
	src := &source{changed: make(chan struct{}, 1), updates: newUpdates()}
	client, err := hass.New(hass.Config{
		URL: s.URL, Token: s.Token, HTTP: setup.HTTP, Now: setup.Now, Log: setup.Log, Changed: src.updates.changed,
		Status: func(error) {
			select {
			case src.changed <- struct{}{}:
			default: // a publication is pending
			}
		},
	})
	if err != nil {
		return nil, err
	}
	src.home = &home{client: client, policy: p, scopes: []exposure{s.Expose}, now: setup.Now}
	src.offer = toolyard.Offer{Tools: append(readTools(), writeTools()...), Resources: src.resources()}
	if len(s.Services) > 0 {
		src.offer.Tools = append(src.offer.Tools, callService)
	}
	return src, nil
}

// Run implements [toolyard.Source]. The tools do not change, but the problems do.
func (s *source) Run(ctx context.Context, publish func(toolyard.Offer)) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { _ = s.home.client.Run(ctx) })
	running.Go(func() { s.updates.run(ctx, s.home) })
	for {
		s.offer.Problems = s.problems()
		publish(s.offer)
		select {
		case <-ctx.Done():
			return nil
		case <-s.changed:
		}
	}
}

// problems reports why there is no connection, or which names in the settings do not exist in the
// home.
func (s *source) problems() []toolyard.Problem {
	err := s.home.client.Err()
	if err == nil {
		return s.unknownNames()
	}
	p := toolyard.Problem{Subject: Name, Message: "Home Assistant is not connected"}
	switch {
	case errors.Is(err, hass.ErrNotSent): // no attempt has been made yet
		return nil
	case errors.Is(err, hass.ErrToken):
		p.Message = "Home Assistant rejected the access token, so Toolyard does not retry"
		p.Fix = "Create a long-lived access token in a Home Assistant user's profile, store it as the secret, and reload."
	default:
		p.Message += ": " + err.Error()
		p.Fix = "Check packs.homeassistant.url. Toolyard retries automatically."
	}
	return []toolyard.Problem{p}
}

// unknownNames reports areas and labels in expose that do not exist and therefore select nothing.
func (s *source) unknownNames() (problems []toolyard.Problem) {
	snapshot, _, err := s.home.client.Snapshot()
	if err != nil {
		return nil
	}
	v := &view{snapshot, s.home, 0}
	expose := s.home.scopes[0]
	for key, names := range map[string][]string{"areas": expose.Areas, "labels": expose.Labels} {
		for _, name := range names {
			filter := &listArgs{Area: name}
			if key == "labels" {
				filter = &listArgs{Label: name}
			}
			if err := v.checkFilters(filter); err != nil {
				problems = append(problems, toolyard.Problem{Subject: Name, Message: "expose." + key + ": " + err.Error(), Fix: "Correct the name in packs.homeassistant.expose.", Warning: true})
			}
		}
	}
	return problems
}

// Lend implements [yard.Lender]. Only gates in mode write receive the client that controls the
// home.
func (s *source) Lend(gate yard.PackGate) (*toolyard.Clients, error) {
	h := *s.home
	if gate.Settings != nil {
		var g gateSettings
		if err := json.Unmarshal(gate.Settings, &g); err != nil {
			return nil, fmt.Errorf("gate %s: %w", gate.Name, err)
		}
		h.scopes = append([]exposure{g.Expose.orAll()}, h.scopes...)
	}
	clients := &toolyard.Clients{}
	toolyard.Lend(clients, &h)
	toolyard.Lend(clients, &controls{home: &h}, toolyard.Write)
	return clients, nil
}
