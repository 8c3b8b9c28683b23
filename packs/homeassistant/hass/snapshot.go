package hass

import (
	"cmp"
	"slices"
	"strings"
)

// Snapshot is a home's state at one point in time. It is immutable.
type Snapshot struct {
	Areas  []*Area
	Floors []*Floor
	Labels []*Label

	entities []*Entity      // sorted by ID
	index    map[string]int // position of an ID in entities
	replaced chan struct{}  // closed when a newer snapshot exists
	session  *session       // session that the snapshot comes from
}

// Entity is an entity with its state and its place in the home. It is immutable.
type Entity struct {
	ID     string
	Domain string // part of the ID before the dot
	Name   string
	Area   *Area   // area of the entity or else of its device; may be nil
	Device *Device // may be nil
	Labels []string
	State  *State

	Platform, UniqueID string // empty for entities that are not in the registry
	Category           string // "config" or "diagnostic"; usually empty
	Hidden             bool
	Exposed            bool // whether the entity is exposed to voice assistants

	registryName, originalName string
}

// Entities returns all entities, sorted by ID.
func (s *Snapshot) Entities() []*Entity { return s.entities }

// Entity returns the entity with an ID, or nil.
func (s *Snapshot) Entity(id string) *Entity {
	if i, ok := s.index[id]; ok {
		return s.entities[i]
	}
	return nil
}

// Replaced returns a channel that is closed when a newer snapshot exists.
func (s *Snapshot) Replaced() <-chan struct{} { return s.replaced }

// newSnapshot joins states and registries. It omits entities that have no state, which are disabled
// or not loaded.
func newSnapshot(r *registries, states map[string]*State) *Snapshot {
	s := &Snapshot{
		Areas: r.areas, Floors: r.floors, Labels: r.labels,
		entities: make([]*Entity, 0, len(states)), index: make(map[string]int, len(states)), replaced: make(chan struct{}),
	}
	floors := byID(r.floors, func(f *Floor) string { return f.ID })
	for i, a := range s.Areas {
		placed := *a
		placed.Floor = floors[a.FloorID]
		if i == 0 {
			s.Areas = slices.Clone(s.Areas)
		}
		s.Areas[i] = &placed
	}
	areas := byID(s.Areas, func(a *Area) string { return a.ID })
	devices := byID(r.devices, func(d *Device) string { return d.ID })
	entries := byID(r.entities, func(e *registryEntry) string { return e.EntityID })
	for id, state := range states {
		domain, _, _ := strings.Cut(id, ".")
		e := &Entity{ID: id, Domain: domain, State: state}
		if entry := entries[id]; entry != nil {
			e.place(entry, areas, devices)
		}
		e.setName()
		s.entities = append(s.entities, e)
	}
	slices.SortFunc(s.entities, func(a, b *Entity) int { return cmp.Compare(a.ID, b.ID) })
	for i, e := range s.entities {
		s.index[e.ID] = i
	}
	return s
}

// place sets the members that come from the registries.
func (e *Entity) place(entry *registryEntry, areas map[string]*Area, devices map[string]*Device) {
	e.Device = devices[entry.DeviceID]
	e.Area = areas[entry.AreaID]
	e.Labels = entry.Labels
	if e.Device != nil {
		if e.Area == nil {
			e.Area = areas[e.Device.AreaID]
		}
		if len(e.Device.Labels) > 0 {
			e.Labels = append(slices.Clone(e.Labels), e.Device.Labels...)
		}
	}
	e.Platform, e.UniqueID, e.Category = entry.Platform, entry.UniqueID, entry.Category
	e.Hidden, e.Exposed = entry.HiddenBy != "", entry.Options.Conversation.ShouldExpose
	e.registryName, e.originalName = entry.Name, entry.OriginalName
}

func (e *Entity) setName() {
	e.Name = cmp.Or(e.registryName, e.State.FriendlyName, e.originalName, e.ID)
}

// withStates returns a snapshot in which some entities have new states.
func (s *Snapshot) withStates(ids []string, states map[string]*State) *Snapshot {
	next := *s
	next.entities, next.replaced = slices.Clone(s.entities), make(chan struct{})
	for _, id := range ids {
		i := s.index[id]
		e := *s.entities[i]
		e.State = states[id]
		e.setName()
		next.entities[i] = &e
	}
	return &next
}

func byID[T any](all []*T, id func(*T) string) map[string]*T {
	index := make(map[string]*T, len(all))
	for _, v := range all {
		index[id(v)] = v
	}
	return index
}
