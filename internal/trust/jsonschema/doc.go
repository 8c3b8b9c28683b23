// Package jsonschema compiles JSON Schemas and validates JSON values. It trusts neither schemas nor
// values: the cost of compiling a schema is limited by its size, and each validation has a single
// budget of steps and memory that covers everything, including patterns. A validation stops when
// its budget is used up or its context ends.
//
// It supports drafts 2020-12, 2019-09, 7, 6 and 4. Formats are asserted. References must point to
// the same document or to an official meta-schema.
package jsonschema
