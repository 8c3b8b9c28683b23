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
	"github.com/toolyard/toolyard/internal/base/ident"
)

// Harbor's callers and the accounts that pay for them.
var (
	anonymous = toolyard.Caller{ID: ident.Anonymous, Account: ident.Anonymous}
	dispatch  = toolyard.Caller{ID: "dispatch-agent", Account: "harbor"}
	quayside  = toolyard.Caller{ID: "quayside-bot", Account: "harbor"}
	concierge = toolyard.Caller{ID: "concierge", Account: "harbor"}
	treasurer = toolyard.Caller{ID: "treasury-agent", Account: "harbor"}
	mira      = toolyard.Caller{ID: "mira", Account: "harbor"}
	northwind = toolyard.Caller{ID: "northwind", Account: "northwind-lines"}
	baltic    = toolyard.Caller{ID: "baltic-broker", Account: "baltic-trade"}
)

// Key is a caller's API key.
type Key struct {
	Name    string
	Caller  toolyard.Caller
	Scopes  []string
	Age     time.Duration // time since it was created
	TTL     time.Duration // zero if it does not expire
	Revoked time.Duration // time since it was revoked; zero if it is valid
}

const aDay = 24 * time.Hour

// codeToolError is the code of calls whose result reports a failure.
const codeToolError toolyard.Code = "TOOL_ERROR"

// Keys are the API keys of Harbor's callers.
var Keys = []Key{
	{Name: "Dispatch agent", Caller: dispatch, Scopes: []string{"gate:chat", "gate:desk", "write"}, Age: 61 * aDay},
	{Name: "Northwind Lines, production", Caller: northwind, Scopes: []string{"gate:chat", "gate:sell"}, Age: 33 * aDay, TTL: 90 * aDay},
	{Name: "Mira, operations", Caller: mira, Scopes: []string{"operator", "write"}, Age: 148 * aDay},
	{Name: "Concierge of the guest house", Caller: concierge, Scopes: []string{"gate:house", "write"}, Age: 20 * aDay},
	{Name: "Treasury agent", Caller: treasurer, Scopes: []string{"gate:treasury", "write"}, Age: 12 * aDay},
	{Name: "Northwind Lines, pilot", Caller: northwind, Scopes: []string{"gate:sell"}, Age: 97 * aDay, Revoked: 32 * aDay},
}

// Accounts are the initial balances. One of them is too low for its traffic.
var Accounts = map[string]toolyard.Money{"harbor": 120 * toolyard.USD, "northwind-lines": 250 * toolyard.USD, "baltic-trade": toolyard.USD / 50}

// Sessions are the open sessions at the start of the demo.
var Sessions = []ledger.Session{
	{ID: "ses_NORTHWIND_SPRING_TENDER", Account: "northwind-lines", Limit: 50 * toolyard.USD, TTL: 24 * time.Hour},
	{ID: "ses_NORTHWIND_NIGHT_RUN", Account: "northwind-lines", Limit: toolyard.USD, Calls: 500, TTL: 12 * time.Hour},
	{ID: "ses_HARBOR_TRAINING", Account: "harbor", Limit: 2 * toolyard.USD, Calls: 200, TTL: 8 * time.Hour},
}

// SessionOf returns an open session in a caller's account, usually the first one, or "".
func SessionOf(c toolyard.Caller, r *rand.Rand) (id string) {
	for _, s := range Sessions {
		if s.Account == c.Account && (id == "" || r.IntN(8) == 0) {
			id = s.ID
		}
	}
	return id
}

// CallPattern is a call that the simulated callers make repeatedly.
type CallPattern struct {
	Weight       int // relative frequency
	Gate         string
	Callers      []toolyard.Caller
	Server, Tool string
	Price        toolyard.Money // price at the gate
	Duration     time.Duration  // typical duration
	FailureRate  float64        // between 0 and 1
	FailureCode  toolyard.Code
	FailureText  string
	Limited      bool // sometimes refused because of a limit
	Pack         bool // the tool belongs to a pack
	NoHistory    bool // the call changes a pack's state, so a generated past call would have no visible effect

	args func(*rand.Rand) map[string]any
}

// Name returns the tool's name at the gate.
func (p *CallPattern) Name() string {
	if p.Server == "" {
		return p.Tool
	}
	return p.Server + "__" + p.Tool
}

// Mode returns the gate's mode.
func (p *CallPattern) Mode() toolyard.Mode {
	if p.Gate == "chat" || p.Gate == "sell" {
		return toolyard.Read
	}
	return toolyard.Write
}

// Args generates arguments. If invalid is set, one member has the wrong name.
func (p *CallPattern) Args(r *rand.Rand, invalid bool) json.RawMessage {
	args := p.args(r)
	switch {
	case invalid && len(args) == 0:
		args["id"] = true
	case invalid:
		name := one(r, slices.Sorted(maps.Keys(args))...)
		args[name+"Id"] = args[name]
		delete(args, name)
	}
	raw, _ := json.Marshal(args) // cannot fail: the arguments are JSON values
	return raw
}

// Caller picks one of the callers.
func (p *CallPattern) Caller(r *rand.Rand) toolyard.Caller { return one(r, p.Callers...) }

// Traffic is a selection of call patterns.
type Traffic []*CallPattern

// NewTraffic selects the patterns that match.
func NewTraffic(match func(*CallPattern) bool) (t Traffic) {
	for i := range Patterns {
		if match(&Patterns[i]) {
			t = append(t, &Patterns[i])
		}
	}
	return t
}

// Next picks a pattern by weight.
func (t Traffic) Next(r *rand.Rand) *CallPattern {
	total := 0
	for _, p := range t {
		total += p.Weight
	}
	n := r.IntN(total)
	for _, p := range t {
		if n -= p.Weight; n < 0 {
			return p
		}
	}
	panic("unreachable: n is less than the sum of all weights")
}

func one[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

func port(r *rand.Rand) string {
	return one(r, "NLRTM", "BEANR", "DEHAM", "FRLEH", "GRPIR", "NOOSL")
}

func vessel(r *rand.Rand) string {
	return one(r, "Solveig", "Anneke", "Marisol", "Kestrel", "Thalassa")
}

func declaration(r *rand.Rand) string { return fmt.Sprintf("HD-2%05d", r.IntN(100_000)) }

// day returns a random time within the given number of days from now.
func day(r *rand.Rand, within int) time.Time {
	return time.Now().UTC().Truncate(time.Hour).Add(time.Duration(r.IntN(within*24)) * time.Hour)
}

var (
	chat = []toolyard.Caller{anonymous, dispatch, dispatch, quayside, quayside, quayside}
	desk = []toolyard.Caller{dispatch, dispatch, mira}
	sell = []toolyard.Caller{northwind}

	house    = []toolyard.Caller{concierge}
	treasury = []toolyard.Caller{treasurer}
)

const (
	milli     = time.Millisecond
	ratesDown = "The rate service responded with status 503 (updating)."
)

// Patterns are the calls in the simulated traffic.
var Patterns = []CallPattern{
	{Weight: 9, Gate: "chat", Callers: chat, Tool: "port_distance", Duration: milli / 4, args: distanceOf},
	{Weight: 7, Gate: "chat", Callers: chat, Tool: "ship_schedule", Duration: milli / 2, args: func(r *rand.Rand) map[string]any {
		return map[string]any{"port": port(r), "window": map[string]any{"days": 3 + r.IntN(12)}}
	}},
	{Weight: 5, Gate: "chat", Callers: chat, Tool: "convert_units", Duration: milli / 5, FailureRate: 0.06, FailureCode: toolyard.Failed, FailureText: "Cannot convert nm (a length) to kn (a speed).", args: func(r *rand.Rand) map[string]any {
		return map[string]any{"value": 1 + r.IntN(400), "from": one(r, "nm", "km", "m"), "to": one(r, "nm", "km", "m", "ft", "ft", "ft", "kn")}
	}},
	{Weight: 4, Gate: "chat", Callers: chat, Tool: "business_days", Duration: milli / 5, args: func(r *rand.Rand) map[string]any {
		return map[string]any{"from": time.Now().UTC().Format(time.DateOnly), "to": day(r, 60).Format(time.DateOnly)}
	}},
	{Weight: 6, Gate: "chat", Callers: chat, Tool: "tide_window", Duration: 410 * milli, args: func(r *rand.Rand) map[string]any {
		return map[string]any{"port": port(r), "draught": float64(60+r.IntN(60)) / 10}
	}},
	{Weight: 18, Gate: "chat", Callers: chat, Tool: "port_weather", Duration: 6 * milli, Limited: true, args: weatherOf},
	{Weight: 8, Gate: "chat", Callers: chat, Tool: "exchange_rate", Duration: 5 * milli, FailureRate: 0.15, FailureCode: toolyard.Failed, FailureText: ratesDown, args: rateOf},
	{Weight: 3, Gate: "chat", Callers: chat, Tool: "berth_plan", Duration: milli / 4, args: func(r *rand.Rand) map[string]any {
		return map[string]any{"berth": one(r, "A1", "A2", "B1", "B2", "C1", "C2"), "most": 5 + r.IntN(10)}
	}},
	{Weight: 5, Gate: "chat", Callers: chat, Tool: "arrival_brief", Duration: 430 * milli, args: briefOf},
	{Weight: 6, Gate: "chat", Callers: chat, Server: "customs", Tool: "classify_goods", Duration: 11 * milli, FailureRate: 0.1, FailureCode: codeToolError, FailureText: "No heading matches; describe the material and the use of the goods.", args: goodsOf},
	{Weight: 5, Gate: "chat", Callers: chat, Server: "customs", Tool: "clearance_status", Duration: 9 * milli, args: func(r *rand.Rand) map[string]any {
		return map[string]any{"declaration": declaration(r)}
	}},
	{Weight: 7, Gate: "chat", Callers: chat, Server: "fleet", Tool: "vessel_position", Duration: 8 * milli, args: func(r *rand.Rand) map[string]any {
		return map[string]any{"vessel": vessel(r)}
	}},
	{Weight: 4, Gate: "chat", Callers: chat, Server: "fleet", Tool: "engine_health", Duration: 9 * milli, args: func(r *rand.Rand) map[string]any {
		return map[string]any{"vessel": vessel(r), "sensors": []string{one(r, "temperature", "oil", "vibration")}}
	}},
	{Weight: 2, Gate: "desk", Callers: desk, Server: "fleet", Tool: "crew_roster", Duration: 8 * milli, args: func(r *rand.Rand) map[string]any {
		return map[string]any{"vessel": vessel(r), "watch": one(r, "morning", "afternoon", "night")}
	}},
	{Weight: 1, Gate: "desk", Callers: desk, Server: "fleet", Tool: "reroute_vessel", Duration: 9 * milli, args: func(r *rand.Rand) map[string]any {
		return map[string]any{"vessel": vessel(r), "to": port(r), "reason": one(r, "Fog on the river", "The berth is occupied", "Repair of a crane")}
	}},
	{Weight: 5, Gate: "desk", Callers: desk, Tool: "book_berth", Duration: milli / 3, FailureRate: 0.18, FailureCode: toolyard.Failed, FailureText: "Berth B1 is occupied by Solveig.", args: bookingOf},
	{Weight: 3, Gate: "desk", Callers: desk, Tool: "send_notice", Duration: milli / 4, Limited: true, args: func(r *rand.Rand) map[string]any {
		return map[string]any{"to": []string{"master", one(r, "pilot", "customs", "terminal")}, "channel": one(r, "email", "radio"), "text": vessel(r) + " arrives two hours later than planned."}
	}},
	{Weight: 2, Gate: "desk", Callers: desk, Server: "customs", Tool: "file_declaration", Duration: 12 * milli, args: func(r *rand.Rand) map[string]any {
		return map[string]any{"consignee": "Van Houten Trading", "goods": []any{map[string]any{
			"code": "0901.21", "origin": "BR", "kilograms": 500 + r.IntN(20_000), "value": map[string]any{"amount": 2_000 + r.IntN(90_000), "currency": "EUR"},
		}}}
	}},
	{Weight: 5, Gate: "sell", Callers: sell, Tool: "invoice_total", Price: 2 * toolyard.USD / 1000, Duration: milli / 3, args: invoiceOf},
	{Weight: 3, Gate: "sell", Callers: sell, Tool: "demurrage", Price: toolyard.USD / 100, Duration: 5 * milli, args: func(r *rand.Rand) map[string]any {
		return map[string]any{"containers": []any{map[string]any{"number": fmt.Sprintf("HRBU%07d", r.IntN(10_000_000)), "size": one(r, "20", "40", "40HC"), "days": r.IntN(25)}}}
	}},
	{Weight: 3, Gate: "sell", Callers: sell, Tool: "translate_notice", Price: 4 * toolyard.USD / 1000, Duration: 4 * milli, args: func(r *rand.Rand) map[string]any {
		return map[string]any{"notice": "delay", "language": one(r, "nl", "de", "es", "fr"), "ship": vessel(r), "particulars": map[string]any{"hours": 1 + r.IntN(12)}}
	}},
	{Weight: 4, Gate: "sell", Callers: sell, Server: "customs", Tool: "duty_rate", Price: 3 * toolyard.USD / 1000, Duration: 9 * milli, args: func(r *rand.Rand) map[string]any {
		return map[string]any{"code": one(r, "0901.21", "2204.21", "7318.15", "9403.60"), "origin": one(r, "BR", "CN", "NO", "US", "VN")}
	}},
	{Weight: 2, Gate: "sell", Callers: sell, Server: "customs", Tool: "screen_party", Price: toolyard.USD / 100, Duration: 9 * milli, args: func(r *rand.Rand) map[string]any {
		return map[string]any{"name": one(r, "Van Houten Trading", "Nordic Timber AS", "Meridian Shadow Shipping Ltd"), "lists": []string{"EU", "UN"}}
	}},
	{Weight: 2, Gate: "sell", Callers: []toolyard.Caller{baltic}, Tool: "exchange_rate", Price: toolyard.USD / 1000, Duration: 5 * milli, FailureRate: 0.15, FailureCode: toolyard.Failed, FailureText: ratesDown, args: rateOf},
	{Weight: 3, Gate: "house", Callers: house, Pack: true, Tool: "home_overview", Duration: milli / 3, args: none},
	{Weight: 3, Gate: "house", Callers: house, Pack: true, Tool: "list_devices", Duration: milli / 2, args: func(r *rand.Rand) map[string]any {
		return map[string]any{"area": one(r, "Hall", "Kitchen", "Living room", "Bedroom")}
	}},
	{Weight: 3, Gate: "house", Callers: house, Pack: true, Tool: "get_device", Duration: milli / 4, FailureRate: 0.05, FailureCode: toolyard.NotFound, FailureText: `Unknown device "Hal light". Did you mean Hall light?`, args: func(r *rand.Rand) map[string]any {
		return map[string]any{"id": one(r, "Hall light", "Heating", "Front door", "Kitchen temperature")}
	}},
	{Weight: 3, Gate: "house", Callers: house, Pack: true, NoHistory: true, Tool: "control_device", Duration: 6 * milli, args: func(r *rand.Rand) map[string]any {
		return map[string]any{"ids": []string{one(r, "Hall light", "Bedroom light", "Reading lamp", "Coffee machine")}, "action": one(r, "turn_on", "turn_off")}
	}},
	{Weight: 4, Gate: "treasury", Callers: treasury, Pack: true, Tool: "fetch_recent_bars", Duration: 3 * milli, args: func(r *rand.Rand) map[string]any {
		return map[string]any{"symbol": one(r, "BTC", "ETH"), "interval": one(r, "5m", "15m", "1h"), "lookback": 12 + r.IntN(60)}
	}},
	{Weight: 3, Gate: "treasury", Callers: treasury, Pack: true, Tool: "get_portfolio", Duration: 2 * milli, args: none},
	{Weight: 2, Gate: "treasury", Callers: treasury, Pack: true, Tool: "get_funding_rate", Duration: 3 * milli, args: func(r *rand.Rand) map[string]any {
		return map[string]any{"symbol": one(r, "BTC", "ETH")}
	}},
	{Weight: 2, Gate: "treasury", Callers: treasury, Pack: true, Tool: "get_recent_decisions", Duration: 2 * milli, args: none},
	{Weight: 4, Gate: "treasury", Callers: treasury, Pack: true, NoHistory: true, Tool: "propose_order", Duration: 5 * milli, args: orderOf},
}

func none(*rand.Rand) map[string]any { return map[string]any{} }

// orderOf generates decisions by the treasury agent. The account's rules reject some of them.
func orderOf(r *rand.Rand) map[string]any {
	symbol := one(r, "BTC", "BTC", "ETH", "ETH", "SOL")
	switch r.IntN(4) {
	case 0:
		return map[string]any{"symbol": symbol, "action": "hold", "reasoning": "The range of the last hours is narrow; waiting for a direction."}
	case 1:
		return map[string]any{"symbol": symbol, "action": "close", "reasoning": "The average of the last bars has turned."}
	}
	side := one(r, "buy", "sell")
	return map[string]any{
		"symbol": symbol, "action": "open", "side": side, "notionalUsd": fmt.Sprint(100 * (1 + r.IntN(8))),
		"reasoning": map[string]string{"buy": "The last bars close above their average, and funding is low.", "sell": "The last bars close below their average, and funding is high."}[side],
	}
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
