// Package jsonschema compiles JSON Schemas and validates JSON values with a bounded amount
// of work. Neither a schema nor a value is trusted: compiling a schema is bounded by its size,
// and each validation has one budget of steps and memory that covers everything it does,
// patterns included. A validation that spends its budget, or whose context ends, stops.
//
// Supported are the drafts 2020-12, 2019-09, 7, 6 and 4. Formats are asserted. References
// stay inside the document; the only other documents are the official meta-schemas.
package jsonschema
