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

type securityArgs struct {
	ID     string `json:"id,omitempty" maxLength:"255" doc:"The device, by entity id such as lock.front_door or by name. Use this or area"`
	Area   string `json:"area,omitempty" doc:"Control all devices in this area or on this floor that support the action. Pass the id, name or alias of the area or floor"`
	Action string `json:"action" enum:"lock,unlock,open,close,stop,arm_home,arm_away,arm_night,disarm,turn_on,turn_off,toggle,press" doc:"What to do with the device. If a code is needed, Toolyard takes it from the configuration"`
}

// confirmedResult is the result of a write that may need confirmation.
type confirmedResult struct {
	Outcome string `json:"outcome"` // "done", "declined" or "canceled"
	controlResult
}

// accepted is the user's reply that confirms an action.
const accepted = "accept"

// declined returns the result if the user did not agree.
func declined(reply string) confirmedResult {
	outcome := "declined"
	if reply == "cancel" {
		outcome = "canceled"
	}
	return confirmedResult{outcome, controlResult{Changed: []stateChange{}, Note: "The user did not confirm. Nothing was changed."}}
}

var controlSecurity = toolyard.Define(writeSpec("control_security",
	"Controls locks, alarms, valves, sirens, garage doors and other devices that require confirmation. The user must confirm every call."),
	func(ctx context.Context, c *toolyard.Call, in securityArgs) (confirmedResult, error) {
		ctl, v, err := controlsOf(ctx, c)
		if err != nil {
			return confirmedResult{}, err
		}
		targets, err := v.securityTargets(&in)
		if err != nil {
			return confirmedResult{}, err
		}
		reply, err := toolyard.Ask[struct{}](ctx, c, toolyard.Question{
			Key: "confirm", Message: v.question(c, in.Action, targets), Bind: bindTo(in.Action, targets),
		})
		if err != nil {
			return confirmedResult{}, err
		}
		if !reply.Accepted() {
			return declined(reply.Action), nil
		}
		result, err := ctl.perform(ctx, v, targets, in.Action, nil)
		return confirmedResult{"done", result}, err
	})

// securityTargets resolves an ID or an area to entities that require confirmation.
func (v *view) securityTargets(in *securityArgs) ([]*hass.Entity, error) {
	if (in.ID == "") == (in.Area == "") {
		return nil, toolyard.Errorf(toolyard.Invalid, "Set either id or area.")
	}
	var targets []*hass.Entity
	if in.ID != "" {
		e, err := v.find(in.ID)
		if err != nil {
			return nil, err
		}
		if !v.isSensitive(e) {
			return nil, toolyard.Errorf(toolyard.Invalid, "%s does not require confirmation. Use control_device.", e.ID)
		}
		targets = append(targets, e)
	} else {
		if err := v.checkArea(in.Area); err != nil {
			return nil, err
		}
		for e := range v.listed() {
			if _, ok := services[e.Domain][in.Action]; ok && inArea(e, in.Area) && v.isSensitive(e) {
				targets = append(targets, e)
			}
		}
	}
	switch {
	case len(targets) == 0:
		return nil, toolyard.Errorf(toolyard.NotFound, "Nothing to %s in %s.", in.Action, printable(in.Area, 80))
	case len(targets) > maxTargets:
		return nil, toolyard.Errorf(toolyard.Invalid, "%d devices match; the limit is %d. Use an id.", len(targets), maxTargets)
	}
	for _, e := range targets {
		if err := v.checkDenied(e); err != nil {
			return nil, err
		}
		if _, err := requestFor(e, in.Action, nil); err != nil {
			return nil, err
		}
	}
	return targets, nil
}

// question returns a description of the action that the user is asked to confirm.
func (v *view) question(c *toolyard.Call, action string, targets []*hass.Entity) string {
	verb := strings.ReplaceAll(action, "_", " ")
	return strings.ToUpper(verb[:1]) + verb[1:] + " " + v.presentAll(targets) + "?" + requestedBy(c)
}

// presentAll describes entities. It lists only a few, because a user cannot judge more.
func (v *view) presentAll(entities []*hass.Entity) string {
	var all []string
	for i, e := range entities {
		if i == 10 {
			all = append(all, fmt.Sprintf("and %d more", len(entities)-i))
			break
		}
		all = append(all, v.present(e))
	}
	return strings.Join(all, "; ")
}

// present describes an entity with its area and present state.
func (v *view) present(e *hass.Entity) string {
	place := printable(areaName(e), 60)
	if place == "" {
		place = e.ID
	}
	text := fmt.Sprintf("“%s” (%s), now %s", printable(e.Name, 80), place, printable(e.State.Value, 40))
	if changed := e.State.Changed; !changed.IsZero() {
		text += " for " + forHuman(v.home.now().Sub(changed))
	}
	return text
}

func requestedBy(c *toolyard.Call) string {
	if !c.Caller.Authenticated() {
		return fmt.Sprintf(" Requested through gate %s.", c.Gate)
	}
	return fmt.Sprintf(" Requested by %s.", printable(c.Caller.ID, 80))
}

// bindTo returns the state that an answer depends on. If an entity's state changes before the
// answer, the user is asked again.
func bindTo(action string, entities []*hass.Entity) string {
	lines := make([]string, 0, len(entities))
	for _, e := range entities {
		lines = append(lines, fmt.Sprintf("%s=%q@%s", e.ID, e.State.Value, e.State.Changed.Format(time.RFC3339Nano)))
	}
	slices.Sort(lines)
	return action + "\n" + strings.Join(lines, "\n")
}
