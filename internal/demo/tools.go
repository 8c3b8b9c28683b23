package demo

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
)

// Tools returns Harbor's Go tools, which share one state.
func Tools() []*toolyard.Tool {
	q := &quay{}
	return []*toolyard.Tool{
		convertUnits, businessDays, portDistance, invoiceTotal, shipSchedule,
		toolyard.Define(spec("book_berth", "Book a berth", "operations", "Books a berth for a ship, if it is free at that time.", ""), q.book),
		toolyard.Define(spec("berth_plan", "Berth plan", "operations", "Lists the bookings of the berths, earliest first.", toolyard.ReadOnly), q.plan),
		toolyard.Define(noticeSpec(), q.notify),
	}
}

func spec(name, title, category, description string, effects toolyard.Effects) toolyard.Spec {
	return toolyard.Spec{
		Name: name, Title: title, Category: category, Description: description, Effects: effects,
		Terms: toolyard.Terms{Latency: "instant"}, Origin: "internal/demo",
	}
}

// priced returns a spec with a price.
func priced(s toolyard.Spec, usd toolyard.Money) toolyard.Spec {
	s.Price = toolyard.Price{Set: true, USD: usd}
	return s
}

// refuse returns an error that the model can read.
func refuse(format string, args ...any) error {
	return toolyard.Errorf(toolyard.Failed, format, args...)
}

// unit is a unit and its factor to the base unit of its kind.
type unit struct {
	kind string
	base float64
}

var units = map[string]unit{
	"m": {"length", 1}, "km": {"length", 1000}, "nm": {"length", 1852}, "ft": {"length", 0.3048},
	"kn": {"speed", 1852.0 / 3600}, "km/h": {"speed", 1 / 3.6}, "m/s": {"speed", 1},
	"kg": {"mass", 1}, "t": {"mass", 1000}, "long_ton": {"mass", 1016.0469088},
}

type convertArgs struct {
	Value    float64 `json:"value" doc:"Value to convert"`
	From     string  `json:"from" doc:"Unit of the value" enum:"m,km,nm,ft,kn,km/h,m/s,kg,t,long_ton"`
	To       string  `json:"to" doc:"Unit of the result" enum:"m,km,nm,ft,kn,km/h,m/s,kg,t,long_ton"`
	Decimals int     `json:"decimals" doc:"Decimal places" minimum:"0" maximum:"9" default:"3"`
}

type converted struct {
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

var convertUnits = toolyard.Define(
	spec("convert_units", "Convert units", "reference", "Converts lengths, speeds and masses between nautical and common units.", toolyard.ReadOnly),
	func(_ context.Context, _ *toolyard.Call, in convertArgs) (converted, error) {
		from, to := units[in.From], units[in.To]
		if from.kind != to.kind {
			return converted{}, refuse("Cannot convert %s (a %s) to %s (a %s).", in.From, from.kind, in.To, to.kind)
		}
		scale := math.Pow10(in.Decimals)
		return converted{math.Round(in.Value*from.base/to.base*scale) / scale, in.To}, nil
	})

type date struct{ day time.Time }

// JSONSchema describes a date.
func (date) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"type":"string","format":"date","pattern":"^[0-9]{4}-[0-9]{2}-[0-9]{2}$","examples":["2026-11-15"]}`)
}

// UnmarshalText parses a date.
func (d *date) UnmarshalText(text []byte) (err error) {
	d.day, err = time.Parse(time.DateOnly, string(text))
	return err
}

type daysArgs struct {
	From     date   `json:"from" doc:"The first day"`
	To       date   `json:"to" doc:"The last day"`
	Week     string `json:"week" doc:"Working days" enum:"monday_friday,monday_saturday,sunday_thursday" default:"monday_friday"`
	Holidays []date `json:"holidays,omitempty" doc:"Other non-working days" maxItems:"50"`
}

type daysFound struct {
	BusinessDays int `json:"businessDays"`
	CalendarDays int `json:"calendarDays"`
}

// freeDays maps kinds of working weeks to their non-working days.
var freeDays = map[string][]time.Weekday{
	"monday_friday":   {time.Saturday, time.Sunday},
	"monday_saturday": {time.Sunday},
	"sunday_thursday": {time.Friday, time.Saturday},
}

// maxSpan is the maximum number of days to count.
const maxSpan = 10 * 366

var businessDays = toolyard.Define(
	spec("business_days", "Business days", "reference", "Counts the working days between two dates, both included.", toolyard.ReadOnly),
	func(_ context.Context, _ *toolyard.Call, in daysArgs) (found daysFound, _ error) {
		found.CalendarDays = int(in.To.day.Sub(in.From.day).Hours()/24) + 1
		if found.CalendarDays < 1 || found.CalendarDays > maxSpan {
			return found, refuse("The last day must be after the first, and at most ten years later.")
		}
		for day := in.From.day; !day.After(in.To.day); day = day.AddDate(0, 0, 1) {
			if !slices.Contains(freeDays[in.Week], day.Weekday()) && !slices.Contains(in.Holidays, date{day}) {
				found.BusinessDays++
			}
		}
		return found, nil
	})

// point is a position in degrees.
type point struct {
	Lat float64 `json:"lat"`
	Lon float64 `json:"lon"`
}

// ports maps UN/LOCODEs to the positions of ports.
var ports = map[string]point{
	"NLRTM": {51.95, 4.14}, "BEANR": {51.27, 4.34}, "DEHAM": {53.54, 9.93}, "FRLEH": {49.48, 0.12}, "ESVLC": {39.44, -0.32},
	"GRPIR": {37.94, 23.62}, "NOOSL": {59.9, 10.74}, "PLGDN": {54.4, 18.67}, "USNYC": {40.67, -74.04}, "SGSIN": {1.26, 103.84},
}

// place is a port or a point.
type place struct {
	name string
	point
}

// JSONSchema describes a place.
func (place) JSONSchema() json.RawMessage {
	return json.RawMessage(`{"oneOf":[
		{"title":"Port","type":"string","enum":["NLRTM","BEANR","DEHAM","FRLEH","ESVLC","GRPIR","NOOSL","PLGDN","USNYC","SGSIN"]},
		{"title":"Position","type":"object","required":["lat","lon"],"additionalProperties":false,"properties":{
			"lat":{"type":"number","minimum":-90,"maximum":90,"description":"Degrees north"},
			"lon":{"type":"number","minimum":-180,"maximum":180,"description":"Degrees east"}}}]}`)
}

// UnmarshalJSON accepts both forms.
func (p *place) UnmarshalJSON(data []byte) error {
	if data[0] != '"' {
		p.name = "position"
		return json.Unmarshal(data, &p.point)
	}
	err := json.Unmarshal(data, &p.name)
	p.point = ports[p.name]
	return err
}

type distanceArgs struct {
	From  place   `json:"from" doc:"Start"`
	To    place   `json:"to" doc:"End"`
	Speed float64 `json:"speedKnots" doc:"Speed of the ship" exclusiveMinimum:"0" maximum:"60" default:"14"`
}

type distance struct {
	From          string  `json:"from"`
	To            string  `json:"to"`
	NauticalMiles float64 `json:"nauticalMiles"`
	Kilometres    float64 `json:"kilometres"`
	Hours         float64 `json:"hours"`
}

var portDistance = toolyard.Define(
	priced(spec("port_distance", "Distance between ports", "routing", "Computes the great-circle distance between two ports or positions, and the duration of the voyage.", toolyard.ReadOnly), toolyard.USD/1000),
	func(_ context.Context, _ *toolyard.Call, in distanceArgs) (distance, error) {
		km := haversine(in.From.point, in.To.point)
		tenths := func(v float64) float64 { return math.Round(v*10) / 10 }
		return distance{in.From.name, in.To.name, tenths(km / 1.852), tenths(km), tenths(km / 1.852 / in.Speed)}, nil
	})

// haversine returns the great-circle distance between two points in kilometers.
func haversine(a, b point) float64 {
	const radius, degree = 6371.0088, math.Pi / 180
	sin2 := func(x float64) float64 { return math.Pow(math.Sin(x*degree/2), 2) }
	h := sin2(b.Lat-a.Lat) + math.Cos(a.Lat*degree)*math.Cos(b.Lat*degree)*sin2(b.Lon-a.Lon)
	return 2 * radius * math.Asin(math.Sqrt(min(1, h)))
}

type invoiceLine struct {
	Item      string `json:"item" doc:"What is sold" minLength:"1" maxLength:"120"`
	Quantity  int64  `json:"quantity" minimum:"1" maximum:"10000" default:"1"`
	UnitPrice string `json:"unitPrice" doc:"Price of one, as text: 12.50" pattern:"^[0-9]{1,5}(\\.[0-9]{1,4})?$"`
	VAT       int64  `json:"vat" doc:"Percent" enum:"0,9,21" default:"21"`
}

type invoiceArgs struct {
	Currency string        `json:"currency" enum:"EUR,USD,GBP" default:"EUR"`
	Lines    []invoiceLine `json:"lines" minItems:"1" maxItems:"50"`
	Discount int64         `json:"discountPercent" doc:"Discount on every line" minimum:"0" maximum:"50" default:"0"`
}

type invoice struct {
	Currency string            `json:"currency"`
	Net      string            `json:"net"`
	VAT      map[string]string `json:"vat"` // by percentage
	Total    string            `json:"total"`
}

var invoiceTotal = toolyard.Define(
	priced(spec("invoice_total", "Invoice total", "finance", "Adds up an invoice, exact to the cent: net, VAT by rate, and total.", toolyard.ReadOnly), 2*toolyard.USD/1000),
	func(_ context.Context, _ *toolyard.Call, in invoiceArgs) (invoice, error) {
		nets, net := make(map[int64]int64), int64(0)
		for i, line := range in.Lines {
			price, err := toolyard.ParseMoney(line.UnitPrice)
			if err != nil {
				return invoice{}, refuse("Line %d: %v.", i+1, err)
			}
			cents := rounded(int64(price)*line.Quantity, int64(toolyard.USD)/100)
			cents -= rounded(cents*in.Discount, 100)
			nets[line.VAT] += cents
			net += cents
		}
		out := invoice{Currency: in.Currency, Net: decimal(net), VAT: make(map[string]string)}
		total := net
		for rate, cents := range nets {
			vat := rounded(cents*rate, 100)
			out.VAT[fmt.Sprint(rate)] = decimal(vat)
			total += vat
		}
		out.Total = decimal(total)
		return out, nil
	})

// rounded returns n/d, rounded half up.
func rounded(n, d int64) int64 { return (n + d/2) / d }

// decimal formats an amount in cents.
func decimal(cents int64) string { return fmt.Sprintf("%d.%02d", cents/100, cents%100) }

type scheduleArgs struct {
	Port   string `json:"port" doc:"UN/LOCODE of the port" enum:"NLRTM,BEANR,DEHAM,FRLEH,ESVLC,GRPIR,NOOSL,PLGDN,USNYC,SGSIN"`
	Window struct {
		From *time.Time `json:"from" doc:"Default: now"`
		Days int        `json:"days" minimum:"1" maximum:"30" default:"7"`
	} `json:"window" doc:"Time window" default:"{}"`
	Cargo []string `json:"cargo,omitempty" doc:"Only ships with this cargo" enum:"containers,bulk,vehicles,reefer" uniqueItems:"true"`
}

type arrival struct {
	Ship  string    `json:"ship"`
	Cargo string    `json:"cargo"`
	From  string    `json:"from"`
	ETA   time.Time `json:"eta"`
}

// line is a ship that visits its ports in turn.
type line struct {
	ship, cargo string
	ports       []string
	leg         time.Duration // time from one port to the next
}

var lines = []line{
	{"Solveig", "containers", []string{"NLRTM", "NOOSL", "PLGDN"}, 52 * time.Hour},
	{"Anneke", "bulk", []string{"BEANR", "DEHAM", "NLRTM"}, 31 * time.Hour},
	{"Marisol", "reefer", []string{"ESVLC", "GRPIR", "FRLEH"}, 75 * time.Hour},
	{"Kestrel", "vehicles", []string{"FRLEH", "USNYC"}, 196 * time.Hour},
	{"Thalassa", "containers", []string{"GRPIR", "SGSIN", "NLRTM"}, 260 * time.Hour},
	{"Polar Tern", "reefer", []string{"NOOSL", "BEANR", "FRLEH", "ESVLC"}, 43 * time.Hour},
}

var shipSchedule = toolyard.Define(
	spec("ship_schedule", "Ship schedule", "operations", "Lists the ships that will arrive at a port in the next days.", toolyard.ReadOnly),
	func(_ context.Context, c *toolyard.Call, in scheduleArgs) ([]arrival, error) {
		from := c.AsOf
		if in.Window.From != nil {
			from = *in.Window.From
		}
		list := []arrival{}
		for _, l := range lines {
			if len(in.Cargo) == 0 || slices.Contains(in.Cargo, l.cargo) {
				list = append(list, l.arrivals(in.Port, from, from.AddDate(0, 0, in.Window.Days))...)
			}
		}
		slices.SortFunc(list, func(a, b arrival) int { return cmp.Or(a.ETA.Compare(b.ETA), strings.Compare(a.Ship, b.Ship)) })
		return list, nil
	})

// arrivals lists a ship's arrivals at a port.
func (l line) arrivals(port string, from, to time.Time) (list []arrival) {
	for at := from.Truncate(l.leg).Add(l.leg); at.Before(to); at = at.Add(l.leg) {
		turn := int(at.Unix()/int64(l.leg.Seconds())) % len(l.ports)
		if turn >= 0 && l.ports[turn] == port {
			list = append(list, arrival{l.ship, l.cargo, l.ports[(turn+len(l.ports)-1)%len(l.ports)], at.UTC()})
		}
	}
	return list
}
