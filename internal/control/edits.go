package control

import (
	"context"
	"encoding/json"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/config/settings"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/store"
)

// Edits implements [httpapi.Yard].
func (c *Control) Edits() (edits *config.Edits, version int64) {
	o := c.yard.State().Overlay
	return o.Edits, o.Version
}

// Try implements [httpapi.Yard].
func (c *Control) Try(edits *config.Edits, toolset string) (views []*gates.View, err error) {
	next, err := c.yard.State().WithEdits(edits)
	if err != nil {
		return nil, err
	}
	offer := c.yard.Offer()
	for _, g := range next.Gates {
		if g.Toolset != nil && g.Toolset.Name == toolset {
			views = append(views, g.Bind(offer, nil))
		}
	}
	return views, nil
}

// Edit implements [httpapi.Yard]. Other replicas apply the edits when the store notifies them.
func (c *Control) Edit(ctx context.Context, edits *config.Edits, version int64, by, note string) (int64, error) {
	s := c.yard.State()
	if version != s.Overlay.Version { // this replica may be behind or ahead of the version that was read
		return 0, toolyard.Errorf(toolyard.VersionConflict, "The configuration changed since you read it. Reload and try again.")
	}
	next, err := s.WithEdits(edits)
	if err == nil {
		err = config.Refusal(c.yard.CheckTools(next))
	}
	if err != nil {
		return 0, err
	}
	if c.opts.Store == nil {
		return 0, toolyard.Errorf(toolyard.Unavailable, "Edits require a store, but none is open. Restart Toolyard to open the configured store.")
	}
	if _, err := c.opts.Loader.Read(); err != nil {
		return 0, &toolyard.Error{Code: toolyard.Unavailable, Message: "The configuration file cannot be read, so edits are disabled. Fix the file first.", Err: err}
	}
	body, err := json.Marshal(edits)
	if err != nil {
		return 0, err
	}
	stored, err := c.opts.Store.SetDocumentAs(ctx, settings.EditsDocument, body, version, by, note)
	if err != nil {
		return 0, err
	}
	if err := c.yard.Reload(); err != nil {
		return 0, &toolyard.Error{Code: toolyard.Internal, Message: "The edit was saved but not applied because the configuration cannot be read. It takes effect once the configuration is fixed.", Err: err}
	}
	return stored, nil
}

// Versions implements [httpapi.Yard].
func (c *Control) Versions(ctx context.Context, limit int) ([]store.VersionRow, error) {
	if c.opts.Store == nil {
		return nil, nil
	}
	return c.opts.Store.Versions(ctx, settings.EditsDocument, limit)
}

// Version implements [httpapi.Yard].
func (c *Control) Version(ctx context.Context, version int64) (row store.VersionRow, edits *config.Edits, err error) {
	if c.opts.Store == nil {
		return row, nil, toolyard.Errorf(toolyard.NotFound, "Version %d not found.", version)
	}
	row, body, err := c.opts.Store.VersionOf(ctx, settings.EditsDocument, version)
	if err != nil {
		return row, nil, err
	}
	edits, err = config.ParseEdits(body)
	return row, edits, err
}
