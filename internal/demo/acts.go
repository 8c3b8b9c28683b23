package demo

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
)

// Who calls Harbor's tools, and who pays for it.
var (
	visitor   = toolyard.Caller{ID: toolyard.Anonymous, Account: toolyard.Anonymous}
	dispatch  = toolyard.Caller{ID: "dispatch-agent", Account: "harbor"}
	quayside  = toolyard.Caller{ID: "quayside-bot", Account: "harbor"}
	mira      = toolyard.Caller{ID: "mira", Account: "harbor"}
	northwind = toolyard.Caller{ID: "northwind", Account: "northwind-lines"}
	baltic    = toolyard.Caller{ID: "baltic-broker", Account: "baltic-trade"}
)

// Key is an API key that somebody has.
type Key struct {
	Name    string
	Caller  toolyard.Caller
	Scopes  []string
	Age     time.Duration // since it was made
	TTL     time.Duration // from then on; zero for ever
	Revoked time.Duration // since it was revoked; zero for not
}

const aDay = 24 * time.Hour

// Keys are the API keys of Harbor's callers.
var Keys = []Key{
	{Name: "Dispatch agent", Caller: dispatch, Scopes: []string{"gate:chat", "gate:desk", "write"}, Age: 61 * aDay},
	{Name: "Northwind Lines, production", Caller: northwind, Scopes: []string{"gate:chat", "gate:sell"}, Age: 33 * aDay, TTL: 90 * aDay},
	{Name: "Mira, operations", Caller: mira, Scopes: []string{"operator", "write"}, Age: 148 * aDay},
	{Name: "Northwind Lines, pilot", Caller: northwind, Scopes: []string{"gate:sell"}, Age: 97 * aDay, Revoked: 32 * aDay},
}

// Accounts are what Harbor's accounts are funded with. One has too little.
var Accounts = map[string]toolyard.Money{"harbor": 120 * toolyard.USD, "northwind-lines": 250 * toolyard.USD, "baltic-trade": toolyard.USD / 50}

// Sessions are the budgets that are open when the demo begins.
var Sessions = []ledger.Session{
	{ID: "ses_NORTHWIND_SPRING_TENDER", Account: "northwind-lines", Limit: 50 * toolyard.USD, TTL: 24 * time.Hour},
	{ID: "ses_NORTHWIND_NIGHT_RUN", Account: "northwind-lines", Limit: toolyard.USD, Calls: 500, TTL: 12 * time.Hour},
	{ID: "ses_HARBOR_TRAINING", Account: "harbor", Limit: 2 * toolyard.USD, Calls: 200, TTL: 8 * time.Hour},
}

// SessionOf is an open session that pays for a caller, most often the first one, or "" for
// none.
func SessionOf(c toolyard.Caller, r *rand.Rand) (id string) {
	for _, s := range Sessions {
		if s.Account == c.Account && (id == "" || r.IntN(8) == 0) {
			id = s.ID
		}
	}
	return id
}

// Act is something that callers do again and again.
type Act struct {
	Weight       int // how often, beside the others
	Gate         string
	Callers      []toolyard.Caller
	Server, Tool string
	Price        toolyard.Money // what the tool costs at the gate
	Takes        time.Duration  // as a rule
	Fails        float64        // how often of all times
	Fault        toolyard.Code  // and how
	Says         string         // and what its caller is told
	Limited      bool           // it is refused now and then because a limit is reached

	args func(*rand.Rand) map[string]any
}

// Name is what the tool is called at the gate.
func (a *Act) Name() string {
	if a.Server == "" {
		return a.Tool
	}
	return "mcp_" + a.Server + "__" + a.Tool
}

// Mode is that of the gate.
func (a *Act) Mode() toolyard.Mode {
	if a.Gate == "desk" {
		return toolyard.Write
	}
	return toolyard.Read
}

// Args are arguments for the tool. Wrong ones lack a member, or have it under another name.
func (a *Act) Args(r *rand.Rand, wrong bool) json.RawMessage {
	args := a.args(r)
	if wrong {
		name := one(r, slices.Sorted(maps.Keys(args))...)
		args[name+"Id"] = args[name]
		delete(args, name)
	}
	raw, _ := json.Marshal(args) // texts, numbers, lists and maps of them
	return raw
}

// Caller is one of those who do it.
func (a *Act) Caller(r *rand.Rand) toolyard.Caller { return one(r, a.Callers...) }

// Next is what is done next.
func Next(r *rand.Rand) *Act {
	total := 0
	for i := range Acts {
		total += Acts[i].Weight
	}
	n := r.IntN(total)
	for i := range Acts {
		if n -= Acts[i].Weight; n < 0 {
			return &Acts[i]
		}
	}
	panic("demo: the weights do not add up")
}

func one[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

func port(r *rand.Rand) string {
	return one(r, "NLRTM", "BEANR", "DEHAM", "FRLEH", "GRPIR", "NOOSL")
}

func vessel(r *rand.Rand) string {
	return one(r, "Solveig", "Anneke", "Marisol", "Kestrel", "Thalassa")
}

func declaration(r *rand.Rand) string { return fmt.Sprintf("HD-2%05d", r.IntN(100_000)) }

// day is a date within so many days from now.
func day(r *rand.Rand, within int) time.Time {
	return time.Now().UTC().Truncate(time.Hour).Add(time.Duration(r.IntN(within*24)) * time.Hour)
}

var (
	chat = []toolyard.Caller{visitor, dispatch, dispatch, quayside, quayside, quayside}
	desk = []toolyard.Caller{dispatch, dispatch, mira}
	sell = []toolyard.Caller{northwind}
)

const (
	milli     = time.Millisecond
	ratesAway = "The rate service answered 503: it is being updated."
)

// Acts are all that is done at Harbor.
var Acts = []Act{
	{Weight: 9, Gate: "chat", Callers: chat, Tool: "port_distance", Takes: milli / 4, args: distanceOf},
	{Weight: 7, Gate: "chat", Callers: chat, Tool: "ship_schedule", Takes: milli / 2, args: func(r *rand.Rand) map[string]any {
		return map[string]any{"port": port(r), "window": map[string]any{"days": 3 + r.IntN(12)}}
	}},
	{Weight: 5, Gate: "chat", Callers: chat, Tool: "convert_units", Takes: milli / 5, Fails: 0.06, Fault: toolyard.Failed, Says: "nm is a length and kn is a speed: there is no way from one to the other.", args: func(r *rand.Rand) map[string]any {
		return map[string]any{"value": 1 + r.IntN(400), "from": one(r, "nm", "km", "m"), "to": one(r, "nm", "km", "m", "ft", "ft", "ft", "kn")}
	}},
	{Weight: 4, Gate: "chat", Callers: chat, Tool: "business_days", Takes: milli / 5, args: func(r *rand.Rand) map[string]any {
		return map[string]any{"from": time.Now().UTC().Format(time.DateOnly), "to": day(r, 60).Format(time.DateOnly)}
	}},
	{Weight: 6, Gate: "chat", Callers: chat, Tool: "tide_window", Takes: 410 * milli, args: func(r *rand.Rand) map[string]any {
		return map[string]any{"port": port(r), "draught": float64(60+r.IntN(60)) / 10}
	}},
	{Weight: 18, Gate: "chat", Callers: chat, Tool: "port_weather", Takes: 6 * milli, Limited: true, args: weatherOf},
	{Weight: 8, Gate: "chat", Callers: chat, Tool: "exchange_rate", Takes: 5 * milli, Fails: 0.15, Fault: toolyard.Failed, Says: ratesAway, args: rateOf},
	{Weight: 3, Gate: "chat", Callers: chat, Tool: "berth_plan", Takes: milli / 4, args: func(r *rand.Rand) map[string]any {
		return map[string]any{"berth": one(r, "A1", "A2", "B1", "B2", "C1", "C2"), "most": 5 + r.IntN(10)}
	}},
	{Weight: 5, Gate: "chat", Callers: chat, Tool: "arrival_brief", Takes: 430 * milli, args: briefOf},
	{Weight: 6, Gate: "chat", Callers: chat, Server: "customs", Tool: "classify_goods", Takes: 11 * milli, Fails: 0.1, Fault: toolyard.ToolError, Says: "No heading fits these words; say what the goods are made of and what they are for.", args: goodsOf},
	{Weight: 5, Gate: "chat", Callers: chat, Server: "customs", Tool: "clearance_status", Takes: 9 * milli, args: func(r *rand.Rand) map[string]any {
		return map[string]any{"declaration": declaration(r)}
	}},
	{Weight: 7, Gate: "chat", Callers: chat, Server: "fleet", Tool: "vessel_position", Takes: 8 * milli, args: func(r *rand.Rand) map[string]any {
		return map[string]any{"vessel": vessel(r)}
	}},
	{Weight: 4, Gate: "chat", Callers: chat, Server: "fleet", Tool: "engine_health", Takes: 9 * milli, args: func(r *rand.Rand) map[string]any {
		return map[string]any{"vessel": vessel(r), "sensors": []string{one(r, "temperature", "oil", "vibration")}}
	}},
	{Weight: 2, Gate: "desk", Callers: desk, Server: "fleet", Tool: "crew_roster", Takes: 8 * milli, args: func(r *rand.Rand) map[string]any {
		return map[string]any{"vessel": vessel(r), "watch": one(r, "morning", "afternoon", "night")}
	}},
	{Weight: 1, Gate: "desk", Callers: desk, Server: "fleet", Tool: "reroute_vessel", Takes: 9 * milli, args: func(r *rand.Rand) map[string]any {
		return map[string]any{"vessel": vessel(r), "to": port(r), "reason": one(r, "Fog on the river", "The berth is taken", "Repair of a crane")}
	}},
	{Weight: 5, Gate: "desk", Callers: desk, Tool: "book_berth", Takes: milli / 3, Fails: 0.18, Fault: toolyard.Failed, Says: "Berth B1 is taken by Solveig.", args: bookingOf},
	{Weight: 3, Gate: "desk", Callers: desk, Tool: "send_notice", Takes: milli / 4, Limited: true, args: func(r *rand.Rand) map[string]any {
		return map[string]any{"to": []string{"master", one(r, "pilot", "customs", "terminal")}, "channel": one(r, "email", "radio"), "text": vessel(r) + " arrives two hours later than planned."}
	}},
	{Weight: 2, Gate: "desk", Callers: desk, Server: "customs", Tool: "file_declaration", Takes: 12 * milli, args: func(r *rand.Rand) map[string]any {
		return map[string]any{"consignee": "Van Houten Trading", "goods": []any{map[string]any{
			"code": "0901.21", "origin": "BR", "kilograms": 500 + r.IntN(20_000), "value": map[string]any{"amount": 2_000 + r.IntN(90_000), "currency": "EUR"},
		}}}
	}},
	{Weight: 5, Gate: "sell", Callers: sell, Tool: "invoice_total", Price: 2 * toolyard.USD / 1000, Takes: milli / 3, args: invoiceOf},
	{Weight: 3, Gate: "sell", Callers: sell, Tool: "demurrage", Price: toolyard.USD / 100, Takes: 5 * milli, args: func(r *rand.Rand) map[string]any {
		return map[string]any{"containers": []any{map[string]any{"number": fmt.Sprintf("HRBU%07d", r.IntN(10_000_000)), "size": one(r, "20", "40", "40HC"), "days": r.IntN(25)}}}
	}},
	{Weight: 3, Gate: "sell", Callers: sell, Tool: "translate_notice", Price: 4 * toolyard.USD / 1000, Takes: 4 * milli, args: func(r *rand.Rand) map[string]any {
		return map[string]any{"notice": "delay", "language": one(r, "nl", "de", "es", "fr"), "ship": vessel(r), "particulars": map[string]any{"hours": 1 + r.IntN(12)}}
	}},
	{Weight: 4, Gate: "sell", Callers: sell, Server: "customs", Tool: "duty_rate", Price: 3 * toolyard.USD / 1000, Takes: 9 * milli, args: func(r *rand.Rand) map[string]any {
		return map[string]any{"code": one(r, "0901.21", "2204.21", "7318.15", "9403.60"), "origin": one(r, "BR", "CN", "NO", "US", "VN")}
	}},
	{Weight: 2, Gate: "sell", Callers: sell, Server: "customs", Tool: "screen_party", Price: toolyard.USD / 100, Takes: 9 * milli, args: func(r *rand.Rand) map[string]any {
		return map[string]any{"name": one(r, "Van Houten Trading", "Nordic Timber AS", "Meridian Shadow Shipping Ltd"), "lists": []string{"EU", "UN"}}
	}},
	{Weight: 2, Gate: "sell", Callers: []toolyard.Caller{baltic}, Tool: "exchange_rate", Price: toolyard.USD / 1000, Takes: 5 * milli, Fails: 0.15, Fault: toolyard.Failed, Says: ratesAway, args: rateOf},
}

func distanceOf(r *rand.Rand) map[string]any {
	args := map[string]any{"from": port(r), "to": one(r, "SGSIN", "USNYC", "ESVLC", "PLGDN")}
	if r.IntN(4) == 0 {
		args["from"] = map[string]any{"lat": float64(3500+r.IntN(2000)) / 100, "lon": float64(r.IntN(2000)-1000) / 100}
	}
	return args
}

func weatherOf(r *rand.Rand) map[string]any {
	return map[string]any{"port": port(r), "hours": 3 + r.IntN(21)}
}

func rateOf(r *rand.Rand) map[string]any {
	return map[string]any{"from": "EUR", "to": one(r, "USD", "GBP", "NOK", "PLN"), "amount": 100 * (1 + r.IntN(90))}
}

func briefOf(r *rand.Rand) map[string]any {
	return map[string]any{"ship": vessel(r), "from": one(r, "GRPIR", "NOOSL"), "to": one(r, "NLRTM", "BEANR", "DEHAM", "FRLEH"), "draught": 9, "declaration": declaration(r)}
}

func goodsOf(r *rand.Rand) map[string]any {
	return map[string]any{"goods": one(r, "Roasted coffee beans in bags of 60 kg", "Wooden garden furniture, table and chairs", "Solar panels for roofs",
		"Steel screws and bolts", "Cotton shirts", "Red wine, 12 bottles in a box", "Laptops and chargers", "Fresh oranges", "Assorted goods as agreed")}
}

func bookingOf(r *rand.Rand) map[string]any {
	return map[string]any{
		"ship":  map[string]any{"name": vessel(r), "imo": fmt.Sprint(9_100_000 + r.IntN(800_000)), "lengthMetres": 90 + r.IntN(170)},
		"berth": one(r, "A1", "A2", "B1", "B2", "C1", "C2"), "arrives": day(r, 90).Format(time.RFC3339), "hours": 6 + r.IntN(12),
		"services": []string{one(r, "pilot", "tugs"), one(r, "shore_power", "bunkering", "waste")},
	}
}

func invoiceOf(r *rand.Rand) map[string]any {
	return map[string]any{"currency": one(r, "EUR", "USD"), "discountPercent": one(r, 0, 0, 0, 5), "lines": []any{
		map[string]any{"item": "Berth fee", "quantity": 1 + r.IntN(3), "unitPrice": fmt.Sprintf("%d.50", 200+r.IntN(800))},
		map[string]any{"item": "Fresh water, per cubic metre", "quantity": 5 + r.IntN(60), "unitPrice": "3.2750", "vat": 9},
	}}
}
