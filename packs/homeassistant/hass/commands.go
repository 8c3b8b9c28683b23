package hass

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Point is a recorded state.
type Point struct {
	At    time.Time
	State string
}

// History returns an entity's recorded states, oldest first.
func (c *Client) History(ctx context.Context, id string, from, to time.Time) ([]Point, error) {
	var rows map[string][]compressedState
	err := c.Command(ctx, "history/history_during_period", map[string]any{
		"start_time": format(from), "end_time": format(to), "entity_ids": []string{id}, "minimal_response": true, "no_attributes": true,
	}, &rows)
	if err != nil {
		return nil, err
	}
	points := make([]Point, 0, len(rows[id]))
	for _, row := range rows[id] {
		at := row.Changed
		if at == nil {
			at = row.Updated
		}
		if row.State != nil {
			points = append(points, Point{unix(at), *row.State})
		}
	}
	return points, nil
}

// Statistic is a row of long-term statistics. It has a mean or, for a meter, a sum.
type Statistic struct {
	Start  int64    `json:"start"` // in milliseconds
	Mean   *float64 `json:"mean"`
	Min    *float64 `json:"min"`
	Max    *float64 `json:"max"`
	Sum    *float64 `json:"sum"`
	Change *float64 `json:"change"`
}

// Statistics returns long-term statistics, by entity. The period is 5minute, hour,
// day, week or month.
func (c *Client) Statistics(ctx context.Context, ids []string, period string, from, to time.Time) (rows map[string][]Statistic, err error) {
	err = c.Command(ctx, "recorder/statistics_during_period", map[string]any{
		"start_time": format(from), "end_time": format(to), "statistic_ids": ids, "period": period, "types": []string{"mean", "min", "max", "sum", "change"},
	}, &rows)
	return rows, err
}

// LogEntry is a logbook entry with its cause.
type LogEntry struct {
	When     float64 `json:"when"`
	EntityID string  `json:"entity_id"`
	Name     string  `json:"name"`
	State    string  `json:"state"`
	Message  string  `json:"message"`

	ContextUserID   string `json:"context_user_id"`
	ContextDomain   string `json:"context_domain"`
	ContextService  string `json:"context_service"`
	ContextName     string `json:"context_name"`
	ContextEntityID string `json:"context_entity_id"`
	ContextMessage  string `json:"context_message"`
}

// Time returns the time of the entry.
func (e *LogEntry) Time() time.Time { return unix(&e.When) }

// Logbook returns the logbook entries of the given entities, or of all entities if no IDs are
// given, oldest first.
func (c *Client) Logbook(ctx context.Context, ids []string, from, to time.Time) (entries []LogEntry, err error) {
	members := map[string]any{"start_time": format(from), "end_time": format(to)}
	if len(ids) > 0 {
		members["entity_ids"] = ids
	}
	err = c.Command(ctx, "logbook/get_events", members, &entries)
	return entries, err
}

// RelatedEntities returns the entities that a scene, script or automation refers to. Home Assistant
// does not report entities in templates or direct script calls.
func (c *Client) RelatedEntities(ctx context.Context, id string) ([]string, error) {
	domain, _, _ := strings.Cut(id, ".")
	var related struct {
		Entities []string `json:"entity"`
	}
	err := c.Command(ctx, "search/related", map[string]any{"item_type": domain, "item_id": id}, &related)
	return related.Entities, err
}

// ScriptConfig returns the configuration of a script or an automation.
func (c *Client) ScriptConfig(ctx context.Context, id string) (map[string]any, error) {
	domain, _, _ := strings.Cut(id, ".")
	var answer struct {
		Config map[string]any `json:"config"`
	}
	err := c.Command(ctx, domain+"/config", map[string]any{"entity_id": id}, &answer)
	return answer.Config, err
}

// CallService calls a service. The target is a JSON object such as {"entity_id": [...]}.
func (c *Client) CallService(ctx context.Context, domain, service string, data, target map[string]any) error {
	members := map[string]any{"domain": domain, "service": service}
	if len(data) > 0 {
		members["service_data"] = data
	}
	if len(target) > 0 {
		members["target"] = target
	}
	return c.Command(ctx, "call_service", members, nil)
}

// Services returns the names of a domain's services, sorted.
func (c *Client) Services(ctx context.Context, domain string) ([]string, error) {
	var all map[string]map[string]json.RawMessage
	if err := c.Command(ctx, "get_services", nil, &all); err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(all[domain])), nil
}

// CameraImage returns a camera image of at most limit bytes, and its MIME type.
func (c *Client) CameraImage(ctx context.Context, id string, width, limit int) (data []byte, mime string, err error) {
	u := c.base.JoinPath("api/camera_proxy", id)
	u.RawQuery = url.Values{"width": {strconv.Itoa(width)}}.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return nil, "", err
	}
	request.Header.Set("Authorization", "Bearer "+c.config.Token)
	response, err := c.config.HTTP.Do(request)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = response.Body.Close() }()
	mime = response.Header.Get("Content-Type")
	switch {
	case response.StatusCode != http.StatusOK:
		return nil, "", &Error{CodeNotFound, "the camera returned no picture: " + response.Status}
	case !strings.HasPrefix(mime, "image/"):
		return nil, "", fmt.Errorf("the camera returned %.40q instead of a picture", mime)
	}
	data, err = io.ReadAll(io.LimitReader(response.Body, int64(limit)+1))
	if err == nil && len(data) > limit {
		err = &Error{CodeTooLarge, fmt.Sprintf("the picture exceeds %d bytes", limit)}
	}
	return data, mime, err
}

func format(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
