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
	"github.com/toolyard/toolyard/internal/base/ident"
	"github.com/toolyard/toolyard/internal/serve/gates"
)

// Editable is a part of the configuration that operators can change at runtime.
type Editable string

// The editable parts.
const (
	EditToolsets Editable = "toolsets"
	EditGates    Editable = "gates"
	EditPrices   Editable = "prices"
)

// JSONSchema describes an Editable.
func (Editable) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"string","enum":["toolsets","gates","prices"]}`)
}

// Edits are entries that operators changed at runtime. They replace entries in the file that have
// the same name.
type Edits struct {
	Toolsets map[string]Toolset `json:"toolsets,omitempty"`
	Gates    map[string]Gate    `json:"gates,omitempty"`
	Prices   map[string]Price   `json:"prices,omitempty" doc:"Prices by server and tool, such as github/search. Use - as the server for local tools, and * as the tool for the default price."`
}

// DefaultGate is the name of the gate that exists if none is configured.
const DefaultGate = "default"

var editsSchema = toolyard.SchemaFor[Edits]()

// ParseEdits decodes and validates edits. Empty data means no edits.
func ParseEdits(data []byte) (*Edits, error) {
	e := &Edits{}
	if len(data) == 0 {
		return e, nil
	}
	value, issues, _ := editsSchema.Complete(context.Background(), withNewNames(data))
	if len(issues) > 0 {
		return nil, &toolyard.Error{Code: toolyard.Invalid, Message: "The edits are invalid.", Issues: issues}
	}
	if err := json.Unmarshal(value, e); err != nil {
		return nil, fmt.Errorf("decode the edits: %w", err)
	}
	return e, nil
}

// Clone returns a copy whose maps are not nil.
func (e *Edits) Clone() *Edits {
	return &Edits{Toolsets: copied(e.Toolsets), Gates: copied(e.Gates), Prices: copied(e.Prices)}
}

// With applies edits to a configuration, as far as the configuration allows them. The error has
// code toolyard.Invalid and an issue for each problem.
func (s *Source) With(e *Edits) (*Source, error) {
	c := *s.Config
	if slices.Contains(c.Editable, EditToolsets) && len(e.Toolsets) > 0 {
		c.Toolsets = merged(c.Toolsets, e.Toolsets)
	}
	if slices.Contains(c.Editable, EditGates) && len(e.Gates) > 0 {
		if len(c.Gates) == 0 { // keep the implicit gate
			c.Gates = map[string]Gate{DefaultGate: {Mode: toolyard.Write, Surface: ident.SurfaceBoth, Naming: gates.NamingMCP, Errors: gates.ErrorsAsResults}}
		}
		c.Gates = merged(c.Gates, e.Gates)
	}
	if slices.Contains(c.Editable, EditPrices) {
		c.setPrices(e.Prices)
	}
	if issues := c.check(); len(issues) > 0 {
		return nil, &toolyard.Error{Code: toolyard.Invalid, Message: "The resulting configuration is invalid.", Issues: issues}
	}
	with := *s
	with.Config = &c
	return &with, nil
}

// Set converts t to a gate's toolset.
func (t Toolset) Set(name string) *gates.Toolset {
	s := &gates.Toolset{Name: name, Tools: t.Tools, Packs: t.Packs}
	for _, p := range t.Servers {
		s.Servers = append(s.Servers, gates.ServerPick(p))
	}
	return s
}

// NewToolset converts a gate's toolset to its configuration.
func NewToolset(s gates.Toolset) Toolset {
	t := Toolset{Tools: s.Tools, Packs: s.Packs}
	for _, p := range s.Servers {
		t.Servers = append(t.Servers, Pick(p))
	}
	return t
}

// setPrices replaces prices in the configuration. It ignores prices for servers that have been
// removed.
func (c *Config) setPrices(prices map[string]Price) {
	if len(prices) == 0 {
		return
	}
	c.Terms, c.Servers = copied(c.Terms), copied(c.Servers)
	own := make(map[string]bool) // servers whose terms have been copied
	for key, price := range prices {
		id, tool, _ := strings.Cut(key, "/")
		server, known := c.Servers[id]
		switch {
		case id == "-" && tool == "*":
			c.ExecuteUSD = &price
		case id == "-":
			setPrice(c.Terms, tool, &price)
		case known && tool == "*":
			server.ExecuteUSD = &price
			c.Servers[id] = server
		case known:
			if !own[id] {
				server.Terms, own[id] = copied(server.Terms), true
				c.Servers[id] = server
			}
			setPrice(server.Terms, tool, &price)
		}
	}
}

func setPrice(terms map[string]Terms, tool string, price *Price) {
	t := terms[tool]
	t.ExecuteUSD = price
	terms[tool] = t
}

// copied returns a copy of m. It is never nil.
func copied[T any](m map[string]T) map[string]T {
	c := make(map[string]T, len(m))
	maps.Copy(c, m)
	return c
}

func merged[T any](file, edits map[string]T) map[string]T {
	all := copied(file)
	maps.Copy(all, edits)
	return all
}

// Issues converts faults to issues for the request that caused them.
func (f Faults) Issues() (issues []toolyard.Issue) {
	for _, p := range f {
		issues = append(issues, toolyard.Issue{Path: p.Subject, Message: strings.TrimSuffix(p.Message+". "+p.Fix, ". ")})
	}
	return issues
}

// Refusal converts faults to the error for the request that caused them.
func Refusal(err error) error {
	if f, ok := errors.AsType[Faults](err); ok {
		return &toolyard.Error{Code: toolyard.Invalid, Message: "The resulting configuration is invalid.", Issues: f.Issues()}
	}
	return err
}
