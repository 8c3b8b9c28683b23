package homeassistant

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/homeassistant/hass"
)

const (
	maxHistory    = 7 * 24 * time.Hour // per request, because busy sensors record every second
	maxStatistics = 600                // rows per answer
	maxActivity   = 100                // lines per answer
)

// span is a period that ends no later than the as-of time.
type span struct {
	From *time.Time `json:"from,omitempty" doc:"Start of the period, as an RFC 3339 time. Default: 24 hours before the end"`
	To   *time.Time `json:"to,omitempty" doc:"End of the period, as an RFC 3339 time. Default: now"`
}

func (s *span) resolve(asOf time.Time, longest time.Duration) (from, to time.Time, err error) {
	to = asOf
	if s.To != nil && s.To.Before(asOf) {
		to = *s.To
	}
	from = to.Add(-24 * time.Hour)
	if s.From != nil {
		from = *s.From
	}
	switch {
	case !from.Before(to):
		return from, to, toolyard.Errorf(toolyard.Invalid, "\"from\" must be earlier than \"to\" and earlier than now.")
	case longest > 0 && to.Sub(from) > longest:
		return from, to, toolyard.Errorf(toolyard.Invalid, "The period can be at most %d days. Use get_statistics for a longer period.", int(longest.Hours()/24))
	}
	return from, to, nil
}

// recorded returns the entities for a request about the past, for which the as-of time need not be
// the present.
func recorded(ctx context.Context, c *toolyard.Call, ids []string) (*view, []*hass.Entity, error) {
	h, err := homeOf(c)
	if err != nil {
		return nil, nil, err
	}
	v, err := h.view(ctx)
	if err != nil {
		return nil, nil, err
	}
	all, err := v.findAll(ids)
	return v, all, err
}

type historyArgs struct {
	IDs []string `json:"ids" minItems:"1" maxItems:"10" doc:"The devices to include, by entity id such as sensor.outdoor_temperature or by name"`
	span
	MaxPoints int `json:"max_points,omitempty" minimum:"10" maximum:"1000" default:"200" doc:"Maximum number of data points to return for each device"`
}

// series is one entity's history. A point is a time and a state.
type series struct {
	ID      string      `json:"id"`
	Name    string      `json:"name"`
	Unit    string      `json:"unit,omitempty"`
	Points  [][2]string `json:"points"`
	Total   int         `json:"total"`             // number of recorded points
	Thinned string      `json:"thinned,omitempty"` // how the points were selected
}

type historyResult struct {
	From   string   `json:"from"`
	To     string   `json:"to"`
	Series []series `json:"series"`
}

var getHistory = toolyard.Define(readSpec("get_history",
	"Returns the recorded states of devices over a period of at most 7 days. Long numeric series are reduced to the minimum and maximum of each interval. For longer periods, use get_statistics."),
	func(ctx context.Context, c *toolyard.Call, in historyArgs) (historyResult, error) {
		v, all, err := recorded(ctx, c, in.IDs)
		if err != nil {
			return historyResult{}, err
		}
		from, to, err := in.resolve(c.AsOf, maxHistory)
		if err != nil {
			return historyResult{}, err
		}
		out := historyResult{From: minute(from), To: minute(to), Series: []series{}}
		for _, e := range all {
			points, err := v.home.client.History(ctx, e.ID, from, to)
			if err != nil {
				return historyResult{}, failureOf(err)
			}
			points = slices.DeleteFunc(points, func(p hass.Point) bool { return p.At.After(to) })
			s := series{ID: e.ID, Name: printable(e.Name, 80), Unit: e.State.Unit, Total: len(points), Points: [][2]string{}}
			points, s.Thinned = thin(points, in.MaxPoints)
			for _, p := range points {
				s.Points = append(s.Points, [2]string{p.At.UTC().Format(time.RFC3339), printable(p.State, 100)})
			}
			out.Series = append(out.Series, s)
		}
		return out, nil
	})

// thin returns at most limit points. For a numeric series, these are the minimum and maximum of
// limit/2 intervals; otherwise, they are the newest points.
func thin(points []hass.Point, limit int) (kept []hass.Point, how string) {
	if len(points) <= limit {
		return points, ""
	}
	values := make([]float64, len(points))
	for i, p := range points {
		v, err := strconv.ParseFloat(p.State, 64)
		switch {
		case err == nil && !math.IsNaN(v) && !math.IsInf(v, 0):
			values[i] = v
		case p.State == "unavailable" || p.State == "unknown":
			values[i] = math.NaN()
		default:
			return points[len(points)-limit:], "only the newest points are shown"
		}
	}
	buckets := limit / 2
	for b := range buckets {
		low, high := b*len(points)/buckets, (b+1)*len(points)/buckets
		smallest, largest := -1, -1
		for i := low; i < high; i++ {
			if math.IsNaN(values[i]) {
				continue
			}
			if smallest < 0 || values[i] < values[smallest] {
				smallest = i
			}
			if largest < 0 || values[i] > values[largest] {
				largest = i
			}
		}
		for _, i := range slices.Compact(slices.Sorted(slices.Values([]int{smallest, largest}))) {
			if i >= 0 {
				kept = append(kept, points[i])
			}
		}
	}
	return kept, "the minimum and maximum of each interval are shown"
}

// statisticsPeriods are the possible lengths of a row. For a month, it is the maximum.
var statisticsPeriods = map[string]time.Duration{
	"5minute": 5 * time.Minute, "hour": time.Hour, "day": 24 * time.Hour, "week": 7 * 24 * time.Hour, "month": 31 * 24 * time.Hour,
}

type statisticsArgs struct {
	IDs    []string `json:"ids" minItems:"1" maxItems:"10" doc:"The devices to include, by entity id such as sensor.outdoor_temperature or by name"`
	Period string   `json:"period" enum:"5minute,hour,day,week,month" default:"hour" doc:"Length of the interval that each row of the result covers"`
	span
}

// statisticsSeries contains one entity's statistics: rows of mean, minimum and maximum or, for
// meters, of change and sum.
type statisticsSeries struct {
	ID   string          `json:"id"`
	Name string          `json:"name"`
	Unit string          `json:"unit,omitempty"`
	Rows []statisticsRow `json:"rows"`
}

type statisticsRow struct {
	Start  string   `json:"start"`
	Mean   *float64 `json:"mean,omitempty"`
	Min    *float64 `json:"min,omitempty"`
	Max    *float64 `json:"max,omitempty"`
	Change *float64 `json:"change,omitempty"`
	Sum    *float64 `json:"sum,omitempty"`
}

type statisticsResult struct {
	Series []statisticsSeries `json:"series"`
}

var getStatistics = toolyard.Define(readSpec("get_statistics",
	"Returns long-term statistics for sensors: the mean, minimum and maximum of measurements, and the consumption of meters. They cover a longer period than get_history."),
	func(ctx context.Context, c *toolyard.Call, in statisticsArgs) (statisticsResult, error) {
		v, all, err := recorded(ctx, c, in.IDs)
		if err != nil {
			return statisticsResult{}, err
		}
		from, to, err := in.resolve(c.AsOf, 0)
		if err != nil {
			return statisticsResult{}, err
		}
		length := statisticsPeriods[in.Period]
		live := v.home.now().Sub(to) < maxPast // rows that are not finished yet have no data after to
		if rows := float64(len(all)) * float64(to.Sub(from)) / float64(length); rows > maxStatistics {
			return statisticsResult{}, toolyard.Errorf(toolyard.Invalid, "The result would have about %.0f rows; the limit is %d. Use a longer interval or a shorter period.", rows, maxStatistics)
		}
		ids := make([]string, 0, len(all))
		for _, e := range all {
			ids = append(ids, e.ID)
		}
		rows, err := v.home.client.Statistics(ctx, ids, in.Period, from, to)
		if err != nil {
			return statisticsResult{}, failureOf(err)
		}
		out := statisticsResult{Series: []statisticsSeries{}}
		for _, e := range all {
			s := statisticsSeries{ID: e.ID, Name: printable(e.Name, 80), Unit: e.State.Unit, Rows: []statisticsRow{}}
			for _, r := range rows[e.ID] {
				start := time.UnixMilli(r.Start)
				if live && start.Before(to) || !start.Add(length).After(to) {
					s.Rows = append(s.Rows, statisticsRow{start.UTC().Format(time.RFC3339), r.Mean, r.Min, r.Max, r.Change, r.Sum})
				}
			}
			if len(s.Rows) == 0 && len(all) == 1 {
				return out, toolyard.Errorf(toolyard.NoData, "Home Assistant has no statistics for %s in this period. Only sensors with a state class have them.", e.ID)
			}
			out.Series = append(out.Series, s)
		}
		return out, nil
	})

type activityArgs struct {
	IDs   []string `json:"ids,omitempty" maxItems:"20" doc:"The devices to include, by entity id or name. Default: all devices"`
	Area  string   `json:"area,omitempty" doc:"Return only events in this area or on this floor. Pass its id, name or alias"`
	Hours int      `json:"hours" minimum:"1" maximum:"72" default:"24" doc:"Number of hours to look back"`
}

// activity is one logbook line.
type activity struct {
	At    string `json:"at"`
	ID    string `json:"id"`
	Name  string `json:"name"`
	State string `json:"state"`
	By    string `json:"by,omitempty"` // person, automation or service that caused it
}

type activityResult struct {
	Activity []activity `json:"activity"` // newest first
	Shown    int        `json:"shown"`
	Total    int        `json:"total"`
}

var getActivity = toolyard.Define(readSpec("get_activity", "Returns recent events in the home, newest first, with the person or automation that caused each of them."),
	func(ctx context.Context, c *toolyard.Call, in activityArgs) (activityResult, error) {
		v, all, err := recorded(ctx, c, in.IDs)
		if err != nil {
			return activityResult{}, err
		}
		if in.Area != "" {
			if err := v.checkArea(in.Area); err != nil {
				return activityResult{}, err
			}
		}
		ids := make([]string, 0, len(all))
		for _, e := range all {
			ids = append(ids, e.ID)
		}
		entries, err := v.home.client.Logbook(ctx, ids, c.AsOf.Add(-time.Duration(in.Hours)*time.Hour), c.AsOf)
		if err != nil {
			return activityResult{}, failureOf(err)
		}
		out := activityResult{Activity: []activity{}}
		people := v.people()
		for i := range slices.Backward(entries) {
			entry := &entries[i]
			e := v.Entity(entry.EntityID)
			if !v.sees(e) || entry.Time().After(c.AsOf) || in.Area != "" && !inArea(e, in.Area) {
				continue
			}
			if out.Total++; out.Total > maxActivity {
				continue
			}
			state := entry.State
			if state == "" {
				state = entry.Message
			}
			out.Activity = append(out.Activity, activity{entry.Time().Format(time.RFC3339), e.ID, printable(e.Name, 80), printable(state, 100), v.causeOf(entry, people)})
		}
		out.Shown = len(out.Activity)
		return out, nil
	})

// people returns the names of visible people, keyed by user ID.
func (v *view) people() map[string]string {
	people := make(map[string]string)
	for _, e := range v.Entities() {
		if e.Domain == "person" && v.sees(e) {
			people[e.State.Text("user_id")] = e.Name
		}
	}
	return people
}

// causeOf describes the cause of an entry. It does not mention entities that are out of scope.
func (v *view) causeOf(entry *hass.LogEntry, people map[string]string) string {
	switch {
	case entry.ContextEntityID != "" && !v.sees(v.Entity(entry.ContextEntityID)):
		return ""
	case entry.ContextName != "":
		return printable(entry.ContextDomain+" "+entry.ContextName, 100)
	case entry.ContextEntityID != "":
		return entry.ContextEntityID
	case entry.ContextUserID != "":
		if name := people[entry.ContextUserID]; name != "" {
			return printable(name, 80)
		}
		return "a user"
	case entry.ContextService != "":
		return printable(entry.ContextDomain+"."+entry.ContextService, 80)
	}
	return ""
}

type cameraArgs struct {
	ID    string `json:"id" minLength:"1" maxLength:"255" doc:"The camera, by entity id such as camera.driveway or by name"`
	Width int    `json:"width" minimum:"320" maximum:"1280" default:"640" doc:"Width of the picture in pixels"`
}

const maxImage = 700 << 10 // bytes per image; base64 adds a third

var getCameraImage = toolyard.Define(readSpec("get_camera_image", "Returns a current picture from one of the home's cameras."),
	func(ctx context.Context, c *toolyard.Call, in cameraArgs) (toolyard.Image, error) {
		v, err := viewOf(ctx, c)
		if err != nil {
			return toolyard.Image{}, err
		}
		e, err := v.find(in.ID)
		if err != nil {
			return toolyard.Image{}, err
		}
		if e.Domain != "camera" {
			return toolyard.Image{}, toolyard.Errorf(toolyard.Invalid, "%s is not a camera. Use list_devices with domain camera.", e.ID)
		}
		data, mime, err := v.home.client.CameraImage(ctx, e.ID, in.Width, maxImage)
		if e, ok := errors.AsType[*hass.Error](err); ok && e.Code == hass.CodeTooLarge {
			return toolyard.Image{}, toolyard.Errorf(toolyard.ResultTooLarge, "The picture is larger than %d KiB. Choose a smaller width.", maxImage>>10)
		}
		if err != nil {
			return toolyard.Image{}, failureOf(err)
		}
		return toolyard.Image{Data: data, MIMEType: mime}, nil
	})
