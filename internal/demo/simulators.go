package demo

import (
	"encoding/json"

	"github.com/toolyard/toolyard/acceptance/fakehome"
	"github.com/toolyard/toolyard/acceptance/fakemarkets"
)

// Packs are the packs that Harbor uses, if the program registers all of them.
var Packs = []string{"homeassistant", "trading"}

// Simulators are the services behind Harbor's packs, at free ports of this machine: a house that
// speaks the API of Home Assistant, and a venue with generated prices that speaks that of
// Hyperliquid.
type Simulators struct {
	home  *fakehome.Home
	venue *fakemarkets.Hyperliquid
}

// venueBudget is the weight of the requests that the venue accepts per minute, which is enough for
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

// placeholders returns the texts of the configuration to replace, as JSON, which is valid YAML too.
func (s *Simulators) placeholders() map[string]string {
	quoted := func(text string) string {
		data, _ := json.Marshal(text) // a string can always be encoded
		return string(data)
	}
	return map[string]string{"HOME_URL": quoted(s.home.URL), "HOME_TOKEN": quoted(fakehome.Token), "VENUE_URL": quoted(s.venue.URL)}
}
