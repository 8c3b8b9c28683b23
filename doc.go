// Package toolyard is the domain of Toolyard, the tool platform for AI agents:
// tools, where they come from, who may call them, and the path that every call
// takes. It does no I/O and starts no goroutine; everything else in this module
// is an adapter around it.
//
// One call, one line:
//
//	request ─ identity ─ gate ─ resolve the tool
//	        ─ Record ─ Recover ─ Cap ─ Validate ─ Intend ─ Deadline ─ run ─ normalise ─ check output
//	        ─ answer
//
// A [Tool] is a name, descriptions, schemas and a way to run. [Define] makes one
// from a typed Go function:
//
//	type args struct {
//		Name string `json:"name" doc:"Whom to greet"`
//	}
//
//	var Hello = toolyard.Define(
//		toolyard.Spec{Name: "hello", Description: "Greets somebody.", Effects: toolyard.ReadOnly},
//		func(ctx context.Context, call *toolyard.Call, in args) (string, error) {
//			return "Hello, " + in.Name + "!", nil
//		})
//
// A [Source] offers tools and keeps them current. A [Gate] is one way in: it fixes
// the mode, the surface, the selection and the names that its callers see, and
// [Gate.Visible] is the one predicate that list, catalog and call all ask. A
// [Policy] is one step that every call passes, and [Chain] lines policies up.
package toolyard
