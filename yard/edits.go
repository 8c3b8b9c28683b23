package yard

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/store"
)

// edition is what was changed of a configuration through the API, and what it was changed of.
type edition struct {
	file    *config.Source // without edits
	edits   *config.Edits
	version int64 // zero if nothing was ever changed
}

// changes reports whether a toolset is not what the file says.
func (e *edition) changes(toolset string) bool {
	if e.edits == nil {
		return false
	}
	_, changed := e.edits.Toolsets[toolset]
	return changed
}

// edited makes settings of a configuration with what was changed of it. Settings that do not
// let anything be changed do not have what was changed before, either.
func (y *Yard) edited(source *config.Source, old *settings) (*settings, error) {
	e := edition{file: source, edits: &config.Edits{}}
	with := source
	if len(source.Edits) > 0 && y.contract.store != nil {
		ctx, cancel := context.WithTimeout(context.Background(), openTime)
		defer cancel()
		body, version, err := y.contract.store.Document(ctx, editsDocument)
		if err != nil {
			return nil, err
		}
		if e.edits, err = config.ParseEdits(body); err == nil {
			with, err = source.With(e.edits)
		}
		if err != nil {
			return nil, unfit(source, version, err)
		}
		e.version = version
	}
	return y.settings(with, e, old)
}

// unfit says that what was changed before does not go together with the file.
func unfit(source *config.Source, version int64, err error) error {
	lines := []string{err.Error()}
	for _, i := range toolyard.AsError(err).Issues {
		lines = append(lines, i.Path+" "+i.Message)
	}
	return config.Faults{source.At(toolyard.Problem{
		Subject: "edits", Message: fmt.Sprintf("what was changed through the API, version %d, does not go together with this file: %s", version, strings.Join(lines, "\n")),
		Fix: "Mend the file, or take edits out of it to go on without what was changed.",
	}, "edits")}
}

// Edits are what was changed through the API.
func (p people) Edits() (edits *config.Edits, version int64) {
	e := p.config.Load().edits
	return e.edits, e.version
}

// Try is what the gates that use a toolset would show with other edits. Its error says what is
// wrong with them.
func (p people) Try(edits *config.Edits, toolset string) (views []*toolyard.View, err error) {
	s := p.config.Load()
	next, err := p.candidate(s, edits)
	if err != nil {
		return nil, err
	}
	offer := s.terms.apply(p.offerOf(p.catalog.Now()))
	for _, g := range next.gates {
		if g.Toolset != nil && g.Toolset.Name == toolset {
			views = append(views, g.Bind(offer, nil))
		}
	}
	return views, nil
}

// candidate is what the settings would be with other edits, as far as gates are concerned.
func (p people) candidate(s *settings, edits *config.Edits) (*settings, error) {
	raw, err := json.Marshal(edits)
	if err != nil {
		return nil, err
	}
	if edits, err = config.ParseEdits(raw); err != nil {
		return nil, err
	}
	source, err := s.edits.file.With(edits)
	if err != nil {
		return nil, err
	}
	for _, g := range p.opts.Gates {
		if _, said := edits.Gates[g.Name]; said && s.edits.file.Gates[g.Name].Mode == "" {
			return nil, toolyard.Errorf(toolyard.PermissionDenied, "The gate %s is the program's own.", g.Name)
		}
	}
	next := &settings{Source: source, edits: edition{file: s.edits.file}, gates: p.gatesOf(source.Config), filed: s.filed, terms: s.terms, servers: s.servers}
	if err := p.checkPicks(next); err != nil {
		return nil, config.Refusal(err)
	}
	return next, config.Refusal(s.opens(next))
}

// Edit makes edits those that count, here and at all replicas.
func (p people) Edit(ctx context.Context, edits *config.Edits, version int64, by, note string) (int64, error) {
	s := p.config.Load()
	if version != s.edits.version { // this replica may know less, or more, than who asks
		return 0, toolyard.Errorf(toolyard.VersionConflict, "The configuration changed since you read it. Reload and try again.")
	}
	next, err := p.candidate(s, edits)
	if err == nil {
		err = config.Refusal(p.checkWhenReady(next))
	}
	if err != nil {
		return 0, err
	}
	if p.contract.store == nil {
		return 0, toolyard.Errorf(toolyard.Unavailable, "There is no store to keep what is changed; restart to open one.")
	}
	if _, err := p.load(); err != nil {
		return 0, &toolyard.Error{Code: toolyard.Unavailable, Message: "The configuration file cannot be read now, so nothing can be edited. Correct the file first.", Err: err}
	}
	body, err := json.Marshal(edits)
	if err != nil {
		return 0, err
	}
	made, err := p.contract.store.SetDocumentAs(ctx, editsDocument, body, version, by, note)
	if err != nil {
		return 0, err
	}
	if err := p.Reload(); err != nil {
		return 0, &toolyard.Error{Code: toolyard.Internal, Message: "It is kept, but not used: the configuration cannot be read now. It is used when the configuration is mended.", Err: err}
	}
	return made, nil
}

// Versions are the versions of the edits, the newest first.
func (p people) Versions(ctx context.Context, limit int) ([]store.VersionRow, error) {
	if p.contract.store == nil {
		return nil, nil
	}
	return p.contract.store.Versions(ctx, editsDocument, limit)
}

// Version is a version of the edits.
func (p people) Version(ctx context.Context, version int64) (row store.VersionRow, edits *config.Edits, err error) {
	if p.contract.store == nil {
		return row, nil, toolyard.Errorf(toolyard.NotFound, "There is no version %d.", version)
	}
	row, body, err := p.contract.store.VersionOf(ctx, editsDocument, version)
	if err != nil {
		return row, nil, err
	}
	edits, err = config.ParseEdits(body)
	return row, edits, err
}
