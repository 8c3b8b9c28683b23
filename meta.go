package toolyard

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/base/ident"
	"github.com/toolyard/toolyard/internal/base/jsonobject"
	"github.com/toolyard/toolyard/internal/base/spelling"
)

// SetMeta sets the Spec's fields that tools publish in _meta: rateLimit (also rateLimitHints, or
// its members at the top level), contextRequirements, surface, queryEligible, latencyClass and
// pricing. It copies all other keys to Meta. It returns an error that names the key if a value is
// invalid, or if a limit or a price has an unknown member: an unreadable limit must not be dropped.
// For MCP servers' tools, only members that look misspelled are errors.
func (s *Spec) SetMeta(meta map[string]json.RawMessage) error {
	if err := s.checkMembers(meta); err != nil {
		return fmt.Errorf("_meta.%w", err)
	}
	if err := s.Limit.setMeta(meta); err != nil {
		return fmt.Errorf("_meta.%w", err)
	}
	for _, key := range slices.Sorted(maps.Keys(meta)) {
		if slices.Contains(limitKeys, key) || slices.Contains(limitFields, key) {
			continue
		}
		if err := s.setMeta(key, meta[key]); err != nil {
			return fmt.Errorf("_meta.%s: %w", key, err)
		}
	}
	return nil
}

func (s *Spec) setMeta(key string, value json.RawMessage) (err error) {
	switch key {
	case "contextRequirements":
		if s.Contexts, s.ContextArgs, err = readContexts(value); err == nil {
			err = s.checkContexts()
		}
		return err
	case "surface":
		s.Surface, err = readChoice(value, surfaces)
		return err
	case "queryEligible":
		eligible, err := readBool(value)
		s.HiddenFromAnswers = !eligible
		return err
	case "latencyClass":
		s.Latency, err = readChoice(value, latencies)
		return err
	case "pricing":
		return s.Price.setMeta(value)
	}
	if s.Meta == nil {
		s.Meta = make(map[string]json.RawMessage)
	}
	s.Meta[key] = value
	return nil
}

var (
	// metaKeys are the _meta keys that have a meaning to Toolyard.
	metaKeys = append([]string{"rateLimit", "rateLimitHints", "contextRequirements", "surface", "queryEligible", "latencyClass", "pricing"}, limitFields...)
	// otherNames maps likely mistakes to the correct keys.
	otherNames = map[string]string{"price": "pricing", "limit": "rateLimit", "limits": "rateLimit", "rateLimits": "rateLimit", "latency": "latencyClass"}
	// priceFields are the members of a price.
	priceFields = []string{"executeUsd", "queryUsd"}
	surfaces    = []Surface{Answer, Execute, ident.SurfaceBoth}
	latencies   = []string{"instant", "fast", "slow", "streaming"}
)

// checkMembers reports unknown members in the limits and the price.
func (s *Spec) checkMembers(meta map[string]json.RawMessage) error {
	for _, object := range []struct {
		key   string
		known []string
	}{{"rateLimitHints", nestedLimitFields}, {"rateLimit", nestedLimitFields}, {"pricing", priceFields}} {
		fields, _ := jsonobject.Map(meta[object.key]) // setMeta reports values that are not objects
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			near := spelling.Nearest(name, object.known)
			if slices.Contains(object.known, name) || s.Server != "" && near == "" {
				continue
			}
			return fmt.Errorf("%s.%w", object.key, unknownKey(name, near, object.known))
		}
	}
	return nil
}

// checkMeta returns an error for keys in Meta that look misspelled or that duplicate a field of
// Spec.
func (s *Spec) checkMeta() error {
	for _, key := range slices.Sorted(maps.Keys(s.Meta)) {
		if slices.Contains(metaKeys, key) {
			return fmt.Errorf("_meta.%s has no effect in Meta; set the corresponding Spec field, or use SetMeta", key)
		}
		near := otherNames[key]
		if near == "" {
			near = spelling.Nearest(key, metaKeys)
		}
		if near != "" {
			return fmt.Errorf("_meta.%w; a custom key needs a prefix, such as \"example.com/%s\"", unknownKey(key, near, nil), key)
		}
	}
	return nil
}

// unknownKey returns the error for an unknown key. near is the suggested key, if any.
func unknownKey(key, near string, known []string) error {
	if near != "" {
		return fmt.Errorf("%.80s: unknown key%s", key, spelling.Hint(near))
	}
	return fmt.Errorf("%.80s: unknown key (valid keys: %s)", key, strings.Join(known, ", "))
}

// maxContexts is the largest number of kinds of context that a tool may require.
const maxContexts = 16

// readContexts reads contextRequirements: a list whose items are kinds of context, such as
// "wallet", or objects with a kind and the argument that receives it: {"kind": "crm", "argument":
// "customer"}.
func readContexts(value json.RawMessage) (kinds []string, args map[string]string, err error) {
	var items []json.RawMessage
	if jsonobject.Kind(value) != '[' || json.Unmarshal(value, &items) != nil {
		return nil, nil, errors.New("must be a list of strings or objects with kind and argument")
	}
	if len(items) > maxContexts {
		return nil, nil, fmt.Errorf("must have at most %d entries", maxContexts)
	}
	kinds = make([]string, 0, len(items))
	for _, item := range items {
		kind, argument, err := readContext(item)
		if err != nil {
			return nil, nil, err
		}
		if argument != "" {
			if slices.Contains(kinds, kind) {
				return nil, nil, fmt.Errorf("duplicate kind %q", kind)
			}
			if args == nil {
				args = make(map[string]string)
			}
			args[kind] = argument
		} else if args[kind] != "" {
			return nil, nil, fmt.Errorf("duplicate kind %q", kind)
		}
		kinds = append(kinds, kind)
	}
	return kinds, args, nil
}

// readContext reads one item of contextRequirements. The argument is empty if the item does not
// specify one.
func readContext(item json.RawMessage) (kind, argument string, err error) {
	kind, isText := jsonobject.String(item)
	if !isText {
		fields, ok := jsonobject.Map(item)
		if !ok {
			return "", "", errors.New("must be a list of strings or objects with kind and argument")
		}
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			if known := []string{"kind", "argument"}; !slices.Contains(known, name) {
				return "", "", unknownKey(name, spelling.Nearest(name, known), known)
			}
		}
		var hasKind, hasArgument bool
		kind, hasKind = jsonobject.String(fields["kind"])
		argument, hasArgument = jsonobject.String(fields["argument"])
		if !hasKind || !hasArgument {
			return "", "", errors.New("each object must have the string fields kind and argument")
		}
		if !isContextName(argument) {
			return "", "", fmt.Errorf("%.80q is not a valid argument name: use letters, digits, dots, - and _", argument)
		}
	}
	if !isContextName(kind) {
		return "", "", fmt.Errorf("%.80q is not a valid context kind: use letters, digits, dots, - and _", kind)
	}
	return kind, argument, nil
}

// isContextName reports whether a string is a valid name for a kind of context or for the argument
// that receives it.
func isContextName(name string) bool {
	return name != "" && len(name) <= 64 && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.") == ""
}

// checkContexts returns an error if two kinds of context share an argument, or if an argument has
// no kind.
func (s *Spec) checkContexts() error {
	for kind, argument := range s.ContextArgs {
		if !slices.Contains(s.Contexts, kind) {
			return fmt.Errorf("argument %s receives context %s, which is not declared", argument, kind)
		}
	}
	receives := make(map[string]string, len(s.Contexts))
	for _, kind := range s.contextKinds() {
		argument := s.contextArgument(kind)
		if other := receives[strings.ToLower(argument)]; other != "" {
			return fmt.Errorf("argument %s receives two contexts, %s and %s", argument, other, kind)
		}
		receives[strings.ToLower(argument)] = kind
	}
	return nil
}

// contextMeta returns contextRequirements in the format that tools publish.
func (s *Spec) contextMeta() json.RawMessage {
	list := make([]any, len(s.Contexts))
	for i, kind := range s.Contexts {
		list[i] = kind
		if argument := s.ContextArgs[kind]; argument != "" {
			list[i] = struct {
				Kind     string `json:"kind"`
				Argument string `json:"argument"`
			}{kind, argument}
		}
	}
	return mustMarshal(list)
}

var (
	// limitKeys are the keys that hold a limit, in ascending precedence. Members at the top
	// level of _meta have the lowest precedence.
	limitKeys = []string{"rateLimitHints", "rateLimit"}
	// limitFields are the members of a limit.
	limitFields = []string{"maxRequestsPerMinute", "cooldownMs", "maxConcurrency", "supportsBulk", "recommendedBatchTools", "notes"}
	// nestedLimitFields are the members of an object that holds a limit.
	nestedLimitFields = append(slices.Clone(limitFields), "per")
)

// setMeta reads a limit in all accepted formats. Each field gets the value from the format with the
// highest precedence; an invalid value in any of them is an error.
func (l *Limit) setMeta(meta map[string]json.RawMessage) error {
	if err := l.setFields(meta, limitFields); err != nil {
		return err
	}
	for _, key := range limitKeys {
		value, ok := meta[key]
		if !ok {
			continue
		}
		fields, ok := jsonobject.Map(value)
		if !ok {
			return fmt.Errorf("%s: must be an object", key)
		}
		if err := l.setFields(fields, nestedLimitFields); err != nil {
			return fmt.Errorf("%s.%w", key, err)
		}
	}
	return nil
}

func (l *Limit) setFields(fields map[string]json.RawMessage, names []string) error {
	for _, key := range names {
		value, ok := fields[key]
		if !ok {
			continue
		}
		if err := l.setField(key, value); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}

func (l *Limit) setField(key string, value json.RawMessage) (err error) {
	switch key {
	case "maxRequestsPerMinute":
		l.PerMinute, err = readCount(value)
	case "maxConcurrency":
		l.Concurrency, err = readCount(value)
	case "cooldownMs":
		var ms float64
		ms, err = readNumber(value)
		l.Cooldown = time.Duration(math.Ceil(ms)) * time.Millisecond
	case "per":
		if l.Per, err = readText(value); err == nil && l.Per != "account" && l.Per != "caller" {
			err = errors.New("must be account or caller")
		}
	case "supportsBulk":
		l.Bulk, err = readBool(value)
	case "recommendedBatchTools":
		l.BatchTools, err = readTexts(value)
	case "notes":
		l.Notes, err = readText(value)
	}
	return err
}

// maxNumber is the largest number in metadata. In milliseconds, it is eleven days.
const maxNumber = 1e9

// readNumber reads a non-negative number.
func readNumber(value json.RawMessage) (n float64, err error) {
	if kind := jsonobject.Kind(value); kind != '-' && (kind < '0' || kind > '9') {
		return 0, errors.New("must be a number")
	}
	if err := json.Unmarshal(value, &n); err != nil || n < 0 || n > maxNumber {
		return 0, fmt.Errorf("must be a number from 0 to %d", int(maxNumber))
	}
	return n, nil
}

// readCount reads a number of calls, rounded down. Zero means no limit; a fraction below one is
// an error.
func readCount(value json.RawMessage) (int, error) {
	n, err := readNumber(value)
	if err == nil && n > 0 && n < 1 {
		err = errors.New("must be at least 1")
	}
	return int(n), err
}

func readBool(value json.RawMessage) (bool, error) {
	var b *bool // nil for null
	if err := json.Unmarshal(value, &b); err != nil || b == nil {
		return false, errors.New("must be true or false")
	}
	return *b, nil
}

func readText(value json.RawMessage) (string, error) {
	text, ok := jsonobject.String(value)
	if !ok {
		return "", errors.New("must be a string")
	}
	return text, nil
}

// readChoice reads an enum.
func readChoice[T ~string](value json.RawMessage, choices []T) (T, error) {
	text, err := readText(value)
	if err != nil || slices.Contains(choices, T(text)) {
		return T(text), err
	}
	words := make([]string, len(choices))
	for i, c := range choices {
		words[i] = string(c)
	}
	return "", fmt.Errorf("unknown value %.80q; use one of %s", text, strings.Join(words, ", "))
}

func readTexts(value json.RawMessage) ([]string, error) {
	var items []json.RawMessage
	if jsonobject.Kind(value) != '[' || json.Unmarshal(value, &items) != nil {
		return nil, errors.New("must be a list of strings")
	}
	texts := make([]string, 0, len(items))
	for _, item := range items {
		text, ok := jsonobject.String(item)
		if !ok {
			return nil, errors.New("must be a list of strings")
		}
		texts = append(texts, text)
	}
	return texts, nil
}

// setMeta reads {"executeUsd": "0.001"}. If executeUsd is missing or null, the tool is not for
// sale.
func (p *Price) setMeta(value json.RawMessage) (err error) {
	o, ok := jsonobject.Map(value)
	if !ok {
		return errors.New("must be an object")
	}
	*p = Price{}
	query, execute := o["queryUsd"], o["executeUsd"]
	if kind := jsonobject.Kind(query); kind != 0 && kind != 'n' {
		if p.Query, err = readMoney(query); err != nil {
			return fmt.Errorf("queryUsd %w", err)
		}
	}
	if kind := jsonobject.Kind(execute); kind == 0 || kind == 'n' {
		p.OptOut = true
		return nil
	}
	if p.USD, err = readMoney(execute); err != nil {
		return fmt.Errorf("executeUsd %w", err)
	}
	p.Set = true
	return nil
}

// readMoney reads a non-negative amount.
func readMoney(value json.RawMessage) (Money, error) {
	text, ok := jsonobject.String(value)
	if !ok {
		return 0, errors.New(`must be a decimal in quotes, such as "0.001"`)
	}
	usd, err := ParseMoney(text)
	if err != nil {
		return 0, fmt.Errorf(`must be a decimal in quotes, such as "0.001": %w`, err)
	}
	if usd < 0 {
		return 0, errors.New("cannot be negative")
	}
	return usd, nil
}

// AllMeta returns the tool's Meta together with its limit, contexts, surface, latency class and
// price, in the format that tools publish. Keys in Meta take precedence.
func (s *Spec) AllMeta() map[string]json.RawMessage {
	meta := make(map[string]json.RawMessage)
	if l := s.Limit.Meta(); len(l) > 0 {
		meta["rateLimit"] = mustMarshal(l)
	}
	if len(s.Contexts) > 0 {
		meta["contextRequirements"] = s.contextMeta()
	}
	if s.Surface != "" {
		meta["surface"] = mustMarshal(s.Surface)
	}
	if s.HiddenFromAnswers {
		meta["queryEligible"] = json.RawMessage("false")
	}
	if s.Latency != "" {
		meta["latencyClass"] = mustMarshal(s.Latency)
	}
	if p := s.Price.meta(); len(p) > 0 {
		meta["pricing"] = mustMarshal(p)
	}
	maps.Copy(meta, s.Meta)
	return meta
}

func (p Price) meta() map[string]any {
	m := make(map[string]any)
	switch {
	case p.OptOut:
		m["executeUsd"] = nil
	case p.Set:
		m["executeUsd"] = p.USD
	}
	if p.Query != 0 {
		m["queryUsd"] = p.Query
	}
	return m
}

// Meta returns the limit in the format that tools publish as rateLimit.
func (l Limit) Meta() map[string]any {
	m := make(map[string]any)
	for key, value := range map[string]int64{
		"maxRequestsPerMinute": int64(l.PerMinute),
		"cooldownMs":           int64((l.Cooldown + time.Millisecond - 1) / time.Millisecond),
		"maxConcurrency":       int64(l.Concurrency),
	} {
		if value > 0 {
			m[key] = value
		}
	}
	if l.Per != "" && l.Limited() {
		m["per"] = l.Per
	}
	if l.Bulk {
		m["supportsBulk"] = true
	}
	if len(l.BatchTools) > 0 {
		m["recommendedBatchTools"] = l.BatchTools
	}
	if l.Notes != "" {
		m["notes"] = l.Notes
	}
	return m
}
