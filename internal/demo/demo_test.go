package demo

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/callpath"
	"github.com/toolyard/toolyard/packs/trading"
)

// call validates the arguments, runs a tool, and returns its text or error.
func call(t *testing.T, tools []*toolyard.Tool, name, args string) string {
	t.Helper()
	for _, tool := range tools {
		if tool.Name != name {
			continue
		}
		valid, err := tool.Validate(t.Context(), json.RawMessage(args))
		if err != nil {
			return err.Error()
		}
		res, err := callpath.Run(context.Background(), &toolyard.Call{Tool: tool, Args: valid, AsOf: time.Date(2026, 11, 16, 9, 0, 0, 0, time.UTC)})
		if err != nil {
			return err.Error()
		}
		return string(res.Structured)
	}
	t.Fatalf("there is no tool %s", name)
	return ""
}

func TestTools(t *testing.T) {
	tools := Tools()
	const berth = `{"ship": {"name": "Solveig", "imo": "9301234", "lengthMetres": 180}, "berth": "B1", "arrives": "2026-11-20T08:00:00Z", "hours": 6}`
	tests := []struct{ tool, args, want string }{
		{"convert_units", `{"value": 10, "from": "nm", "to": "km"}`, `{"value":18.52,"unit":"km"}`},
		{"convert_units", `{"value": 10, "from": "nm", "to": "kn"}`, "Cannot convert"},
		{"business_days", `{"from": "2026-11-16", "to": "2026-11-22"}`, `{"businessDays":5,"calendarDays":7}`},
		{"business_days", `{"from": "2026-11-16", "to": "2026-11-22", "holidays": ["2026-11-18"], "week": "monday_saturday"}`, `{"businessDays":5,"calendarDays":7}`},
		{"business_days", `{"from": "2026-11-16", "to": "2026-11-15"}`, "must be after"},
		{"business_days", `{"from": "2026-02-31", "to": "2026-11-15"}`, "from"},
		{"port_distance", `{"from": "NLRTM", "to": "DEHAM"}`, `"nauticalMiles":231,"kilometres":427.8`},
		{"port_distance", `{"from": {"lat": 0, "lon": 0}, "to": {"lat": 0, "lon": 1}, "speedKnots": 10}`, `{"from":"position","to":"position","nauticalMiles":60,"kilometres":111.2,"hours":6}`},
		{"port_distance", `{"from": "NLRTM", "to": "ATLANTIS"}`, "to"},
		{"invoice_total", `{"lines": [{"item": "a", "quantity": 3, "unitPrice": "0.335"}, {"item": "b", "unitPrice": "100", "vat": 9}]}`, `{"currency":"EUR","net":"101.01","vat":{"21":"0.21","9":"9.00"},"total":"110.22"}`},
		{"invoice_total", `{"lines": [{"item": "a", "quantity": 10000, "unitPrice": "99999.9999", "vat": 0}], "discountPercent": 50}`, `"total":"499999999.50"`},
		{"ship_schedule", `{"port": "NLRTM", "window": {"days": 30}, "cargo": ["bulk"]}`, `"ship":"Anneke","cargo":"bulk","from":"DEHAM"`},
		{"berth_plan", `{}`, `[]`},
		{"book_berth", berth, `"number":"HB-00001","berth":"B1","ship":"Solveig"`},
		{"book_berth", berth, "Berth B1 is occupied by Solveig until 2026-11-20T14:00:00Z."},
		{"book_berth", strings.Replace(berth, "180", "300", 1), "too long"},
		{"berth_plan", `{"berth": "B1"}`, `"leaves":"2026-11-20T14:00:00Z"`},
		{"send_notice", `{"to": ["master", "pilot"], "text": "Two hours late."}`, `{"number":"N-0001","recipients":2}`},
	}
	for _, tt := range tests {
		if got := call(t, tools, tt.tool, tt.args); !strings.Contains(got, tt.want) {
			t.Errorf("%s %s: %s, want %s", tt.tool, tt.args, got, tt.want)
		}
	}
}

func TestOldBookingsAreDropped(t *testing.T) {
	q := &quay{}
	for i := range 3 * maxBookings {
		arrives := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC).Add(time.Duration(i) * time.Hour)
		if _, err := q.book(t.Context(), nil, bookArgs{Ship: ship{Name: "Anneke"}, Berth: "C1", Arrives: arrives, Hours: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if len(q.bookings) != maxBookings {
		t.Errorf("%d bookings are kept, want %d", len(q.bookings), maxBookings)
	}
}

// Generated arguments match the tools' schemas, and invalid ones do not.
func TestArgsFitTheTools(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	tools := make(map[string]*toolyard.Tool)
	for _, tool := range append(Tools(), trading.Tools()...) {
		tools[tool.Name] = tool
	}
	for i := range Patterns {
		act := &Patterns[i]
		tool := tools[act.Tool]
		if act.Server != "" || tool == nil {
			continue
		}
		for range 50 {
			args := act.Args(r, false)
			if _, err := tool.Validate(t.Context(), args); err != nil {
				t.Errorf("%s %s: %v", act.Tool, args, err)
			}
			if args := act.Args(r, true); !refuses(tool, args) {
				t.Errorf("%s takes %s", act.Tool, args)
			}
		}
	}
}

func refuses(tool *toolyard.Tool, args json.RawMessage) bool {
	_, err := tool.Validate(context.Background(), args)
	return err != nil
}

func TestHistory(t *testing.T) {
	now := time.Date(2026, 11, 13, 15, 0, 0, 0, time.UTC) // a Friday
	calls, failed, paid := 0, 0, toolyard.Money(0)
	days := make(map[time.Weekday]int)
	for m := range History(now, rand.New(rand.NewPCG(1, 1)), true) {
		if m.At.After(now) || m.At.Before(now.AddDate(0, 0, -historyDays)) {
			t.Fatalf("a call at %v, and now is %v", m.At, now)
		}
		calls++
		if m.Code != toolyard.OK {
			failed++
		}
		paid += m.Paid()
		days[m.At.Weekday()]++
	}
	if calls < 18_000 || calls > 22_000 || failed < calls/50 || failed > calls/5 || paid < toolyard.USD {
		t.Errorf("%d calls, %d failed, %v USD paid", calls, failed, paid)
	}
	if days[time.Sunday]*2 > days[time.Tuesday] {
		t.Errorf("a Sunday is as busy as a Tuesday: %v", days)
	}
}

func TestHistoryIsDeterministic(t *testing.T) {
	first := func() (list []string) {
		for m := range History(time.Unix(1_800_000_000, 0), rand.New(rand.NewPCG(1, 1)), false) {
			if list = append(list, m.At.String()+m.Tool+string(m.Code)); len(list) == 100 {
				break
			}
		}
		return list
	}
	if diff := cmp.Diff(first(), first()); diff != "" {
		t.Error(diff)
	}
}

// If a program does not register the packs, it serves the demo without them.
func TestConfigurationWithoutPacks(t *testing.T) {
	text, err := files.ReadFile("files/toolyard.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s, err := StartSimulators()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	with, without := configure(string(text), `"toolyard"`, s), configure(string(text), `"toolyard"`, nil)
	for _, word := range []string{"PROGRAM", "HOME_", "VENUE_", "# pack"} {
		if strings.Contains(with, word) || strings.Contains(without, word) {
			t.Errorf("the configuration contains %s", word)
		}
	}
	if strings.Contains(without, "pack") || !strings.Contains(with, "homeassistant:") || !strings.Contains(with, "trading:") {
		t.Errorf("with packs:\n%s\nwithout packs:\n%s", with, without)
	}
}
