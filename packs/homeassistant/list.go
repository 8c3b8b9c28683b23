package homeassistant

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/homeassistant/hass"
)

const category = "home"

// readTools returns the tools that change nothing.
func readTools() []*toolyard.Tool {
	return []*toolyard.Tool{
		listDevices, getDevice, homeOverview, getHistory, getStatistics, getActivity, getCameraImage, listAutomations, listScenesAndScripts,
	}
}

// readSpec returns the Spec of a tool that changes nothing.
func readSpec(name, description string) toolyard.Spec {
	return toolyard.Spec{Name: name, Description: description, Category: category, Effects: toolyard.ReadOnly, Terms: toolyard.Terms{Latency: "fast"}}
}

type listArgs struct {
	Domain      string `json:"domain,omitempty" doc:"Return only this kind of device, such as light, switch, sensor, binary_sensor, climate, cover, lock or media_player"`
	Area        string `json:"area,omitempty" doc:"Return only devices in this area or on this floor. Pass its id, name or alias"`
	Floor       string `json:"floor,omitempty" doc:"Return only devices on this floor. Pass its id, name or alias"`
	Label       string `json:"label,omitempty" doc:"Return only devices with this label. Pass its id or name"`
	DeviceClass string `json:"device_class,omitempty" doc:"Return only devices of this device class, such as temperature, motion or window"`
	State       string `json:"state,omitempty" doc:"Return only devices that are currently in this state, such as on, open or unavailable"`
	Query       string `json:"query,omitempty" maxLength:"100" doc:"Return only devices whose id or name contains this text"`
	Limit       *int   `json:"limit,omitempty" minimum:"1" maximum:"200" doc:"Maximum number of devices to return. Default: 50"`
	Offset      int    `json:"offset,omitempty" minimum:"0" doc:"Number of devices to skip. To get the next page, pass next_offset from the previous result"`
}

// deviceSummary is an entity in a list. Its domain is the part of the ID before the dot.
type deviceSummary struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Area        string `json:"area,omitempty"`
	State       string `json:"state"`
	Unit        string `json:"unit,omitempty"`
	DeviceClass string `json:"device_class,omitempty"`
	Since       string `json:"since,omitempty"`
}

type deviceList struct {
	Devices     []deviceSummary `json:"devices"`
	Shown       int             `json:"shown"`
	Total       int             `json:"total"`
	NextOffset  int             `json:"next_offset,omitempty"`
	ByDomain    map[string]int  `json:"by_domain,omitempty"`    // counts all matches, if some are not shown
	ByArea      map[string]int  `json:"by_area,omitempty"`      // counts all matches, if some are not shown
	WithoutArea int             `json:"without_area,omitempty"` // entities that match all other filters but are in no area
	Note        string          `json:"note,omitempty"`
}

const (
	defaultLimit = 50
	listBudget   = 5 << 10  // bytes of devices if the request sets no limit
	limitBudget  = 48 << 10 // bytes of devices if the request sets a limit
	maxGroups    = 12       // groups in by_domain and by_area
)

var listDevices = toolyard.Define(readSpec("list_devices",
	"Lists the home's devices (entities) with their areas and current states. Filters can be combined. For a short summary instead of a list, use home_overview."),
	func(ctx context.Context, c *toolyard.Call, in listArgs) (deviceList, error) {
		v, err := viewOf(ctx, c)
		if err != nil {
			return deviceList{}, err
		}
		return v.list(&in)
	})

func (v *view) list(in *listArgs) (deviceList, error) {
	if err := v.checkFilters(in); err != nil {
		return deviceList{}, err
	}
	out := deviceList{Devices: []deviceSummary{}, ByDomain: map[string]int{}, ByArea: map[string]int{}, Note: v.note()}
	limit, budget := defaultLimit, listBudget
	if in.Limit != nil {
		limit, budget = *in.Limit, limitBudget
	}
	query := strings.ToLower(in.Query)
	for e := range v.listed() {
		if !v.matches(e, in, query) {
			continue
		}
		if in.Area != "" && !inArea(e, in.Area) {
			if e.Area == nil {
				out.WithoutArea++
			}
			continue
		}
		out.Total++
		out.ByDomain[e.Domain]++
		out.ByArea[areaName(e)]++
		if out.Total <= in.Offset || out.Shown >= limit || budget <= 0 {
			continue
		}
		summary := summarize(e)
		if budget -= summary.size(); budget > 0 {
			out.Devices = append(out.Devices, summary)
			out.Shown++
		}
	}
	if in.Offset+out.Shown < out.Total {
		out.NextOffset = in.Offset + out.Shown
		out.ByDomain, out.ByArea = largest(out.ByDomain), largest(out.ByArea)
	} else {
		out.ByDomain, out.ByArea = nil, nil
	}
	return out, nil
}

// matches applies all filters except the area.
func (v *view) matches(e *hass.Entity, in *listArgs, query string) bool {
	switch {
	case in.Domain != "" && e.Domain != strings.ToLower(in.Domain),
		in.Floor != "" && (e.Area == nil || !isFloor(e.Area.Floor, in.Floor)),
		in.Label != "" && !hasLabel(e, v.Labels, in.Label),
		in.DeviceClass != "" && !strings.EqualFold(e.State.DeviceClass, in.DeviceClass),
		in.State != "" && !strings.EqualFold(e.State.Value, in.State):
		return false
	}
	return query == "" || strings.Contains(e.ID, query) || strings.Contains(strings.ToLower(e.Name), query)
}

// checkFilters returns an error for an unknown domain, area, floor or label, because an empty list
// would look like a valid result.
func (v *view) checkFilters(in *listArgs) error {
	if in.Area != "" {
		if err := v.checkArea(in.Area); err != nil {
			return err
		}
	}
	if in.Domain != "" {
		if err := v.checkDomain(in.Domain); err != nil {
			return err
		}
	}
	var floors, labels []string
	for _, f := range v.Floors {
		floors = append(append(floors, f.Name, f.ID), f.Aliases...)
	}
	if in.Floor != "" && !containsFold(floors, in.Floor) {
		return unknown("floor", in.Floor, floors)
	}
	for _, l := range v.Labels {
		labels = append(labels, l.Name, l.ID)
	}
	if in.Label != "" && !containsFold(labels, in.Label) {
		return unknown("label", in.Label, labels)
	}
	return nil
}

func (v *view) checkDomain(domain string) error {
	known := map[string]bool{}
	for e := range v.listed() {
		known[e.Domain] = true
	}
	if !known[strings.ToLower(domain)] {
		return unknown("domain", domain, slices.Sorted(maps.Keys(known)))
	}
	return nil
}

// largest returns the largest groups and counts the rest as "other".
func largest(groups map[string]int) map[string]int {
	if n, ok := groups[""]; ok {
		delete(groups, "")
		groups["(no area)"] = n
	}
	if len(groups) <= maxGroups {
		return groups
	}
	names := slices.SortedFunc(maps.Keys(groups), func(a, b string) int {
		if groups[a] != groups[b] {
			return groups[b] - groups[a]
		}
		return strings.Compare(a, b)
	})
	kept := make(map[string]int, maxGroups+1)
	for i, name := range names {
		if i < maxGroups {
			kept[cut(name, 40)] += groups[name]
		} else {
			kept["other"] += groups[name]
		}
	}
	return kept
}

func summarize(e *hass.Entity) deviceSummary {
	return deviceSummary{
		ID: e.ID, Name: printable(e.Name, 80), Area: printable(areaName(e), 60), State: printable(e.State.Value, 120),
		Unit: printable(e.State.Unit, 20), DeviceClass: cut(e.State.DeviceClass, 40), Since: minute(e.State.Changed),
	}
}

// size returns the size of the summary as JSON, in bytes.
func (s *deviceSummary) size() int {
	raw, _ := json.Marshal(s) // cannot fail for strings
	return len(raw) + 1
}

// minute formats a time to the minute, in UTC.
func minute(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04Z")
}
