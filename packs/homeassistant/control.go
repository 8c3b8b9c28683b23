package homeassistant

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/homeassistant/hass"
)

const (
	maxTargets  = 20               // entities per call
	answerWait  = 15 * time.Second // wait for Home Assistant's response; slow devices take seconds
	confirmWait = 5 * time.Second  // wait for states to change
	settleWait  = 300 * time.Millisecond
)

// controls is the client that changes the home. Only gates in mode write receive it.
type controls struct{ *home }

// writeTools returns the tools that change something.
func writeTools() []*toolyard.Tool {
	return []*toolyard.Tool{controlDevice, controlSecurity, activateScene, runScript, triggerAutomation, sendNotification}
}

// writeSpec returns the Spec of a tool that changes something.
func writeSpec(name, description string) toolyard.Spec {
	return toolyard.Spec{Name: name, Description: description, Category: category, Effects: "write"}
}

// controlsOf returns the controls of the call's gate and a current view. It refuses a stale view,
// because decisions about writes need the current state.
func controlsOf(ctx context.Context, c *toolyard.Call) (*controls, *view, error) {
	ctl, ok := toolyard.Client[*controls](c)
	if !ok {
		return nil, nil, toolyard.Errorf(toolyard.NoData, "This gate cannot control the home.")
	}
	v, err := viewOf(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	if v.age > 0 {
		return nil, nil, unavailable(hass.ErrNotSent)
	}
	return ctl, v, nil
}

type controlArgs struct {
	IDs    []string `json:"ids,omitempty" maxItems:"20" doc:"The devices to control, by entity id such as light.kitchen or by name. Use this or area and domain"`
	Area   string   `json:"area,omitempty" doc:"Control all devices of one kind in this area or on this floor, by id, name or alias. Requires domain"`
	Domain string   `json:"domain,omitempty" doc:"With area: the kind of device to control, such as light or cover"`
	Action string   `json:"action" enum:"turn_on,turn_off,toggle,set,open,close,stop,play,pause,next,previous,start,return_home,press" doc:"What to do with the devices. get_device lists the actions that a device supports. To change a level, such as brightness or temperature, use set"`
	Value  *value   `json:"value,omitempty" doc:"For the action set: the values to set. Pass only those that apply to the device"`
}

// stateChange is a state before and after a call.
type stateChange struct {
	ID   string `json:"id"`
	From string `json:"from"`
	To   string `json:"to"`
}

type controlResult struct {
	Changed      []stateChange `json:"changed"`
	Unchanged    []string      `json:"unchanged,omitempty"`     // already had the requested state
	NotConfirmed []string      `json:"not_confirmed,omitempty"` // accepted, but the state has not changed yet
	WaitedMS     int64         `json:"waited_ms"`
	Note         string        `json:"note,omitempty"`
}

var controlDevice = toolyard.Define(writeSpec("control_device",
	"Controls lights, switches, thermostats, covers, media players and similar devices, either individually or all devices of one kind in an area. For locks, alarms, valves, sirens and garage doors, use control_security."),
	func(ctx context.Context, c *toolyard.Call, in controlArgs) (controlResult, error) {
		ctl, v, err := controlsOf(ctx, c)
		if err != nil {
			return controlResult{}, err
		}
		targets, err := v.targets(in.IDs, in.Area, in.Domain)
		if err != nil {
			return controlResult{}, err
		}
		for _, e := range targets {
			if err := v.checkPlain(e); err != nil {
				return controlResult{}, err
			}
		}
		return ctl.perform(ctx, v, targets, in.Action, in.Value)
	})

// targets resolves IDs, or an area with a domain, to entities. Home Assistant receives only their
// IDs, so that nothing else can be affected.
func (v *view) targets(ids []string, area, domain string) ([]*hass.Entity, error) {
	if (len(ids) > 0) == (area != "") {
		return nil, toolyard.Errorf(toolyard.Invalid, "Set either ids, or area and domain.")
	}
	if len(ids) > 0 {
		return v.findAll(ids)
	}
	if domain == "" {
		return nil, toolyard.Errorf(toolyard.Invalid, "Set domain, such as light, to choose the devices in the area.")
	}
	if err := v.checkFilters(&listArgs{Area: area, Domain: domain}); err != nil {
		return nil, err
	}
	var found []*hass.Entity
	for e := range v.listed() {
		if strings.EqualFold(e.Domain, domain) && inArea(e, area) {
			found = append(found, e)
		}
	}
	switch {
	case len(found) == 0:
		return nil, toolyard.Errorf(toolyard.NotFound, "No %s found in %s.", printable(domain, 40), printable(area, 80))
	case len(found) > maxTargets:
		return nil, toolyard.Errorf(toolyard.Invalid, "%d devices match; the limit is %d. Use ids.", len(found), maxTargets)
	}
	return found, nil
}

// members returns an entity and, for a group, its members at any depth.
func (v *view) members(e *hass.Entity) []*hass.Entity {
	all := []*hass.Entity{e}
	for i := 0; i < len(all) && len(all) < 1000; i++ {
		if all[i].Domain == "scene" {
			continue
		}
		for _, id := range all[i].State.Texts("entity_id") {
			if m := v.Entity(id); m != nil && !slices.Contains(all, m) {
				all = append(all, m)
			}
		}
	}
	return all
}

// isSensitive reports whether an entity, or a member of a group, requires confirmation.
func (v *view) isSensitive(e *hass.Entity) bool {
	return slices.ContainsFunc(v.members(e), v.home.policy.isSensitive)
}

// checkDenied returns an error if an entity, or a member of a group, is denied.
func (v *view) checkDenied(e *hass.Entity) error {
	for _, m := range v.members(e) {
		if matchesAny(v.home.policy.deny, m.ID) {
			return toolyard.Errorf(toolyard.PermissionDenied, "%s affects a device that the operator does not allow.", e.ID)
		}
	}
	return nil
}

// checkPlain returns an error for an entity that control_device must not touch.
func (v *view) checkPlain(e *hass.Entity) error {
	if err := v.checkDenied(e); err != nil {
		return err
	}
	if v.isSensitive(e) {
		return toolyard.Errorf(toolyard.PermissionDenied, "%s (%s) requires user confirmation. Use control_security.", printable(e.Name, 80), e.ID)
	}
	return nil
}

// call calls a service. It returns before the call's deadline, so that the outcome can be reported.
func (ctl *controls) call(ctx context.Context, domain, service string, data, target map[string]any) error {
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	return ctl.client.CallService(ctx, domain, service, data, target)
}

// perform calls the services for an action on entities and waits for their states.
func (ctl *controls) perform(ctx context.Context, before *view, targets []*hass.Entity, action string, v *value) (controlResult, error) {
	var order []string
	batches := make(map[string]*request)
	ids := make(map[string][]string)
	goals := make(map[string]*request, len(targets))
	for _, e := range targets {
		r, err := requestFor(e, action, v)
		if err != nil {
			return controlResult{}, err
		}
		if code := ctl.policy.codes[e.ID]; code != "" {
			if r.data == nil {
				r.data = make(map[string]any, 1)
			}
			r.data["code"] = code
		}
		if batches[r.key()] == nil {
			order = append(order, r.key())
			batches[r.key()] = r
		}
		ids[r.key()] = append(ids[r.key()], e.ID)
		goals[e.ID] = r
	}
	start := time.Now()
	for i, key := range order {
		r := batches[key]
		if err := ctl.call(ctx, r.domain, r.service, r.data, map[string]any{"entity_id": ids[key]}); err != nil {
			return ctl.afterError(ctx, before, goals, err, i > 0)
		}
	}
	result := ctl.await(ctx, before, goals, start)
	if len(result.NotConfirmed) > 0 {
		result.Note = "Home Assistant accepted the command, but the state has not changed yet."
	}
	return result, nil
}

// afterError returns the outcome of a failed call. If the response was lost, the call counts as
// successful if all mirrored states are as requested.
func (ctl *controls) afterError(ctx context.Context, before *view, goals map[string]*request, err error, partly bool) (controlResult, error) {
	if isUncertain(err) {
		waiting, cancel := context.WithTimeout(context.WithoutCancel(ctx), confirmWait)
		defer cancel()
		if result := ctl.await(waiting, before, goals, time.Now()); len(result.NotConfirmed) == 0 {
			result.Note = "Home Assistant did not respond, but the states have changed."
			return result, nil
		}
	}
	failure := writeFailure(err)
	if partly {
		e := *toolyard.AsError(failure)
		e.Message, e.RetryAfter = "Some devices were changed before this error: "+e.Message, 0
		return controlResult{}, &e
	}
	return controlResult{}, failure
}

// await waits until the states of all entities are as requested or have changed, for at most
// confirmWait.
func (ctl *controls) await(ctx context.Context, before *view, goals map[string]*request, start time.Time) controlResult {
	timeout := time.NewTimer(confirmWait)
	defer timeout.Stop()
	for {
		now, _, err := ctl.client.Snapshot()
		if err != nil {
			now = before.Snapshot
		}
		result := compare(before, now, goals)
		result.WaitedMS = time.Since(start).Milliseconds()
		if len(result.NotConfirmed) == 0 {
			return result
		}
		select {
		case <-now.Replaced():
		case <-timeout.C:
			return result
		case <-ctx.Done():
			return result
		}
	}
}

// compare groups entities by the effect that the call had on them.
func compare(before *view, now *hass.Snapshot, goals map[string]*request) controlResult {
	result := controlResult{Changed: []stateChange{}}
	for id, r := range goals {
		old, e := before.Entity(id), now.Entity(id)
		if e == nil {
			result.NotConfirmed = append(result.NotConfirmed, id)
			continue
		}
		from, to := describe(old), describe(e)
		switch {
		case r.reached != nil && !r.reached(e.State), r.reached == nil && !e.State.Updated.After(old.State.Updated):
			result.NotConfirmed = append(result.NotConfirmed, id)
		case r.reached != nil && from == to:
			result.Unchanged = append(result.Unchanged, id)
		default:
			result.Changed = append(result.Changed, stateChange{id, from, to})
		}
	}
	slices.SortFunc(result.Changed, func(a, b stateChange) int { return strings.Compare(a.ID, b.ID) })
	slices.Sort(result.Unchanged)
	slices.Sort(result.NotConfirmed)
	return result
}

// forHuman formats a duration for a question to the user.
func forHuman(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "less than a minute"
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}
