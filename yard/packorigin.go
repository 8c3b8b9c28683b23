package yard

import (
	"slices"
	"sync"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/serve/gates"
)

// packOrigin marks everything that a pack offers with the pack as its origin. Toolsets select a
// pack's tools and resources by origin.
type packOrigin struct {
	pack string

	mu sync.Mutex
	// These maps hold copies of the current offer's items, keyed by the originals. The catalog
	// compares offers by pointer, so republishing an item must yield the same copy.
	tools     map[*toolyard.Tool]*toolyard.Tool
	resources map[*toolyard.Resource]*toolyard.Resource
	prompts   map[*toolyard.Prompt]*toolyard.Prompt
}

func newPackOrigin(pack string) *packOrigin { return &packOrigin{pack: pack} }

// sign returns the offer with the pack as the origin of its tools, resources, prompts and problems.
func (o *packOrigin) sign(offer toolyard.Offer) toolyard.Offer {
	o.mu.Lock()
	defer o.mu.Unlock()
	offer.Tools, o.tools = copyAll(offer.Tools, o.tools, func(t *toolyard.Tool) { t.Origin = gates.PackOrigin(o.pack) })
	offer.Resources, o.resources = copyAll(offer.Resources, o.resources, func(r *toolyard.Resource) {
		r.Reader, r.Completer = o.signed(r.Reader), o.signed(r.Completer)
	})
	offer.Prompts, o.prompts = copyAll(offer.Prompts, o.prompts, func(p *toolyard.Prompt) {
		p.Getter, p.Completer = o.signed(p.Getter), o.signed(p.Completer)
	})
	offer.Problems = slices.Clone(offer.Problems)
	for i := range offer.Problems {
		if offer.Problems[i].Source == "" {
			offer.Problems[i].Source = packSource(o.pack)
		}
	}
	return offer
}

func (o *packOrigin) signed(t *toolyard.Tool) *toolyard.Tool {
	if t == nil {
		return nil
	}
	own := *t
	own.Origin = gates.PackOrigin(o.pack)
	return &own
}

// copyAll returns edited copies of a list's elements, and a map from originals to copies. It reuses
// the copies of the previous offer. A nil element stays nil, and the catalog reports it.
func copyAll[T any](list []*T, previous map[*T]*T, edit func(*T)) ([]*T, map[*T]*T) {
	copies, byOriginal := make([]*T, len(list)), make(map[*T]*T, len(list))
	for i, original := range list {
		if original == nil {
			continue
		}
		own := previous[original]
		if own == nil {
			edited := *original
			edit(&edited)
			own = &edited
		}
		copies[i], byOriginal[original] = own, own
	}
	return copies, byOriginal
}

// packSource returns the name of a pack's source in the catalog.
func packSource(name string) string { return gates.PackOrigin(name) }
