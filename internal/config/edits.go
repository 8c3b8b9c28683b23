package config

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/serve/gates"
)

// Editable is a part of the configuration that may be changed while it runs.
type Editable string

// What is editable.
const (
	EditToolsets Editable = "toolsets"
	EditGates    Editable = "gates"
)

// JSONSchema describes an Editable.
func (Editable) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"string","enum":["toolsets","gates"]}`)
}

// Edits are the parts of a configuration that were changed while it ran. They beat the file
// by name.
type Edits struct {
	Toolsets map[string]Toolset `json:"toolsets,omitempty"`
	Gates    map[string]Gate    `json:"gates,omitempty"`
}

// DefaultGate is the name of the gate of a configuration that has none.
const DefaultGate = "default"

var editsSchema = toolyard.SchemaFor[Edits]()

// ParseEdits reads what Edits are encoded as. Nothing at all is none.
func ParseEdits(data []byte) (*Edits, error) {
	e := &Edits{}
	if len(data) == 0 {
		return e, nil
	}
	value, issues, _ := editsSchema.Complete(context.Background(), data)
	if len(issues) > 0 {
		return nil, &toolyard.Error{Code: toolyard.Invalid, Message: "The edits cannot be used.", Issues: issues}
	}
	if err := json.Unmarshal(value, e); err != nil {
		return nil, fmt.Errorf("the edits cannot be read: %w", err)
	}
	return e, nil
}

// Clone is a copy that can be changed.
func (e *Edits) Clone() *Edits {
	c := &Edits{Toolsets: maps.Clone(e.Toolsets), Gates: maps.Clone(e.Gates)}
	if c.Toolsets == nil {
		c.Toolsets = make(map[string]Toolset)
	}
	if c.Gates == nil {
		c.Gates = make(map[string]Gate)
	}
	return c
}

// With is the configuration with edits in the place of what the file says, as far as the file
// lets them be made. Its error is toolyard.Invalid, with an issue for each fault.
func (s *Source) With(e *Edits) (*Source, error) {
	c := *s.Config
	c.Toolsets, c.Gates = maps.Clone(c.Toolsets), maps.Clone(c.Gates)
	if slices.Contains(c.Edits, EditToolsets) && len(e.Toolsets) > 0 {
		c.Toolsets = merged(c.Toolsets, e.Toolsets)
	}
	if slices.Contains(c.Edits, EditGates) && len(e.Gates) > 0 {
		if len(c.Gates) == 0 { // the gate that there is without any stays
			c.Gates = map[string]Gate{DefaultGate: {Mode: toolyard.Write, Surface: toolyard.Both, Naming: gates.NamingMCP, Errors: gates.ErrorsAsResults}}
		}
		c.Gates = merged(c.Gates, e.Gates)
	}
	if issues := c.check(); len(issues) > 0 {
		return nil, &toolyard.Error{Code: toolyard.Invalid, Message: "With this the configuration would not be valid.", Issues: issues}
	}
	with := *s
	with.Config = &c
	return &with, nil
}

// Set is the toolset as gates use it.
func (t Toolset) Set(name string) *gates.Toolset {
	s := &gates.Toolset{Name: name, Tools: t.Tools}
	for _, p := range t.Servers {
		s.Servers = append(s.Servers, gates.ServerPick(p))
	}
	return s
}

// NewToolset is the configuration of a toolset.
func NewToolset(s gates.Toolset) Toolset {
	t := Toolset{Tools: s.Tools}
	for _, p := range s.Servers {
		t.Servers = append(t.Servers, Pick(p))
	}
	return t
}

func merged[T any](file, edits map[string]T) map[string]T {
	if file == nil {
		file = make(map[string]T)
	}
	maps.Copy(file, edits)
	return file
}

// Issues are the faults as issues of a request that caused them.
func (f Faults) Issues() (issues []toolyard.Issue) {
	for _, p := range f {
		issues = append(issues, toolyard.Issue{Path: p.Subject, Message: strings.TrimSuffix(p.Message+". "+p.Fix, ". ")})
	}
	return issues
}

// Refusal is an error of a configuration as a refusal of the request that asked for it.
func Refusal(err error) error {
	if f, ok := errors.AsType[Faults](err); ok {
		return &toolyard.Error{Code: toolyard.Invalid, Message: "With this the configuration would not be valid.", Issues: f.Issues()}
	}
	return err
}
