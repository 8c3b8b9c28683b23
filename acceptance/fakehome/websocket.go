package fakehome

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/coder/websocket"
)

const version = "2026.8.0"

// failure is a WebSocket API error.
type failure struct{ Code, Message string }

func (f *failure) Error() string { return f.Code + ": " + f.Message }

// session is one WebSocket connection.
type session struct {
	home *Home
	conn *websocket.Conn
	out  chan []byte
	stop context.CancelFunc
	last int // ID of the last command

	entities map[int]bool   // IDs of subscriptions to entities
	events   map[int]string // event types, by subscription ID
}

// cut ends the connection with no closing handshake.
func (s *session) cut() {
	s.stop()
	_ = s.conn.CloseNow()
}

func (h *Home) serveWebSocket(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return
	}
	conn.SetReadLimit(4 << 20)
	ctx, stop := context.WithCancel(context.Background())
	s := &session{home: h, conn: conn, out: make(chan []byte, 10_000), stop: stop, entities: map[int]bool{}, events: map[int]string{}}
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		s.cut()
		return
	}
	h.clients[s] = true
	h.sessions.Add(1)
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		delete(h.clients, s)
		h.mu.Unlock()
		s.cut()
		h.sessions.Done()
	}()
	h.sessions.Go(func() { s.write(ctx) })
	if s.authenticate(ctx) {
		s.read(ctx)
	}
}

// write sends the queued messages. It simulates slow and cut connections.
func (s *session) write(ctx context.Context) {
	defer s.cut()
	for {
		select {
		case <-ctx.Done():
			return
		case message := <-s.out:
			s.home.mu.Lock()
			delay, cut := s.home.faults.delay, false
			if f := &s.home.faults; f.cut {
				if cut = f.cutAfter == 0; cut {
					f.cut = false
				}
				f.cutAfter--
			}
			s.home.mu.Unlock()
			if cut {
				return
			}
			if delay > 0 {
				select {
				case <-time.After(delay):
				case <-ctx.Done():
					return
				}
			}
			if message == nil {
				_ = s.conn.Close(websocket.StatusNormalClosure, "")
				return
			}
			if s.conn.Write(ctx, websocket.MessageText, message) != nil {
				return
			}
		}
	}
}

func (s *session) send(message any) {
	raw, err := json.Marshal(message)
	if err != nil {
		panic("fakehome: " + err.Error())
	}
	select {
	case s.out <- raw:
	default:
		s.stop() // the client is not reading
	}
}

func (s *session) authenticate(ctx context.Context) bool {
	s.send(object{"type": "auth_required", "ha_version": version})
	_, raw, err := s.conn.Read(ctx)
	if err != nil {
		return false
	}
	var auth struct {
		Type        string `json:"type"`
		AccessToken string `json:"access_token"`
	}
	_ = json.Unmarshal(raw, &auth)
	s.home.mu.Lock()
	s.home.logins++
	ok := auth.Type == "auth" && auth.AccessToken == Token && !s.home.faults.rejectAuth
	s.home.mu.Unlock()
	if !ok {
		s.send(object{"type": "auth_invalid", "message": "Invalid access token or password"})
		s.out <- nil // closes the connection
		<-ctx.Done()
		return false
	}
	s.send(object{"type": "auth_ok", "ha_version": version})
	return true
}

func (s *session) read(ctx context.Context) {
	for {
		_, raw, err := s.conn.Read(ctx)
		if err != nil {
			return
		}
		var command object
		if json.Unmarshal(raw, &command) != nil {
			return
		}
		id, kind := number(command["id"]), text(command["type"])
		s.home.mu.Lock()
		s.home.requests = appendRecent(s.home.requests, kind)
		s.handle(id, kind, command)
		s.home.mu.Unlock()
	}
}

func number(v any) int {
	f, _ := v.(float64)
	return int(f)
}

// handle executes a command. The home must be locked.
func (s *session) handle(id int, kind string, command object) {
	if id <= s.last {
		s.fail(id, &failure{"id_reuse", "Identifier values have to increase."})
		return
	}
	s.last = id
	if s.home.faults.deny[kind] {
		s.fail(id, &failure{"unauthorized", "Unauthorized"})
		return
	}
	if kind == "ping" {
		s.send(object{"id": id, "type": "pong"})
		return
	}
	result, err := s.run(id, kind, command)
	if err != nil {
		s.fail(id, err)
		return
	}
	if kind == "call_service" && s.home.faults.hang {
		return
	}
	s.send(object{"id": id, "type": "result", "success": true, "result": result})
	if kind == "subscribe_entities" {
		s.sendStates(id, list(command["entity_ids"]))
	}
}

func (s *session) fail(id int, err *failure) {
	s.send(object{"id": id, "type": "result", "success": false, "error": object{"code": err.Code, "message": err.Message}})
}

func (s *session) run(id int, kind string, command object) (any, *failure) {
	h, w := s.home, s.home.world
	switch kind {
	case "supported_features":
		return nil, nil
	case "get_states":
		return h.allStates(), nil
	case "get_config":
		return object{"version": version, "location_name": "Fake home", "time_zone": "Europe/Berlin", "state": "RUNNING", "components": []string{"light", "lock"}}, nil
	case "get_services":
		return services(w), nil
	case "config/area_registry/list":
		return w.areas, nil
	case "config/device_registry/list":
		return w.devices, nil
	case "config/entity_registry/list":
		return w.entities, nil
	case "config/floor_registry/list":
		return w.floors, nil
	case "config/label_registry/list":
		return w.labels, nil
	case "subscribe_entities":
		s.entities[id] = true
		return nil, nil
	case "subscribe_events":
		s.events[id] = text(command["event_type"])
		return nil, nil
	case "unsubscribe_events":
		delete(s.entities, number(command["subscription"]))
		delete(s.events, number(command["subscription"]))
		return nil, nil
	case "call_service":
		return h.callService(command)
	case "script/config", "automation/config":
		config, ok := w.configs[text(command["entity_id"])]
		if !ok {
			return nil, &failure{"not_found", "Entity not found"}
		}
		return object{"config": config}, nil
	case "search/related":
		return w.related(text(command["item_id"])), nil
	case "history/history_during_period":
		return w.history(command)
	case "recorder/statistics_during_period":
		return w.statistics(command)
	case "logbook/get_events":
		return w.logbook(command)
	}
	return nil, &failure{"unknown_command", "Unknown command."}
}

// related returns the entities that an item refers to, as search/related does: it omits direct
// script calls and templates.
func (w *world) related(id string) object {
	found := map[string]bool{}
	for member := range w.scenes[id] {
		found[member] = true
	}
	var visit func(any)
	visit = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, item := range v {
				visit(item)
			}
		case object:
			for _, target := range []any{v, v["target"], v["data"]} {
				o, _ := target.(object)
				for _, id := range list(o["entity_id"]) {
					if !strings.Contains(id, "{") {
						found[id] = true
					}
				}
			}
			if scene := text(v["scene"]); scene != "" {
				found[scene] = true
			}
			for _, key := range []string{"sequence", "then", "else", "choose", "default", "parallel", "repeat", "actions", "action"} {
				visit(v[key])
			}
		}
	}
	visit(w.configs[id])
	result := object{"integration": []string{"demo"}}
	if len(found) > 0 {
		result["entity"] = slices.Sorted(maps.Keys(found))
	}
	return result
}

func (h *Home) allStates() []object {
	all := make([]object, 0, len(h.world.states)+1)
	for _, id := range slices.Sorted(maps.Keys(h.world.states)) {
		all = append(all, h.world.states[id].full())
	}
	if h.faults.padding > 0 {
		all = append(all, h.padded().full())
	}
	return all
}

func (h *Home) padded() *state {
	at := time.Unix(int64(created), 0)
	return &state{ID: "sensor.padded", State: "big", Attributes: object{"padding": strings.Repeat("x", h.faults.padding)}, LastChanged: at, LastUpdated: at, Context: newContext("")}
}

// full returns the state in the format of get_states and the REST API.
func (s *state) full() object {
	const format = "2006-01-02T15:04:05.999999-07:00"
	return object{
		"entity_id": s.ID, "state": s.State, "attributes": s.Attributes, "context": s.Context,
		"last_changed": s.LastChanged.UTC().Format(format), "last_updated": s.LastUpdated.UTC().Format(format), "last_reported": s.LastUpdated.UTC().Format(format),
	}
}

// compressed returns the state in the format of subscribe_entities.
func (s *state) compressed() object {
	o := object{"s": s.State, "a": s.Attributes, "c": s.Context["id"], "lc": seconds(s.LastChanged)}
	if !s.LastUpdated.Equal(s.LastChanged) {
		o["lu"] = seconds(s.LastUpdated)
	}
	return o
}

func seconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

func (s *session) sendStates(id int, only []string) {
	added := object{}
	for entity, st := range s.home.world.states {
		if len(only) == 0 || slices.Contains(only, entity) {
			added[entity] = st.compressed()
		}
	}
	if s.home.faults.padding > 0 {
		added["sensor.padded"] = s.home.padded().compressed()
	}
	s.event(id, object{"a": added})
}

func (s *session) event(id int, event any) {
	s.send(object{"id": id, "type": "event", "event": event})
}

func (s *session) entityAdded(st *state) {
	for id := range s.entities {
		s.event(id, object{"a": object{st.ID: st.compressed()}})
	}
}

func (s *session) entityRemoved(entity string) {
	for id := range s.entities {
		s.event(id, object{"r": []string{entity}})
	}
}

// fire sends an event to its subscribers. The home must be locked.
func (h *Home) fire(kind string, data object) {
	for s := range h.clients {
		for id, wanted := range s.events {
			if wanted == kind {
				s.event(id, object{"event_type": kind, "data": data, "origin": "LOCAL", "time_fired": h.now().UTC().Format(time.RFC3339Nano), "context": newContext("")})
			}
		}
	}
}

// set changes a state and notifies subscribers. The home must be locked.
func (h *Home) set(id, value string, attributes object, by object) {
	old := h.world.states[id]
	now := h.now().Truncate(time.Microsecond)
	if old == nil {
		st := &state{ID: id, State: value, Attributes: object{}, LastChanged: now, LastUpdated: now, Context: by}
		maps.Copy(st.Attributes, attributes)
		h.world.states[id] = st
		for s := range h.clients {
			s.entityAdded(st)
		}
		return
	}
	next := &state{ID: id, State: value, Attributes: maps.Clone(old.Attributes), LastChanged: old.LastChanged, LastUpdated: now, Context: by}
	added, removed := object{}, []string{}
	for key, v := range attributes {
		if v == nil {
			delete(next.Attributes, key)
			removed = append(removed, key)
		} else if !reflect.DeepEqual(v, old.Attributes[key]) {
			next.Attributes[key], added[key] = v, v
		}
	}
	plus := object{"c": by["id"]}
	if value != old.State {
		next.LastChanged = now
		plus["s"], plus["lc"] = value, seconds(now)
		h.world.changes = appendRecent(h.world.changes, change{id, value, now, by})
	} else {
		plus["lu"] = seconds(now)
	}
	if len(added) > 0 {
		plus["a"] = added
	}
	diff := object{"+": plus}
	if len(removed) > 0 {
		diff["-"] = object{"a": removed}
	}
	h.world.states[id] = next
	for s := range h.clients {
		for subscription := range s.entities {
			s.event(subscription, object{"c": object{id: diff}})
		}
	}
}
