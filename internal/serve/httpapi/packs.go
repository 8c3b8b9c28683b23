package httpapi

import (
	"encoding/json"
	"net/http"

	"github.com/toolyard/toolyard"
)

// packHandler serves packs and the actions that they offer to operators.
type packHandler struct{ yard Yard }

// PackItem is an enabled pack.
type PackItem struct {
	Name     string             `json:"name"`
	State    string             `json:"state" enum:"starting,up" doc:"Whether the pack has published its tools."`
	Tools    int                `json:"tools" doc:"Number of tools that it offers."`
	Gates    []string           `json:"gates" doc:"Gates that offer the pack's tools."`
	Actions  []PackAction       `json:"actions" doc:"Actions for operators, which models cannot call."`
	Problems []toolyard.Problem `json:"problems"`
}

// PackAction is an action that a pack offers.
type PackAction struct {
	Name        string          `json:"name"`
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema,omitempty"`
	ReadOnly    bool            `json:"readOnly" doc:"Whether the action is read-only."`
}

type packsPage struct {
	Packs []PackItem `json:"packs"`
}

// actionBody is the body of a request to run an action.
type actionBody struct {
	Args json.RawMessage `json:"args,omitempty" doc:"The action's arguments, as an object."`
}

// actionResult is the result of an action.
type actionResult struct {
	Result *toolyard.Result `json:"result"`
}

func (h *packHandler) list(*request) (*reply, error) {
	return &reply{body: packsPage{h.yard.Packs()}}, nil
}

func (h *packHandler) run(r *request) (*reply, error) {
	body, err := read[actionBody](r, smallBody)
	switch {
	case err != nil:
		return nil, err
	case len(body.Args) == 0:
		body.Args = json.RawMessage("{}")
	case body.Args[0] != '{':
		return nil, issue("args", "must be an object")
	}
	result, err := h.yard.RunAction(r.Context(), r.PathValue("pack"), r.PathValue("action"), r.caller, body.Args)
	if result, err = resultOf(result, err); err != nil {
		return nil, err
	}
	answer := &reply{body: actionResult{result}}
	if result.IsError {
		answer.audited = http.StatusInternalServerError
	}
	return answer, nil
}

func (h *packHandler) routes() []route {
	return []route{
		{
			method: "GET", path: "/packs", id: "listPacks", summary: "List packs with their actions.",
			access: viewer, gives: answer[packsPage]("Packs"), refusals: []int{404}, serve: h.list,
		},
		{
			method: "POST", path: "/packs/{pack}/actions/{action}", id: "runPackAction", summary: "Run a pack action. If the action fails, the result has isError.",
			access: operator, action: "pack.action", takes: body[actionBody]("PackActionRequest"), gives: packResultShape, refusals: []int{400, 404, 409, 413, 429}, long: true, serve: h.run,
		},
	}
}
