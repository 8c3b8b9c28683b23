package main

import (
	"context"
	"fmt"

	"github.com/toolyard/toolyard"
)

// Words for tool names in a large catalog.
var (
	deeds = []string{
		"archive", "approve", "assign", "cancel", "compare", "count", "create", "delete", "describe", "export",
		"fetch", "find", "forecast", "import", "list", "merge", "rank", "schedule", "summarize", "update",
	}
	things = []string{
		"account", "address", "alert", "asset", "backup", "badge", "batch", "branch", "budget", "campaign",
		"carrier", "ticket", "claim", "cluster", "contact", "contract", "course", "customer", "dashboard", "deployment",
		"device", "domain", "driver", "employee", "expense", "feature", "forklift", "holiday", "incident", "invoice",
		"lease", "ledger", "license", "machine", "meeting", "mortgage", "order", "outage", "package", "parcel",
		"patient", "payment", "pipeline", "policy", "portfolio", "quote", "refund", "shipment", "vehicle", "warehouse",
	}
	ways = []string{"", "_by_region", "_by_owner", "_in_bulk", "_history", "_metrics", "_draft", "_notes", "_template", "_status"}
)

// catalogTools returns n tools with various names, and one with every kind of form field.
func catalogTools(n int) []*toolyard.Tool {
	type args struct {
		ID    string `json:"id" doc:"Which one" minLength:"1"`
		Limit int    `json:"limit" doc:"How many to return at most" minimum:"1" maximum:"100" default:"10"`
	}
	run := func(_ context.Context, _ *toolyard.Call, in args) (string, error) { return in.ID, nil }
	tools := []*toolyard.Tool{raw("plan_trip", "Plans a trip with its travellers and its stops.", tripSchema)}
	for i := range n {
		deed, thing, way := deeds[i%len(deeds)], things[i/len(deeds)%len(things)], ways[i/len(deeds)/len(things)%len(ways)]
		spec := toolyard.Spec{
			Name: deed + "_" + thing + way, Category: thing, Effects: toolyard.ReadOnly,
			Description: fmt.Sprintf("Takes a %s and does what its name says: %s. It returns the identifier that it was given.", thing, deed),
		}
		if i%4 == 0 {
			spec.Effects = ""
		}
		tools = append(tools, toolyard.Define(spec, run))
	}
	return tools
}

// tripSchema has an enumeration, a default, a nested object, a list, a union of objects, a nullable
// value, a date, a password and a file.
const tripSchema = `{"type":"object","required":["destination","class","contact","travellers","payment"],"properties":{
	"destination":{"type":"string","minLength":2,"description":"Where to go"},
	"class":{"type":"string","enum":["economy","business","first"],"default":"economy"},
	"nights":{"type":"integer","minimum":1,"maximum":30,"default":3},
	"contact":{"type":"object","required":["email"],"properties":{
		"email":{"type":"string","pattern":"^[^@]+@[^@]+$","description":"Where the papers are sent"},"phone":{"type":"string"}}},
	"travellers":{"type":"array","minItems":1,"items":{"type":"string","minLength":1}},
	"payment":{"oneOf":[
		{"type":"object","title":"Card","required":["card"],"additionalProperties":false,"properties":{"card":{"type":"string"}}},
		{"type":"object","title":"Invoice","required":["company"],"additionalProperties":false,"properties":{"company":{"type":"string"}}}]},
	"insurance":{"oneOf":[
		{"type":"object","title":"Basic","required":["plan"],"additionalProperties":false,"properties":{"plan":{"type":"string"}}},
		{"type":"object","title":"Full","required":["cover"],"additionalProperties":false,"properties":{"cover":{"type":"string"}}}]},
	"seat":{"anyOf":[{"type":"object","properties":{"row":{"type":"integer"}}},{"type":"null"}]},
	"departs":{"type":"string","format":"date"},
	"pin":{"type":"string","format":"password"},
	"passport":{"type":"string","contentEncoding":"base64","contentMediaType":"application/pdf"}}}`
