// Package toolyard defines the domain of Toolyard, an MCP gateway and tool platform: tools,
// the sources they come from, and the calls that callers make. It does no I/O and starts no
// goroutines. Package yard serves tools to MCP clients and over HTTP.
//
// A [Tool] has a name, descriptions, schemas and a handler. [Define] makes one from a typed Go
// function:
//
//	type args struct {
//		Name string `json:"name" doc:"Name of the person to greet"`
//	}
//
//	var Hello = toolyard.Define(
//		toolyard.Spec{Name: "hello", Description: "Greets a person by name.", Effects: toolyard.ReadOnly},
//		func(ctx context.Context, call *toolyard.Call, in args) (string, error) {
//			return "Hello, " + in.Name + "!", nil
//		})
//
// A [Source] offers tools and keeps them current. A gate is an entry point with its own rules:
// which tools it offers, and whether they may change anything.
//
// Every [Call] takes the same path. Each step is a [Policy]; your own policies run after the
// arguments are validated and before the call is charged:
//
//	record → recover → limit-args → inject → validate → policies → rules → admit → limit-result → intend → run
//
// Effects describe what a tool does, and a mode describes what a gate allows: a gate in mode [Read]
// offers only tools whose effects are [ReadOnly].
package toolyard
