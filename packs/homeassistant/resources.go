package homeassistant

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolyard/toolyard"
)

const (
	statePrefix = "homeassistant://states/"
	areaPrefix  = "homeassistant://areas/"

	updateEvery = time.Second // minimum time between two notifications for one URI
)

// resources returns the resource templates. Their readers have the same view as tools.
func (s *source) resources() []*toolyard.Resource {
	template := func(uri, name, description string) *toolyard.Resource {
		definition, _ := json.Marshal(map[string]string{"uriTemplate": uri, "name": name, "description": description, "mimeType": "application/json"}) // cannot fail for strings
		return &toolyard.Resource{URI: uri, Template: true, Definition: definition, Reader: readResource, Watch: s.updates.watchers.Watch}
	}
	return []*toolyard.Resource{
		template(statePrefix+"{entity_id}", "Device state", "The state and attributes of an entity, such as light.kitchen."),
		template(areaPrefix+"{area_id}", "Devices in an area", "The devices in an area, with their states."),
	}
}

type resourceArgs struct {
	URI string `json:"uri"`
}

var readResource = toolyard.Define(toolyard.Spec{Name: "homeassistant.read", Effects: toolyard.ReadOnly},
	func(ctx context.Context, c *toolyard.Call, in resourceArgs) (*toolyard.Result, error) {
		v, err := viewOf(ctx, c)
		if err != nil {
			return nil, err
		}
		content, err := v.resource(in.URI)
		if err != nil {
			return nil, err
		}
		text, err := json.Marshal(content)
		if err != nil {
			return nil, err
		}
		raw, err := json.Marshal(map[string]any{"contents": []any{map[string]string{"uri": in.URI, "mimeType": "application/json", "text": string(text)}}})
		if err != nil {
			return nil, err
		}
		result := &toolyard.Result{}
		return result, json.Unmarshal(raw, result)
	})

// resource returns a resource's content.
func (v *view) resource(uri string) (any, error) {
	if id, ok := strings.CutPrefix(uri, statePrefix); ok {
		if e := v.Entity(id); v.sees(e) {
			return v.detail(e), nil
		}
	}
	if id, ok := strings.CutPrefix(uri, areaPrefix); ok {
		for _, a := range v.Areas {
			if a.ID == id {
				limit := 200
				return v.list(&listArgs{Area: id, Limit: &limit})
			}
		}
	}
	return nil, toolyard.Errorf(toolyard.NotFound, "Unknown resource: %s", printable(uri, 200))
}

// updates notifies the clients that watch resources, at most once a second for each URI.
type updates struct {
	watchers toolyard.ResourceWatchers
	wake     chan struct{}

	mu      sync.Mutex
	changes map[string]bool // IDs of changed entities
	all     bool            // whether anything may have changed
}

func newUpdates() *updates {
	return &updates{wake: make(chan struct{}, 1), changes: make(map[string]bool)}
}

// changed collects changes. It is called for every change in the home and does not block.
func (u *updates) changed(ids []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if ids == nil {
		u.all = true
	}
	for _, id := range ids {
		u.changes[id] = true
	}
	select {
	case u.wake <- struct{}{}:
	default: // run will pick up the changes
	}
}

// take returns the collected changes.
func (u *updates) take() (ids []string, all bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	ids, all = slices.Collect(maps.Keys(u.changes)), u.all
	clear(u.changes)
	u.all = false
	return ids, all
}

// run sends notifications until ctx ends.
func (u *updates) run(ctx context.Context, h *home) {
	sent, due := make(map[string]time.Time), make(map[string]bool)
	timer := time.NewTimer(updateEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-u.wake:
			u.collect(h, due)
		case <-timer.C:
			maps.DeleteFunc(sent, func(_ string, at time.Time) bool { return time.Since(at) >= updateEvery })
			timer.Reset(updateEvery / 10)
		}
		for uri := range due {
			if time.Since(sent[uri]) >= updateEvery {
				u.watchers.Changed(uri)
				sent[uri] = time.Now()
				delete(due, uri)
			}
		}
	}
}

// collect adds the watched URIs of changed entities.
func (u *updates) collect(h *home, due map[string]bool) {
	ids, all := u.take()
	snapshot, age, err := h.client.Snapshot()
	if err != nil {
		return
	}
	v := &view{snapshot, h, age}
	if all {
		ids = ids[:0]
		for _, e := range v.Entities() {
			ids = append(ids, e.ID)
		}
	}
	for _, id := range ids {
		e := v.Entity(id)
		if !v.sees(e) {
			continue
		}
		uris := []string{statePrefix + id}
		if e.Area != nil {
			uris = append(uris, areaPrefix+e.Area.ID)
		}
		for _, uri := range uris {
			if u.watchers.Watched(uri) {
				due[uri] = true
			}
		}
	}
}
