package homeassistant

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/homeassistant/hass"
)

const (
	firstLoad = 5 * time.Second // how long a call waits for the first snapshot
	maxPast   = 5 * time.Minute // maximum age of an as-of time, because only the recorder has past states
)

// home is the client that reads the home, within a gate's scope.
type home struct {
	client *hass.Client
	policy *policy
	scopes []exposure // an entity must be in all scopes
	now    func() time.Time
}

// homeOf returns the client of the call's gate.
func homeOf(c *toolyard.Call) (*home, error) {
	h, ok := toolyard.Client[*home](c)
	if !ok {
		return nil, toolyard.Errorf(toolyard.NoData, "No home is configured for this gate.")
	}
	return h, nil
}

// view is the part of the home that a call can see.
type view struct {
	*hass.Snapshot
	home *home
	age  time.Duration // zero while the connection works
}

// viewOf returns a call's current view of the home.
func viewOf(ctx context.Context, c *toolyard.Call) (*view, error) {
	h, err := homeOf(c)
	if err != nil {
		return nil, err
	}
	if h.now().Sub(c.AsOf) > maxPast {
		return nil, toolyard.Errorf(toolyard.NoData, "Only the current state of the home is available. Use get_history for the past.")
	}
	return h.view(ctx)
}

func (h *home) view(ctx context.Context) (*view, error) {
	ready, cancel := context.WithTimeout(ctx, firstLoad)
	defer cancel()
	_ = h.client.Ready(ready) // ignored: Snapshot returns the reason
	snapshot, age, err := h.client.Snapshot()
	if err != nil {
		return nil, unavailable(err)
	}
	return &view{snapshot, h, age}, nil
}

// unavailable returns the error for a missing connection. Nothing was sent, so a retry is safe.
func unavailable(err error) error {
	if errors.Is(err, hass.ErrToken) {
		return &toolyard.Error{Code: toolyard.Unavailable, Message: "Home Assistant rejected the access token. The operator must replace it.", Err: err}
	}
	return &toolyard.Error{Code: toolyard.Unavailable, Message: "Home Assistant is not connected.", RetryAfter: 10 * time.Second, Err: err}
}

// failureOf converts an error from a command that reads.
func failureOf(err error) error {
	var e *hass.Error
	switch {
	case errors.Is(err, hass.ErrNotSent):
		return unavailable(err)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return toolyard.AsError(err)
	case !errors.As(err, &e):
		return &toolyard.Error{Code: toolyard.Unavailable, Message: "Home Assistant did not respond.", Err: err}
	}
	message := "Home Assistant: " + printable(e.Message, 300)
	switch e.Code {
	case hass.CodeInvalidService, hass.CodeInvalidFormat:
		return &toolyard.Error{Code: toolyard.Invalid, Message: message, Err: err}
	case hass.CodeUnauthorized:
		return &toolyard.Error{Code: toolyard.PermissionDenied, Message: "The Home Assistant user that Toolyard signs in as is not allowed to do this.", Err: err}
	case hass.CodeNotFound:
		return &toolyard.Error{Code: toolyard.NotFound, Message: message, Err: err}
	}
	return &toolyard.Error{Code: toolyard.Failed, Message: message, Err: err}
}

// writeFailure converts an error from a service call. If there was no response, the call may have
// had an effect.
func writeFailure(err error) error {
	if isUncertain(err) {
		return &toolyard.Error{Code: toolyard.OutcomeUnknown, Message: "Home Assistant did not respond. Check the state before trying again.", Err: err}
	}
	return failureOf(err)
}

// isUncertain reports whether a failed service call may have had an effect.
func isUncertain(err error) bool {
	if e, ok := errors.AsType[*hass.Error](err); ok {
		return e.Code == hass.CodeTimeout
	}
	return !errors.Is(err, hass.ErrNotSent)
}

// sees reports whether an entity is in scope.
func (v *view) sees(e *hass.Entity) bool {
	if e == nil || matchesAny(v.home.policy.deny, e.ID) {
		return false
	}
	for i := range v.home.scopes {
		if !v.home.scopes[i].includes(e, v.Labels) {
			return false
		}
	}
	return true
}

// isMinor reports whether an entity is omitted from lists because it is hidden or only describes a device.
func isMinor(e *hass.Entity) bool { return e.Hidden || e.Category != "" }

// listed iterates over the entities that appear in lists.
func (v *view) listed() iter.Seq[*hass.Entity] {
	return func(yield func(*hass.Entity) bool) {
		for _, e := range v.Entities() {
			if !isMinor(e) && v.sees(e) && !yield(e) {
				return
			}
		}
	}
}

// find returns the visible entity with an ID or a name. A name must be unique.
func (v *view) find(name string) (*hass.Entity, error) {
	if e := v.Entity(strings.ToLower(name)); v.sees(e) {
		return e, nil
	}
	var found []*hass.Entity
	var known []string
	for _, e := range v.Entities() {
		if !v.sees(e) {
			continue
		}
		known = append(known, e.ID)
		if strings.EqualFold(e.Name, name) {
			found = append(found, e)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		for e := range v.listed() {
			known = append(known, e.Name)
		}
		return nil, unknown("device", name, known)
	}
	ids := make([]string, 0, len(found))
	for _, e := range found {
		ids = append(ids, e.ID)
	}
	return nil, toolyard.Errorf(toolyard.Invalid, "%d devices are named %q: %s. Use an id.", len(found), printable(name, 80), strings.Join(ids[:min(len(ids), 10)], ", "))
}

// findAll returns the visible entities with the IDs or names, with duplicates removed.
func (v *view) findAll(names []string) ([]*hass.Entity, error) {
	var all []*hass.Entity
	for _, name := range names {
		e, err := v.find(name)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(all, e) {
			all = append(all, e)
		}
	}
	return all, nil
}

// checkArea returns an error with the most similar names if no area or floor has the name.
func (v *view) checkArea(name string) error {
	var known []string
	for _, a := range v.Areas {
		if isArea(a, name) || isFloor(a.Floor, name) {
			return nil
		}
		known = append(append(known, a.Name, a.ID), a.Aliases...)
	}
	for _, f := range v.Floors {
		if isFloor(f, name) {
			return nil
		}
		known = append(append(known, f.Name), f.Aliases...)
	}
	return unknown("area", name, known)
}

// inArea reports whether an entity is in an area or on a floor with the name.
func inArea(e *hass.Entity, name string) bool {
	return e.Area != nil && (isArea(e.Area, name) || isFloor(e.Area.Floor, name))
}

func areaName(e *hass.Entity) string {
	if e.Area == nil {
		return ""
	}
	return e.Area.Name
}

// unknown returns the error for an unknown name, with the most similar names.
func unknown(what, name string, known []string) error {
	message := fmt.Sprintf("Unknown %s %q.", what, printable(name, 80))
	if near := nearest(name, known); len(near) > 0 {
		message += " Did you mean " + strings.Join(near, ", ") + "?"
	}
	return &toolyard.Error{Code: toolyard.NotFound, Message: message}
}

// note describes the age of a stale view.
func (v *view) note() string {
	if v.age == 0 {
		return ""
	}
	return fmt.Sprintf("Home Assistant is disconnected. This is its state from %d s ago.", int(v.age.Seconds()))
}
