package jsonschema

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// format is a string format. Its check takes linear time.
type format struct {
	name  string
	check func(string) error
	cost  int // steps per four bytes
}

var formats = func() map[string]*format {
	m := make(map[string]*format)
	for _, f := range []*format{
		{"date", isDate, 1},
		{"time", isTime, 1},
		{"date-time", isDateTime, 1},
		{"duration", isDuration, 1},
		{"period", isPeriod, 1},
		{"email", isEmail, 1},
		{"hostname", isHostname, 1},
		{"ipv4", isIPv4, 1},
		{"ipv6", isIPv6, 1},
		{"uuid", isUUID, 1},
		{"uri", isURI, 2},
		{"iri", isURI, 2},
		{"uri-reference", isURIReference, 2},
		{"iri-reference", isURIReference, 2},
		{"uri-template", isURITemplate, 2},
		{"json-pointer", isPointer, 1},
		{"relative-json-pointer", isRelativePointer, 1},
		{"semver", isSemver, 2},
		{"regex", checkPattern, 60},
	} {
		m[f.name] = f
	}
	return m
}()

func isDate(s string) error {
	if _, err := time.Parse("2006-01-02", s); err != nil {
		return errors.New("use a date such as 2026-01-31")
	}
	return nil
}

// isTime accepts times in RFC 3339 format, including leap seconds.
func isTime(s string) error {
	wrong := errors.New("use a time such as 09:30:00Z")
	if len(s) < 9 || s[2] != ':' || s[5] != ':' {
		return wrong
	}
	hour, ok1 := twoDigits(s[0:2], 23)
	minute, ok2 := twoDigits(s[3:5], 59)
	second, ok3 := twoDigits(s[6:8], 60)
	zone := s[8:]
	if zone[0] == '.' {
		digits := strings.TrimLeft(zone[1:], "0123456789")
		if len(digits) == len(zone)-1 {
			return wrong
		}
		zone = digits
	}
	offset, ok4 := zoneOffset(zone)
	if !ok1 || !ok2 || !ok3 || !ok4 {
		return wrong
	}
	if inUTC := ((hour*60+minute-offset)%1440 + 1440) % 1440; second == 60 && inUTC != 23*60+59 {
		return wrong // a leap second is the last second of a day
	}
	return nil
}

func twoDigits(s string, most int) (int, bool) {
	if len(s) != 2 || s[0] < '0' || s[0] > '9' || s[1] < '0' || s[1] > '9' {
		return 0, false
	}
	n, _ := strconv.Atoi(s)
	return n, n <= most
}

// zoneOffset returns the offset of a time zone such as +02:00 in minutes.
func zoneOffset(s string) (minutes int, ok bool) {
	if s == "Z" || s == "z" {
		return 0, true
	}
	if len(s) != 6 || s[0] != '+' && s[0] != '-' || s[3] != ':' {
		return 0, false
	}
	h, ok1 := twoDigits(s[1:3], 23)
	m, ok2 := twoDigits(s[4:6], 59)
	if minutes = h*60 + m; s[0] == '-' {
		minutes = -minutes
	}
	return minutes, ok1 && ok2
}

func isDateTime(s string) error {
	if len(s) < 20 || s[10] != 'T' && s[10] != 't' || isDate(s[:10]) != nil || isTime(s[11:]) != nil {
		return errors.New("use a date and time such as 2026-01-31T09:30:00Z")
	}
	return nil
}

var (
	duration = regexp.MustCompile(`^P([0-9]+W|([0-9]+Y)?([0-9]+M)?([0-9]+D)?(T([0-9]+H)?([0-9]+M)?([0-9]+S)?)?)$`)
	uuid     = regexp.MustCompile(`^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$`)
	semver   = regexp.MustCompile(`^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)` +
		`(-(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)(\.(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*))*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)
)

func isDuration(s string) error {
	if s == "P" || strings.HasSuffix(s, "T") || !duration.MatchString(s) {
		return errors.New("use a duration such as P1DT12H")
	}
	return nil
}

func isPeriod(s string) error {
	start, end, ok := strings.Cut(s, "/")
	startsWithTime := isDateTime(start) == nil
	if !ok || isDateTime(end) != nil && (isDuration(end) != nil || !startsWithTime) || !startsWithTime && isDuration(start) != nil {
		return errors.New("use two times, or a time and a duration, separated by a slash")
	}
	return nil
}

func isUUID(s string) error {
	if len(s) != 36 || !uuid.MatchString(s) {
		return errors.New("use 32 hexadecimal digits in five groups")
	}
	return nil
}

func isSemver(s string) error {
	if len(s) > 1_000 || !semver.MatchString(s) {
		return errors.New("use a version such as 1.2.3")
	}
	return nil
}

func isIPv4(s string) error {
	if addr, err := netip.ParseAddr(s); err != nil || !addr.Is4() {
		return errors.New("use an IPv4 address such as 192.0.2.1")
	}
	return nil
}

func isIPv6(s string) error {
	if addr, err := netip.ParseAddr(s); err != nil || !addr.Is6() || addr.Zone() != "" {
		return errors.New("use an IPv6 address such as 2001:db8::1")
	}
	return nil
}

func isHostname(s string) error {
	wrong := errors.New("use a host name such as example.com")
	s = strings.TrimSuffix(s, ".")
	if len(s) > 253 {
		return wrong
	}
	for label := range strings.SplitSeq(s, ".") {
		if len(label) < 1 || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return wrong
		}
		for i := range len(label) {
			if c := rune(label[i]); !isWord(c) && c != '-' || c == '_' {
				return wrong
			}
		}
	}
	return nil
}

func isEmail(s string) error {
	wrong := errors.New("use an address such as ann@example.com")
	at := strings.LastIndexByte(s, '@')
	if len(s) > 254 || at < 0 || at > 64 {
		return wrong
	}
	local, domain := s[:at], s[at+1:]
	if len(local) > 1 && local[0] == '"' && local[len(local)-1] == '"' {
		if strings.ContainsAny(local[1:len(local)-1], `\"`) {
			return wrong
		}
	} else if strings.HasPrefix(local, ".") || strings.HasSuffix(local, ".") || strings.Contains(local, "..") || !isLocalPart(local) {
		return wrong
	}
	if inner, ok := strings.CutPrefix(domain, "["); ok && strings.HasSuffix(inner, "]") {
		inner = strings.TrimSuffix(inner, "]")
		if v6, ok := strings.CutPrefix(inner, "IPv6:"); ok {
			return isIPv6(v6)
		}
		return isIPv4(inner)
	}
	return isHostname(domain)
}

func isLocalPart(s string) bool {
	for _, c := range s {
		if !isWord(c) && !strings.ContainsRune(".!#$%&'*+-/=?^`{|}~", c) {
			return false
		}
	}
	return true
}

// parseURI parses a URI. The host may be an IP address.
func parseURI(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		return nil, errors.New("it must be a URI")
	}
	if host := u.Hostname(); strings.Contains(host, ":") {
		if !strings.Contains(u.Host, "[") || !strings.Contains(u.Host, "]") || isIPv6(host) != nil {
			return nil, errors.New("it contains an invalid IPv6 address")
		}
	}
	return u, nil
}

func isURI(s string) error {
	u, err := parseURI(s)
	if err == nil && !u.IsAbs() {
		return errors.New("it must be absolute, such as https://example.com")
	}
	return err
}

func isURIReference(s string) error {
	if strings.Contains(s, `\`) {
		return errors.New(`it must not contain \`)
	}
	_, err := parseURI(s)
	return err
}

func isURITemplate(s string) error {
	u, err := parseURI(s)
	if err != nil {
		return err
	}
	for part := range strings.SplitSeq(u.RawPath, "/") {
		plain, err := url.PathUnescape(part)
		if err != nil {
			return errors.New("it contains an invalid percent escape")
		}
		open := false
		for _, c := range plain {
			if c == '{' || c == '}' {
				if open == (c == '{') {
					return errors.New("it has unbalanced braces")
				}
				open = !open
			}
		}
		if open {
			return errors.New("it has unbalanced braces")
		}
	}
	return nil
}

func isPointer(s string) error {
	if s == "" {
		return nil
	}
	if s[0] != '/' {
		return errors.New("it must begin with /")
	}
	for i := range len(s) {
		if s[i] == '~' && (i+1 == len(s) || s[i+1] != '0' && s[i+1] != '1') {
			return errors.New("~ must be followed by 0 or 1")
		}
	}
	return nil
}

func isRelativePointer(s string) error {
	rest := strings.TrimLeft(s, "0123456789")
	digits := s[:len(s)-len(rest)]
	if digits == "" || len(digits) > 1 && digits[0] == '0' {
		return fmt.Errorf("it must begin with a number")
	}
	if rest == "#" {
		return nil
	}
	return isPointer(rest)
}
