package store

import (
	"strconv"
	"strings"
)

// kind is the type of a column.
type kind int

const (
	text kind = iota
	number
	moment // time.Time in microseconds
	blob
	optionalText // may be nil, like the next kind
	optionalMoment
)

// column is a column of a table.
type column struct {
	name string
	kind kind
}

// table describes a table that exists in both databases.
type table struct {
	name    string
	keys    int // number of leading columns that form the key
	columns []column
}

var (
	limitTable = table{"limits", 1, []column{{"key", text}, {"state", optionalText}}}

	balanceTable = table{"balances", 1, []column{
		{"id", text},
		{"account", text},
		{"state", text},
		{"cap", number},
		{"available", number},
		{"held", number},
		{"spent", number},
		{"calls", number},
		{"held_calls", number},
		{"max_calls", number},
		{"expires", optionalMoment},
	}}

	holdTable = table{"holds", 1, []column{
		{"id", text},
		{"balance", text},
		{"replica", text},
		{"serial", number},
		{"unspent", number},
		{"spent", number},
		{"calls_unspent", number},
		{"calls_spent", number},
		{"expires", moment},
	}}

	runTable = table{"runs", 2, []column{
		{"scope", text}, {"key", text}, {"digest", blob}, {"call", text}, {"state", text}, {"until", moment}, {"outcome", blob},
	}}

	transferTable = table{"transfers", 1, []column{
		{"id", text}, {"source", text}, {"target", text}, {"amount", number}, {"kind", text}, {"balance", text}, {"at", moment},
	}}

	callTable = table{"calls", 2, []column{
		{"id", text},
		{"at", moment},
		{"elapsed_ns", number},
		{"gate", text},
		{"mode", text},
		{"caller", text},
		{"account", text},
		{"session", text},
		{"server", text},
		{"tool", text},
		{"generation", number},
		{"code", text},
		{"price", number},
		{"args_bytes", number},
		{"result_bytes", number},
		{"args", optionalText},
		{"parent", optionalText},
		{"message", optionalText},
		{"marks", optionalText},
		{"as_of", optionalMoment},
	}}

	intentTable = table{"intents", 1, []column{{"id", text}, {"until", moment}, {"call", text}}}

	// approvalTable contains only the columns that change when an approval is used.
	approvalTable = table{"approvals", 1, []column{
		{"id", text}, {"state", text}, {"expires", moment}, {"used_call", text}, {"used_key", text}, {"used_at", optionalMoment},
	}}

	sumTable = table{"sums", 5, []column{
		{"account", text},
		{"hour", moment},
		{"server", text},
		{"tool", text},
		{"shard", number},
		{"calls", number},
		{"errors", number},
		{"charged", number},
		{"usd", number},
	}}

	totalTable = table{"totals", 5, []column{
		{"grain", text},
		{"account", text},
		{"at", moment},
		{"server", text},
		{"tool", text},
		{"calls", number},
		{"errors", number},
		{"charged", number},
		{"usd", number},
	}}

	minuteTable = table{"minutes", 2, []column{{"minute", moment}, {"shard", number}, {"calls", number}, {"errors", number}, {"usd", number}}}
)

// list returns the names of the columns.
func (t *table) list() string { return t.each("{}") }

// each repeats a pattern for every column. In the pattern, {} is the column's name and # its
// position, starting at 1.
func (t *table) each(pattern string) string { return write(pattern, ", ", t.columns, 1) }

// key repeats a pattern for the key columns.
func (t *table) key(pattern string) string { return write(pattern, " AND ", t.columns[:t.keys], 1) }

// rest repeats a pattern for the other columns.
func (t *table) rest(pattern string) string {
	return write(pattern, ", ", t.columns[t.keys:], t.keys+1)
}

func write(pattern, separator string, columns []column, first int) string {
	parts := make([]string, len(columns))
	for i, c := range columns {
		parts[i] = strings.NewReplacer("{}", c.name, "#", strconv.Itoa(first+i)).Replace(pattern)
	}
	return strings.Join(parts, separator)
}
