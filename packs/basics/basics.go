// Package basics provides five small tools that are useful in any yard and serve as examples:
// calculator, hello, random, textutil and timestamp.
//
//	y, err := yard.New(yard.Options{Tools: basics.Tools()})
package basics

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"time"
	_ "time/tzdata" // some machines have no time zone database
	"unicode"

	"github.com/toolyard/toolyard"
)

// Tools returns all of the pack's tools.
func Tools() []*toolyard.Tool {
	return []*toolyard.Tool{Calculator, Hello, Random, TextUtil, Timestamp}
}

func spec(name, description string) toolyard.Spec {
	return toolyard.Spec{Name: name, Description: description, Category: "basics", Effects: toolyard.ReadOnly, Origin: "packs/basics"}
}

type helloArgs struct {
	Name     string `json:"name" doc:"Name of the person to greet" minLength:"1"`
	Greeting string `json:"greeting" doc:"Greeting to put before the name" default:"Hello"`
}

// Hello greets a person.
var Hello = toolyard.Define(spec("hello", "Greets a person by name."),
	func(_ context.Context, _ *toolyard.Call, in helloArgs) (string, error) {
		return fmt.Sprintf("%s, %s!", in.Greeting, in.Name), nil
	})

type calculatorArgs struct {
	Operation string  `json:"operation" doc:"Operation to perform on a and b" enum:"add,subtract,multiply,divide,power,remainder"`
	A         float64 `json:"a" doc:"First number"`
	B         float64 `json:"b" doc:"Second number"`
}

// Calculator does arithmetic.
var Calculator = toolyard.Define(spec("calculator", "Performs arithmetic on two numbers."),
	func(_ context.Context, _ *toolyard.Call, in calculatorArgs) (any, error) {
		value := calculate(in.Operation, in.A, in.B)
		switch {
		case in.B == 0 && (in.Operation == "divide" || in.Operation == "remainder"):
			return toolyard.Failure("Division by zero: b must not be 0."), nil
		case math.IsNaN(value) || math.IsInf(value, 0):
			return toolyard.Failure("The result is not a finite number."), nil
		}
		return value, nil
	})

func calculate(operation string, a, b float64) float64 {
	switch operation {
	case "add":
		return a + b
	case "subtract":
		return a - b
	case "multiply":
		return a * b
	case "divide":
		return a / b
	case "power":
		return math.Pow(a, b)
	}
	return math.Mod(a, b)
}

type timestampArgs struct {
	Format   string     `json:"format" doc:"Output format: iso (ISO 8601), unix (seconds since 1970), human (date and time in words), or relative (such as 2 hours ago)" enum:"iso,unix,human,relative" default:"iso"`
	Timezone string     `json:"timezone" doc:"IANA time zone, such as Europe/Berlin" default:"UTC"`
	Time     *time.Time `json:"time" doc:"Time to format, in RFC 3339. Default: the current time"`
}

// Timestamp formats a time.
var Timestamp = toolyard.Define(spec("timestamp", "Returns the current time, or formats a given time, in a format and time zone of your choice."),
	func(_ context.Context, call *toolyard.Call, in timestampArgs) (any, error) {
		zone, err := time.LoadLocation(in.Timezone)
		if err != nil {
			return toolyard.Failure("%q is not a time zone. Use an IANA name such as Europe/Berlin.", in.Timezone), nil
		}
		at := call.AsOf
		if in.Time != nil {
			at = *in.Time
		}
		return formatTime(in.Format, at.In(zone), call.AsOf), nil
	})

func formatTime(format string, at, now time.Time) string {
	switch format {
	case "unix":
		return fmt.Sprint(at.Unix())
	case "human":
		return at.Format("Monday, 2 January 2006, 15:04:05 MST")
	case "relative":
		return relative(at.Sub(now))
	}
	return at.Format(time.RFC3339)
}

func relative(d time.Duration) string {
	size := d.Abs()
	if size < time.Second {
		return "now"
	}
	unit, name := 24*time.Hour, "day"
	switch {
	case size < time.Minute:
		unit, name = time.Second, "second"
	case size < time.Hour:
		unit, name = time.Minute, "minute"
	case size < 24*time.Hour:
		unit, name = time.Hour, "hour"
	}
	n := int(size / unit)
	if n > 1 {
		name += "s"
	}
	if d < 0 {
		return fmt.Sprintf("%d %s ago", n, name)
	}
	return fmt.Sprintf("in %d %s", n, name)
}

type textArgs struct {
	Text   string `json:"text" doc:"Text to change"`
	Case   string `json:"case" doc:"How to change the text: upper, lower or title case, or reverse the characters" enum:"upper,lower,title,reverse"`
	Repeat int    `json:"repeat" doc:"Number of times to apply the change" minimum:"1" maximum:"100" default:"1"`
}

// TextUtil transforms text.
var TextUtil = toolyard.Define(spec("textutil", "Changes the case of a text, or reverses the text."),
	func(_ context.Context, _ *toolyard.Call, in textArgs) (string, error) {
		text := in.Text
		for range in.Repeat {
			text = transform(in.Case, text)
		}
		return text, nil
	})

func transform(to, text string) string {
	switch to {
	case "upper":
		return strings.ToUpper(text)
	case "lower":
		return strings.ToLower(text)
	case "title":
		start := true
		return strings.Map(func(r rune) rune {
			first := start
			start = unicode.IsSpace(r)
			if first {
				return unicode.ToTitle(r)
			}
			return unicode.ToLower(r)
		}, text)
	}
	runes := []rune(text)
	for i, j := 0, len(runes)-1; i < j; i, j = i+1, j-1 {
		runes[i], runes[j] = runes[j], runes[i]
	}
	return string(runes)
}

type randomArgs struct {
	Type   string `json:"type" doc:"Type of the value to generate" enum:"number,string,uuid,boolean"`
	Min    *int   `json:"min" doc:"For numbers: the smallest possible value. Default: 0"`
	Max    *int   `json:"max" doc:"For numbers: the largest possible value. Default: 100"`
	Length int    `json:"length" doc:"For strings: the number of characters" minimum:"1" maximum:"1024" default:"16"`
}

// Random generates values with crypto/rand.
var Random = toolyard.Define(spec("random", "Generates a random number, string, UUID (version 4) or boolean."),
	func(_ context.Context, _ *toolyard.Call, in randomArgs) (any, error) {
		switch in.Type {
		case "number":
			low, high := 0, 100
			low, high = *cmp.Or(in.Min, &low), *cmp.Or(in.Max, &high)
			if low > high {
				return toolyard.Failure("min (%d) must not be greater than max (%d).", low, high), nil
			}
			return low + int(below(uint64(high-low)+1)), nil
		case "string":
			return randomString(in.Length), nil
		case "uuid":
			var b [16]byte
			_, _ = rand.Read(b[:]) // cannot fail
			b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
			return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]), nil
		}
		return below(2) == 1, nil
	})

// below returns a uniformly distributed random number below n, or any number if n is 0.
func below(n uint64) uint64 {
	for {
		var b [8]byte
		_, _ = rand.Read(b[:]) // cannot fail
		v := binary.LittleEndian.Uint64(b[:])
		if n == 0 {
			return v
		}
		if v < math.MaxUint64-math.MaxUint64%n {
			return v % n
		}
	}
}

func randomString(n int) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	b := make([]byte, n)
	for i := range b {
		b[i] = letters[below(uint64(len(letters)))]
	}
	return string(b)
}
