package demo

import (
	"encoding/json"

	"github.com/toolyard/toolyard/acceptance/fakehome"
	"github.com/toolyard/toolyard/acceptance/fakemarkets"
)

// Packs are the packs that Harbor uses if the program registers all of them.
var Packs = []string{"homeassistant", "trading"}

// Simulators are the services behind Harbor's packs, on free ports of this machine: a house that
// implements the Home Assistant API, and a trading venue with generated prices that implements the
// Hyperliquid API.
type Simulators struct {
	home  *fakehome.Home
	venue *fakemarkets.Hyperliquid
}

// venueBudget is the total weight of requests that the venue accepts per minute. It is enough for
// the highest rate of simulated calls.
const venueBudget = 10_000_000

// StartSimulators starts both services.
func StartSimulators() (*Simulators, error) {
	home, err := fakehome.Start(fakehome.Options{})
	if err != nil {
		return nil, err
	}
	venue, err := fakemarkets.StartHyperliquid()
	if err != nil {
		home.Close()
		return nil, err
	}
	venue.Budget(venueBudget)
	venue.Move()
	return &Simulators{home, venue}, nil
}

// Close stops the services.
func (s *Simulators) Close() {
	s.home.Close()
	s.venue.Close()
}

// placeholders returns the replacements for placeholders in the configuration, as JSON, which is
// also valid YAML.
func (s *Simulators) placeholders() map[string]string {
	quoted := func(text string) string {
		data, _ := json.Marshal(text) // cannot fail
		return string(data)
	}
	return map[string]string{"HOME_URL": quoted(s.home.URL), "HOME_TOKEN": quoted(fakehome.Token), "VENUE_URL": quoted(s.venue.URL)}
}
