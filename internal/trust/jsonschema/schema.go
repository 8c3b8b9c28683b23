package jsonschema

import "context"

// Schema is a compiled schema.
type Schema struct {
	root    *schema
	dynamic bool // contains dynamic references
}

var background = context.Background()

// schema is a compiled subschema. It contains only the keywords of its draft, so that evaluation
// does not depend on the draft.
type schema struct {
	place    *place
	always   bool // true, or {}
	never    bool // false
	memo     bool // may be evaluated repeatedly for the same value
	types    typeSet
	constant *valueSet
	enum     *valueSet
	format   *format

	applicators

	object *objectRules
	array  *arrayRules
	text   *textRules
	number *numberRules

	fallback string   // default value as JSON; may be empty
	examples []string // for messages
}

// applicators are the keywords that apply other schemas to the same value.
type applicators struct {
	ref        *schema
	dynamicRef *dynamicRef
	not        *schema
	allOf      []*schema
	anyOf      *union
	oneOf      *union
	ifs        *schema
	then       *schema
	otherwise  *schema
}

// dynamicRef is a reference to an anchor defined by the outermost resource in scope.
type dynamicRef struct {
	target *schema
	anchor string // empty if the target is not dynamic
}

// union is anyOf or oneOf.
type union struct {
	branches []*schema
	set      *valueSet // the values if all branches are constants
	tag      string    // a property that is a constant string in every branch; may be empty
	byTag    map[string][]*schema
}

type objectRules struct {
	min, max          int // -1 if not set
	properties        map[string]property
	names             []string // names of properties, sorted
	required          []string
	patterns          []patternProperty
	additional        *schema
	propertyNames     *schema
	dependentRequired []dependency
	dependentSchemas  []dependency
	unevaluated       *schema
	folded            map[string]string // names by their folded form
	defaults          []string          // names of properties with a default
}

type property struct {
	schema   *schema // nil if it is required but has no schema
	required bool
}

type patternProperty struct {
	pattern *pattern
	schema  *schema
}

// dependency is a condition on objects that have a property.
type dependency struct {
	name     string
	required []string
	schema   *schema
}

type arrayRules struct {
	min, max                 int // -1 if not set
	unique                   bool
	prefix                   []*schema
	items                    *schema // for items after prefix
	contains                 *schema
	minContains, maxContains int  // -1 if not set
	containsMarks            bool // items that match contains count as evaluated
	unevaluated              *schema
}

type textRules struct {
	min, max int // -1 if not set
	pattern  *pattern
}

type numberRules struct {
	minimum, maximum, above, below, multipleOf *bound
}

// bound is a number in a schema, with its source text.
type bound struct {
	decimal
	text string
}
