package pin

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

// Change is one difference between two definitions.
type Change struct {
	Path     string          // such as inputSchema.properties.path.type; "" is the definition itself
	Old, New json.RawMessage // nil if absent
}

// Diff lists the differences between two definitions: the deepest values that differ, sorted by
// path. Arrays are compared by index. The list is complete, because an approver must see every
// change. If a definition has no canonical form, for example because it is nil, it is compared as a
// whole.
func Diff(old, new json.RawMessage) []Change {
	before, errBefore := Canonical(old)
	after, errAfter := Canonical(new)
	var d differ
	switch {
	case errBefore == nil && errAfter == nil:
		d.compare("", before, after)
	case !bytes.Equal(old, new):
		d.changes = []Change{{Old: old, New: new}}
	}
	return d.changes
}

type differ struct{ changes []Change }

// compare compares two canonical values, one of which may be absent.
func (d *differ) compare(path string, old, new json.RawMessage) {
	switch {
	case bytes.Equal(old, new):
	case bothBegin('{', old, new):
		d.objects(path, old, new)
	case bothBegin('[', old, new):
		d.lists(path, old, new)
	default:
		d.changes = append(d.changes, Change{path, old, new})
	}
}

func bothBegin(bracket byte, old, new json.RawMessage) bool {
	return old != nil && new != nil && old[0] == bracket && new[0] == bracket
}

func (d *differ) objects(path string, old, new json.RawMessage) {
	before, after := maps.Collect(strictjson.Members(old)), maps.Collect(strictjson.Members(new))
	keys := slices.AppendSeq(slices.Collect(maps.Keys(before)), maps.Keys(after))
	slices.SortFunc(keys, compareUTF16)
	for _, key := range slices.Compact(keys) {
		d.compare(join(path, key), before[key], after[key])
	}
}

func (d *differ) lists(path string, old, new json.RawMessage) {
	before, after := elements(old), elements(new)
	for i := range max(len(before), len(after)) {
		var a, b json.RawMessage
		if i < len(before) {
			a = before[i]
		}
		if i < len(after) {
			b = after[i]
		}
		d.compare(path+"["+strconv.Itoa(i)+"]", a, b)
	}
}

// elements returns the elements of a canonical array.
func elements(list json.RawMessage) (values []json.RawMessage) {
	for start := 1; start < len(list)-1; {
		end := skip(list, start)
		values = append(values, list[start:end])
		start = end + 1 // skips the comma
	}
	return values
}

// skip returns the end of the array element that starts at pos.
func skip(list json.RawMessage, pos int) int {
	w := writer{in: list, pos: pos}
	for depth := 0; ; {
		switch list[w.pos] {
		case '"':
			w.token()
		case '{', '[':
			depth++
			w.pos++
		case '}', ']':
			depth--
			w.pos++
		default:
			w.pos++
		}
		if depth == 0 && isEnd(list[w.pos]) {
			return w.pos
		}
	}
}

// join appends a key to a path. It quotes ambiguous keys.
func join(path, key string) string {
	if key == "" || strings.ContainsAny(key, `.[]"`) || strconv.Quote(key) != `"`+key+`"` {
		return path + "[" + strconv.Quote(key) + "]"
	}
	if path == "" {
		return key
	}
	return path + "." + key
}
