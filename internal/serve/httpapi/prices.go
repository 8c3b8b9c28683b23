package httpapi

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/store"
)

// priceHandler serves the prices that the operator sets.
type priceHandler struct {
	yard   Yard
	editor *editor
}

// priceItem is a tool's price, or the default price of a source's tools.
type priceItem struct {
	Source  string        `json:"source" doc:"A server, or - for local tools."`
	Tool    string        `json:"tool" doc:"A tool, or * for all of the source's tools that do not declare a price."`
	Execute *config.Price `json:"executeUsd,omitempty" doc:"Price of a call at an execute gate, or none if the tool is not for sale. Default: what the tool declares."`
	From    string        `json:"from" enum:"file,api,tool" doc:"Who sets the price: the configuration file, an operator through the API, or the tool itself."`
	Version int64         `json:"version" doc:"Current version of the edits: send it with a change."`
}

type priceBody struct {
	Execute config.Price `json:"executeUsd"`
	Version int64        `json:"version" minimum:"0" doc:"Version of the edits that the change is based on."`
}

// price returns the price that the operator sets for the tool in the path.
func (h *priceHandler) price(r *request) (item priceItem, err error) {
	c, edits, version, err := h.editor.state("")
	if err != nil {
		return item, err
	}
	item = priceItem{Source: r.PathValue("source"), Tool: r.PathValue("tool"), Version: version}
	item.From = origin(edits.Prices, item.key())
	server, name := item.Source, item.Tool
	if server == store.Local {
		server = ""
	}
	if name == "*" {
		name = ""
	}
	if !h.known(c, server, name) {
		return item, notFound("Unknown tool %q from source %q.", shown(item.Tool), shown(item.Source))
	}
	price, terms := c.ExecuteUSD, c.Terms
	if server != "" {
		price, terms = c.Servers[server].ExecuteUSD, c.Servers[server].Terms
	}
	if name != "" {
		price = terms[name].ExecuteUSD
	}
	if item.Execute = price; price == nil {
		item.From = "tool"
	}
	return item, nil
}

// known reports whether a configured server or the local source has a tool. An empty name stands
// for the default price of all tools.
func (h *priceHandler) known(c *config.Config, server, name string) bool {
	if _, ok := c.Servers[server]; server != "" && !ok {
		return false
	}
	return name == "" || slices.ContainsFunc(h.yard.Snapshot().Tools, func(t *toolyard.Tool) bool { return t.Server == server && t.Name == name })
}

func (h *priceHandler) get(r *request) (*reply, error) { return respond(h.price(r)) }

func (h *priceHandler) put(r *request) (*reply, error) {
	body, err := read[priceBody](r, smallBody)
	if err != nil {
		return nil, err
	}
	now, err := h.price(r)
	if err != nil {
		return nil, err
	}
	err = h.editor.edit(r, config.EditPrices, body.Version, "price of "+now.key(), func(e *config.Edits) { e.Prices[now.key()] = body.Execute })
	if err != nil {
		return nil, err
	}
	return respond(h.price(r))
}

func (h *priceHandler) remove(r *request) (*reply, error) {
	version := r.params.version()
	_, edits, _, err := h.editor.state(config.EditPrices)
	key := priceItem{Source: r.PathValue("source"), Tool: r.PathValue("tool")}.key() // the tool may no longer exist
	if err != nil || origin(edits.Prices, key) != "api" {
		return nil, cmp.Or(err, error(notFound("The price of %q has not been changed through the API.", shown(key))))
	}
	return &reply{}, h.editor.edit(r, config.EditPrices, version, "reset price of "+key, func(e *config.Edits) { delete(e.Prices, key) })
}

func (p priceItem) key() string { return p.Source + "/" + p.Tool }

func (h *priceHandler) routes() []route {
	return []route{
		{
			method: "GET", path: "/prices/{source}/{tool}", id: "getPrice", summary: "Get the operator's price for a tool or, with the tool *, the default price for a source. The source is a server, or - for local tools.",
			access: viewer, gives: answer[priceItem]("Price"), refusals: []int{404}, serve: h.get,
		},
		{
			method: "PUT", path: "/prices/{source}/{tool}", id: "putPrice", summary: "Set the price for a tool, or the default price for a source.",
			access: operator, action: "price.put", takes: body[priceBody]("PutPrice"), gives: answer[priceItem]("Price"), refusals: []int{400, 404, 409, 413}, serve: h.put,
		},
		{
			method: "DELETE", path: "/prices/{source}/{tool}", id: "removePrice", summary: "Remove a price that was set through the API and revert to the configuration file or the tool's own price.",
			access: operator, action: "price.remove", query: []string{"version"}, status: http.StatusNoContent, refusals: []int{400, 404, 409}, serve: h.remove,
		},
	}
}
