package fakehome

import (
	"math"
	"slices"
	"strings"
	"time"
)

// period returns a command's start_time and end_time.
func period(command object) (start, end time.Time, err *failure) {
	start, parseErr := time.Parse(time.RFC3339, text(command["start_time"]))
	if parseErr != nil {
		return start, end, &failure{"invalid_start_time", "Invalid start_time"}
	}
	end = time.Now()
	if value := text(command["end_time"]); value != "" {
		if end, parseErr = time.Parse(time.RFC3339, value); parseErr != nil {
			return start, end, &failure{"invalid_end_time", "Invalid end_time"}
		}
	}
	return start, end, nil
}

// measured returns a sensor's generated value: a daily curve with a spike at 12:00 UTC.
func measured(at time.Time) float64 {
	value := 20 + 2*math.Sin(2*math.Pi*float64(at.Hour()*60+at.Minute())/1440)
	if at.Hour() == 12 && at.Minute() == 0 {
		value += 10
	}
	return math.Round(value*100) / 100
}

// history returns compressed states. Temperature sensors have a value every minute.
func (w *world) history(command object) (any, *failure) {
	start, end, err := period(command)
	if err != nil {
		return nil, err
	}
	ids := list(command["entity_ids"])
	if len(ids) == 0 {
		return nil, &failure{"invalid_entity_ids", "Invalid entity_ids"}
	}
	result := object{}
	for _, id := range ids {
		rows := []object{}
		if strings.HasPrefix(id, "sensor.") && w.attributes(id)["state_class"] == "measurement" {
			for at := start.Truncate(time.Minute).Add(time.Minute); !at.After(end); at = at.Add(time.Minute) {
				rows = append(rows, object{"s": formatFloat(measured(at.UTC())), "lu": seconds(at)})
			}
		} else {
			for _, c := range w.changes {
				if c.id == id && !c.at.Before(start) && !c.at.After(end) {
					rows = append(rows, object{"s": c.state, "lu": seconds(c.at)})
				}
			}
		}
		if len(rows) > 0 {
			rows[0]["a"] = object{}
			result[id] = rows
		}
	}
	return result, nil
}

// statistics returns hourly or longer rows with times in milliseconds.
func (w *world) statistics(command object) (any, *failure) {
	start, end, err := period(command)
	if err != nil {
		return nil, err
	}
	step, ok := map[string]time.Duration{"5minute": 5 * time.Minute, "hour": time.Hour, "day": 24 * time.Hour, "week": 7 * 24 * time.Hour, "month": 30 * 24 * time.Hour}[text(command["period"])]
	if !ok {
		return nil, &failure{"invalid_format", "value must be one of ['5minute', 'day', 'hour', 'month', 'week', 'year']"}
	}
	result := object{}
	for _, id := range list(command["statistic_ids"]) {
		class, _ := w.attributes(id)["state_class"].(string)
		if class == "" {
			continue
		}
		rows := []object{}
		for at := start.UTC().Truncate(step); at.Before(end); at = at.Add(step) {
			row := object{"start": at.UnixMilli(), "end": at.Add(step).UnixMilli()}
			if class == "measurement" {
				row["mean"], row["min"], row["max"] = 20.0, 18.0, 32.0
			} else {
				row["sum"], row["state"], row["change"] = float64(at.Unix()/3600), float64(at.Unix()/3600), 1.5
			}
			rows = append(rows, row)
		}
		result[id] = rows
	}
	return result, nil
}

// logbook returns the recorded changes with their causes.
func (w *world) logbook(command object) (any, *failure) {
	start, end, err := period(command)
	if err != nil {
		return nil, err
	}
	ids := list(command["entity_ids"])
	rows := []object{}
	for _, c := range w.changes {
		if c.at.Before(start) || c.at.After(end) || len(ids) > 0 && !slices.Contains(ids, c.id) {
			continue
		}
		row := object{"when": seconds(c.at), "state": c.state, "entity_id": c.id, "name": w.attributes(c.id)["friendly_name"]}
		if user := c.context["user_id"]; user != nil {
			row["context_user_id"] = user
		}
		switch c.id {
		case "light.hall":
			row["context_event_type"], row["context_domain"], row["context_name"], row["context_entity_id"] = "automation_triggered", "automation", "Night lights", "automation.night"
			row["context_message"], row["context_source"] = "triggered by time", "time"
		case "switch.coffee":
			row["context_domain"], row["context_service"], row["context_event_type"] = "switch", "turn_on", "call_service"
		}
		rows = append(rows, row)
	}
	slices.SortStableFunc(rows, func(a, b object) int { return int(math.Copysign(1, a["when"].(float64)-b["when"].(float64))) })
	return rows, nil
}
