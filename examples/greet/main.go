// Command greet is the toolyard command with one more tool.
package main

import (
	"context"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/cli"
	"github.com/toolyard/toolyard/yard"
)

type args struct {
	Name  string `json:"name" doc:"Name of the person to greet" minLength:"1"`
	Times int    `json:"times" doc:"Number of greetings" minimum:"1" maximum:"3" default:"1"`
}

func greet(_ context.Context, _ *toolyard.Call, in args) (greetings []string, _ error) {
	for range in.Times {
		greetings = append(greetings, "Hello, "+in.Name+"!")
	}
	return greetings, nil
}

func main() {
	spec := toolyard.Spec{Name: "greet", Description: "Greets a person by name.", Effects: toolyard.ReadOnly}
	cli.Main(yard.Options{Tools: []*toolyard.Tool{toolyard.Define(spec, greet)}})
}
