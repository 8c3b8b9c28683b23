package homeassistant

import (
	"context"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/homeassistant/hass"
)

type automationArgs struct {
	Area  string `json:"area,omitempty" doc:"Return only entries in this area or on this floor. Pass its id, name or alias"`
	Query string `json:"query,omitempty" maxLength:"100" doc:"Return only entries whose id or name contains this text"`
}

// automationSummary is an automation, scene or script.
type automationSummary struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Area    string `json:"area,omitempty"`
	Enabled *bool  `json:"enabled,omitempty"` // only for automations
	Running bool   `json:"running,omitempty"`
	LastRun string `json:"last_run,omitempty"`
}

type automationList struct {
	Items []automationSummary `json:"items"`
	Shown int                 `json:"shown"`
	Total int                 `json:"total"`
	Note  string              `json:"note,omitempty"`
}

const maxAutomations = 100 // per answer

var listAutomations = toolyard.Define(readSpec("list_automations", "Lists the home's automations, with whether each one is enabled and when it last ran."),
	func(ctx context.Context, c *toolyard.Call, in automationArgs) (automationList, error) {
		return listRunnable(ctx, c, in, "automation")
	})

var listScenesAndScripts = toolyard.Define(readSpec("list_scenes_and_scripts", "Lists the scenes and scripts that you can start with activate_scene and run_script."),
	func(ctx context.Context, c *toolyard.Call, in automationArgs) (automationList, error) {
		return listRunnable(ctx, c, in, "scene", "script")
	})

func listRunnable(ctx context.Context, c *toolyard.Call, in automationArgs, domains ...string) (automationList, error) {
	v, err := viewOf(ctx, c)
	if err != nil {
		return automationList{}, err
	}
	if in.Area != "" {
		if err := v.checkArea(in.Area); err != nil {
			return automationList{}, err
		}
	}
	out := automationList{Items: []automationSummary{}, Note: v.note()}
	filter := listArgs{}
	for e := range v.listed() {
		for _, domain := range domains {
			filter.Domain = domain
			if !v.matches(e, &filter, strings.ToLower(in.Query)) || in.Area != "" && !inArea(e, in.Area) {
				continue
			}
			if out.Total++; out.Total <= maxAutomations {
				out.Items = append(out.Items, summarizeRunnable(e))
			}
		}
	}
	out.Shown = len(out.Items)
	return out, nil
}

func summarizeRunnable(e *hass.Entity) automationSummary {
	s := automationSummary{ID: e.ID, Name: printable(e.Name, 80), Area: printable(areaName(e), 60)}
	last := e.State.Text("last_triggered")
	switch e.Domain {
	case "automation":
		enabled := e.State.Value == "on"
		s.Enabled = &enabled
	case "script":
		s.Running = e.State.Value == "on"
	case "scene":
		last = e.State.Value // time of the last activation
	}
	if at, err := time.Parse(time.RFC3339, last); err == nil {
		s.LastRun = minute(at)
	}
	return s
}
