// Command workdays is the toolyard command with a tool that counts working days.
package main

import (
	"context"
	"slices"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/cli"
	"github.com/toolyard/toolyard/yard"
)

type period struct {
	From     string   `json:"from" doc:"The first day, such as 2026-12-21" pattern:"^\\d{4}-\\d\\d-\\d\\d$"`
	To       string   `json:"to" doc:"The last day, which is included" pattern:"^\\d{4}-\\d\\d-\\d\\d$"`
	Holidays []string `json:"holidays,omitempty" doc:"Days off, in addition to weekends"`
}

type answer struct {
	Days int `json:"days" doc:"Number of working days"`
}

const maxDays = 3660

var countWorkdays = toolyard.Define(toolyard.Spec{
	Name:        "count_workdays",
	Description: "Counts the working days of a period: Monday to Friday, without holidays. Use it for deadlines and delivery dates.",
	Effects:     toolyard.ReadOnly,
}, func(_ context.Context, _ *toolyard.Call, in period) (answer, error) {
	first, err := time.Parse(time.DateOnly, in.From)
	if err != nil {
		return answer{}, invalid("from", "is not a date")
	}
	last, err := time.Parse(time.DateOnly, in.To)
	if err != nil {
		return answer{}, invalid("to", "is not a date")
	}
	if last.Before(first) || last.After(first.AddDate(0, 0, maxDays)) {
		return answer{}, invalid("to", "must not be before the first day, nor more than ten years after it")
	}
	var days int
	for at := first; !at.After(last); at = at.AddDate(0, 0, 1) {
		weekend := at.Weekday() == time.Saturday || at.Weekday() == time.Sunday
		if !weekend && !slices.Contains(in.Holidays, at.Format(time.DateOnly)) {
			days++
		}
	}
	return answer{days}, nil
})

// invalid returns an error that the caller can correct.
func invalid(argument, message string) error {
	return &toolyard.Error{Code: toolyard.Invalid, Message: "Invalid period", Issues: []toolyard.Issue{{Path: argument, Message: message}}}
}

func main() {
	cli.Main(yard.Options{Tools: []*toolyard.Tool{countWorkdays}})
}
