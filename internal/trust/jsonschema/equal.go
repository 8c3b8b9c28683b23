package jsonschema

import "hash/maphash"

// seed is random for each process, so that attackers cannot prepare collisions.
var seed = maphash.MakeSeed()

// Hashes of values that have no content.
const (
	hashNull uint64 = 0x1e3779b97f4a7c15 + 0x0100000001000001*iota
	hashTrue
	hashFalse
	hashArray
	hashObject
)

// hashNumber is random, so that attackers cannot prepare collisions of numbers.
var hashNumber = maphash.String(seed, "number")

// hash returns a hash that is the same for equal values. It uses one step per node.
func (v *value) hash(b *budget, n uint32) uint64 {
	e := &v.nodes[n]
	b.spend(2)
	switch e.kind {
	case kindNull:
		return hashNull
	case kindBoolean:
		if e.flags&isTrue != 0 {
			return hashTrue
		}
		return hashFalse
	case kindNumber:
		return hashDecimal(v.decimal(b, n))
	case kindString:
		s := v.str(n)
		b.spend(len(s) / 32)
		return maphash.String(seed, s)
	case kindArray:
		h := hashArray
		for c := n + 1; c < e.next; c = v.nodes[c].next {
			h = mix(h ^ v.hash(b, c))
		}
		return h
	default:
		h := hashObject
		for c := n + 1; c < e.next; c = v.nodes[c].next {
			b.spend(len(v.key(c)) / 32)
			h += mix(mix(maphash.String(seed, v.key(c))) ^ v.hash(b, c)) // independent of the order of members
		}
		return mix(h)
	}
}

func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

func hashDecimal(d decimal) uint64 {
	h := hashNumber ^ d.small
	if d.digits != "" {
		h = maphash.String(seed, d.digits)
	}
	if d.negative {
		h = ^h
	}
	return mix(mix(h) ^ uint64(d.exp)) //nolint:gosec // the value of the bits does not matter
}

func (v *value) decimal(b *budget, n uint32) decimal {
	text := v.data[v.nodes[n].text.start:v.nodes[n].text.end]
	b.spend(1 + len(text)/16)
	return parseDecimal(text)
}

// equal compares node n in v with node m in o.
func (v *value) equal(b *budget, n uint32, o *value, m uint32) bool {
	x, y := &v.nodes[n], &o.nodes[m]
	b.spend(1)
	if x.kind != y.kind || x.count != y.count {
		return false
	}
	switch x.kind {
	case kindNull:
		return true
	case kindBoolean:
		return x.flags&isTrue == y.flags&isTrue
	case kindNumber:
		return v.decimal(b, n) == o.decimal(b, m)
	case kindString:
		s := v.str(n)
		b.spend(len(s) / 64)
		return s == o.str(m)
	case kindArray:
		for c, d := n+1, m+1; c < x.next; c, d = v.nodes[c].next, o.nodes[d].next {
			if !v.equal(b, c, o, d) {
				return false
			}
		}
		return true
	}
	return v.equalObjects(b, n, o, m)
}

// equalObjects compares objects that have the same number of members.
func (v *value) equalObjects(b *budget, n uint32, o *value, m uint32) bool {
	names := make(map[string]uint32, o.nodes[m].count)
	b.allocate(48 * int(o.nodes[m].count))
	for d := m + 1; d < o.nodes[m].next; d = o.nodes[d].next {
		b.spend(2)
		names[o.key(d)] = d
	}
	for c := n + 1; c < v.nodes[n].next; c = v.nodes[c].next {
		d, ok := names[v.key(c)]
		if !ok || !v.equal(b, c, o, d) {
			return false
		}
	}
	return true
}

// duplicates finds two equal items in an array.
func (v *value) duplicates(b *budget, n uint32) (first, second int, found bool) {
	count := int(v.nodes[n].count)
	if count < 2 {
		return 0, 0, false
	}
	type item struct {
		node  uint32
		index int32
	}
	b.allocate(40 * count)
	seen := make(map[uint64]item, count)
	i := int32(0)
	for c := n + 1; c < v.nodes[n].next; c = v.nodes[c].next {
		h := v.hash(b, c)
		for other, taken := seen[h]; taken; other, taken = seen[h] {
			if v.equal(b, other.node, v, c) {
				return int(other.index), int(i), true
			}
			h = mix(h + 1) // a different value with the same hash
		}
		seen[h] = item{c, i}
		b.spend(2)
		i++
	}
	return 0, 0, false
}

// valueSet is a set of JSON values, such as those of an enum.
type valueSet struct {
	list  []*value // in the order of the schema
	types typeSet
	texts map[string]struct{}
	rest  map[uint64]*value
}

func newValueSet(list []*value) *valueSet {
	s := &valueSet{list: list, texts: make(map[string]struct{})}
	free := newBudget(background, limits{1 << 40, 1 << 40})
	for _, v := range list {
		s.types |= v.typeOf(&free, 0)
		if v.nodes[0].kind == kindString {
			s.texts[v.str(0)] = struct{}{}
			continue
		}
		if s.rest == nil {
			s.rest = make(map[uint64]*value)
		}
		h := v.hash(&free, 0)
		for ; s.rest[h] != nil; h = mix(h + 1) {
			if s.rest[h].equal(&free, 0, v, 0) {
				break
			}
		}
		s.rest[h] = v
	}
	return s
}

func (s *valueSet) has(b *budget, v *value, n uint32) bool {
	if s.types&v.typeOf(b, n) == 0 {
		return false
	}
	if v.nodes[n].kind == kindString {
		text := v.str(n)
		b.spend(len(text) / 32)
		_, ok := s.texts[text]
		return ok
	}
	for h := v.hash(b, n); s.rest[h] != nil; h = mix(h + 1) {
		if s.rest[h].equal(b, 0, v, n) {
			return true
		}
	}
	return false
}

// typeSet is a set of JSON Schema types. Integers are also numbers.
type typeSet uint8

const (
	typeNull typeSet = 1 << iota
	typeBoolean
	typeInteger
	typeFraction // a number that is not an integer
	typeString
	typeArray
	typeObject

	typeNumber = typeInteger | typeFraction
	allTypes   = typeNumber | typeNull | typeBoolean | typeString | typeArray | typeObject
)

// typeOf returns a node's type.
func (v *value) typeOf(b *budget, n uint32) typeSet {
	switch v.nodes[n].kind {
	case kindNull:
		return typeNull
	case kindBoolean:
		return typeBoolean
	case kindNumber:
		if v.decimal(b, n).isInteger() {
			return typeInteger
		}
		return typeFraction
	case kindString:
		return typeString
	case kindArray:
		return typeArray
	}
	return typeObject
}

// names returns the JSON Schema names of the types.
func (t typeSet) names() (list []string) {
	for _, known := range typeNames {
		if t&known.set == known.set && (known.name != "integer" || t&typeFraction == 0) {
			list = append(list, known.name)
		}
	}
	return list
}

var typeNames = []struct {
	name string
	set  typeSet
}{
	{"null", typeNull},
	{"boolean", typeBoolean},
	{"number", typeNumber},
	{"integer", typeInteger},
	{"string", typeString},
	{"array", typeArray},
	{"object", typeObject},
}

func typeNamed(name string) typeSet {
	for _, known := range typeNames {
		if known.name == name {
			return known.set
		}
	}
	return 0
}
