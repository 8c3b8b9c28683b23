package clientconfig

import (
	_ "embed" // for the catalog
	"fmt"
	"strings"

	"github.com/toolyard/toolyard/internal/base/spelling"
)

//go:embed catalog.yaml
var catalogFile []byte

// CatalogEntry is a server in the curated catalog.
type CatalogEntry struct {
	ID       string
	Provides string
	Note     string
	Missing  string // reason why there is no server; empty if there is one

	server, secrets *node
}

// Catalog returns the curated servers.
func Catalog() ([]CatalogEntry, error) {
	tree, err := parseYAML(catalogFile)
	if err != nil {
		return nil, err
	}
	var list []CatalogEntry
	for _, m := range tree.members {
		e := CatalogEntry{ID: m.name, server: m.value.get("server"), secrets: m.value.get("secrets")}
		for name, to := range map[string]*string{"provides": &e.Provides, "note": &e.Note, "missing": &e.Missing} {
			if n := m.value.get(name); n != nil {
				*to = n.text
			}
		}
		list = append(list, e)
	}
	return list, nil
}

// AddCatalog adds a curated server.
func (t *Translator) AddCatalog(id string) error {
	t.init()
	list, err := Catalog()
	if err != nil {
		return err
	}
	var ids []string
	for _, e := range list {
		ids = append(ids, e.ID)
		if e.ID != id {
			continue
		}
		switch {
		case e.server == nil:
			return fmt.Errorf("server %s is not in the catalog: %s", id, e.Missing)
		case t.present[id]:
			t.note("server %s already exists and was not changed", id)
			return nil
		}
		server := yardServer{id: id, fields: fieldsOf(e.server)}
		if e.secrets != nil {
			for _, s := range e.secrets.members {
				server.secrets = append(server.secrets, s.name)
				t.sections.secrets = append(t.sections.secrets, yardSecret{s.name, s.value.text})
			}
		}
		t.sections.servers = append(t.sections.servers, server)
		if e.Note != "" {
			t.note("%s: %s", id, e.Note)
		}
		return nil
	}
	return fmt.Errorf("server %q is not in the catalog%s; available servers: %s", id, spelling.Hint(near(id, ids)...), strings.Join(ids, ", "))
}

func near(id string, ids []string) []string {
	if n := spelling.Nearest(id, ids); n != "" {
		return []string{n}
	}
	return nil
}

// fieldsOf converts an object whose values are strings, lists of strings or objects.
func fieldsOf(n *node) (fields []field) {
	for _, m := range n.members {
		switch m.value.kind {
		case object:
			fields = append(fields, field{m.name, fieldsOf(m.value)})
		case array:
			var items []string
			for _, item := range m.value.items {
				items = append(items, item.text)
			}
			fields = append(fields, field{m.name, items})
		default:
			fields = append(fields, field{m.name, m.value.text})
		}
	}
	return fields
}
