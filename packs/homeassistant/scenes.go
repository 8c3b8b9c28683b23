package homeassistant

import (
	"context"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/homeassistant/hass"
)

type sceneArgs struct {
	ID string `json:"id" minLength:"1" maxLength:"255" doc:"The scene to activate, by entity id such as scene.movie_night or by name"`
}

type scriptArgs struct {
	ID        string         `json:"id" minLength:"1" maxLength:"255" doc:"The script to start, by entity id such as script.good_night or by name"`
	Variables map[string]any `json:"variables,omitempty" doc:"Values for the variables that the script defines, by name"`
}

type automationRunArgs struct {
	ID             string `json:"id" minLength:"1" maxLength:"255" doc:"The automation to run, by entity id such as automation.porch_light or by name"`
	SkipConditions bool   `json:"skip_conditions" default:"false" doc:"Run the actions even if the automation's conditions are not met"`
}

var activateScene = toolyard.Define(writeSpec("activate_scene", "Activates a scene. If the scene affects locks, alarms or similar devices, the user must confirm first."),
	func(ctx context.Context, c *toolyard.Call, in sceneArgs) (confirmedResult, error) {
		return runEntity(ctx, c, in.ID, "scene", "turn_on", nil)
	})

var runScript = toolyard.Define(writeSpec("run_script", "Starts a script. If the script affects locks, alarms or similar devices, or if its effects are unknown, the user must confirm first."),
	func(ctx context.Context, c *toolyard.Call, in scriptArgs) (confirmedResult, error) {
		var data map[string]any
		if len(in.Variables) > 0 {
			data = map[string]any{"variables": in.Variables}
		}
		return runEntity(ctx, c, in.ID, "script", "turn_on", data)
	})

var triggerAutomation = toolyard.Define(writeSpec("trigger_automation", "Runs an automation's actions now. If they affect locks, alarms or similar devices, or if their effects are unknown, the user must confirm first."),
	func(ctx context.Context, c *toolyard.Call, in automationRunArgs) (confirmedResult, error) {
		return runEntity(ctx, c, in.ID, "automation", "trigger", map[string]any{"skip_condition": in.SkipConditions})
	})

// runEntity runs a scene, script or automation. If it can affect something that requires
// confirmation, the user is asked first.
func runEntity(ctx context.Context, c *toolyard.Call, id, domain, service string, data map[string]any) (confirmedResult, error) {
	ctl, v, err := controlsOf(ctx, c)
	if err != nil {
		return confirmedResult{}, err
	}
	e, err := v.find(id)
	if err != nil {
		return confirmedResult{}, err
	}
	if e.Domain != domain {
		return confirmedResult{}, toolyard.Errorf(toolyard.Invalid, "%s is not a %s.", e.ID, domain)
	}
	affected, err := v.reach(ctx, e)
	if err != nil {
		return confirmedResult{}, err
	}
	for entity := range affected.entities {
		if err := v.checkDenied(entity); err != nil {
			return confirmedResult{}, toolyard.Errorf(toolyard.PermissionDenied, "%s affects a device that the operator does not allow.", e.ID)
		}
	}
	if agreed, err := affected.confirm(ctx, c, e); err != nil || agreed != accepted {
		return declined(agreed), err
	}
	start := time.Now()
	if err := ctl.call(ctx, domain, service, data, map[string]any{"entity_id": []string{e.ID}}); err != nil {
		return confirmedResult{}, writeFailure(err)
	}
	return confirmedResult{"done", ctl.settle(ctx, v, affected, start)}, nil
}

// confirm asks the user for confirmation if required.
func (r *reach) confirm(ctx context.Context, c *toolyard.Call, e *hass.Entity) (string, error) {
	sensitive := r.sensitive()
	if len(sensitive) == 0 && len(r.unknown) == 0 {
		return accepted, nil
	}
	message := "Run “" + printable(e.Name, 80) + "” (" + e.ID + ")?"
	if len(sensitive) > 0 {
		message += " It affects " + r.view.presentAll(sensitive) + "."
	}
	if len(r.unknown) > 0 {
		message += " It may have further effects: " + strings.Join(r.unknown, "; ") + "."
	}
	reply, err := toolyard.Ask[struct{}](ctx, c, toolyard.Question{
		Key: "confirm", Message: message + requestedBy(c), Bind: bindTo(r.digest(), sensitive),
	})
	return reply.Action, err
}

// settle returns the affected entities that have changed since a script was started.
func (ctl *controls) settle(ctx context.Context, before *view, affected *reach, start time.Time) controlResult {
	select {
	case <-ctx.Done():
	case <-time.After(settleWait):
	}
	result := controlResult{Changed: []stateChange{}, WaitedMS: time.Since(start).Milliseconds()}
	now, _, err := ctl.client.Snapshot()
	if err != nil {
		result.Note = "Home Assistant accepted the call, then disconnected."
		return result
	}
	for _, old := range affected.matching(before.sees) {
		if e := now.Entity(old.ID); e != nil && e.State.Updated.After(old.State.Updated) && len(result.Changed) < maxTargets {
			result.Changed = append(result.Changed, stateChange{e.ID, describe(old), describe(e)})
		}
	}
	return result
}
