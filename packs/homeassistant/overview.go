package homeassistant

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/homeassistant/hass"
)

const (
	maxOverview = 4 << 10 // in bytes
	lowBattery  = 20      // in percent
)

// overview is a summary of the home.
type overview struct {
	Devices     int            `json:"devices"`
	Areas       []areaOverview `json:"areas"`
	MoreAreas   int            `json:"more_areas,omitempty"`
	WithoutArea int            `json:"without_area,omitempty"`
	People      *names         `json:"people,omitempty"`
	Alarms      *names         `json:"alarms,omitempty"`
	Unlocked    *names         `json:"unlocked,omitempty"`
	LowBattery  *names         `json:"low_battery,omitempty"`
	Unavailable *names         `json:"unavailable,omitempty"`
	NotShown    *notShown      `json:"not_shown,omitempty"`
	Note        string         `json:"note,omitempty"`
}

// areaOverview is one area.
type areaOverview struct {
	Area    string `json:"area"`
	Floor   string `json:"floor,omitempty"`
	Devices int    `json:"devices"`
	On      *names `json:"on,omitempty"`
	Open    *names `json:"open,omitempty"`
}

// notShown counts the entities that are omitted.
type notShown struct {
	OutOfScope int `json:"out_of_scope,omitempty"`
	Minor      int `json:"hidden_or_diagnostic,omitempty"`
}

// names is a list of device names and their total number. Long lists are truncated.
type names struct {
	Count int      `json:"count"`
	Names []string `json:"names,omitempty"`
}

func (n *names) add(name string) *names {
	if n == nil {
		n = &names{}
	}
	n.Count++
	if len(n.Names) < 20 {
		n.Names = append(n.Names, printable(name, 60))
	}
	return n
}

// cut shortens the list.
func (n *names) cut(limit int) {
	if n != nil {
		n.Names = n.Names[:min(limit, len(n.Names))]
	}
}

var homeOverview = toolyard.Define(readSpec("home_overview",
	"Summarizes the home: for each area, the devices that are on or open; also unlocked doors, alarms, low batteries, unavailable devices, and people. Call this tool first."),
	func(ctx context.Context, c *toolyard.Call, _ struct{}) (*overview, error) {
		v, err := viewOf(ctx, c)
		if err != nil {
			return nil, err
		}
		return v.overview(), nil
	})

func (v *view) overview() *overview {
	o := &overview{Areas: []areaOverview{}, Note: v.note()}
	byArea := make(map[*hass.Area]*areaOverview, len(v.Areas))
	var left notShown
	for _, e := range v.Entities() {
		switch {
		case !v.sees(e):
			left.OutOfScope++
			continue
		case isLow(e): // batteries are diagnostic entities
			o.LowBattery = o.LowBattery.add(fmt.Sprintf("%s %s %%", e.Name, e.State.Value))
		}
		if isMinor(e) {
			left.Minor++
			continue
		}
		o.Devices++
		o.addState(e)
		if e.Area == nil {
			o.WithoutArea++
			continue
		}
		a := byArea[e.Area]
		if a == nil {
			a = &areaOverview{Area: printable(e.Area.Name, 60)}
			if e.Area.Floor != nil {
				a.Floor = printable(e.Area.Floor.Name, 40)
			}
			byArea[e.Area] = a
		}
		a.add(e)
	}
	for _, a := range v.Areas {
		if found := byArea[a]; found != nil {
			o.Areas = append(o.Areas, *found)
		}
	}
	if left != (notShown{}) {
		o.NotShown = &left
	}
	o.fit()
	return o
}

func isLow(e *hass.Entity) bool {
	if e.State.DeviceClass != "battery" {
		return false
	}
	if e.Domain == "binary_sensor" {
		return e.State.Value == "on"
	}
	percent, err := strconv.ParseFloat(e.State.Value, 64)
	return err == nil && percent <= lowBattery
}

// addState counts states that matter regardless of the device's area.
func (o *overview) addState(e *hass.Entity) {
	switch {
	case e.State.Value == "unavailable":
		o.Unavailable = o.Unavailable.add(e.Name)
	case e.Domain == "lock" && e.State.Value != "locked":
		o.Unlocked = o.Unlocked.add(e.Name)
	case e.Domain == "alarm_control_panel":
		o.Alarms = o.Alarms.add(e.Name + ": " + e.State.Value)
	case e.Domain == "person":
		o.People = o.People.add(e.Name + ": " + e.State.Value)
	}
}

func (a *areaOverview) add(e *hass.Entity) {
	a.Devices++
	switch e.Domain {
	case "light", "switch", "fan", "climate", "media_player", "humidifier", "siren", "input_boolean", "vacuum":
		switch e.State.Value {
		case "off", "unavailable", "unknown", "standby", "idle", "docked", "paused":
		default:
			a.On = a.On.add(e.Name)
		}
	case "cover", "valve":
		if e.State.Value != "closed" && e.State.Value != "unavailable" && e.State.Value != "unknown" {
			a.Open = a.Open.add(e.Name)
		}
	case "binary_sensor":
		switch e.State.DeviceClass {
		case "door", "garage_door", "window", "opening":
			if e.State.Value == "on" {
				a.Open = a.Open.add(e.Name)
			}
		}
	}
}

// fit shortens lists, and then drops areas, until the overview has at most maxOverview bytes.
func (o *overview) fit() {
	size := func() int {
		raw, _ := json.Marshal(o) // cannot fail
		return len(raw)
	}
	for limit := 10; size() > maxOverview && limit >= 0; limit-- {
		for _, n := range []*names{o.People, o.Alarms, o.Unlocked, o.LowBattery, o.Unavailable} {
			n.cut(limit)
		}
		for i := range o.Areas {
			o.Areas[i].On.cut(limit)
			o.Areas[i].Open.cut(limit)
		}
	}
	for size() > maxOverview && len(o.Areas) > 0 {
		drop := (len(o.Areas) + 9) / 10
		o.Areas = o.Areas[:len(o.Areas)-drop]
		o.MoreAreas += drop
	}
}
