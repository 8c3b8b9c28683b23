package demo

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/agent/model"
)

// Names of Harbor's agent, its model, and the gates that offer it.
const (
	Agent    = "harbormaster"
	Scripted = "scripted"
	AskGate  = "ask"
	PaidGate = "sell"
)

// Question is a question that the simulated users ask the agent.
type Question struct {
	Text   string
	Gate   string
	Caller toolyard.Caller
}

// Questions are asked one after the other. The model cannot answer the last one.
var Questions = []Question{
	{"Which ships arrive in Rotterdam this week, and how is the weather there?", AskGate, dispatch},
	{"What duty do we pay on roasted coffee beans from Brazil?", PaidGate, northwind},
	{"How far is it from Piraeus to Singapore, and how long does a ship take?", AskGate, quayside},
	{"How much is 2500 EUR in NOK?", PaidGate, northwind},
	{"Who won the regatta last year?", AskGate, quayside},
}

// Model is the language model of Harbor's agent. It follows a script instead of calling a
// provider's API, so that the demo needs no network: it recognizes some questions by their words,
// calls tools for them, and writes an answer from the results.
type Model struct {
	Pause time.Duration // delay before each turn, to simulate a real model
}

// Turn implements [model.Model].
func (m Model) Turn(ctx context.Context, r *model.Request, on func(model.Event)) (*model.Turn, error) {
	select {
	case <-time.After(m.Pause):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	d := newDialog(r)
	calls := d.repeat()
	text := ""
	if calls == nil {
		calls, text = d.next()
	}
	if r.NoTools && calls != nil {
		calls, text = nil, "The results so far do not answer the question."
	}
	turn := &model.Turn{Text: text, Calls: calls, Stop: model.StopEnd, Usage: model.Usage{Input: tokens(r), Output: int64(len(text)/4) + 20*int64(len(calls)), Estimated: true}}
	for i := range calls {
		turn.Stop, calls[i].ID = model.StopCalls, fmt.Sprintf("call_%d_%d", len(r.Messages), i)
	}
	if on != nil && text != "" {
		on(model.Event{Text: text})
	}
	return turn, nil
}

// tokens estimates the number of tokens in a request.
func tokens(r *model.Request) int64 {
	size := len(r.System)
	for _, f := range r.Tools {
		size += len(f.Name) + len(f.Description) + len(f.Parameters)
	}
	for _, m := range r.Messages {
		size += len(m.Text)
		for _, a := range m.Answers {
			size += len(a.Text)
		}
	}
	return int64(size / 4)
}

// dialog is a conversation as seen by the model: the question and the results of its calls.
type dialog struct {
	question string // lower case
	tools    []string
	results  []callResult
}

// callResult is a call's result in the format that agents pass to models.
type callResult struct {
	call      model.FunctionCall
	last      bool // from the last turn
	Evidence  string
	Text      string
	Error     string
	Retryable bool
}

func newDialog(r *model.Request) *dialog {
	d := &dialog{}
	for _, f := range r.Tools {
		d.tools = append(d.tools, f.Name)
	}
	var calls []model.FunctionCall
	for i, m := range r.Messages {
		if m.Turn != nil {
			calls = m.Turn.Calls
		}
		d.question = cmp.Or(d.question, strings.ToLower(m.Text))
		for j, a := range m.Answers[:min(len(m.Answers), len(calls))] {
			result := callResult{call: calls[j], last: i == len(r.Messages)-1}
			_ = json.Unmarshal([]byte(a.Text), &result) // invalid results count as empty
			d.results = append(d.results, result)
		}
	}
	return d
}

// repeat returns the calls from the last turn that failed for the first time and may succeed if
// repeated.
func (d *dialog) repeat() (calls []model.FunctionCall) {
	for _, r := range d.results {
		if r.last && (r.Retryable || r.Error == string(toolyard.Failed)) && d.attempts(&r.call) == 1 {
			calls = append(calls, model.FunctionCall{Name: r.call.Name, Arguments: r.call.Arguments})
		}
	}
	return calls
}

// attempts returns how often a call was made.
func (d *dialog) attempts(call *model.FunctionCall) (n int) {
	for _, r := range d.results {
		if r.call.Name == call.Name && string(r.call.Arguments) == string(call.Arguments) {
			n++
		}
	}
	return n
}

// topic is a kind of question.
type topic struct {
	words *regexp.Regexp // matches questions about the topic
	tools []string       // tools needed for an answer
	next  func(*dialog) ([]model.FunctionCall, string)
}

var topics = []topic{
	{regexp.MustCompile(`\b(arrives?|arrivals?|arriving)\b`), []string{"ship_schedule", "port_weather", "fleet__vessel_position"}, nextArrivals},
	{regexp.MustCompile(`\b(duty|duties|tariff|customs)\b`), []string{"customs__classify_goods", "customs__duty_rate"}, nextDuty},
	{regexp.MustCompile(`\b(far|distance|miles)\b`), []string{"port_distance"}, nextDistance},
	{regexp.MustCompile(`\b(eur|usd|gbp|nok|pln|sgd)\b`), []string{"exchange_rate"}, nextExchange},
}

const unknownQuestion = "I can answer questions about arrivals at a port, duties on goods, distances between ports, and exchange rates. " +
	"This model follows a script. To ask anything else, configure a real model."

// next returns the calls for the next turn, or the answer.
func (d *dialog) next() ([]model.FunctionCall, string) {
	for _, t := range topics {
		if !t.words.MatchString(d.question) {
			continue
		}
		for _, tool := range t.tools {
			if !slices.Contains(d.tools, tool) {
				return nil, "The question needs tool " + tool + ", which is not available."
			}
		}
		return t.next(d)
	}
	return nil, unknownQuestion
}

// find returns a tool's last result, or nil. If the call succeeded and value is not nil, it decodes
// the result's text into value.
func (d *dialog) find(tool string, value any) *callResult {
	for i := len(d.results) - 1; i >= 0; i-- {
		if r := &d.results[i]; r.call.Name == tool {
			if r.Error == "" && value != nil {
				_ = json.Unmarshal([]byte(r.Text), value) // results in another format count as empty
			}
			return r
		}
	}
	return nil
}

func newCall(tool string, args map[string]any) model.FunctionCall {
	raw, _ := json.Marshal(args) // cannot fail: the arguments are JSON values
	return model.FunctionCall{Name: tool, Arguments: raw}
}

// portNames maps UN/LOCODEs to lower-case port names, as used in questions and answers.
var portNames = map[string]string{
	"NLRTM": "Rotterdam", "BEANR": "Antwerp", "DEHAM": "Hamburg", "FRLEH": "Le Havre", "ESVLC": "Valencia",
	"GRPIR": "Piraeus", "NOOSL": "Oslo", "PLGDN": "Gdansk", "USNYC": "New York", "SGSIN": "Singapore",
}

// ports returns the ports in the question, in order.
func (d *dialog) ports() (list []string) {
	at := make(map[string]int)
	for code, name := range portNames {
		if i := strings.Index(d.question, strings.ToLower(name)); i >= 0 {
			at[code], list = i, append(list, code)
		}
	}
	slices.SortFunc(list, func(a, b string) int { return at[a] - at[b] })
	return list
}

// maxPositions is the maximum number of ships whose position is in an answer.
const maxPositions = 3

func nextArrivals(d *dialog) ([]model.FunctionCall, string) {
	ports := d.ports()
	if len(ports) == 0 {
		return nil, "Name the port, such as Rotterdam."
	}
	schedule := d.find("ship_schedule", nil)
	if schedule == nil {
		return []model.FunctionCall{
			newCall("ship_schedule", map[string]any{"port": ports[0], "window": map[string]any{"days": 7}}),
			newCall("port_weather", map[string]any{"port": ports[0], "hours": 24}),
		}, ""
	}
	list := arrivalsIn(schedule.Text)
	if d.find("fleet__vessel_position", nil) == nil {
		if calls := positions(list); calls != nil {
			return calls, ""
		}
	}
	return nil, describeArrivals(d, portNames[ports[0]], list, schedule)
}

// arrivalsIn decodes a schedule, which contains one JSON value per arrival.
func arrivalsIn(text string) (list []arrival) {
	var a arrival
	for values := json.NewDecoder(strings.NewReader(text)); values.Decode(&a) == nil; {
		list = append(list, a)
	}
	return list
}

// positions returns calls for the positions of the next ships.
func positions(list []arrival) (calls []model.FunctionCall) {
	var names []string
	for _, a := range list {
		if a.Ship != "Polar Tern" && !slices.Contains(names, a.Ship) && len(names) < maxPositions { // not in the fleet
			names, calls = append(names, a.Ship), append(calls, newCall("fleet__vessel_position", map[string]any{"vessel": a.Ship}))
		}
	}
	return calls
}

func describeArrivals(d *dialog, port string, list []arrival, schedule *callResult) string {
	var b strings.Builder
	switch {
	case schedule.Error != "":
		return "The schedule for " + port + " is not available."
	case len(list) == 0:
		fmt.Fprintf(&b, "No ship arrives in %s in the next seven days [%s].\n", port, schedule.Evidence)
	default:
		fmt.Fprintf(&b, "Arrivals in %s in the next seven days [%s]:\n", port, schedule.Evidence)
	}
	for _, a := range list {
		fmt.Fprintf(&b, "- %s with %s from %s, %s%s\n", a.Ship, a.Cargo, cmp.Or(portNames[a.From], a.From), a.ETA.Format("Mon 2 Jan 15:04 UTC"), d.position(a.Ship))
	}
	var weather struct {
		Hours []struct{ Wind, WavesM float64 }
	}
	if r := d.find("port_weather", &weather); r != nil && len(weather.Hours) > 0 {
		wind, waves := 0.0, 0.0
		for _, h := range weather.Hours {
			wind, waves = max(wind, h.Wind), max(waves, h.WavesM)
		}
		fmt.Fprintf(&b, "Weather in the next day: wind up to %.0f kn, waves up to %.1f m [%s].\n", wind, waves, r.Evidence)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// position describes a ship's position if it was looked up.
func (d *dialog) position(ship string) string {
	for _, r := range d.results {
		var at struct {
			Vessel               string
			Lat, Lon, SpeedKnots float64
		}
		if r.call.Name == "fleet__vessel_position" && r.Error == "" && json.Unmarshal([]byte(r.Text), &at) == nil && at.Vessel == ship {
			return fmt.Sprintf("; now at %.2f, %.2f with %.1f kn [%s]", at.Lat, at.Lon, at.SpeedKnots, r.Evidence)
		}
	}
	return ""
}

// origins maps the countries of origin in the tariff to their codes.
var origins = map[string]string{"brazil": "BR", "china": "CN", "morocco": "MA", "norway": "NO", "turkey": "TR", "united states": "US", "vietnam": "VN"}

func nextDuty(d *dialog) ([]model.FunctionCall, string) {
	origin := ""
	for name, code := range origins {
		if strings.Contains(d.question, name) {
			origin = code
		}
	}
	if origin == "" {
		return nil, "Name the country of origin: Brazil, China, Morocco, Norway, Turkey, the United States or Vietnam."
	}
	var goods struct {
		Suggestions []struct{ Code, Heading string }
	}
	classified := d.find("customs__classify_goods", &goods)
	if classified == nil {
		return []model.FunctionCall{newCall("customs__classify_goods", map[string]any{"goods": untilLimit(d.question, 300)})}, ""
	}
	if len(goods.Suggestions) == 0 {
		return nil, "The goods could not be classified; describe the material and the use."
	}
	best := goods.Suggestions[0]
	var rate struct{ DutyPercent, VATPercent float64 }
	r := d.find("customs__duty_rate", &rate)
	switch {
	case r == nil:
		return []model.FunctionCall{newCall("customs__duty_rate", map[string]any{"code": best.Code, "origin": origin})}, ""
	case r.Error != "":
		return nil, fmt.Sprintf("The goods have the code %s (%s) [%s], but the duty could not be looked up.", best.Code, best.Heading, classified.Evidence)
	}
	return nil, fmt.Sprintf("The goods have the code %s (%s) [%s]. The duty is %g %%, and the import VAT in the Netherlands %g %% [%s].",
		best.Code, best.Heading, classified.Evidence, rate.DutyPercent, rate.VATPercent, r.Evidence)
}

// untilLimit returns the first limit bytes of a text, excluding a partial character.
func untilLimit(text string, limit int) string {
	return strings.ToValidUTF8(text[:min(len(text), limit)], "")
}

func nextDistance(d *dialog) ([]model.FunctionCall, string) {
	ports := d.ports()
	if len(ports) < 2 {
		return nil, "Name two ports, such as Piraeus and Singapore."
	}
	var way distance
	r := d.find("port_distance", &way)
	switch {
	case r == nil:
		return []model.FunctionCall{newCall("port_distance", map[string]any{"from": ports[0], "to": ports[1]})}, ""
	case r.Error != "":
		return nil, "The distance could not be computed."
	}
	return nil, fmt.Sprintf("From %s to %s it is %g nautical miles (%g km) on a great circle. At 14 knots, a ship takes %g hours [%s].",
		portNames[ports[0]], portNames[ports[1]], way.NauticalMiles, way.Kilometres, way.Hours, r.Evidence)
}

var exchange = regexp.MustCompile(`([0-9]{1,9}) (eur|usd|gbp|nok|pln|sgd)\b.*?\b(eur|usd|gbp|nok|pln|sgd)\b`)

func nextExchange(d *dialog) ([]model.FunctionCall, string) {
	parts := exchange.FindStringSubmatch(d.question)
	if parts == nil {
		return nil, "Name an amount and two currencies, such as 2500 EUR in NOK."
	}
	from, to := strings.ToUpper(parts[2]), strings.ToUpper(parts[3])
	var rate struct{ Rate, Amount float64 }
	r := d.find("exchange_rate", &rate)
	switch {
	case r == nil:
		return []model.FunctionCall{newCall("exchange_rate", map[string]any{"from": from, "to": to, "amount": json.Number(parts[1])})}, ""
	case r.Error != "":
		return nil, "The rate service is not available."
	}
	return nil, fmt.Sprintf("%s %s are %.2f %s, at a rate of %g [%s].", parts[1], from, rate.Amount, to, rate.Rate, r.Evidence)
}
